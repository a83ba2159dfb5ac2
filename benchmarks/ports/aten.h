// The op on ATen, for both ways to register it.
#pragma once

#include <ATen/Dispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>

#include "softclip.h"

inline at::Tensor softclip_aten(const at::Tensor& x, double limit) {
  TORCH_CHECK(x.is_cpu(), "softclip: x must be on the CPU, got ", x.device());
  TORCH_CHECK(limit > 0, "softclip: limit must be positive, got ", limit);
  const at::Tensor in = x.contiguous();
  at::Tensor out = at::empty_like(in);
  AT_DISPATCH_FLOATING_TYPES(in.scalar_type(), "softclip", [&] {
    softclip(in.const_data_ptr<scalar_t>(), out.mutable_data_ptr<scalar_t>(), in.numel(), scalar_t(limit));
  });
  return out;
}
