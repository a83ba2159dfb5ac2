// add2: c = a + b, elementwise. Reads a and b once, writes c once; bound by memory.
#include "pointwise.cuh"

namespace customops::cuda {

struct Add {
  template <class A>
  __device__ A operator()(A a, A b) const {
    return a + b;
  }
};

Tensor add2(const Tensor& a, const Tensor& b) {
  check_dtype("add2", "a", a);
  check_same("add2", "a", a, "b", b);
  return pointwise("add2", Add(), a, b);
}

}  // namespace customops::cuda

STABLE_TORCH_LIBRARY_IMPL(customops, CUDA, m) {
  m.impl("add2", CUSTOMOPS_BOX("add2", &customops::cuda::add2));
  m.impl("_add2", CUSTOMOPS_BOX("add2", &customops::cuda::add2));
}
