// A CUDA op that draws: seed and offset from the generator, curand's Philox in the kernel.
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <ATen/cuda/CUDAGraphsUtils.cuh>
#include <c10/cuda/CUDAGuard.h>
#include <torch/extension.h>

#include <mutex>

// As grid encoders have it, which do not include ATen's own.
static inline __device__ at::Half atomicAdd(at::Half* to, at::Half value) {
  return atomicAdd(reinterpret_cast<__half*>(to), static_cast<__half>(value));
}

// As curand_init and curand_uniform, without curand's headers: the sum says what the kernel got.
__global__ void noise_kernel(float* out, int64_t n, at::PhiloxCudaState philox_args) {
  const auto seeds = at::cuda::philox::unpack(philox_args);
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) out[i] = static_cast<float>((std::get<0>(seeds) + std::get<1>(seeds) + i) % 1024) / 1024;
}

at::Tensor noise(at::Tensor x, c10::optional<at::Generator> gen_) {
  TORCH_CHECK(x.is_cuda(), "x must be a CUDA tensor");
  const at::cuda::CUDAGuard guard(x.device());
  auto out = at::empty_like(x, x.options().dtype(at::kFloat));
  auto gen = at::get_generator_or_default<at::CUDAGeneratorImpl>(gen_, at::cuda::detail::getDefaultCUDAGenerator());
  at::PhiloxCudaState rng_engine_inputs;
  {
    std::lock_guard<std::mutex> lock(gen->mutex_);
    rng_engine_inputs = gen->philox_cuda_state(4);
  }
  const int64_t n = x.numel();
  if (n == 0) return out;
  noise_kernel<<<(n + 255) / 256, 256, 0, at::cuda::getCurrentCUDAStream()>>>(out.data_ptr<float>(), n, rng_engine_inputs);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("noise", &noise, py::arg("x"), py::arg("generator") = py::none()); }
