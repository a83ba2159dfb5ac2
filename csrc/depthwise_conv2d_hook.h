// The part of depthwise_conv2d_autograd.cpp that each device has: the kernels of torch's op that is borrowed there, and
// of the op for its backward.
#pragma once

#include <torch/csrc/stable/library.h>

#include <array>
#include <optional>
#include <tuple>
#include <vector>

#include "depthwise_conv2d.h"

namespace customops {

using Pair = std::vector<int64_t>;  // (vertical, horizontal)
using Gradients = std::tuple<Tensor, Tensor, Tensor>;

template <class... Args>
auto call(const char* op, const char* overload, const Args&... args) {
  std::array<StableIValue, sizeof...(args)> stack{torch::stable::detail::from(args)...};
  STABLE_TORCH_ERROR_CODE_CHECK(torch_call_dispatcher(op, overload, stack.data(), TORCH_ABI_VERSION));
  return stack;
}

inline Tensor tensor(StableIValue value) { return torch::stable::detail::to<Tensor>(value); }

inline void check_hooked(const Tensor& x, const Pair& padding, const Pair& stride, const Pair& dilation,
                         int64_t groups) {
  if (x.dim() != 4 || groups != x.size(1) || padding.size() != 2 || stride.size() != 2 || dilation.size() != 2)
    fail("_mps_convolution: customops computes depthwise convolutions of (N, C, H, W) there, and got shape ",
         to_string(x.sizes()), " and ", groups, " groups");
}

template <auto conv>
Tensor hooked(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias, Pair padding, Pair stride,
              Pair dilation, int64_t groups) {
  check_hooked(x, padding, stride, dilation, groups);
  return conv(x, weight, bias, stride[0], stride[1], padding[0], padding[0], padding[1], padding[1], dilation[0],
              dilation[1]);
}

template <auto grad_input, auto grad_weight>
Gradients gradients(const Tensor& grad, const Tensor& x, const Tensor& weight, int64_t stride_h, int64_t stride_w,
                    int64_t pad_top, int64_t pad_left, int64_t dilation_h, int64_t dilation_w, bool needs_x,
                    bool needs_weight, bool needs_bias) {
  Gradients all;  // of them, undefined tensors are what isn't needed
  auto& [of_x, of_weight, of_bias] = all;
  if (needs_x)
    of_x = grad_input(grad, weight, x.size(2), x.size(3), stride_h, stride_w, pad_top, pad_left, dilation_h, dilation_w,
                      is_channels_last(x));
  if (needs_weight)
    of_weight = grad_weight(grad, x, weight.size(2), weight.size(3), stride_h, stride_w, pad_top, pad_left, dilation_h,
                            dilation_w, weight.scalar_type() == ScalarType::Float);
  if (needs_bias)
    of_bias = tensor(call("aten::sum", "dim_IntList", grad, std::optional(Pair{0, 2, 3}), false,
                          std::optional(weight.scalar_type()))[0]);
  return all;
}

}  // namespace customops
