// depthwise_conv2d's place in the autograd graph without Python. A library for the stable ABI cannot define nodes of
// that graph; torch has generated them for its own operators. One of these, aten::_mps_convolution, is a convolution
// for Apple's GPUs, without kernels for CPU and CUDA: there it is filled with ours. Python calls it as fast as a
// convolution of torch's. customops/depthwise_conv2d.py says when it goes this way, and
// depthwise_conv2d_hook.h what that saves and how to switch it off.

#include "depthwise_conv2d_hook.h"

namespace customops {
namespace {

// Of forward-mode differentiation, whose only level is 0.
bool has_tangent(const Tensor& t) {
  const auto stack = call("aten::_unpack_dual", "", t, int64_t(0));
  const Tensor primal = tensor(stack[0]), tangent = tensor(stack[1]);  // takes both, to free them
  return tangent.defined();
}

// Through the dispatcher: tensors may be fake here, and a double backward needs nodes of the graph.
Gradients backward(const Tensor& x, const Tensor& grad, const Tensor& weight, Ints padding, Ints stride, Ints dilation,
                   int64_t groups, std::vector<bool> needed) {
  check_hooked(x, padding, stride, dilation, groups);
  if (needed.size() != 3) fail("mps_convolution_backward: output_mask must have 3 flags, got ", needed.size());
  const bool differentiable = aoti_torch_grad_mode_is_enabled() || has_tangent(grad);
  const auto stack =
      call(differentiable ? "customops::_depthwise_conv2d_backward" : "customops::_depthwise_conv2d_gradients", "",
           grad, x, weight, stride[0], stride[1], padding[0], padding[1], dilation[0], dilation[1], bool(needed[0]),
           bool(needed[1]), bool(needed[2]));
  return {tensor(stack[0]), tensor(stack[1]), tensor(stack[2])};
}

}  // namespace
}  // namespace customops

STABLE_TORCH_LIBRARY_IMPL(aten, CPU, m) {  // for backward in inference mode, which knows no autograd keys
  if (customops::hook_enabled()) m.impl("mps_convolution_backward", CUSTOMOPS_BOX(nullptr, &customops::backward));
}

STABLE_TORCH_LIBRARY_IMPL(aten, CUDA, m) {
  if (customops::hook_enabled()) m.impl("mps_convolution_backward", CUSTOMOPS_BOX(nullptr, &customops::backward));
}

// In the place of torch's own derivative of this backward, which would call torch's convolutions.
STABLE_TORCH_LIBRARY_IMPL(aten, AutogradCPU, m) {
  if (customops::hook_enabled()) m.impl("mps_convolution_backward", CUSTOMOPS_BOX(nullptr, &customops::backward));
}

STABLE_TORCH_LIBRARY_IMPL(aten, AutogradCUDA, m) {
  if (customops::hook_enabled()) m.impl("mps_convolution_backward", CUSTOMOPS_BOX(nullptr, &customops::backward));
}
