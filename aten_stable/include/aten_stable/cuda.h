// Streams, guards and launch checks. The CUDA runtime is the library's own; only the stream is asked of torch, by name,
// so that the library does not need libtorch_cuda.
#pragma once

#include <cuda_runtime.h>
#include <dlfcn.h>

#include <type_traits>

#include "util.h"

namespace c10::cuda {
inline namespace ATEN_STABLE_VERSION {

inline void check(cudaError_t error, const char* file, int line) {
  if (error == cudaSuccess) return;
  throw std::runtime_error(::aten_stable::text("CUDA error: ", cudaGetErrorString(error), " (", cudaGetErrorName(error),
                                               ") at ", file, ":", line));
}
inline DeviceIndex current_device() {
  int device = 0;
  check(cudaGetDevice(&device), __FILE__, __LINE__);
  return static_cast<DeviceIndex>(device);
}
inline DeviceIndex device_count() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? static_cast<DeviceIndex>(count) : 0;
}

class CUDAStream {
 public:
  CUDAStream(cudaStream_t stream, DeviceIndex device) : stream_(stream), device_(device) {}
  operator cudaStream_t() const { return stream_; }
  cudaStream_t stream() const { return stream_; }
  DeviceIndex device_index() const { return device_; }
  void synchronize() const { check(cudaStreamSynchronize(stream_), __FILE__, __LINE__); }

 private:
  cudaStream_t stream_;
  DeviceIndex device_;
};

inline CUDAStream getCurrentCUDAStream(DeviceIndex device = -1) {
  using Get = AOTITorchError (*)(int32_t, void**);
  static const Get get = [] {
    void* torch = dlopen("libtorch_cuda.so", RTLD_NOLOAD | RTLD_LAZY);
    void* symbol = torch ? dlsym(torch, "aoti_torch_get_current_cuda_stream") : nullptr;
    if (symbol == nullptr) throw std::runtime_error("aten_stable: this torch has no CUDA: install one that has");
    return reinterpret_cast<Get>(symbol);
  }();
  if (device == -1) device = current_device();
  void* stream = nullptr;
  TORCH_ERROR_CODE_CHECK(get(device, &stream));
  return {static_cast<cudaStream_t>(stream), device};
}

class CUDAGuard {
 public:
  explicit CUDAGuard(DeviceIndex device) : guard_(device == -1 ? current_device() : device) {}
  explicit CUDAGuard(Device device) : CUDAGuard(device.index()) {}
  void set_index(DeviceIndex device) { guard_.set_index(device); }

 private:
  torch::stable::accelerator::DeviceGuard guard_;
};

// As in c10: without a device, or with a CPU's, it does nothing.
class OptionalCUDAGuard {
 public:
  OptionalCUDAGuard() = default;
  explicit OptionalCUDAGuard(std::optional<Device> device) {
    if (device && device->is_cuda()) guard_.emplace(*device);
  }

 private:
  std::optional<CUDAGuard> guard_;
};

}  // namespace ATEN_STABLE_VERSION
}  // namespace c10::cuda

namespace at {
namespace cuda {
using namespace c10::cuda;

inline namespace ATEN_STABLE_VERSION {
inline cudaDeviceProp* getCurrentDeviceProperties() {
  static thread_local cudaDeviceProp properties;
  static thread_local int known = -1;
  const int device = current_device();
  if (device != known) check(cudaGetDeviceProperties(&properties, device), __FILE__, __LINE__);
  known = device;
  return &properties;
}
}  // namespace ATEN_STABLE_VERSION
}  // namespace cuda
}  // namespace at

#ifdef __CUDACC__
template <class T>
__device__ __forceinline__ T gpuAtomicAdd(T* to, T value) {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_same_v<T, int>,
                "aten_stable: gpuAtomicAdd is covered for float, double and int: accumulate in float");
  return atomicAdd(to, value);
}
#endif

#define C10_CUDA_CHECK(expression) ::c10::cuda::check((expression), __FILE__, __LINE__)
#define AT_CUDA_CHECK(expression) C10_CUDA_CHECK(expression)
#define C10_CUDA_KERNEL_LAUNCH_CHECK() C10_CUDA_CHECK(cudaGetLastError())
#define CUDA_KERNEL_LOOP_TYPE(i, n, index_type)                                \
  int64_t aten_stable_at_##i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; \
  for (index_type i = aten_stable_at_##i; aten_stable_at_##i < (n);            \
       aten_stable_at_##i += int64_t(blockDim.x) * gridDim.x, i = aten_stable_at_##i)
#define CUDA_KERNEL_LOOP(i, n) CUDA_KERNEL_LOOP_TYPE(i, n, int)
