// The op on the stable ABI, without the allocation of its result.
#pragma once

#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/util/Exception.h>

#include "softclip.h"

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

inline void check(const Tensor& x, double limit) {
  STD_TORCH_CHECK(x.is_cpu(), "softclip: x must be on the CPU");
  STD_TORCH_CHECK(limit > 0, "softclip: limit must be positive, got ", limit);
}

// From `in` to `out`, both contiguous.
inline void softclip_stable(const Tensor& in, const Tensor& out, double limit) {
  const auto run = [&](auto zero) {
    using T = decltype(zero);
    softclip(in.const_data_ptr<T>(), out.mutable_data_ptr<T>(), in.numel(), T(limit));
  };
  switch (in.scalar_type()) {
    case ScalarType::Float: return run(float());
    case ScalarType::Double: return run(double());
    default: STD_TORCH_CHECK(false, "softclip: x must be float32 or float64");
  }
}
