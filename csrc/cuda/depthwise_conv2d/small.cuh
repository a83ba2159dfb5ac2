// What the kernels for small contiguous images share: a block takes some channels of 32 images, and copies what lies
// together in memory into shared memory as it is, whatever its width. A lane has an image, and its warp the same row
// and channel.
#pragma once

#include "copy_images.cuh"
#include "split_batch.cuh"

namespace customops::cuda::depthwise {

constexpr int kImages = kWarp, kMaxWidth = 8, kTapPitch = 2 * kMaxWidth;
constexpr int64_t kSmallShared = 96 << 10;  // bytes of a block, where the GPU has as much

// Each warp loads `elements` elements of one of the `images` images, which are `stride` apart.
template <class T>
__device__ void load_images(T* to, int pitch, const T* from, int64_t stride, int images, int elements, int bytes) {
  const int lane = threadIdx.x % kWarp;
  for (int n = threadIdx.x / kWarp; n < images; n += blockDim.x / kWarp) {
    const T* const source = from + n * stride;
    T* const target = to + n * pitch;
    if (bytes == 4) {
      constexpr int kElements = 4 / sizeof(T);
      for (int i = lane * kElements; i < elements; i += kWarp * kElements)
        copy_async<4>(shared_address(target + i), source + i);
    } else {
#pragma unroll 8
      for (int i = lane; i < elements; i += kWarp) target[i] = source[i];
    }
  }
}

// An odd number of 4-byte words, so that lanes read from different banks.
template <class T>
int image_pitch(int64_t elements) {
  constexpr int64_t kWord = 4 / sizeof(T);
  return int((ceil_div(elements, kWord) | 1) * kWord);
}

// So many channels, of `pixels` pixels each, that an image takes some hundred elements of shared memory; an even number
// if there are several: a pair of 16-bit elements then is aligned, as far as it can be.
inline int64_t small_channels(int64_t channels, int64_t pixels) {
  constexpr int64_t kElements = 448;
  return std::min(std::max<int64_t>(kElements / pixels / 2 * 2, 1), channels);
}

}  // namespace customops::cuda::depthwise
