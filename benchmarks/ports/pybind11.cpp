// A module for one CPython and one torch.
#include <torch/extension.h>

#include "aten.h"

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("softclip", &softclip_aten, py::arg("x"), py::arg("limit")); }
