// depthwise_conv2d's place in the autograd graph without Python. A library for the stable ABI cannot define nodes of
// that graph; torch has them for its own operators. One of these, aten::convolution_overrideable, is its hook for
// convolutions of other backends, which CPU and CUDA leave empty: here it is filled with our ops, for both at once,
// through the dispatcher. customops/depthwise_conv2d.py says when it goes this way.
//
// The hook is one for the process: if another package fills it too, torch warns, and the later one gets all calls.
// Of an exception's text nothing comes through the dispatcher's C interface; the caller in Python knows how to get it.
#include <torch/csrc/stable/library.h>

#include <array>
#include <optional>
#include <tuple>
#include <vector>

#include "depthwise_conv2d.h"

namespace customops {
namespace {

using Pair = std::vector<int64_t>;  // (vertical, horizontal)
using Gradients = std::tuple<Tensor, Tensor, Tensor>;

template <class... Args>
auto call(const char* op, const char* overload, const Args&... args) {
  std::array<StableIValue, sizeof...(args)> stack{torch::stable::detail::from(args)...};
  STABLE_TORCH_ERROR_CODE_CHECK(torch_call_dispatcher(op, overload, stack.data(), TORCH_ABI_VERSION));
  return stack;
}

Tensor tensor(StableIValue value) { return torch::stable::detail::to<Tensor>(value); }

// Of forward-mode differentiation, whose only level is 0.
bool has_tangent(const Tensor& t) {
  const auto stack = call("aten::_unpack_dual", "", t, int64_t(0));
  const Tensor primal = tensor(stack[0]), tangent = tensor(stack[1]);  // takes both, to free them
  return tangent.defined();
}

void check(const Tensor& x, const Pair& stride, const Pair& padding, const Pair& dilation, bool transposed,
           int64_t groups) {
  if (x.dim() != 4 || transposed || groups != x.size(1) || stride.size() != 2 || padding.size() != 2 ||
      dilation.size() != 2)
    fail("convolution_overrideable: customops computes depthwise convolutions of (N, C, H, W) there, and got shape ",
         to_string(x.sizes()), ", ", groups, " groups", transposed ? ", transposed" : "");
}

Tensor forward(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias, Pair stride, Pair padding,
               Pair dilation, bool transposed, Pair, int64_t groups) {
  check(x, stride, padding, dilation, transposed, groups);
  return tensor(call("customops::_depthwise_conv2d", "", x, weight, bias, stride[0], stride[1], padding[0], padding[0],
                     padding[1], padding[1], dilation[0], dilation[1])[0]);
}

Gradients backward(const Tensor& grad, const Tensor& x, const Tensor& weight, Pair stride, Pair padding, Pair dilation,
                   bool transposed, Pair, int64_t groups, std::vector<bool> needed) {
  check(x, stride, padding, dilation, transposed, groups);
  if (aoti_torch_grad_mode_is_enabled() || has_tangent(grad)) {  // made of ops that can be derived again
    const auto stack = call("customops::_depthwise_conv2d_backward", "", grad, x, weight, stride, padding, dilation,
                            bool(needed[0]), bool(needed[1]), bool(needed[2]));
    return {tensor(stack[0]), tensor(stack[1]), tensor(stack[2])};
  }
  Gradients gradients;
  if (needed[0])
    std::get<0>(gradients) =
        tensor(call("customops::_depthwise_conv2d_grad_input", "", grad, weight, x.size(2), x.size(3), stride[0],
                    stride[1], padding[0], padding[1], dilation[0], dilation[1], is_channels_last(x))[0]);
  if (needed[1])
    std::get<1>(gradients) = tensor(call("customops::_depthwise_conv2d_grad_weight", "", grad, x, weight.size(2),
                                         weight.size(3), stride[0], stride[1], padding[0], padding[1], dilation[0],
                                         dilation[1], weight.scalar_type() == ScalarType::Float)[0]);
  if (needed[2])
    std::get<2>(gradients) = tensor(call("aten::sum", "dim_IntList", grad, std::optional(Pair{0, 2, 3}), false,
                                         std::optional(weight.scalar_type()))[0]);
  return gradients;
}

}  // namespace
}  // namespace customops

STABLE_TORCH_LIBRARY_IMPL(aten, CPU, m) {
  m.impl("convolution_overrideable", TORCH_BOX(&customops::forward));
  m.impl("convolution_backward_overrideable", TORCH_BOX(&customops::backward));
}

STABLE_TORCH_LIBRARY_IMPL(aten, CUDA, m) {
  m.impl("convolution_overrideable", TORCH_BOX(&customops::forward));
  m.impl("convolution_backward_overrideable", TORCH_BOX(&customops::backward));
}

// torch's own derivative of the backward would call torch's convolutions.
STABLE_TORCH_LIBRARY_IMPL(aten, AutogradCPU, m) {
  m.impl("convolution_backward_overrideable", TORCH_BOX(&customops::backward));
}

STABLE_TORCH_LIBRARY_IMPL(aten, AutogradCUDA, m) {
  m.impl("convolution_backward_overrideable", TORCH_BOX(&customops::backward));
}
