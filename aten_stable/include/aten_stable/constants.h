// Constants of mathematics, in a header of their own: sources that do not ask for them have own ones of these names.
#pragma once

namespace c10 {
template <class T>
constexpr T pi = static_cast<T>(3.14159265358979323846264338327950288L);
template <class T>
constexpr T e = static_cast<T>(2.71828182845904523536028747135266250L);
template <class T>
constexpr T sqrt_2 = static_cast<T>(1.41421356237309504880168872420969808L);
template <class T>
constexpr T frac_sqrt_2 = static_cast<T>(0.70710678118654752440084436210484904L);
}  // namespace c10
