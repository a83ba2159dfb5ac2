// Fills torch's op _mps_convolution, a convolution for Apple's GPUs that has no kernel on CPU and CUDA, with ours: its
// nodes in the autograd graph are C++, and a library for the stable ABI cannot define such nodes itself. This header
// has what each device registers; depthwise_conv2d_autograd.cpp has the backward.
//
// It saves Python in training. On an image of 4 x 4 with a bias, on one core of an EPYC with torch 2.13 (medians of
// `python benchmarks/overhead.py`, in us):
//                            through torch's op   without   torch.library.register_autograd   torch
//   forward                         6.0             8.9                 32.9                   36.8
//   forward and backward           29.2            33.8                 60.1                  131.3
//
// It is a side effect on the process: profiles name torch's op, and if another package fills it too, torch warns and
// the later one gets all calls. With CUSTOMOPS_TORCH_HOOK=0 in the environment it is not filled, and every call takes
// the path "without", a torch.autograd.Function.
#pragma once

#include <array>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <tuple>
#include <vector>

#include "depthwise_conv2d.h"

namespace customops {

using Ints = std::vector<int64_t>;  // (vertical, horizontal) where an axis each is meant
using Gradients = std::tuple<Tensor, Tensor, Tensor>;

// Read when a library is opened. customops/depthwise_conv2d.py reads the same variable.
inline bool hook_enabled() {
  const char* value = std::getenv("CUSTOMOPS_TORCH_HOOK");
  return value == nullptr || std::strcmp(value, "0") != 0;
}

template <class... Args>
auto call(const char* op, const char* overload, const Args&... args) {
  std::array<StableIValue, sizeof...(args)> stack{torch::stable::detail::from(args)...};
  STABLE_TORCH_ERROR_CODE_CHECK(torch_call_dispatcher(op, overload, stack.data(), TORCH_ABI_VERSION));
  return stack;
}

inline Tensor tensor(StableIValue value) { return torch::stable::detail::to<Tensor>(value); }

inline void check_hooked(const Tensor& x, const Ints& padding, const Ints& stride, const Ints& dilation,
                         int64_t groups) {
  if (x.dim() != 4 || groups != x.size(1) || padding.size() != 2 || stride.size() != 2 || dilation.size() != 2)
    fail("_mps_convolution: customops computes depthwise convolutions of (N, C, H, W) there, and got shape ",
         to_string(x.sizes()), " and ", groups, " groups");
}

template <auto conv>
Tensor hooked(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias, Ints padding, Ints stride,
              Ints dilation, int64_t groups) {
  check_hooked(x, padding, stride, dilation, groups);
  return conv(x, weight, bias, stride[0], stride[1], padding[0], padding[0], padding[1], padding[1], dilation[0],
              dilation[1]);
}

template <auto grad_input, auto grad_weight>
Gradients gradients(const Tensor& grad, const Tensor& x, const Tensor& weight, int64_t stride_h, int64_t stride_w,
                    int64_t pad_top, int64_t pad_left, int64_t dilation_h, int64_t dilation_w, bool needs_x,
                    bool needs_weight, bool needs_bias) {
  check_image("_depthwise_conv2d_gradients", "x", x);
  check_weight("_depthwise_conv2d_gradients", "x", x, weight);
  Gradients all;  // tensors that are not needed stay undefined
  auto& [of_x, of_weight, of_bias] = all;
  if (needs_x)
    of_x = grad_input(grad, weight, x.size(2), x.size(3), stride_h, stride_w, pad_top, pad_left, dilation_h, dilation_w,
                      is_channels_last(x));
  if (needs_weight)
    of_weight = grad_weight(grad, x, weight.size(2), weight.size(3), stride_h, stride_w, pad_top, pad_left, dilation_h,
                            dilation_w, weight.scalar_type() == ScalarType::Float);
  if (needs_bias)
    of_bias = tensor(call("aten::sum", "dim_IntList", grad, std::optional(Ints{0, 2, 3}), false,
                          std::optional(weight.scalar_type()))[0]);
  return all;
}

}  // namespace customops
