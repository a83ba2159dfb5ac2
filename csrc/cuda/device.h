// What is asked about a GPU, once for each.
#pragma once

#include <cuda_runtime.h>

#include <atomic>

namespace customops::cuda {

// ask(device) for the current device, cached if it is not 0: the driver takes a lock for each call. F is a lambda, so
// that each caller has a cache of its own.
template <class F>
int once_a_device(const F& ask) {
  static std::atomic<int> known[128];  // torch has no more devices
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

}  // namespace customops::cuda
