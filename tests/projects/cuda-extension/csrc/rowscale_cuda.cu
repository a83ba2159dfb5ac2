// A grid-stride loop over the elements; neighbouring threads read neighbouring columns.
#include <ATen/Dispatch.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>

#include "rowscale.h"

constexpr int THREADS = 256;
constexpr int64_t MAX_BLOCKS = 1 << 16;

template <class T>
__global__ void scale(const T* x, const T* factors, T* y, int64_t columns, int64_t n) {
  for (int64_t i = blockIdx.x * int64_t(THREADS) + threadIdx.x; i < n; i += gridDim.x * int64_t(THREADS))
    y[i] = factors[i / columns] * x[i];
}

void rowscale_cuda(const at::Tensor& x, const at::Tensor& factors, at::Tensor& y) {
  const int64_t n = x.numel();
  if (n == 0) return;
  const c10::cuda::CUDAGuard guard(x.device());
  const unsigned blocks = unsigned(std::min((n + THREADS - 1) / THREADS, MAX_BLOCKS));
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "rowscale", [&] {
    scale<scalar_t><<<blocks, THREADS, 0, c10::cuda::getCurrentCUDAStream()>>>(
        x.const_data_ptr<scalar_t>(), factors.const_data_ptr<scalar_t>(), y.mutable_data_ptr<scalar_t>(), x.size(1), n);
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}
