// What every CUDA launch needs: the tensor's device, torch's current stream there, and a check afterwards.
//
// The CUDA runtime in this library is our own, linked statically; it shares device contexts with torch's. Only the
// stream is torch's business, and it is asked by name, so that the library loads whatever CUDA version torch was built
// for.
#pragma once

#include <cuda_runtime.h>
#include <dlfcn.h>

#include <array>
#include <atomic>

#include "../check.h"

namespace customops::cuda {

// ask(device) for the current device, cached if it is not 0: the driver takes a lock for each call. F is a lambda, so
// that each caller has a cache of its own.
template <class F>
int once_a_device(const F& ask) {
  static std::array<std::atomic<int>, 128> known;  // torch has no more devices
  int device = 0;
  cudaGetDevice(&device);
  if (known[device] == 0) known[device] = ask(device);
  return known[device];
}

template <cudaDeviceAttr attribute>
int device_attribute() {
  return once_a_device([](int device) {
    int value = 1;
    cudaDeviceGetAttribute(&value, attribute, device);
    return value;
  });
}

inline cudaStream_t current_stream(int32_t device) {
  using Get = AOTITorchError (*)(int32_t, void**);
  static const Get get = [] {
    void* torch = dlopen("libtorch_cuda.so", RTLD_NOLOAD | RTLD_LAZY);
    void* symbol = torch ? dlsym(torch, "aoti_torch_get_current_cuda_stream") : nullptr;
    if (symbol == nullptr)
      fail("customops: this torch has no aoti_torch_get_current_cuda_stream in libtorch_cuda.so; please report it");
    return reinterpret_cast<Get>(symbol);
  }();
  void* stream;
  STABLE_TORCH_ERROR_CODE_CHECK(get(device, &stream));
  return static_cast<cudaStream_t>(stream);
}

// Runs f(stream) with t's device current and checks the launch: launch("add2", a, [&](cudaStream_t stream) { ... }).
template <class F>
void launch(const char* op, const Tensor& t, const F& f) {
  const torch::stable::accelerator::DeviceGuard guard(t.get_device_index());
  f(current_stream(t.get_device_index()));
  if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess)
    fail(op, ": the CUDA kernel could not be launched on ", device_name(t), ": ", cudaGetErrorString(error), " (",
         cudaGetErrorName(error), ")");
}

}  // namespace customops::cuda
