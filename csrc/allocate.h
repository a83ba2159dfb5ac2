// New tensors on the device of an input. They go straight to the allocator: the dispatcher costs a microsecond.
#pragma once

#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/ops.h>

#include "check.h"

namespace customops {

// A new tensor of t's dtype and device.
inline Tensor empty_strided(const Tensor& t, IntHeaderOnlyArrayRef sizes, IntHeaderOnlyArrayRef strides) {
  int32_t dtype, device;
  AtenTensorHandle out;
  STABLE_TORCH_ERROR_CODE_CHECK(aoti_torch_get_dtype(t.get(), &dtype));
  STABLE_TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_type(t.get(), &device));
  STABLE_TORCH_ERROR_CODE_CHECK(aoti_torch_empty_strided(sizes.size(), sizes.data(), strides.data(), dtype, device,
                                                         t.is_cpu() ? 0 : t.get_device_index(), &out));
  return Tensor(out);
}

// A new tensor like t. Its strides are t's where t is dense; torch decides otherwise, as its own elementwise ops do.
inline Tensor new_like(const Tensor& t) {
  return t.is_contiguous() ? empty_strided(t, t.sizes(), t.strides()) : torch::stable::empty_like(t);
}

}  // namespace customops
