// depthwise_conv2d and its gradients on the CPU: the entries. choose.h says which kernel computes what.
#include "../depthwise_conv2d_hook.h"
#include "depthwise_conv2d/fwd.h"
#include "depthwise_conv2d/wgrad.h"

namespace customops::cpu {
namespace {

Problem make_problem(const DepthwiseConv2d& conv) {
  return simplified({conv.batch, conv.channels, conv.y, conv.x, conv.channels_last, conv.in.scalar_type()});
}

void run_fwd_or_dgrad(const Problem& problem, Direction direction, const ConvTensors& tensors) {
  const Choice choice = choose(direction, problem, this_machine());
  switch (choice.kernel) {
    case Kernel::fwd_planes: return fwd_planes(problem, direction, tensors);
    case Kernel::fwd_pixels: return fwd_pixels(problem, direction, choice, tensors);
    case Kernel::fwd_tiles: return fwd_tiles(problem, direction, tensors);
    case Kernel::fwd_scale: return fwd_scale(problem, tensors);
    default: return fwd_rows(problem, direction, choice, tensors);
  }
}

void run_wgrad(const Problem& problem, const Tensor& image, const Tensor& grad, const Tensor& weight) {
  const Choice choice = choose_wgrad(problem, this_machine());
  switch (choice.kernel) {
    case Kernel::wgrad_pixels: return wgrad_pixels(problem, choice, image, grad, weight);
    case Kernel::wgrad_scale: return wgrad_scale(problem, image, grad, weight);
    default: return wgrad_rows(problem, choice, image, grad, weight);
  }
}

}  // namespace

Tensor depthwise_conv2d(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias, int64_t stride_h,
                        int64_t stride_w, int64_t pad_top, int64_t pad_bottom, int64_t pad_left, int64_t pad_right,
                        int64_t dilation_h, int64_t dilation_w) {
  const DepthwiseConv2d conv = prepare_depthwise_conv2d(x, weight, bias, stride_h, stride_w, pad_top, pad_bottom,
                                                        pad_left, pad_right, dilation_h, dilation_w);
  if (conv.out.numel() > 0)
    run_fwd_or_dgrad(make_problem(conv), Direction::fwd, {conv.in, conv.weight, conv.bias, conv.out});
  return conv.out;
}

Tensor depthwise_conv2d_grad_input(const Tensor& grad, const Tensor& weight, int64_t height, int64_t width,
                                   int64_t stride_h, int64_t stride_w, int64_t pad_top, int64_t pad_left,
                                   int64_t dilation_h, int64_t dilation_w, bool channels_last) {
  const DepthwiseConv2d conv = prepare_depthwise_conv2d_grad_input(
      grad, weight, height, width, stride_h, stride_w, pad_top, pad_left, dilation_h, dilation_w, channels_last);
  if (conv.in.numel() > 0)
    run_fwd_or_dgrad(make_problem(conv), Direction::dgrad, {conv.out, conv.weight, conv.bias, conv.in});
  return conv.in;
}

Tensor depthwise_conv2d_grad_weight(const Tensor& grad, const Tensor& x, int64_t kernel_h, int64_t kernel_w,
                                    int64_t stride_h, int64_t stride_w, int64_t pad_top, int64_t pad_left,
                                    int64_t dilation_h, int64_t dilation_w, bool float32) {
  const DepthwiseConv2d conv = prepare_depthwise_conv2d_grad_weight(grad, x, kernel_h, kernel_w, stride_h, stride_w,
                                                                    pad_top, pad_left, dilation_h, dilation_w, float32);
  if (conv.in.numel() > 0)
    run_wgrad(make_problem(conv), conv.in, conv.out, conv.weight);
  else if (conv.weight.numel() > 0)
    torch::stable::zero_(const_cast<Tensor&>(conv.weight));
  return conv.weight;
}

constexpr auto& depthwise_conv2d_gradients = gradients<depthwise_conv2d_grad_input, depthwise_conv2d_grad_weight>;

}  // namespace customops::cpu

STABLE_TORCH_LIBRARY_IMPL(customops, CPU, m) {
  m.impl("depthwise_conv2d", CUSTOMOPS_BOX("depthwise_conv2d", &customops::cpu::depthwise_conv2d));
  m.impl("_depthwise_conv2d", CUSTOMOPS_BOX("depthwise_conv2d", &customops::cpu::depthwise_conv2d));
  m.impl("_depthwise_conv2d_grad_input",
         CUSTOMOPS_BOX("_depthwise_conv2d_grad_input", &customops::cpu::depthwise_conv2d_grad_input));
  m.impl("_depthwise_conv2d_grad_weight",
         CUSTOMOPS_BOX("_depthwise_conv2d_grad_weight", &customops::cpu::depthwise_conv2d_grad_weight));
  m.impl("_depthwise_conv2d_gradients",
         CUSTOMOPS_BOX("_depthwise_conv2d_gradients", &customops::cpu::depthwise_conv2d_gradients));
}

STABLE_TORCH_LIBRARY_IMPL(aten, CPU, m) {
  if (customops::hook_enabled())
    m.impl("_mps_convolution", CUSTOMOPS_BOX("depthwise_conv2d", &customops::hooked<customops::cpu::depthwise_conv2d>));
}
