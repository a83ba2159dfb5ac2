// Streams, guards and launch checks. The CUDA runtime is the library's own; only the stream is asked of torch, by name,
// so that the library does not need libtorch_cuda.
#pragma once

#include <cuda.h>  // CUDA_VERSION, which sources compare
#include <cuda_runtime.h>
#include <dlfcn.h>

#include <mutex>
#include <type_traits>
#include <unordered_map>

#include "factories.h"

namespace c10::cuda {
inline namespace ATEN_STABLE_VERSION {

inline void check(cudaError_t error, const char* file, int line) {
  if (error == cudaSuccess) return;
  throw c10::Error(::aten_stable::text("CUDA error: ", cudaGetErrorString(error), " (", cudaGetErrorName(error),
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

// A function of libtorch_cuda, where a process has it.
template <class F>
F* of_torch(const char* name) {
  void* torch = dlopen("libtorch_cuda.so", RTLD_NOLOAD | RTLD_LAZY);
  void* symbol = torch ? dlsym(torch, name) : nullptr;
  if (symbol == nullptr) throw std::runtime_error("aten_stable: this torch has no CUDA: install one that has");
  return reinterpret_cast<F*>(symbol);
}

inline void set_device(DeviceIndex device) { check(cudaSetDevice(device), __FILE__, __LINE__); }
// Under ATen the device's context is made when it is first used; here it is made at once.
inline void MaybeSetDevice(DeviceIndex device) { set_device(device); }
inline DeviceIndex ExchangeDevice(DeviceIndex device) {
  const DeviceIndex before = current_device();
  if (device != before) set_device(device);
  return before;
}
inline DeviceIndex MaybeExchangeDevice(DeviceIndex device) { return ExchangeDevice(device); }
inline cudaError_t SetDevice(DeviceIndex device, bool = false) { return cudaSetDevice(device); }
inline cudaError_t GetDevice(DeviceIndex* device) {
  int found = 0;
  const cudaError_t error = cudaGetDevice(&found);
  *device = static_cast<DeviceIndex>(found);
  return error;
}
inline void device_synchronize() { check(cudaDeviceSynchronize(), __FILE__, __LINE__); }

class CUDAStream {
 public:
  CUDAStream(cudaStream_t stream, DeviceIndex device) : stream_(stream), device_(device) {}
  operator cudaStream_t() const { return stream_; }
  cudaStream_t stream() const { return stream_; }
  DeviceIndex device_index() const { return device_; }
  Device device() const { return Device(DeviceType::CUDA, device_); }
  bool operator==(const CUDAStream& other) const { return stream_ == other.stream_ && device_ == other.device_; }
  bool operator!=(const CUDAStream& other) const { return !(*this == other); }
  void synchronize() const { check(cudaStreamSynchronize(stream_), __FILE__, __LINE__); }
  DeviceType device_type() const { return DeviceType::CUDA; }
  bool query() const {  // is all done?
    const cudaError_t error = cudaStreamQuery(stream_);
    if (error == cudaErrorNotReady) return cudaGetLastError(), false;
    check(error, __FILE__, __LINE__);
    return true;
  }

 private:
  cudaStream_t stream_;
  DeviceIndex device_;
};

inline CUDAStream getCurrentCUDAStream(DeviceIndex device = -1) {
  using Get = AOTITorchError(int32_t, void**);
  static Get* const get = of_torch<Get>("aoti_torch_get_current_cuda_stream");
  if (device == -1) device = current_device();
  void* stream = nullptr;
  TORCH_ERROR_CODE_CHECK(get(device, &stream));
  return {static_cast<cudaStream_t>(stream), device};
}

class CUDAGuard {
 public:
  explicit CUDAGuard(DeviceIndex device) : guard_(device == -1 ? original_.index() : device) {}
  explicit CUDAGuard(Device device) : CUDAGuard(device.index()) {}
  void set_index(DeviceIndex device) { guard_.set_index(device); }
  void set_device(Device device) { set_index(device.index()); }
  void reset_device(Device device) { set_device(device); }
  Device current_device() const { return Device(DeviceType::CUDA, c10::cuda::current_device()); }
  Device original_device() const { return original_; }

 private:
  Device original_{DeviceType::CUDA, c10::cuda::current_device()};  // before the guard changes it
  torch::stable::accelerator::DeviceGuard guard_;
};

// As in c10: without a device, or with a CPU's, it does nothing.
class OptionalCUDAGuard {
 public:
  OptionalCUDAGuard() = default;
  explicit OptionalCUDAGuard(std::optional<Device> device) {
    if (device && device->is_cuda()) guard_.emplace(*device);
  }
  explicit OptionalCUDAGuard(DeviceIndex device) { guard_.emplace(device); }
  void set_index(DeviceIndex device) { guard_ ? guard_->set_index(device) : void(guard_.emplace(device)); }
  void set_device(Device device) { set_index(device.index()); }
  void reset() { guard_.reset(); }

 private:
  std::optional<CUDAGuard> guard_;
};

}  // namespace ATEN_STABLE_VERSION
}  // namespace c10::cuda

// torch's own memory: each block is the memory of a tensor, which lives until the block is given back.
namespace c10 {
inline namespace ATEN_STABLE_VERSION {
class DataPtr {
 public:
  DataPtr() = default;
  explicit DataPtr(at::Tensor memory) : memory_(std::move(memory)) {}
  void* get() const { return memory_.defined() ? memory_.data_ptr() : nullptr; }
  void* mutable_get() const { return get(); }
  explicit operator bool() const { return get() != nullptr; }
  Device device() const { return memory_.device(); }
  void clear() { memory_ = at::Tensor(); }

 private:
  at::Tensor memory_;
};
}  // namespace ATEN_STABLE_VERSION
namespace cuda::CUDACachingAllocator {
inline namespace ATEN_STABLE_VERSION {
inline at::Tensor memory(size_t bytes) {
  const Device device(DeviceType::CUDA, current_device());
  return at::empty({static_cast<int64_t>(bytes)}, TensorOptions(ScalarType::Byte).device(device));
}
struct Blocks {
  std::mutex mutex;
  std::unordered_map<void*, at::Tensor> all;
};
inline Blocks& blocks() {
  static auto& one = *new Blocks;
  return one;
}
inline void* raw_alloc(size_t bytes) {
  if (bytes == 0) return nullptr;
  at::Tensor block = memory(bytes);
  void* const at = block.data_ptr();
  const std::lock_guard lock(blocks().mutex);
  blocks().all.insert_or_assign(at, std::move(block));
  return at;
}
inline void raw_delete(void* at) {
  if (at == nullptr) return;
  at::Tensor block;  // given back without the lock
  const std::lock_guard lock(blocks().mutex);
  const auto found = blocks().all.find(at);
  TORCH_CHECK(found != blocks().all.end(), "raw_delete: this memory is not of raw_alloc");
  block = std::move(found->second);
  blocks().all.erase(found);
}
// On the current stream: what else it was given would be another's.
struct CUDAAllocator {
  DataPtr allocate(size_t bytes) const { return DataPtr(memory(bytes)); }
  void* raw_allocate(size_t bytes) const { return raw_alloc(bytes); }
  void raw_deallocate(void* at) const { raw_delete(at); }
};
inline CUDAAllocator* get() {
  static CUDAAllocator one;
  return &one;
}
#define X(name, instead)                                                                    \
  template <class... Args>                                                                  \
  void name(Args&&...) {                                                                    \
    static_assert(::aten_stable::never<Args...>,                                            \
                  "aten_stable: CUDACachingAllocator::" #name " is not covered: " instead); \
  }
X(raw_alloc_with_stream, "write raw_alloc under a guard of the stream, in Python")
X(recordStream, "write x.record_stream in Python")
X(emptyCache, "call torch.cuda.empty_cache in Python")
#undef X
}  // namespace ATEN_STABLE_VERSION
}  // namespace cuda::CUDACachingAllocator
}  // namespace c10

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
inline cudaDeviceProp* getDeviceProperties(DeviceIndex device) {
  if (device == current_device()) return getCurrentDeviceProperties();
  static thread_local cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, device), __FILE__, __LINE__);
  return &properties;
}
template <class T>
T ATenCeilDiv(T a, T b) {
  return ceil_div(a, b);
}
inline c10::cuda::CUDACachingAllocator::CUDAAllocator* getCUDADeviceAllocator() {
  return c10::cuda::CUDACachingAllocator::get();
}
#define X(name, instead)                                                                                      \
  template <class T = void>                                                                                   \
  void* name() {                                                                                              \
    static_assert(::aten_stable::never<T>, "aten_stable: at::cuda::" #name " is not covered: call " instead); \
    return nullptr;                                                                                           \
  }
X(getCurrentCUDABlasHandle, "at::matmul, at::addmm or at::baddbmm, which use cuBLAS")
X(getCurrentCUDABlasLtHandle, "at::matmul, at::addmm or at::baddbmm, which use cuBLAS")
X(getCurrentCUDASparseHandle, "the sparse functions of torch in Python")
X(getCurrentCUDASolverDnHandle, "at::linalg_solve, at::linalg_svd or at::linalg_eigh, which use cuSOLVER")
#undef X
inline int64_t getNumGPUs() { return c10::cuda::device_count(); }
inline int warp_size() { return getCurrentDeviceProperties()->warpSize; }
}  // namespace ATEN_STABLE_VERSION

// For CUDA_KERNEL_LOOP.
namespace detail {
inline namespace ATEN_STABLE_VERSION {
constexpr int CUDA_NUM_THREADS = 1024;
inline int GET_BLOCKS(int64_t n, int64_t threads = CUDA_NUM_THREADS) {
  TORCH_INTERNAL_ASSERT(n > 0, "CUDA kernel launch blocks must be positive, but got N=", n);
  return static_cast<int>(std::min<int64_t>((n - 1) / threads + 1, std::numeric_limits<int>::max()));
}
}  // namespace ATEN_STABLE_VERSION
}  // namespace detail
}  // namespace cuda
}  // namespace at

#define C10_CUDA_CHECK(expression) ::c10::cuda::check((expression), __FILE__, __LINE__)
#define AT_CUDA_CHECK(expression) C10_CUDA_CHECK(expression)
#define C10_CUDA_ERROR_HANDLED(expression) (expression)
#define C10_CUDA_IGNORE_ERROR(expression) static_cast<void>((expression) == cudaSuccess || cudaGetLastError())
#define C10_CUDA_CLEAR_ERROR() static_cast<void>(cudaGetLastError())
#define C10_CUDA_CHECK_WARN(expression)                                    \
  do {                                                                     \
    const cudaError_t aten_stable_error = (expression);                    \
    if (aten_stable_error != cudaSuccess) {                                \
      (void)cudaGetLastError();                                            \
      TORCH_WARN("CUDA warning: ", cudaGetErrorString(aten_stable_error)); \
    }                                                                      \
  } while (false)
#define C10_CUDA_KERNEL_LAUNCH_CHECK() C10_CUDA_CHECK(cudaGetLastError())
#define CUDA_KERNEL_LOOP_TYPE(i, n, index_type)                                \
  int64_t aten_stable_at_##i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; \
  for (index_type i = aten_stable_at_##i; aten_stable_at_##i < (n);            \
       aten_stable_at_##i += int64_t(blockDim.x) * gridDim.x, i = aten_stable_at_##i)
#define CUDA_KERNEL_LOOP(i, n) CUDA_KERNEL_LOOP_TYPE(i, n, int)
