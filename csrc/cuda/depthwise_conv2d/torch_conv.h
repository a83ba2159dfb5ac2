// torch's own convolutions, as kernels to choose from: where one of them was measured to be faster than every kernel
// of this folder, it is called, by name through the dispatcher.
//
// Only what gives the same bits every time: torch's native depthwise kernels, whose sums have a fixed order, and cuDNN
// with its deterministic algorithms, without TensorFloat-32 and without benchmarking, whatever the user's flags say.
#pragma once

#include <algorithm>

#include "../../depthwise_conv2d_hook.h"

namespace customops::cuda::depthwise {

// With CUSTOMOPS_TORCH_KERNELS=0 in the environment, none of them is chosen.
inline bool torch_kernels_enabled() {
  static const bool enabled = [] {
    const char* value = std::getenv("CUSTOMOPS_TORCH_KERNELS");
    return value == nullptr || std::strcmp(value, "0") != 0;
  }();
  return enabled;
}

inline Ints taps(const DepthwiseConv2d& conv) { return {conv.y.taps, conv.x.taps}; }
inline Ints stride(const DepthwiseConv2d& conv) { return {conv.y.stride, conv.x.stride}; }
inline Ints padding(const DepthwiseConv2d& conv) { return {conv.y.pad, conv.x.pad}; }
inline Ints dilation(const DepthwiseConv2d& conv) { return {conv.y.dilation, conv.x.dilation}; }

// A float32 weight or bias beside 16-bit images is rounded, as our kernels do on reading.
inline Tensor rounded(const DepthwiseConv2d& conv, const Tensor& parameter) {
  const ScalarType dtype = conv.in.scalar_type();
  if (parameter.scalar_type() == dtype) return parameter;
  return tensor(call("aten::to", "dtype", parameter, dtype, false, false, std::nullopt)[0]);
}

// With the strides of a contiguous tensor. Those of a channels_last weight are as good, for it has one input channel,
// but torch takes them for a wish: it calls cuDNN, with TensorFloat-32, and cuDNN's results are channels_last.
inline Tensor with_contiguous_strides(const Tensor& weight) {
  const int64_t w = weight.size(3), hw = weight.size(2) * w;
  const Ints sizes{weight.size(0), 1, weight.size(2), w}, strides{hw, hw, w, 1};
  if (std::equal(strides.begin(), strides.end(), weight.strides().begin())) return weight;
  return tensor(call("aten::as_strided", "", weight, sizes, strides, std::nullopt)[0]);
}

inline Tensor plain_weight(const DepthwiseConv2d& conv) { return with_contiguous_strides(rounded(conv, conv.weight)); }

constexpr bool kBenchmark = false, kDeterministic = true, kTF32 = false;

inline Tensor torch_forward(const DepthwiseConv2d& conv) {
  std::optional<Tensor> bias;
  if (conv.bias) bias = rounded(conv, *conv.bias);
  return tensor(call("aten::_conv_depthwise2d", "", conv.in, rounded(conv, conv.weight), taps(conv), bias, stride(conv),
                     padding(conv), dilation(conv))[0]);
}

inline Tensor cudnn_forward(const DepthwiseConv2d& conv) {
  return tensor(call("aten::cudnn_convolution", "", conv.in, plain_weight(conv), padding(conv), stride(conv),
                     dilation(conv), conv.channels, kBenchmark, kDeterministic, kTF32)[0]);
}

// What the transposed convolution adds to an image that the stride does not divide.
inline int64_t output_padding(const ConvAxis& a) {
  return a.in - ((a.out - 1) * a.stride - 2 * a.pad + a.dilation * (a.taps - 1) + 1);
}

inline Tensor cudnn_dgrad(const DepthwiseConv2d& conv) {
  const Ints more{output_padding(conv.y), output_padding(conv.x)};
  return tensor(call("aten::cudnn_convolution_transpose", "", conv.out, plain_weight(conv), padding(conv), more,
                     stride(conv), dilation(conv), conv.channels, kBenchmark, kDeterministic, kTF32)[0]);
}

enum class Gradient { kOfImage, kOfWeight };

inline Tensor torch_gradient(const DepthwiseConv2d& conv, Gradient wanted) {
  const std::vector<int64_t> no_padding{0, 0};
  const bool mask[] = {wanted == Gradient::kOfImage, wanted == Gradient::kOfWeight, false};
  const auto results = call("aten::convolution_backward", "", conv.out, conv.in, plain_weight(conv), std::nullopt,
                            stride(conv), padding(conv), dilation(conv), false, no_padding, conv.channels,
                            torch::headeronly::HeaderOnlyArrayRef<bool>(mask, 3));
  const Tensor all[] = {tensor(results[0]), tensor(results[1]), tensor(results[2])};  // owned, undefined ones too
  return all[int(wanted)];
}

}  // namespace customops::cuda::depthwise
