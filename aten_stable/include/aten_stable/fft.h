// torch::fft: at::fft_fft and its like by other names.
#pragma once

#include "ops.h"

namespace torch::fft {
inline namespace ATEN_STABLE_VERSION {
using at::Tensor;
using Norm = std::optional<std::string_view>;
#define X(name)                                                                                          \
  inline Tensor name(const Tensor& t, std::optional<int64_t> n = {}, int64_t dim = -1, Norm norm = {}) { \
    return at::fft_##name(t, n, dim, norm);                                                              \
  }
// clang-format off
X(fft) X(ifft) X(rfft) X(irfft) X(hfft) X(ihfft)
// clang-format on
#undef X
#define X(name)                                                                                       \
  inline Tensor name(const Tensor& t, at::OptionalIntArrayRef s = {}, at::IntArrayRef dim = {-2, -1}, \
                     Norm norm = {}) {                                                                \
    return at::fft_##name(t, s, dim, norm);                                                           \
  }
    // clang-format off
X(fft2) X(ifft2) X(rfft2) X(irfft2)
// clang-format on
#undef X
#define X(name)                                                                                         \
  inline Tensor name(const Tensor& t, at::OptionalIntArrayRef s = {}, at::OptionalIntArrayRef dim = {}, \
                     Norm norm = {}) {                                                                  \
    return at::fft_##name(t, s, dim, norm);                                                             \
  }
    // clang-format off
X(fftn) X(ifftn) X(rfftn) X(irfftn)
// clang-format on
#undef X
        inline Tensor fftshift(const Tensor& t, at::OptionalIntArrayRef dim = {}) {
  return at::fft_fftshift(t, dim);
}
inline Tensor ifftshift(const Tensor& t, at::OptionalIntArrayRef dim = {}) { return at::fft_ifftshift(t, dim); }
}  // namespace ATEN_STABLE_VERSION
}  // namespace torch::fft
