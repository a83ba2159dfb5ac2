// axpy: z = alpha * x + y, elementwise. Reads x and y once, writes z once; bound by memory.
#include "pointwise.h"

namespace customops::cpu {

Tensor axpy(const Tensor& x, const Tensor& y, double alpha) {
  check_dtype("axpy", "x", x);
  check_same("axpy", "x", x, "y", y);
  check_fits("axpy", "alpha", alpha, x.scalar_type());
  // alpha is rounded to the type of the arithmetic: float64 keeps all of it.
  return pointwise([alpha](auto x, auto y) { return decltype(x)(alpha) * x + y; }, x, y);
}

}  // namespace customops::cpu

STABLE_TORCH_LIBRARY_IMPL(customops, CPU, m) {
  m.impl("axpy", CUSTOMOPS_BOX("axpy", &customops::cpu::axpy));
  m.impl("_axpy", CUSTOMOPS_BOX("axpy", &customops::cpu::axpy));
}
