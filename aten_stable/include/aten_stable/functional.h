// torch::nn: of libtorch's C++ modules there is nothing in the stable ABI. A few functions are here, by ATen's; each
// other name is an error that says what to write.
#pragma once

#include "ops.h"

namespace torch {
inline namespace ATEN_STABLE_VERSION {
struct PadMode {
  const char* name;  // nullptr: with a constant
};
constexpr PadMode kConstant{nullptr}, kReflect{"reflect"}, kReplicate{"replicate"}, kCircular{"circular"};
}  // namespace ATEN_STABLE_VERSION
}  // namespace torch

namespace torch::nn {
class ATEN_STABLE_NO("torch::nn::Module is not covered: write the module in Python, around your functions") Module;
namespace functional {
inline namespace ATEN_STABLE_VERSION {
// An option is a function that sets it, or, without an argument, gives it.
#define ATEN_STABLE_OPTION(Self, T, name) \
  Self& name(T value) {                   \
    name##_ = std::move(value);           \
    return *this;                         \
  }                                       \
  const T& name() const { return name##_; }
class PadFuncOptions {
 public:
  PadFuncOptions(std::vector<int64_t> pad) : pad_(std::move(pad)) {}
  PadFuncOptions(std::initializer_list<int64_t> pad) : pad_(pad) {}
  ATEN_STABLE_OPTION(PadFuncOptions, std::vector<int64_t>, pad)
  ATEN_STABLE_OPTION(PadFuncOptions, PadMode, mode)
  ATEN_STABLE_OPTION(PadFuncOptions, double, value)

 private:
  std::vector<int64_t> pad_;
  PadMode mode_ = kConstant;
  double value_ = 0;
};
inline at::Tensor pad(const at::Tensor& x, const PadFuncOptions& options) {
  if (options.mode().name == nullptr) return at::constant_pad_nd(x, options.pad(), options.value());
  return at::pad(x, options.pad(), options.mode().name, options.value());
}
class SoftmaxFuncOptions {
 public:
  SoftmaxFuncOptions(int64_t dim) : dim_(dim) {}
  ATEN_STABLE_OPTION(SoftmaxFuncOptions, int64_t, dim)
  ATEN_STABLE_OPTION(SoftmaxFuncOptions, std::optional<at::ScalarType>, dtype)

 private:
  int64_t dim_;
  std::optional<at::ScalarType> dtype_;
};
using LogSoftmaxFuncOptions = SoftmaxFuncOptions;
inline at::Tensor softmax(const at::Tensor& x, const SoftmaxFuncOptions& options) {
  return x.softmax(options.dim(), options.dtype());
}
inline at::Tensor log_softmax(const at::Tensor& x, const LogSoftmaxFuncOptions& options) {
  return x.log_softmax(options.dim(), options.dtype());
}
class NormalizeFuncOptions {
 public:
  ATEN_STABLE_OPTION(NormalizeFuncOptions, double, p)
  ATEN_STABLE_OPTION(NormalizeFuncOptions, int64_t, dim)
  ATEN_STABLE_OPTION(NormalizeFuncOptions, double, eps)

 private:
  double p_ = 2, eps_ = 1e-12;
  int64_t dim_ = 1;
};
#undef ATEN_STABLE_OPTION
inline at::Tensor normalize(const at::Tensor& x, const NormalizeFuncOptions& options = {}) {
  return x / x.norm(options.p(), {options.dim()}, true).clamp_min(options.eps()).expand_as(x);
}
inline at::Tensor relu(const at::Tensor& x) { return x.relu(); }
inline at::Tensor silu(const at::Tensor& x) { return at::silu(x); }
inline at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias = {}) {
  return at::linear(x, weight, bias.defined() ? std::optional(bias) : std::nullopt);
}
}  // namespace ATEN_STABLE_VERSION
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
X(gelu) X(elu) X(selu) X(celu) X(softplus) X(leaky_relu) X(dropout) X(interpolate) X(grid_sample) X(affine_grid)
X(layer_norm) X(group_norm) X(batch_norm) X(conv1d) X(conv2d) X(conv3d) X(max_pool2d) X(avg_pool2d)
X(adaptive_avg_pool2d) X(unfold) X(fold) X(embedding) X(one_hot) X(cosine_similarity) X(mse_loss) X(l1_loss)
X(smooth_l1_loss) X(cross_entropy) X(nll_loss) X(binary_cross_entropy_with_logits) X(pixel_shuffle)
#undef X
#define X(name)                                                                                               \
  class ATEN_STABLE_NO("torch::nn::functional::" #name " is not covered: write the function of at:: with its " \
                       "arguments, or call it in Python") name
X(LeakyReLUFuncOptions); X(InterpolateFuncOptions); X(GridSampleFuncOptions); X(DropoutFuncOptions);
X(Conv2dFuncOptions); X(MaxPool2dFuncOptions); X(AvgPool2dFuncOptions); X(UnfoldFuncOptions); X(FoldFuncOptions);
// clang-format on
#undef X
}  // namespace functional
}  // namespace torch::nn
