// A project on TORCH_LIBRARY: a schema with a kernel for CPUs, and one that follows from a function.
#include <ATen/ATen.h>
#include <torch/library.h>

at::Tensor scaled_add(const at::Tensor& x, const at::Tensor& y, double scale, at::OptionalIntArrayRef sum_over) {
  TORCH_CHECK(x.sizes() == y.sizes(), "scaled_add: shapes differ: ", x.sizes(), " and ", y.sizes());
  at::Tensor out = x + y * scale;
  return sum_over.has_value() ? out.sum(*sum_over) : out;
}

int64_t ranks(const at::Tensor& x) { return x.dim(); }

TORCH_LIBRARY(aten_stable_registered, m) {
  m.def("scaled_add(Tensor x, Tensor y, *, float scale=2.0, int[]? sum_over=None) -> Tensor");
  m.def("ranks", &ranks);
}

TORCH_LIBRARY_IMPL(aten_stable_registered, CPU, m) { m.impl("scaled_add", TORCH_FN(scaled_add)); }
