// What the kernels of depthwise_conv2d have in common that read channels_last images straight from memory.
#pragma once

#include "problem.cuh"

namespace customops::cuda::depthwise {

// What one access takes of a thread's channels or taps.
template <class T, int lanes>
using Access = Bits<lanes * sizeof(T)>;

template <class T, class Access>
__device__ T part(const Access& access, int i) {
  return reinterpret_cast<const T*>(&access)[i];
}

// One axis of the image of the pixels that are a dilation apart.
struct Interleaved {
  int in, out, phase, first, before;  // sizes; the first pixel of the output and of the input; zeros before that

  Interleaved() = default;
  __device__ Interleaved(int whole_in, int whole_out, int pad, int dilation, int phase) : phase(phase) {
    before = pad <= phase ? -((phase - pad) / dilation) : (pad - phase + dilation - 1) / dilation;
    first = phase - pad + before * dilation;
    in = (whole_in - first + dilation - 1) / dilation, out = (whole_out - phase + dilation - 1) / dilation;
  }
};

// n pixels of row y of a channels_last image from column x on, zeros outside; each one access. row_step: w * channels,
// which the caller multiplies, or it would be multiplied out for every row. Offsets are unsigned bytes, which kMaxIndex
// leaves room for: of elements or of signed numbers nvcc adds 64 bits for each pixel, in two or three instructions
// more.
template <int n, class Access, class T>
__device__ void read_pixels(Access (&pixels)[n], const T* image, int y, int x, int h, int w, int channels,
                            int row_step) {
  const bool inside = unsigned(y) < unsigned(h);
  const auto* const bytes = reinterpret_cast<const char*>(image);
  unsigned at = unsigned(y * row_step + x * channels) * unsigned(sizeof(T));
#pragma unroll
  for (int j = 0; j < n; ++j, at += unsigned(channels) * unsigned(sizeof(T))) {
    Access pixel{};
    if (inside && unsigned(x + j) < unsigned(w)) pixel = *reinterpret_cast<const Access*>(bytes + at);
    pixels[j] = pixel;
  }
}

template <class T, int n, int lanes>
__device__ void widen_pixels(const Access<T, lanes> (&pixels)[n], acc_t<T> (&row)[n][lanes]) {
#pragma unroll
  for (int j = 0; j < n; ++j)
#pragma unroll
    for (int v = 0; v < lanes; ++v) row[j][v] = widen(part<T>(pixels[j], v));
}

// The weight of a problem, or a copy that lives as long as this.
struct OwnWeight {
  const void* data;
  Memory copy = {};
};
inline OwnWeight copied_weight(int64_t bytes) {
  Memory copy(bytes);
  return {copy.data(), std::move(copy)};
}

// The weight, or a copy if it is part of a larger tensor and not aligned to accesses of so many bytes.
inline OwnWeight aligned_weight(const ForwardProblem& problem, int64_t access, cudaStream_t stream) {
  if (reinterpret_cast<uintptr_t>(problem.weight) % access == 0) return {problem.weight};
  const int64_t bytes = problem.channels * problem.taps() * problem.weight_element_bytes();
  OwnWeight weight = copied_weight(bytes);
  cudaMemcpyAsync(weight.copy.data(), problem.weight, size_t(bytes), cudaMemcpyDeviceToDevice, stream);
  return weight;
}

}  // namespace customops::cuda::depthwise
