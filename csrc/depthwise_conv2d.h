// What the CPU and the CUDA kernels of depthwise_conv2d share: the checks, the sizes, and the tensors in one memory
// format.
//
// Along each axis the forward pass is
//   out[o] = sum_k weight[k] in[o * stride + k * dilation - pad],   0 outside the image.
// The gradients are the same sum with another of its three parts unknown, so one structure serves all three ops.
#pragma once

#include <optional>

#include "allocate.h"
#include "conv_axis.h"
#include "dispatch.h"

namespace customops {

struct DepthwiseConv2d {
  int64_t batch, channels;
  ConvAxis y, x;
  bool channels_last;          // the format of in and out; both are dense
  Tensor in, out;              // (N, C, H, W) and (N, C, oH, oW); in is written by grad_input
  Tensor weight;               // (C, 1, kH, kW), contiguous; written by grad_weight
  std::optional<Tensor> bias;  // (C,), contiguous; forward only; both may be float32 where images are 16-bit
};

// channels_last where neighbouring channels, and not neighbouring columns, lie side by side; the rule of upfirdn2d.
inline bool is_channels_last(const Tensor& t) { return t.size(1) > 1 && t.stride(1) == 1 && t.stride(3) != 1; }

inline Tensor empty_image(const Tensor& like, int64_t n, int64_t c, int64_t h, int64_t w, bool channels_last,
                          bool float32 = false) {
  const int64_t sizes[] = {n, c, h, w};
  check_numel("depthwise_conv2d", {sizes, 4});
  const int64_t nchw[] = {c * h * w, h * w, w, 1}, nhwc[] = {c * h * w, 1, w * c, c};
  return empty_strided(like, {sizes, 4}, {channels_last ? nhwc : nchw, 4}, float32);
}

inline void check_image(const char* op, const char* name, const Tensor& t) {
  check_dtype(op, name, t);
  if (t.dim() != 4) fail(op, ": ", name, " must have shape (N, C, H, W), got ", to_string(t.sizes()));
  if (t.size(2) < 1 || t.size(3) < 1)
    fail(op, ": ", name, " must have at least one pixel, got shape ", to_string(t.sizes()));
}

inline bool is_16_bit(const Tensor& t) {
  return t.scalar_type() == ScalarType::Half || t.scalar_type() == ScalarType::BFloat16;
}

// Weight or bias: 16-bit images take them in float32 too, as mixed precision keeps them, and round them on reading.
inline void check_parameter(const char* op, const char* like_name, const Tensor& like, const char* name,
                            const Tensor& t) {
  if (t.scalar_type() != like.scalar_type() && !(is_16_bit(like) && t.scalar_type() == ScalarType::Float))
    fail(op, ": ", name, " must have the dtype of ", like_name, ", ", to_string(like.scalar_type()),
         is_16_bit(like) ? ", or torch.float32" : "", ", got ", to_string(t.scalar_type()));
  check_device(op, like_name, like, name, t);
}

inline void check_weight(const char* op, const char* like_name, const Tensor& like, const Tensor& weight) {
  check_parameter(op, like_name, like, "weight", weight);
  if (weight.dim() != 4 || weight.size(0) != like.size(1) || weight.size(1) != 1 || weight.size(2) < 1 ||
      weight.size(3) < 1)
    fail(op, ": weight must have shape (C, 1, kH, kW) with C = ", like.size(1), ", got ", to_string(weight.sizes()));
}

inline void check_steps(const char* op, const char* axis, int64_t stride, int64_t pad0, int64_t pad1,
                        int64_t dilation) {
  if (stride < 1) fail(op, ": stride must be at least 1, got ", stride, " along ", axis);
  if (dilation < 1) fail(op, ": dilation must be at least 1, got ", dilation, " along ", axis);
  constexpr int64_t kMaxStep = int64_t(1) << 31;  // so that sums and products of these and of sizes fit into 64 bits
  if (stride > kMaxStep || dilation > kMaxStep || pad0 > kMaxStep || pad1 > kMaxStep)
    fail(op, ": stride, dilation and padding must be at most 2^31, got ", stride, ", ", dilation, ", ", pad0, " and ",
         pad1, " along ", axis);
  if (pad0 < 0 || pad1 < 0) fail(op, ": padding must not be negative, got ", pad0 < 0 ? pad0 : pad1, " along ", axis);
}

// What sizes have to fit into, so that the arithmetic with steps and padding does not leave 64 bits.
inline void check_spans(const char* op, const char* axis, int64_t in, int64_t out, int64_t taps, int64_t stride,
                        int64_t dilation) {
  constexpr int64_t kMost = int64_t(1) << 60;
  if (in > kMost || out > kMost / stride || taps > kMost / dilation)
    fail(op, ": image, output times stride and kernel times dilation must be at most 2^60 along ", axis, ", got ", in,
         ", ", out, " times ", stride, " and ", taps, " times ", dilation);
}

inline ConvAxis make_conv_axis(const char* axis, int64_t in, int64_t taps, int64_t stride, int64_t pad0, int64_t pad1,
                               int64_t dilation) {
  const char* const op = "depthwise_conv2d";
  check_steps(op, axis, stride, pad0, pad1, dilation);
  check_spans(op, axis, in, 0, taps, stride, dilation);
  const int64_t padded = in + pad0 + pad1, span = dilation * (taps - 1) + 1;
  if (padded < span)
    fail(op, ": the kernel must fit into the padded image along ", axis, ", got ", in, " + padding ", pad0, " + ", pad1,
         " = ", padded, " pixels for a kernel that spans ", span);
  return {in, (padded - span) / stride + 1, taps, stride, pad0, dilation};
}

// For a gradient, where the forward pass has been: `grad` has to be as large as some padding after the image makes it.
inline ConvAxis make_conv_grad_axis(const char* op, const char* axis, int64_t in, int64_t out, int64_t taps,
                                    int64_t stride, int64_t pad, int64_t dilation) {
  check_steps(op, axis, stride, pad, 0, dilation);
  check_spans(op, axis, in, out, taps, stride, dilation);
  if (in < 1 || taps < 1)
    fail(op, ": image and kernel must have at least one pixel along ", axis, ", got ", in, " and ", taps);
  const int64_t rest = in + pad - dilation * (taps - 1) - 1, least = (rest < 0 ? 0 : rest / stride) + 1;
  if (out < least)
    fail(op, ": grad must have at least ", least, " pixels along ", axis,
         ", as the output of the forward pass has, got ", out);
  return {in, out, taps, stride, pad, dilation};
}

inline DepthwiseConv2d prepare_depthwise_conv2d(const Tensor& x, const Tensor& weight,
                                                const std::optional<Tensor>& bias, int64_t stride_h, int64_t stride_w,
                                                int64_t pad_top, int64_t pad_bottom, int64_t pad_left,
                                                int64_t pad_right, int64_t dilation_h, int64_t dilation_w) {
  const char* const op = "depthwise_conv2d";
  check_image(op, "x", x);
  check_weight(op, "x", x, weight);
  if (bias) {
    check_parameter(op, "x", x, "bias", *bias);
    if (bias->dim() != 1 || bias->size(0) != x.size(1))
      fail(op, ": bias must have shape (C,) with C = ", x.size(1), ", got ", to_string(bias->sizes()));
  }
  const ConvAxis along_y = make_conv_axis("y", x.size(2), weight.size(2), stride_h, pad_top, pad_bottom, dilation_h);
  const ConvAxis along_x = make_conv_axis("x", x.size(3), weight.size(3), stride_w, pad_left, pad_right, dilation_w);
  const int64_t n = x.size(0), c = x.size(1);
  const bool channels_last = is_channels_last(x);
  std::optional<Tensor> dense_bias;
  if (bias) dense_bias = dense(*bias);
  return {n,
          c,
          along_y,
          along_x,
          channels_last,
          dense_image(x, channels_last),
          empty_image(x, n, c, along_y.out, along_x.out, channels_last),
          dense(weight),
          dense_bias};
}

// `in`, of height x width, is what is to be written.
inline DepthwiseConv2d prepare_depthwise_conv2d_grad_input(const Tensor& grad, const Tensor& weight, int64_t height,
                                                           int64_t width, int64_t stride_h, int64_t stride_w,
                                                           int64_t pad_top, int64_t pad_left, int64_t dilation_h,
                                                           int64_t dilation_w, bool channels_last) {
  const char* const op = "_depthwise_conv2d_grad_input";
  check_image(op, "grad", grad);
  check_weight(op, "grad", grad, weight);
  const ConvAxis along_y =
      make_conv_grad_axis(op, "y", height, grad.size(2), weight.size(2), stride_h, pad_top, dilation_h);
  const ConvAxis along_x =
      make_conv_grad_axis(op, "x", width, grad.size(3), weight.size(3), stride_w, pad_left, dilation_w);
  const int64_t n = grad.size(0), c = grad.size(1);
  channels_last = channels_last && c > 1;
  return {n,
          c,
          along_y,
          along_x,
          channels_last,
          empty_image(grad, n, c, height, width, channels_last),
          dense_image(grad, channels_last),
          dense(weight),
          std::nullopt};
}

// `weight`, of kernel_h x kernel_w taps, is what is to be written: zeros if the batch is empty. `float32`: in that
// dtype where x is 16-bit.
inline DepthwiseConv2d prepare_depthwise_conv2d_grad_weight(const Tensor& grad, const Tensor& x, int64_t kernel_h,
                                                            int64_t kernel_w, int64_t stride_h, int64_t stride_w,
                                                            int64_t pad_top, int64_t pad_left, int64_t dilation_h,
                                                            int64_t dilation_w, bool float32) {
  const char* const op = "_depthwise_conv2d_grad_weight";
  check_image(op, "x", x);
  check_image(op, "grad", grad);
  if (grad.scalar_type() != x.scalar_type())
    fail(op, ": grad must have the dtype of x, ", to_string(x.scalar_type()), ", got ", to_string(grad.scalar_type()));
  check_device(op, "x", x, "grad", grad);
  const int64_t n = x.size(0), c = x.size(1);
  if (grad.size(0) != n || grad.size(1) != c)
    fail(op, ": grad must have shape (N, C, oH, oW) with N = ", n, " and C = ", c, ", got ", to_string(grad.sizes()));
  const ConvAxis along_y =
      make_conv_grad_axis(op, "y", x.size(2), grad.size(2), kernel_h, stride_h, pad_top, dilation_h);
  const ConvAxis along_x =
      make_conv_grad_axis(op, "x", x.size(3), grad.size(3), kernel_w, stride_w, pad_left, dilation_w);
  const bool channels_last = is_channels_last(x);
  return {n,
          c,
          along_y,
          along_x,
          channels_last,
          dense_image(x, channels_last),
          dense_image(grad, channels_last),
          empty_image(x, c, 1, kernel_h, kernel_w, false, float32 && is_16_bit(x)),
          std::nullopt};
}

}  // namespace customops
