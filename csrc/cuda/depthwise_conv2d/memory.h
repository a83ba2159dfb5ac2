// Memory for a kernel to work in, without torch's headers.
#pragma once

#include <cstdint>
#include <utility>

namespace customops::cuda::depthwise {

// So many bytes of torch's allocator, on the current device: for as long as this lives, and for what is launched
// meanwhile on torch's current stream. The functions are in ../depthwise_conv2d.cu.
class Memory {
 public:
  Memory() = default;
  explicit Memory(int64_t bytes);
  Memory(Memory&& other) noexcept : tensor_(std::exchange(other.tensor_, nullptr)) {}
  Memory& operator=(Memory&& other) noexcept {
    std::swap(tensor_, other.tensor_);
    return *this;
  }
  ~Memory();

  void* data() const;

 private:
  void* tensor_ = nullptr;
};

}  // namespace customops::cuda::depthwise
