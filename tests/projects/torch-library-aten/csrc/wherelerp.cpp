// wherelerp(x, y, mask, weight): x + weight * (y - x) where the mask is set, x elsewhere.
#include <ATen/Dispatch.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty_like.h>
#include <Python.h>
#include <torch/library.h>

namespace {

at::Tensor wherelerp(const at::Tensor& x, const at::Tensor& y, const at::Tensor& mask, double weight) {
  TORCH_CHECK(y.sizes() == x.sizes(), "wherelerp: y must have the shape of x, ", x.sizes(), ", got ", y.sizes());
  TORCH_CHECK(y.scalar_type() == x.scalar_type(), "wherelerp: y must be ", x.scalar_type(), ", got ", y.scalar_type());
  TORCH_CHECK(mask.sizes() == x.sizes() && mask.scalar_type() == at::kBool,
              "wherelerp: mask must be bool and have the shape of x, ", x.sizes());
  const at::Tensor from = x.contiguous(), to = y.contiguous(), chosen = mask.contiguous();
  at::Tensor out = at::empty_like(from);
  AT_DISPATCH_FLOATING_TYPES(from.scalar_type(), "wherelerp", [&] {
    const scalar_t *a = from.const_data_ptr<scalar_t>(), *b = to.const_data_ptr<scalar_t>();
    const bool* set = chosen.const_data_ptr<bool>();
    scalar_t* result = out.mutable_data_ptr<scalar_t>();
    for (int64_t i = 0, n = from.numel(); i < n; ++i)
      result[i] = set[i] ? a[i] + scalar_t(weight) * (b[i] - a[i]) : a[i];
  });
  return out;
}

}  // namespace

TORCH_LIBRARY(wherelerp, m) { m.def("wherelerp(Tensor x, Tensor y, Tensor mask, float weight) -> Tensor"); }

TORCH_LIBRARY_IMPL(wherelerp, CPU, m) { m.impl("wherelerp", &wherelerp); }

// An empty module: `import wherelerp._C` is what loads the library and so registers the op.
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_C", nullptr, -1, nullptr, nullptr, nullptr, nullptr, nullptr};

PyMODINIT_FUNC PyInit__C() { return PyModule_Create(&definition); }
