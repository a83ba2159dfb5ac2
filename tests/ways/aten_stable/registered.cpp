// A project on TORCH_LIBRARY: a schema with a kernel for CPUs, and one that follows from a function. It includes one
// operator at a time, and is importable as an empty module.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/add.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/sum.h>
#include <Python.h>
#include <c10/util/irange.h>
#include <torch/library.h>

at::Tensor scaled_add(const at::Tensor& x, const at::Tensor& y, double scale, at::OptionalIntArrayRef sum_over) {
  TORCH_CHECK(x.sizes() == y.sizes(), "scaled_add: shapes differ: ", x.sizes(), " and ", y.sizes());
  at::Tensor out = x + y * scale;
  return sum_over.has_value() ? out.sum(*sum_over) : out;
}

int64_t ranks(const at::Tensor& x) {
  int64_t all = 0;
  for (const auto i : c10::irange(x.dim())) all += i;
  return all;
}

at::Tensor floors(const at::Tensor& x, double step) {
  at::Tensor y = at::empty_like(x).copy_(x);
  return y.div_(step, "floor").div_(y.abs() + 1, "trunc");
}

// Numbers, generators and dictionaries.
at::Tensor limited(const at::Tensor& x, const at::Scalar& low, const c10::optional<at::Scalar>& high,
                   c10::optional<at::Generator> generator) {
  const at::Tensor y = at::clamp(x, low, high);
  return generator.has_value() ? y + at::rand(y.sizes(), generator, y.options()) : y;
}
at::Tensor times(const at::Tensor& x, const at::Scalar& factor) { return x * factor; }
std::tuple<c10::Dict<std::string, at::Tensor>, at::Scalar> all_times(const c10::Dict<std::string, at::Tensor>& all,
                                                                     at::Scalar factor) {
  c10::Dict<std::string, at::Tensor> products;
  for (const auto& entry : all) products.insert(entry.key(), entry.value() * factor);
  return {products, factor.toDouble() / 2};
}
c10::Dict<std::string, int64_t> lengths(const c10::Dict<std::string, std::vector<double>>& lists) {
  c10::Dict<std::string, int64_t> found;
  for (const auto& entry : lists) found.insert(entry.key(), static_cast<int64_t>(entry.value().size()));
  return found;
}

TORCH_LIBRARY(aten_stable_registered, m) {
  m.def("scaled_add(Tensor x, Tensor y, *, float scale=2.0, int[]? sum_over=None) -> Tensor");
  m.def("ranks", &ranks);
  m.def("floors", &floors);
}

// As kernels for language models have it: each device beside the schema.
TORCH_LIBRARY_FRAGMENT(aten_stable_registered, m) {
  m.set_python_module("theirs.fake");
  m.def("halved(Tensor x) -> Tensor");
  m.impl("halved", c10::kCPU, [](const at::Tensor& x) { return x / 2; });
  m.def("doubled(Tensor x) -> Tensor", {at::Tag::pt2_compliant_tag});
  m.impl("doubled", torch::dispatch(c10::DispatchKey::CPU, [](const at::Tensor& x) { return x * 2; }));
  m.def("limited(Tensor x, Scalar low=0, Scalar? high=None, *, Generator? generator=None) -> Tensor");
  m.impl("limited", c10::kCPU, &limited);
  m.impl("limited", c10::kMeta, &limited);
  m.def("times.number(Tensor x, Scalar factor) -> Tensor");
  m.def("all_times", &all_times);
  m.def("lengths", &lengths);
  m.impl("doubled", c10::DispatchKey::Meta, [](const at::Tensor& x) { return at::empty_like(x); });
}

TORCH_LIBRARY_IMPL(aten_stable_registered, CPU, m) { m.impl("scaled_add", TORCH_FN(scaled_add)); }

TORCH_LIBRARY_IMPL(aten_stable_registered, Autograd, m) { m.impl("times.number", &times); }

static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_C", nullptr, -1, nullptr, nullptr, nullptr, nullptr, nullptr};
PyMODINIT_FUNC PyInit__C(void) { return PyModule_Create(&definition); }
