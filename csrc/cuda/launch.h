// What every CUDA launch needs: the tensor's device, torch's current stream there, and a check afterwards.
//
// The CUDA runtime in this library is our own, linked statically; it shares device contexts with torch's. Only the
// stream is torch's business, and it is asked by name, so that the library loads whatever CUDA version torch was built
// for.
#pragma once

#include <cuda_runtime.h>
#include <dlfcn.h>

#include "../check.h"

namespace customops::cuda {

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
