// axpy: z = alpha * x + y, elementwise. Reads x and y once, writes z once; bound by memory.
#include "pointwise.cuh"

namespace customops::cuda {

struct Axpy {
  double alpha;  // rounded to the type of the arithmetic: float64 keeps all of it

  template <class A>
  __device__ A operator()(A x, A y) const {
    return A(alpha) * x + y;
  }
};

Tensor axpy(const Tensor& x, const Tensor& y, double alpha) {
  check_dtype("axpy", "x", x);
  check_same("axpy", "x", x, "y", y);
  check_fits("axpy", "alpha", alpha, x.scalar_type());
  return pointwise("axpy", Axpy{alpha}, x, y);
}

}  // namespace customops::cuda

STABLE_TORCH_LIBRARY_IMPL(customops, CUDA, m) {
  m.impl("axpy", CUSTOMOPS_BOX("axpy", &customops::cuda::axpy));
  m.impl("_axpy", CUSTOMOPS_BOX("axpy", &customops::cuda::axpy));
}
