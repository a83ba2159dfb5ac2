// torch::special: at::special_erf and its like by other names.
#pragma once

#include "ops.h"

namespace torch::special {
inline namespace ATEN_STABLE_VERSION {
using at::Scalar;
using at::Tensor;
#define X(name) \
  inline Tensor name(const Tensor& t) { return at::special_##name(t); }
// clang-format off
X(gammaln) X(digamma) X(psi) X(entr) X(erf) X(erfc) X(erfcx) X(erfinv) X(ndtr) X(ndtri) X(log_ndtr) X(expit) X(exp2)
X(expm1) X(log1p) X(sinc) X(logit) X(round) X(i0) X(i0e) X(i1) X(i1e) X(airy_ai) X(bessel_j0) X(bessel_j1)
X(bessel_y0) X(bessel_y1) X(modified_bessel_i0) X(modified_bessel_i1) X(modified_bessel_k0) X(modified_bessel_k1)
X(scaled_modified_bessel_k0) X(scaled_modified_bessel_k1) X(spherical_bessel_j0)
// clang-format on
#undef X
#define X(name)                                                                                       \
  inline Tensor name(const Tensor& a, const Tensor& b) { return at::special_##name(a, b); }           \
  inline Tensor name(const Scalar& number, const Tensor& b) { return at::special_##name(number, b); } \
  inline Tensor name(const Tensor& a, const Scalar& number) { return at::special_##name(a, number); }
    // clang-format off
X(xlogy) X(xlog1py) X(zeta) X(chebyshev_polynomial_t) X(chebyshev_polynomial_u) X(chebyshev_polynomial_v)
X(chebyshev_polynomial_w) X(hermite_polynomial_h) X(hermite_polynomial_he) X(laguerre_polynomial_l)
X(legendre_polynomial_p) X(shifted_chebyshev_polynomial_t) X(shifted_chebyshev_polynomial_u)
X(shifted_chebyshev_polynomial_v) X(shifted_chebyshev_polynomial_w)
// clang-format on
#undef X
                    inline Tensor gammainc(const Tensor& a, const Tensor& x) {
  return at::special_gammainc(a, x);
}
inline Tensor gammaincc(const Tensor& a, const Tensor& x) { return at::special_gammaincc(a, x); }
inline Tensor polygamma(int64_t n, const Tensor& t) { return at::special_polygamma(n, t); }
inline Tensor multigammaln(const Tensor& t, int64_t p) { return at::special_multigammaln(t, p); }
inline Tensor softmax(const Tensor& t, int64_t dim, std::optional<at::ScalarType> dtype) {
  return at::special_softmax(t, dim, dtype);
}
inline Tensor log_softmax(const Tensor& t, int64_t dim, std::optional<at::ScalarType> dtype) {
  return at::special_log_softmax(t, dim, dtype);
}
inline Tensor logsumexp(const Tensor& t, at::IntArrayRef dims, bool keepdim) {
  return at::special_logsumexp(t, dims, keepdim);
}
}  // namespace ATEN_STABLE_VERSION
}  // namespace torch::special
