// Copies of rows into shared memory by blocks of kBlock threads, for the kernels of the weight's gradient under large
// windows.
#pragma once

#include "copy_images.cuh"

namespace customops::cuda::depthwise {

constexpr int kWarps = 4, kBlock = kWarps * kWarp;
// What memory moves while a block waits for the copies of its next stage, about: no smaller ones take less time.
constexpr int64_t kLeastBytes = 30 << 10;

// Rows of `vectors` vectors each are one run in memory and `pitch` elements apart in shared memory: the vectors of one of
// so many threads are a constant number of rows and of vectors apart.
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

// `rows` rows of each of some images, and how far apart, besides, images lie at both ends.
template <class T>
struct RowCopy {
  const T* from;
  T* to;
  int rows, images, to_gap;
  int64_t from_gap;

  template <int bytes>
  __device__ void issue(const RowSteps& steps, RowStart start) const {
    constexpr int kAtOnce = bytes == 2 ? 5 : 2, kVector = bytes / sizeof(T);
    const int all = images * rows * steps.vectors;
    const Quotient quotient(rows);
#pragma unroll 1
    for (int first = start.index; first < all; first += kAtOnce * steps.threads) {
      T value[kAtOnce];
      int place[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int at = first + i * steps.threads;
        int image = start.row;
        if (images > 1)
          quotient.divmod(image);
        else
          image = 0;
        const T* const source = from + at * kVector + image * from_gap;
        place[i] = start.row * steps.pitch + start.at * kVector + image * to_gap;
        if (at < all) {
          if constexpr (bytes == 2)
            value[i] = *source;  // all are under way before the first is waited for
          else
            copy_async<bytes>(shared_address(to + place[i]), source);
        }
        start.at += steps.rest, start.row += steps.rows;
        if (start.at >= steps.vectors) start.at -= steps.vectors, ++start.row;
      }
      if constexpr (bytes == 2)
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i)
          if (first + i * steps.threads < all) to[place[i]] = value[i];
    }
  }
  __device__ void issue(const RowSteps& steps, const RowStart& start) const {
    if (rows <= 0) return;
    if (steps.vector == 8)
      issue<16>(steps, start);
    else if (steps.vector == 4)
      issue<8>(steps, start);
    else if (steps.vector == 2)
      issue<4>(steps, start);
    else
      issue<2>(steps, start);
  }
};

}  // namespace customops::cuda::depthwise
