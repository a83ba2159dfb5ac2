// Every operator of the package, by schema: the table of contents of csrc/.
// Kernels register themselves at the bottom of csrc/<device>/<op>.cpp.
//
// An op has two entries that share one kernel. `op` is the public one, to which customops/<op>.py attaches autograd.
// `_op` stays without autograd, so that a call which needs no gradient skips the dispatch through Python: on 4-element
// tensors that is the difference between 2.2 and 6.2 microseconds.

#include <string>

#include "stable.h"

namespace {

// Declares both entries.
void op(torch::stable::detail::StableLibrary& m, const std::string& schema) {
  m.def(schema.c_str());
  m.def(("_" + schema).c_str());
}

}  // namespace

STABLE_TORCH_LIBRARY(customops, m) {
  op(m, "add2(Tensor a, Tensor b) -> Tensor");

  op(m, "axpy(Tensor x, Tensor y, float alpha=2.0) -> Tensor");

  op(m, "bias_act(Tensor x, Tensor? b, int dim, str act, float alpha, float gain, float clamp) -> Tensor");
  // Gradients of x and b; the second is empty unless `sum`. From x and b, from y, or from neither where act is linear.
  m.def(
      "_bias_act_backward(Tensor grad, Tensor? x, Tensor? b, Tensor? y, int dim, str act, float alpha, float gain, "
      "float clamp, bool sum) -> (Tensor, Tensor)");
  // Gradients of grad, of x or y, and of b, when _bias_act_backward's first output gets grad2.
  m.def(
      "_bias_act_double_backward(Tensor grad2, Tensor grad, Tensor? x, Tensor? b, Tensor? y, int dim, str act, float "
      "alpha, float gain, float clamp, bool sum) -> (Tensor, Tensor, Tensor)");

  // Padding is SymInt as well, because 'same' and the double backward derive it from sizes.
  op(m,
     "depthwise_conv2d(Tensor x, Tensor weight, Tensor? bias, int stride_h, int stride_w, SymInt pad_top, SymInt "
     "pad_bottom, SymInt pad_left, SymInt pad_right, int dilation_h, int dilation_w) -> Tensor");
  // Gradient of x, (N, C, height, width), in the memory format that x had.
  m.def(
      "_depthwise_conv2d_grad_input(Tensor grad, Tensor weight, SymInt height, SymInt width, int stride_h, int "
      "stride_w, SymInt pad_top, SymInt pad_left, int dilation_h, int dilation_w, bool channels_last) -> Tensor");
  // Gradient of weight, (C, 1, kernel_h, kernel_w), of x's dtype; or float32, where the weight is that and x is 16-bit.
  m.def(
      "_depthwise_conv2d_grad_weight(Tensor grad, Tensor x, SymInt kernel_h, SymInt kernel_w, int stride_h, int "
      "stride_w, SymInt pad_top, SymInt pad_left, int dilation_h, int dilation_w, bool float32=False) -> Tensor");

  // Gradients of x, weight and bias, those that are needed: in one call, for depthwise_conv2d_autograd.cpp.
  m.def(
      "_depthwise_conv2d_gradients(Tensor grad, Tensor x, Tensor weight, int stride_h, int stride_w, SymInt pad_top, "
      "SymInt pad_left, int dilation_h, int dilation_w, bool needs_x, bool needs_weight, bool needs_bias) -> (Tensor, "
      "Tensor, Tensor)");
  // The same from differentiable ops, for the double backward. Its only kernel is in customops/depthwise_conv2d.py: a
  // program without Python has no second derivatives.
  m.def(
      "_depthwise_conv2d_backward(Tensor grad, Tensor x, Tensor weight, int stride_h, int stride_w, SymInt pad_top, "
      "SymInt pad_left, int dilation_h, int dilation_w, bool needs_x, bool needs_weight, bool needs_bias) -> (Tensor, "
      "Tensor, Tensor)");

  // Which kernel runs, and why: csrc/depthwise_conv2d_explain.cpp.
  m.def("_depthwise_conv2d_explain(str direction, str device, int[] problem, str dtype) -> str");

  op(m, "flatten_copy(Tensor x) -> Tensor");

  // Sizes that depend on the image are SymInt: the gradient's padding does, when torch.compile keeps shapes open.
  op(m,
     "upfirdn2d(Tensor x, Tensor? f, int up_x, int up_y, int down_x, int down_y, SymInt pad_x0, SymInt pad_x1, "
     "SymInt pad_y0, SymInt pad_y1, bool flip_filter, float gain) -> Tensor");

  m.def("_cpu_capability() -> str");
}
