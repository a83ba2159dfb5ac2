// Reads x once, writes y once, one row a task.
#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>

#include "rowscale.h"

void rowscale_cpu(const at::Tensor& x, const at::Tensor& factors, at::Tensor& y) {
  const int64_t columns = x.size(1);
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "rowscale", [&] {
    const scalar_t *source = x.const_data_ptr<scalar_t>(), *by = factors.const_data_ptr<scalar_t>();
    scalar_t* target = y.mutable_data_ptr<scalar_t>();
    at::parallel_for(0, x.size(0), 16, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        for (int64_t j = 0; j < columns; ++j) target[i * columns + j] = by[i] * source[i * columns + j];
    });
  });
}
