// The four dtypes of every op. dispatch(dtype, [&](auto zero) { using T = decltype(zero); ... }) runs the body for one.
// A function, where torch has macros: a macro would split the body at its commas.
#pragma once

#include <torch/headeronly/util/BFloat16.h>
#include <torch/headeronly/util/Half.h>

#include <cstdint>
#include <type_traits>

#include "check.h"

namespace customops {

// Arithmetic happens in this type: float64 stays, everything narrower is widened to float32.
// Integers stand for elements that are only moved.
template <class T>
using acc_t = std::conditional_t<std::is_same_v<T, double> || std::is_integral_v<T>, T, float>;

template <class F>
void dispatch(ScalarType dtype, const F& f) {
  switch (dtype) {
    case ScalarType::Float: return f(float());
    case ScalarType::Double: return f(double());
    case ScalarType::Half: return f(c10::Half());
    case ScalarType::BFloat16: return f(c10::BFloat16());
    default: fail("internal error: the dtype ", to_string(dtype), " passed check_dtype");
  }
}

// The same for code that only moves elements: f gets an unsigned integer of their size.
template <class F>
void dispatch_bits(ScalarType dtype, const F& f) {
  switch (dtype) {
    case ScalarType::Float: return f(uint32_t());
    case ScalarType::Double: return f(uint64_t());
    default: return f(uint16_t());
  }
}

}  // namespace customops
