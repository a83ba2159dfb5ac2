// Atomics of every dtype, shuffles, memory of torch's allocator, a device's properties, streams and events, in the
// idiom of 2019.
#include <ATen/AccumulateType.h>
#include <ATen/ceil_div.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/extension.h>

#include <ATen/cuda/Atomic.cuh>
#include <ATen/cuda/DeviceUtils.cuh>
#include <ATen/cuda/NumericLimits.cuh>
#include <ATen/cuda/detail/IndexUtils.cuh>
#include <ATen/cuda/detail/TensorInfo.cuh>
#include <ATen/native/cuda/KernelUtils.cuh>

template <typename scalar_t>
__global__ void scatter_kernel(const torch::PackedTensorAccessor32<scalar_t, 1, torch::RestrictPtrTraits> x,
                               const int64_t* rows, scalar_t* sums, scalar_t* fast, int64_t* counts, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= x.size(0)) return;
  gpuAtomicAdd(&sums[rows[i]], x[i]);
  at::native::fastAtomicAdd(fast, static_cast<int>(rows[i]), n, x[i], true);
  gpuAtomicAdd(&counts[rows[i]], static_cast<int64_t>(1));
}

std::vector<torch::Tensor> atomics(torch::Tensor x, torch::Tensor rows, int64_t n) {
  TORCH_CHECK_EQ(x.dim(), 1);
  TORCH_CHECK_GE(n, 1);
  const at::cuda::OptionalCUDAGuard guard(device_of(x));
  cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  auto sums = torch::zeros({n}, x.options()), fast = torch::zeros({n}, x.options());
  auto counts = torch::empty({n}, rows.options());

  auto* allocator = c10::cuda::CUDACachingAllocator::get();
  const size_t bytes = n * sizeof(int64_t);
  auto* workspace = static_cast<int64_t*>(c10::cuda::CUDACachingAllocator::raw_alloc(bytes));
  auto copy = allocator->allocate(bytes);
  C10_CUDA_CHECK(cudaMemsetAsync(workspace, 0, bytes, stream));

  const int threads = std::min(256, at::cuda::getDeviceProperties(x.get_device())->maxThreadsPerBlock);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, x.scalar_type(), "atomics", [&] {
    scatter_kernel<scalar_t><<<(x.numel() + threads - 1) / threads, threads, 0, stream>>>(
        x.packed_accessor32<scalar_t, 1, torch::RestrictPtrTraits>(), rows.data_ptr<int64_t>(),
        sums.data_ptr<scalar_t>(), fast.data_ptr<scalar_t>(), workspace, static_cast<int>(n));
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  C10_CUDA_CHECK(cudaMemcpyAsync(copy.get(), workspace, bytes, cudaMemcpyDeviceToDevice, stream));
  C10_CUDA_CHECK(cudaMemcpyAsync(counts.data_ptr(), copy.get(), bytes, cudaMemcpyDeviceToDevice, stream));
  c10::cuda::CUDACachingAllocator::raw_delete(workspace);
  return {sums, fast, counts};
}

// A warp for each 32 elements of x, whatever its strides.
template <typename scalar_t>
__global__ void extremes_kernel(at::cuda::detail::TensorInfo<scalar_t, int> x, scalar_t* found, double* moved, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const scalar_t value = i < n ? x.data[at::cuda::detail::IndexToOffset<scalar_t, int, -1>::get(i, x)] : scalar_t(0);
  const at::acc_type<scalar_t, true> wide = value;
  moved[i] = WARP_SHFL_XOR(wide, 1);
  moved[i + gridDim.x * blockDim.x] = WARP_SHFL_DOWN(WARP_SHFL(wide, i % 7), 2);
  if (i >= n) return;
  gpuAtomicMax(&found[0], value);
  gpuAtomicMin(&found[1], value);
  gpuAtomicMul(&found[2], static_cast<scalar_t>(2));
  gpuAtomicAdd(&found[3], value);
}

std::vector<torch::Tensor> extremes(torch::Tensor x) {
  const at::cuda::OptionalCUDAGuard guard(device_of(x));
  TORCH_CHECK(at::cuda::detail::canUse32BitIndexMath(x), "x is too large");
  const int n = x.numel(), blocks = at::ceil_div(n, 32);
  auto found = torch::ones({4}, x.options()), moved = torch::empty({2, blocks * 32}, x.options().dtype(at::kDouble));
  AT_DISPATCH_ALL_TYPES_AND2(at::kHalf, at::kBFloat16, x.scalar_type(), "extremes", [&] {
    auto info = at::cuda::detail::getTensorInfo<scalar_t, int>(x);
    info.collapseDims();
    extremes_kernel<scalar_t><<<blocks, 32, 0, at::cuda::getCurrentCUDAStream()>>>(info, found.data_ptr<scalar_t>(),
                                                                                   moved.data_ptr<double>(), n);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
  return {found, moved};
}

__global__ void turn_kernel(const c10::complex<float>* z, c10::complex<float>* to, float* parts, int n) {
  const int i = threadIdx.x;
  if (i >= n) return;
  to[i] = std::exp(z[i]) * std::conj(z[i]) + std::sqrt(z[i]) / c10::complex<float>(2, 1);
  parts[i] = at::_isnan(z[i].real()) ? at::numeric_limits<float>::lower_bound() : std::abs(z[i]) + std::arg(z[i]);
  gpuAtomicAdd(&to[n], z[i]);
}

// On a stream of the pool, which waits for the current one, and the other way round.
std::vector<torch::Tensor> turned(torch::Tensor z) {
  const c10::cuda::CUDAGuard guard(z.device());
  auto to = torch::zeros({z.numel() + 1}, z.options()),
       parts = torch::zeros({z.numel()}, z.options().dtype(at::kFloat));
  const auto current = at::cuda::getCurrentCUDAStream(), other = at::cuda::getStreamFromPool();
  at::cuda::CUDAEvent ready, done;
  ready.record(current);
  ready.block(other);
  {
    const c10::cuda::CUDAStreamGuard on(other);
    TORCH_CHECK(at::cuda::getCurrentCUDAStream().stream() == other.stream(), "the stream is not the current one");
    turn_kernel<<<1, 32, 0, at::cuda::getCurrentCUDAStream()>>>(
        z.data_ptr<c10::complex<float>>(), to.data_ptr<c10::complex<float>>(), parts.data_ptr<float>(), z.numel());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    for (const auto& t : {z, to, parts}) t.record_stream(other);
    done.record();
  }
  TORCH_CHECK(at::cuda::getCurrentCUDAStream().stream() == current.stream(), "the stream before is not current again");
  done.block(current);
  done.synchronize();
  TORCH_CHECK(done.query() && other.query(), "all should be done");
  return {to, parts};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("atomics", &atomics, py::arg("x"), py::arg("rows"), py::arg("n"));
  m.def("extremes", &extremes);
  m.def("turned", &turned);
}
