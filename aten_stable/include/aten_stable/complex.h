// The functions of <complex> for c10::complex, on the CPU and in kernels. As in c10, sources that nvcc compiles take
// thrust's, all others those of C++.
#pragma once

#include <torch/headeronly/util/complex.h>

#include <complex>

#include "version.h"

#ifdef __CUDACC__
#define ATEN_STABLE_COMPLEX thrust
#else
#define ATEN_STABLE_COMPLEX std
#endif

namespace aten_stable {
inline namespace ATEN_STABLE_VERSION {
template <class T>
C10_HOST_DEVICE ATEN_STABLE_COMPLEX::complex<T> plain(const c10::complex<T>& z) {
  return static_cast<ATEN_STABLE_COMPLEX::complex<T>>(z);
}
}  // namespace ATEN_STABLE_VERSION
}  // namespace aten_stable

namespace std {
template <class T>
constexpr T real(const c10::complex<T>& z) {
  return z.real();
}
template <class T>
constexpr T imag(const c10::complex<T>& z) {
  return z.imag();
}
template <class T>
constexpr T norm(const c10::complex<T>& z) {
  return z.real() * z.real() + z.imag() * z.imag();
}
template <class T>
constexpr c10::complex<T> conj(const c10::complex<T>& z) {
  return {z.real(), -z.imag()};
}
template <class T>
C10_HOST_DEVICE T abs(const c10::complex<T>& z) {
  return ATEN_STABLE_COMPLEX::abs(aten_stable::plain(z));
}
template <class T>
C10_HOST_DEVICE T arg(const c10::complex<T>& z) {
  return std::atan2(z.imag(), z.real());
}
#define X(name)                                                                            \
  template <class T>                                                                       \
  C10_HOST_DEVICE c10::complex<T> name(const c10::complex<T>& z) {                         \
    return static_cast<c10::complex<T>>(ATEN_STABLE_COMPLEX::name(aten_stable::plain(z))); \
  }
// clang-format off
X(exp) X(log) X(log10) X(sqrt) X(sin) X(cos) X(tan) X(asin) X(acos) X(atan) X(sinh) X(cosh) X(tanh) X(asinh) X(acosh)
X(atanh)
// clang-format on
#undef X
    template <class T>
    C10_HOST_DEVICE c10::complex<T> pow(const c10::complex<T>& a, const c10::complex<T>& b) {
  return static_cast<c10::complex<T>>(ATEN_STABLE_COMPLEX::pow(aten_stable::plain(a), aten_stable::plain(b)));
}
template <class T>
C10_HOST_DEVICE c10::complex<T> pow(const c10::complex<T>& a, const T& b) {
  return static_cast<c10::complex<T>>(ATEN_STABLE_COMPLEX::pow(aten_stable::plain(a), b));
}
template <class T>
C10_HOST_DEVICE c10::complex<T> pow(const T& a, const c10::complex<T>& b) {
  return static_cast<c10::complex<T>>(ATEN_STABLE_COMPLEX::pow(a, aten_stable::plain(b)));
}
}  // namespace std
