// Streams beside the current one, and events.
#pragma once

#include "cuda.h"

struct CUDAStreamGuardOpaque;  // torch's

namespace c10::cuda {
inline namespace ATEN_STABLE_VERSION {

inline CUDAStream getDefaultCUDAStream(DeviceIndex device = -1) {
  return {nullptr, device == -1 ? current_device() : device};
}
inline CUDAStream getStreamFromExternal(cudaStream_t stream, DeviceIndex device) { return {stream, device}; }
inline CUDAStream getStreamFromPool(bool high_priority = false, DeviceIndex device = -1) {
  using Get = AOTITorchError(bool, int32_t, void**);
  static Get* const get = of_torch<Get>("torch_get_cuda_stream_from_pool");
  if (device == -1) device = current_device();
  void* stream = nullptr;
  TORCH_ERROR_CODE_CHECK(get(high_priority, device, &stream));
  return {static_cast<cudaStream_t>(stream), device};
}
inline void setCurrentCUDAStream(CUDAStream stream) {
  using Set = AOTITorchError(void*, int32_t);
  static Set* const set = of_torch<Set>("torch_set_current_cuda_stream");
  TORCH_ERROR_CODE_CHECK(set(stream.stream(), stream.device_index()));
}

// A stream and its device are the current ones while it lives.
class CUDAStreamGuard {
 public:
  explicit CUDAStreamGuard(CUDAStream stream) : original_(getCurrentCUDAStream()), current_(stream) {
    using Create = AOTITorchError(void*, int32_t, CUDAStreamGuardOpaque**);
    static Create* const create = of_torch<Create>("aoti_torch_create_cuda_stream_guard");
    TORCH_ERROR_CODE_CHECK(create(stream.stream(), stream.device_index(), &guard_));
  }
  ~CUDAStreamGuard() {
    static auto* const remove = of_torch<AOTITorchError(CUDAStreamGuardOpaque*)>("aoti_torch_delete_cuda_stream_guard");
    remove(guard_);
  }
  CUDAStreamGuard(const CUDAStreamGuard&) = delete;
  CUDAStreamGuard& operator=(const CUDAStreamGuard&) = delete;
  CUDAStream original_stream() const { return original_; }
  CUDAStream current_stream() const { return current_; }
  Device original_device() const { return original_.device(); }
  Device current_device() const { return current_.device(); }

 private:
  CUDAStream original_, current_;
  CUDAStreamGuardOpaque* guard_ = nullptr;
};

}  // namespace ATEN_STABLE_VERSION
}  // namespace c10::cuda

namespace at::cuda {
inline namespace ATEN_STABLE_VERSION {

// Made when it is recorded for the first time, on the device of that stream.
class CUDAEvent {
 public:
  CUDAEvent() = default;
  explicit CUDAEvent(unsigned flags) : flags_(flags) {}
  CUDAEvent(const CUDAEvent&) = delete;
  CUDAEvent& operator=(const CUDAEvent&) = delete;
  CUDAEvent(CUDAEvent&& other) noexcept { swap(other); }
  CUDAEvent& operator=(CUDAEvent&& other) noexcept { return swap(other), *this; }
  ~CUDAEvent() {
    if (event_ != nullptr) cudaEventDestroy(event_);
  }
  operator cudaEvent_t() const { return event_; }
  cudaEvent_t event() const { return event_; }
  bool isCreated() const { return event_ != nullptr; }
  DeviceIndex device_index() const { return device_; }
  void record() { record(getCurrentCUDAStream()); }
  void record(const CUDAStream& stream) {
    const CUDAGuard guard(stream.device_index());
    if (event_ == nullptr) {
      C10_CUDA_CHECK(cudaEventCreateWithFlags(&event_, flags_));
      device_ = stream.device_index();
    }
    TORCH_CHECK(device_ == stream.device_index(), "Event device ", int(device_),
                " does not match recording stream's device ", int(stream.device_index()), ".");
    C10_CUDA_CHECK(cudaEventRecord(event_, stream));
    recorded_ = true;
  }
  void recordOnce(const CUDAStream& stream) {
    if (!recorded_) record(stream);
  }
  void block(const CUDAStream& stream) const {
    if (event_ == nullptr) return;
    const CUDAGuard guard(stream.device_index());
    C10_CUDA_CHECK(cudaStreamWaitEvent(stream, event_, 0));
  }
  bool query() const {
    if (event_ == nullptr) return true;
    const cudaError_t error = cudaEventQuery(event_);
    if (error == cudaErrorNotReady) return cudaGetLastError(), false;
    C10_CUDA_CHECK(error);
    return true;
  }
  void synchronize() const {
    if (event_ != nullptr) C10_CUDA_CHECK(cudaEventSynchronize(event_));
  }
  // In milliseconds.
  float elapsed_time(const CUDAEvent& other) const {
    TORCH_CHECK(recorded_ && other.recorded_, "Both events must be recorded before calculating elapsed time.");
    float time = 0;
    C10_CUDA_CHECK(cudaEventElapsedTime(&time, event_, other.event_));
    return time;
  }

 private:
  void swap(CUDAEvent& other) noexcept {
    std::swap(flags_, other.flags_);
    std::swap(event_, other.event_);
    std::swap(device_, other.device_);
    std::swap(recorded_, other.recorded_);
  }
  unsigned flags_ = cudaEventDisableTiming;
  cudaEvent_t event_ = nullptr;
  DeviceIndex device_ = -1;
  bool recorded_ = false;
};

}  // namespace ATEN_STABLE_VERSION
}  // namespace at::cuda
