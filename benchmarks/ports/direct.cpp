// The same as stable.cpp, with the memory straight from the allocator: csrc/allocate.h goes around the dispatcher.
#include <torch/csrc/stable/library.h>

#include "../../csrc/allocate.h"
#include "stable.h"

Tensor softclip_direct(const Tensor& x, double limit) {
  check(x, limit);
  const Tensor in = customops::dense(x);
  const Tensor out = customops::new_like(in);
  softclip_stable(in, out, limit);
  return out;
}

STABLE_TORCH_LIBRARY(ports_direct, m) { m.def("softclip(Tensor x, float limit) -> Tensor"); }

STABLE_TORCH_LIBRARY_IMPL(ports_direct, CPU, m) { m.impl("softclip", TORCH_BOX(&softclip_direct)); }
