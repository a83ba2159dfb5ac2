// torch::nn: of libtorch's C++ modules there is nothing in the stable ABI. Each name is an error that says what to
// write.
#pragma once

#include "tensor.h"

namespace torch::nn {
class ATEN_STABLE_NO("torch::nn::Module is not covered: write the module in Python, around your functions") Module;
namespace functional {
#define X(name)                                                                                               \
  template <class... Args>                                                                                    \
  at::Tensor name(Args&&...) {                                                                                \
    static_assert(::aten_stable::never<Args...>,                                                              \
                  "aten_stable: torch::nn::functional::" #name                                                \
                  " is not covered: write the function of at:: (at::relu, at::softmax, at::constant_pad_nd, " \
                  "at::grid_sampler, at::upsample_bilinear2d, ...), or call it in Python");                   \
    return {};                                                                                                \
  }
// clang-format off
X(relu) X(gelu) X(silu) X(elu) X(selu) X(celu) X(softmax) X(log_softmax) X(softplus) X(sigmoid) X(tanh)
X(leaky_relu) X(dropout) X(pad) X(interpolate) X(grid_sample) X(affine_grid) X(normalize) X(layer_norm)
X(group_norm) X(batch_norm) X(linear) X(conv1d) X(conv2d) X(conv3d) X(max_pool2d) X(avg_pool2d)
X(adaptive_avg_pool2d) X(unfold) X(fold) X(embedding) X(one_hot) X(cosine_similarity) X(mse_loss) X(l1_loss)
X(smooth_l1_loss) X(cross_entropy) X(nll_loss) X(binary_cross_entropy_with_logits) X(pixel_shuffle)
#undef X
#define X(name)                                                                                               \
  class ATEN_STABLE_NO("torch::nn::functional::" #name " is not covered: write the function of at:: with its " \
                       "arguments, or call it in Python") name
X(SoftmaxFuncOptions); X(LogSoftmaxFuncOptions); X(LeakyReLUFuncOptions); X(PadFuncOptions);
X(InterpolateFuncOptions); X(GridSampleFuncOptions); X(NormalizeFuncOptions); X(DropoutFuncOptions);
X(Conv2dFuncOptions); X(MaxPool2dFuncOptions); X(AvgPool2dFuncOptions); X(UnfoldFuncOptions); X(FoldFuncOptions);
// clang-format on
#undef X
}  // namespace functional
}  // namespace torch::nn
