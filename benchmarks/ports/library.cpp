// A library for one torch and every CPython: the dispatcher calls, so no Python is compiled in.
#include <torch/library.h>

#include "aten.h"

TORCH_LIBRARY(ports_aten, m) { m.def("softclip(Tensor x, float limit) -> Tensor"); }

TORCH_LIBRARY_IMPL(ports_aten, CPU, m) { m.impl("softclip", &softclip_aten); }
