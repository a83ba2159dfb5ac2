// Sums and maxima of rows by blocks, with loads of several elements, as torch's own kernels have them.
#include <ATen/OpMathType.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDADataType.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/extension.h>

#include <ATen/cuda/CUDAApplyUtils.cuh>
#include <ATen/native/cuda/MemoryAccess.cuh>
#include <ATen/native/cuda/block_reduce.cuh>
#include <THC/THCAtomics.cuh>
#include <THC/THCDeviceUtils.cuh>
#include <vector>

template <typename acc_t>
struct Product {
  __device__ acc_t combine(acc_t a, acc_t b) const { return a * b; }
  __device__ acc_t warp_shfl_down(acc_t value, int offset) const { return WARP_SHFL_DOWN(value, offset); }
};

template <typename scalar_t, int width>
__global__ void rows_kernel(const scalar_t* __restrict__ x, at::opmath_type<scalar_t>* found, int columns) {
  using acc_t = at::opmath_type<scalar_t>;
  __shared__ acc_t shared[C10_WARP_SIZE];
  const scalar_t* row = x + int64_t(blockIdx.x) * columns;
  acc_t sum = 0, most = at::opmath_type<scalar_t>(row[0]), product = 1;
  for (int i = threadIdx.x; i < columns / width; i += blockDim.x) {
    const auto values = at::native::memory::load_vector<width>(row, i);
#pragma unroll
    for (int j = 0; j < width; ++j) {
      const acc_t value = values.val[j];
      sum += value;
      most = ::max(most, value);
      if (value != 0) product *= value > 0 ? 2 : -1;
    }
  }
  sum = at::native::cuda_utils::BlockReduceSum<acc_t>(sum, shared);
  most = at::native::cuda_utils::BlockReduceMax<acc_t>(most, shared);
  product = at::native::cuda_utils::BlockReduce(product, Product<acc_t>(), acc_t(1), shared);
  if (threadIdx.x != 0) return;
  found[blockIdx.x * 3] = sum, found[blockIdx.x * 3 + 1] = most, found[blockIdx.x * 3 + 2] = product;
}

// (rows, 3): sum, maximum, and a product of twos and signs; x has few columns, so that all of them are exact.
torch::Tensor blocks(torch::Tensor x) {
  const at::cuda::OptionalCUDAGuard guard(device_of(x));
  TORCH_CHECK(x.is_cuda() && x.is_contiguous() && x.dim() == 2, "x must be a matrix on a GPU");
  const cudaDataType_t type = at::cuda::ScalarTypeToCudaDataType(x.scalar_type());
  auto found = torch::empty({x.size(0), 3}, x.options().dtype(type == CUDA_R_64F ? at::kDouble : at::kFloat));
  dim3 grid;
  TORCH_CHECK(at::cuda::getApplyGrid(x.size(0) * AT_APPLY_THREADS_PER_BLOCK, grid, x.get_device()), "no GPU");
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, x.scalar_type(), "blocks", [&] {
    TORCH_CHECK(at::cuda::getCudaDataType<scalar_t>() == type, "types of CUDA");
    using acc_t = at::opmath_type<scalar_t>;
    const auto* from = x.data_ptr<scalar_t>();
    const int aligned = at::native::memory::can_vectorize_up_to<scalar_t>(reinterpret_cast<const char*>(from));
    if (x.size(1) % 4 == 0 && aligned >= 4)
      rows_kernel<scalar_t, 4><<<grid, at::cuda::getApplyBlock(), 0, at::cuda::getCurrentCUDAStream()>>>(
          from, found.data_ptr<acc_t>(), x.size(1));
    else
      rows_kernel<scalar_t, 1><<<grid, at::cuda::getApplyBlock(), 0, at::cuda::getCurrentCUDAStream()>>>(
          from, found.data_ptr<acc_t>(), x.size(1));
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
  return found;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("blocks", &blocks); }
