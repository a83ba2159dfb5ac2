// Copies of rows into shared memory by blocks of kBlock threads, for the kernels of the weight's gradient under large
// windows.
#pragma once

#include "copy_images.cuh"

namespace customops::cuda::depthwise {

constexpr int kWarps = 4, kBlock = kWarps * kWarp;
// What memory moves while a block waits for the copies of its next stage, about: no smaller ones take less time.
constexpr int64_t kLeastBytes = 30 << 10;

// Rows of `vectors` vectors each are one run in memory and `pitch` elements apart in shared memory: the vectors of one
// of so many threads are a constant number of rows and of vectors apart.
struct RowSteps {
  int vector, vectors, pitch, threads, rows, rest;

  RowSteps() = default;
  RowSteps(int64_t width, int64_t vector, int64_t pitch, int64_t threads = kBlock)
      : vector(int(vector)),
        vectors(int(width / vector)),
        pitch(int(pitch)),
        threads(int(threads)),
        rows(this->threads / vectors),
        rest(this->threads % vectors) {}
};

// A thread's first vector.
struct RowStart {
  int index, row, at;

  __device__ explicit RowStart(const RowSteps& steps)
      : index(int(threadIdx.x) % steps.threads), row(index / steps.vectors), at(index % steps.vectors) {}
};

template <int bytes, class T>
__device__ void copy_rows(const RowSteps& steps, RowStart start, int rows, T* to, const T* from) {
  constexpr int kAtOnce = bytes == 2 ? 8 : 2, kVector = bytes / sizeof(T);
  const int all = rows * steps.vectors;
#pragma unroll 1
  for (int first = start.index; first < all; first += kAtOnce * steps.threads) {
    T value[kAtOnce];
    if constexpr (bytes == 2)
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i)
        if (first + i * steps.threads < all) value[i] = from[first + i * steps.threads];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      T* const place = to + start.row * steps.pitch + start.at * kVector;
      if (first + i * steps.threads < all) {
        if constexpr (bytes == 2)
          *place = value[i];
        else
          copy_async<bytes>(shared_address(place), from + (first + i * steps.threads) * kVector);
      }
      start.at += steps.rest, start.row += steps.rows;
      if (start.at >= steps.vectors) start.at -= steps.vectors, ++start.row;
    }
  }
}
template <class T>
__device__ void copy_rows(const RowSteps& steps, RowStart start, int rows, T* to, const T* from) {
  if (steps.vector == 8)
    copy_rows<16>(steps, start, rows, to, from);
  else if (steps.vector == 4)
    copy_rows<8>(steps, start, rows, to, from);
  else if (steps.vector == 2)
    copy_rows<4>(steps, start, rows, to, from);
  else
    copy_rows<2>(steps, start, rows, to, from);
}

}  // namespace customops::cuda::depthwise
