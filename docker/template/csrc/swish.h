// What both devices compute: swish(x) = x * sigmoid(x), and its derivative. And what both refuse.
#pragma once

#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/util/Exception.h>

#include <cmath>

#ifdef __CUDACC__
#define MYOPS_HOST_DEVICE __host__ __device__
#else
#define MYOPS_HOST_DEVICE
#endif

namespace myops {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

template <class T>
MYOPS_HOST_DEVICE inline T swish(T x) {
  return x / (T(1) + std::exp(-x));
}

template <class T>
MYOPS_HOST_DEVICE inline T swish_derivative(T x) {
  const T sigmoid = T(1) / (T(1) + std::exp(-x));
  return sigmoid * (T(1) + x * (T(1) - sigmoid));
}

// Runs f(T{}) for the type of x.
template <class F>
void dispatch(const char* op, const Tensor& x, const F& f) {
  if (x.scalar_type() == ScalarType::Float) return f(float{});
  if (x.scalar_type() == ScalarType::Double) return f(double{});
  STD_TORCH_CHECK(false, op, ": x must be float32 or float64");
}

inline void check_same(const Tensor& grad, const Tensor& x) {
  bool same = grad.scalar_type() == x.scalar_type() && grad.dim() == x.dim() && grad.device() == x.device();
  for (int64_t i = 0; same && i < x.dim(); ++i) same = grad.size(i) == x.size(i);
  STD_TORCH_CHECK(same, "swish_backward: grad must have the shape, dtype and device of x");
}

}  // namespace myops
