// Numbers that are none, and the limits of types, on the CPU and in kernels.
#pragma once

#include <limits>

#include "core.h"

namespace at {
inline namespace ATEN_STABLE_VERSION {
template <class T>
struct is_any_complex : std::false_type {};
template <class T>
struct is_any_complex<c10::complex<T>> : std::true_type {};

template <class T>
C10_HOST_DEVICE bool _isnan(T value) {
  if constexpr (std::is_integral_v<T>)
    return false;
  else if constexpr (is_any_complex<T>::value)
    return ::isnan(value.real()) || ::isnan(value.imag());
  else if constexpr (std::is_floating_point_v<T>)
    return ::isnan(value);
  else
    return ::isnan(static_cast<float>(value));
}
template <class T>
C10_HOST_DEVICE bool _isinf(T value) {
  if constexpr (std::is_integral_v<T>)
    return false;
  else if constexpr (std::is_floating_point_v<T>)
    return ::isinf(value);
  else
    return ::isinf(static_cast<float>(value));
}

// The bounds are infinite where the type has infinity.
template <class T>
struct numeric_limits {
  using Limits = std::numeric_limits<T>;
  static constexpr C10_HOST_DEVICE T lowest() { return Limits::lowest(); }
  static constexpr C10_HOST_DEVICE T max() { return Limits::max(); }
  static constexpr C10_HOST_DEVICE T lower_bound() {
    if constexpr (Limits::has_infinity)
      return -Limits::infinity();
    else
      return lowest();
  }
  static constexpr C10_HOST_DEVICE T upper_bound() {
    if constexpr (Limits::has_infinity)
      return Limits::infinity();
    else
      return max();
  }
};
}  // namespace ATEN_STABLE_VERSION
}  // namespace at

namespace c10 {
inline namespace ATEN_STABLE_VERSION {
// A byte that is neither 0 nor 1 is true.
template <class T>
C10_HOST_DEVICE T load(const T* at) {
  if constexpr (std::is_same_v<T, bool>)
    return *reinterpret_cast<const unsigned char*>(at) != 0;
  else
    return *at;
}
}  // namespace ATEN_STABLE_VERSION
}  // namespace c10
