// swish on GPUs, elementwise: a grid-stride loop that reads x once and writes the result once.
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/library.h>

#include <algorithm>

#include "../swish.h"

namespace myops::cuda {

constexpr int THREADS = 256;
constexpr int64_t MAX_BLOCKS = 1 << 16;

// torch's current stream, asked by name: the library needs no libtorch_cuda, and loads on a CPU-only torch.
cudaStream_t current_stream(int32_t device) {
  using Get = AOTITorchError (*)(int32_t, void**);
  static const Get get = [] {
    void* torch = dlopen("libtorch_cuda.so", RTLD_NOLOAD | RTLD_LAZY);
    void* symbol = torch ? dlsym(torch, "aoti_torch_get_current_cuda_stream") : nullptr;
    STD_TORCH_CHECK(symbol != nullptr, "myops: this torch has no aoti_torch_get_current_cuda_stream");
    return reinterpret_cast<Get>(symbol);
  }();
  void* stream;
  TORCH_ERROR_CODE_CHECK(get(device, &stream));
  return static_cast<cudaStream_t>(stream);
}

template <class T>
__global__ void forward(const T* x, T* y, int64_t n) {
  for (int64_t i = blockIdx.x * int64_t(THREADS) + threadIdx.x; i < n; i += gridDim.x * int64_t(THREADS))
    y[i] = myops::swish(x[i]);
}

template <class T>
__global__ void backward(const T* grad, const T* x, T* y, int64_t n) {
  for (int64_t i = blockIdx.x * int64_t(THREADS) + threadIdx.x; i < n; i += gridDim.x * int64_t(THREADS))
    y[i] = grad[i] * swish_derivative(x[i]);
}

// Runs f(blocks, stream) with x's device current and checks the launch; an empty tensor launches nothing.
template <class F>
void launch(const char* op, const Tensor& x, const F& f) {
  if (x.numel() == 0) return;
  const torch::stable::accelerator::DeviceGuard guard(x.get_device_index());
  f(unsigned(std::min((x.numel() + THREADS - 1) / THREADS, MAX_BLOCKS)), current_stream(x.get_device_index()));
  const cudaError_t error = cudaGetLastError();
  STD_TORCH_CHECK(error == cudaSuccess, op, ": the kernel could not be launched: ", cudaGetErrorString(error));
}

Tensor swish(const Tensor& x) {
  const Tensor in = torch::stable::contiguous(x), out = torch::stable::empty_like(in);
  dispatch("swish", x, [&](auto type) {
    using T = decltype(type);
    launch("swish", in, [&](unsigned blocks, cudaStream_t stream) {
      forward<T><<<blocks, THREADS, 0, stream>>>(in.const_data_ptr<T>(), out.mutable_data_ptr<T>(), in.numel());
    });
  });
  return out;
}

Tensor swish_backward(const Tensor& grad, const Tensor& x) {
  check_same(grad, x);
  const Tensor in = torch::stable::contiguous(x), gradient = torch::stable::contiguous(grad);
  const Tensor out = torch::stable::empty_like(in);
  dispatch("swish_backward", x, [&](auto type) {
    using T = decltype(type);
    launch("swish_backward", in, [&](unsigned blocks, cudaStream_t stream) {
      backward<T><<<blocks, THREADS, 0, stream>>>(gradient.const_data_ptr<T>(), in.const_data_ptr<T>(),
                                                  out.mutable_data_ptr<T>(), in.numel());
    });
  });
  return out;
}

}  // namespace myops::cuda

STABLE_TORCH_LIBRARY_IMPL(myops, CUDA, m) {
  m.impl("swish", TORCH_BOX(&myops::cuda::swish));
  m.impl("swish_backward", TORCH_BOX(&myops::cuda::swish_backward));
}
