// torch::nn: of libtorch's C++ modules there is nothing in the stable ABI. A few functions are here, by ATen's; each
// other name is an error that says what to write.
#pragma once

#include "ops.h"

namespace torch {
inline namespace ATEN_STABLE_VERSION {
struct Mode {
  const char* name;  // nullptr: with a constant
};
constexpr Mode kConstant{nullptr}, kReflect{"reflect"}, kReplicate{"replicate"}, kCircular{"circular"};
constexpr Mode kNearest{"nearest"}, kLinear{"linear"}, kBilinear{"bilinear"}, kBicubic{"bicubic"},
    kTrilinear{"trilinear"}, kArea{"area"}, kZeros{"zeros"}, kBorder{"border"}, kReflection{"reflection"},
    kSame{"same"}, kValid{"valid"};
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
  ATEN_STABLE_OPTION(PadFuncOptions, Mode, mode)
  ATEN_STABLE_OPTION(PadFuncOptions, double, value)

 private:
  std::vector<int64_t> pad_;
  Mode mode_ = kConstant;
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
// A number for each dimension, or one for all.
struct Sizes {
  Sizes(int64_t one) : all{one} {}
  Sizes(std::initializer_list<int64_t> list) : all(list) {}
  Sizes(std::vector<int64_t> list) : all(std::move(list)) {}
  std::vector<int64_t> all;
};
struct Padding : Sizes {
  using Sizes::Sizes;
  Padding(Mode given) : Sizes(0), mode(given.name) {}
  const char* mode = nullptr;
};
template <size_t dimensions>
class ConvFuncOptions {
 public:
  ATEN_STABLE_OPTION(ConvFuncOptions, at::Tensor, bias)
  ATEN_STABLE_OPTION(ConvFuncOptions, Sizes, stride)
  ATEN_STABLE_OPTION(ConvFuncOptions, Padding, padding)
  ATEN_STABLE_OPTION(ConvFuncOptions, Sizes, dilation)
  ATEN_STABLE_OPTION(ConvFuncOptions, int64_t, groups)

 private:
  at::Tensor bias_;
  Sizes stride_ = 1, dilation_ = 1;
  Padding padding_ = 0;
  int64_t groups_ = 1;
};
using Conv1dFuncOptions = ConvFuncOptions<1>;
using Conv2dFuncOptions = ConvFuncOptions<2>;
using Conv3dFuncOptions = ConvFuncOptions<3>;
#define X(name, dimensions)                                                                                          \
  inline at::Tensor name(const at::Tensor& x, const at::Tensor& weight, const ConvFuncOptions<dimensions>& o = {}) { \
    const auto bias = o.bias().defined() ? std::optional(o.bias()) : std::nullopt;                                   \
    if (o.padding().mode != nullptr)                                                                                 \
      return at::name(x, weight, bias, o.stride().all, std::string_view(o.padding().mode), o.dilation().all,         \
                      o.groups());                                                                                   \
    return at::name(x, weight, bias, o.stride().all, o.padding().all, o.dilation().all, o.groups());                 \
  }
// clang-format off
X(conv1d, 1) X(conv2d, 2) X(conv3d, 3)
// clang-format on
#undef X

    class GridSampleFuncOptions {
 public:
  ATEN_STABLE_OPTION(GridSampleFuncOptions, Mode, mode)
  ATEN_STABLE_OPTION(GridSampleFuncOptions, Mode, padding_mode)
  ATEN_STABLE_OPTION(GridSampleFuncOptions, std::optional<bool>, align_corners)

 private:
  Mode mode_ = kBilinear, padding_mode_ = kZeros;
  std::optional<bool> align_corners_;
};
inline at::Tensor grid_sample(const at::Tensor& x, const at::Tensor& grid, const GridSampleFuncOptions& o = {}) {
  const std::string_view mode = o.mode().name, padding = o.padding_mode().name;
  if (!o.align_corners())
    TORCH_WARN("grid_sample takes align_corners=False: say align_corners(true) for what it was before torch 1.3");
  return at::grid_sampler(x, grid,
                          mode == "bilinear"  ? 0
                          : mode == "nearest" ? 1
                                              : 2,
                          padding == "zeros"    ? 0
                          : padding == "border" ? 1
                                                : 2,
                          o.align_corners().value_or(false));
}

class InterpolateFuncOptions {
 public:
  ATEN_STABLE_OPTION(InterpolateFuncOptions, std::optional<std::vector<int64_t>>, size)
  ATEN_STABLE_OPTION(InterpolateFuncOptions, std::optional<std::vector<double>>, scale_factor)
  ATEN_STABLE_OPTION(InterpolateFuncOptions, Mode, mode)
  ATEN_STABLE_OPTION(InterpolateFuncOptions, std::optional<bool>, align_corners)
  ATEN_STABLE_OPTION(InterpolateFuncOptions, std::optional<bool>, recompute_scale_factor)
  template <class T>
  InterpolateFuncOptions& antialias(T) {
    static_assert(::aten_stable::never<T>, "aten_stable: antialias is not covered: call interpolate in Python");
    return *this;
  }

 private:
  std::optional<std::vector<int64_t>> size_;
  std::optional<std::vector<double>> scale_factor_;
  Mode mode_ = kNearest;
  std::optional<bool> align_corners_, recompute_scale_factor_;
};
inline std::vector<int64_t> size_of(const at::Tensor& x, const InterpolateFuncOptions& o) {
  TORCH_CHECK(o.size() || o.scale_factor(), "either size or scale_factor should be defined");
  TORCH_CHECK(!o.size() || !o.scale_factor(), "only one of size or scale_factor should be defined");
  if (o.size()) return *o.size();
  const auto& scales = *o.scale_factor();
  TORCH_CHECK(static_cast<int64_t>(scales.size()) == x.dim() - 2,
              "scale_factor shape must match input shape. Input is ", x.dim() - 2, "D, scale_factor size is ",
              at::ArrayRef<double>(scales));
  std::vector<int64_t> size;
  for (size_t i = 0; i < scales.size(); ++i)
    size.push_back(
        static_cast<int64_t>(std::floor(static_cast<double>(x.size(static_cast<int64_t>(i) + 2)) * scales[i])));
  return size;
}
inline at::Tensor interpolate(const at::Tensor& x, const InterpolateFuncOptions& o = {}) {
  const std::string_view mode = o.mode().name;
  const bool is_plain = mode == "nearest" || mode == "area";
  TORCH_CHECK(!is_plain || !o.align_corners(),
              "align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic | "
              "trilinear");
  if (!is_plain && !o.align_corners()) TORCH_WARN("interpolate takes align_corners=False, since 0.4.0");
  const bool corners = o.align_corners().value_or(false);
  std::array<std::optional<double>, 3> scale;
  if (o.scale_factor() && !o.recompute_scale_factor().value_or(false))
    std::copy_n(o.scale_factor()->begin(), std::min<size_t>(o.scale_factor()->size(), 3), scale.begin());
  const auto is = [&](int64_t dims, std::string_view name) { return x.dim() == dims && mode == name; };
  if (is(3, "nearest")) return at::upsample_nearest1d(x, size_of(x, o), scale[0]);
  if (is(4, "nearest")) return at::upsample_nearest2d(x, size_of(x, o), scale[0], scale[1]);
  if (is(5, "nearest")) return at::upsample_nearest3d(x, size_of(x, o), scale[0], scale[1], scale[2]);
  if (is(3, "area")) return at::adaptive_avg_pool1d(x, size_of(x, o));
  if (is(4, "area")) return at::adaptive_avg_pool2d(x, size_of(x, o));
  if (is(5, "area")) return at::adaptive_avg_pool3d(x, size_of(x, o));
  if (is(3, "linear")) return at::upsample_linear1d(x, size_of(x, o), corners, scale[0]);
  if (is(4, "bilinear")) return at::upsample_bilinear2d(x, size_of(x, o), corners, scale[0], scale[1]);
  if (is(4, "bicubic")) return at::upsample_bicubic2d(x, size_of(x, o), corners, scale[0], scale[1]);
  if (is(5, "trilinear")) return at::upsample_trilinear3d(x, size_of(x, o), corners, scale[0], scale[1], scale[2]);
  throw c10::Error(::aten_stable::text("Got ", x.dim(), "D input, which mode ", mode, " does not take"));
}

class LeakyReLUFuncOptions {
 public:
  LeakyReLUFuncOptions() = default;
  LeakyReLUFuncOptions(double negative_slope) : negative_slope_(negative_slope) {}
  ATEN_STABLE_OPTION(LeakyReLUFuncOptions, double, negative_slope)
  ATEN_STABLE_OPTION(LeakyReLUFuncOptions, bool, inplace)

 private:
  double negative_slope_ = 0.01;
  bool inplace_ = false;
};
inline at::Tensor leaky_relu(at::Tensor x, const LeakyReLUFuncOptions& o = {}) {
  return o.inplace() ? at::leaky_relu_(x, o.negative_slope()) : at::leaky_relu(x, o.negative_slope());
}
class GELUFuncOptions {
 public:
  ATEN_STABLE_OPTION(GELUFuncOptions, std::string, approximate)

 private:
  std::string approximate_ = "none";
};
inline at::Tensor gelu(const at::Tensor& x, const GELUFuncOptions& o = {}) { return at::gelu(x, o.approximate()); }
inline at::Tensor one_hot(const at::Tensor& x, int64_t classes = -1) { return at::one_hot(x, classes); }
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
X(elu) X(selu) X(celu) X(softplus) X(dropout) X(affine_grid)
X(layer_norm) X(group_norm) X(batch_norm) X(max_pool2d) X(avg_pool2d)
X(adaptive_avg_pool2d) X(unfold) X(fold) X(embedding) X(cosine_similarity) X(mse_loss) X(l1_loss)
X(smooth_l1_loss) X(cross_entropy) X(nll_loss) X(binary_cross_entropy_with_logits) X(pixel_shuffle)
#undef X
#define X(name)                                                                                               \
  class ATEN_STABLE_NO("torch::nn::functional::" #name " is not covered: write the function of at:: with its " \
                       "arguments, or call it in Python") name
X(DropoutFuncOptions); X(ELUFuncOptions); X(MaxPool2dFuncOptions); X(AvgPool2dFuncOptions); X(UnfoldFuncOptions); X(FoldFuncOptions);
// clang-format on
#undef X
}  // namespace functional
}  // namespace torch::nn
