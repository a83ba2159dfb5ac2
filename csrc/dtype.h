// The four dtypes of every op, as numbers in C++. Without torch's other headers, which take nvcc seconds a file: files
// with kernels alone include this, and dispatch.h has the same for tensors.
#pragma once

#include <torch/headeronly/util/BFloat16.h>
#include <torch/headeronly/util/Half.h>

#include <type_traits>

namespace customops {

enum class Dtype { kFloat32, kFloat64, kFloat16, kBFloat16 };

// Arithmetic happens in this type: float64 stays, everything narrower is widened to float32.
// Integers stand for elements that are only moved.
template <class T>
using acc_t = std::conditional_t<std::is_same_v<T, double> || std::is_integral_v<T>, T, float>;

// dispatch(dtype, [&](auto zero) { using T = decltype(zero); ... }) runs the body for one dtype. A function, where
// torch has macros: a macro would split the body at its commas.
template <class F>
void dispatch(Dtype dtype, const F& f) {
  switch (dtype) {
    case Dtype::kFloat32: return f(float());
    case Dtype::kFloat64: return f(double());
    case Dtype::kFloat16: return f(c10::Half());
    case Dtype::kBFloat16: return f(c10::BFloat16());
  }
}

}  // namespace customops
