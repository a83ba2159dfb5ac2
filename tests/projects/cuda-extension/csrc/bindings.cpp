// rowscale(x, factors) for Python: checks, then the kernel of x's device.
#include <torch/extension.h>

#include "rowscale.h"

at::Tensor rowscale(const at::Tensor& x, const at::Tensor& factors) {
  TORCH_CHECK(x.dim() == 2, "rowscale: x must be a matrix, got ", x.dim(), " dimensions");
  TORCH_CHECK(factors.dim() == 1 && factors.size(0) == x.size(0), "rowscale: factors must have shape (", x.size(0),
              "), got ", factors.sizes());
  TORCH_CHECK(factors.device() == x.device() && factors.scalar_type() == x.scalar_type(),
              "rowscale: factors must have the dtype and device of x");
  const at::Tensor in = x.contiguous(), by = factors.contiguous();
  at::Tensor y = at::empty_like(in);
  if (x.is_cuda()) {
    rowscale_cuda(in, by, y);
  } else {
    rowscale_cpu(in, by, y);
  }
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("rowscale", &rowscale, py::arg("x"), py::arg("factors")); }
