// A library for every torch from 2.10 on and every CPython.
#include "stable.h"

#include <torch/csrc/stable/library.h>

Tensor softclip_by_ops(const Tensor& x, double limit) {
  check(x, limit);
  const Tensor in = torch::stable::contiguous(x);
  const Tensor out = torch::stable::empty_like(in);
  softclip_stable(in, out, limit);
  return out;
}

STABLE_TORCH_LIBRARY(ports_stable, m) { m.def("softclip(Tensor x, float limit) -> Tensor"); }

STABLE_TORCH_LIBRARY_IMPL(ports_stable, CPU, m) { m.impl("softclip", TORCH_BOX(&softclip_by_ops)); }
