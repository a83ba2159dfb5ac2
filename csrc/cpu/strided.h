// Reads strided inputs (walk.h) block by block, and spreads work over torch's threads.
#pragma once

#include "../walk.h"
#include "simd.h"

namespace customops::cpu {

constexpr int64_t kGrain = 1 << 15;  // elements that are worth a thread, as in ATen

// One loop nest for each kind of row, so that each is vectorised; `out` is a block of our own and aliases nothing.
template <class T>
void copy_rows(const T* in, int64_t step, int64_t row_step, int64_t length, int64_t rows, T* __restrict out) {
  if (step == 1) {
    for (int64_t r = 0; r < rows; ++r, in += row_step, out += length)
      for (int64_t i = 0; i < length; ++i) out[i] = in[i];
  } else if (step == 0) {
    for (int64_t r = 0; r < rows; ++r, in += row_step, out += length) {
      const T value = *in;
      for (int64_t i = 0; i < length; ++i) out[i] = value;
    }
  } else {
    for (int64_t r = 0; r < rows; ++r, in += row_step, out += length)
      for (int64_t i = 0; i < length; ++i) out[i] = in[i * step];
  }
}

// Returns elements [begin, begin + n) of input k in the output's memory order: a pointer into the input if they are
// contiguous there, else `buffer`, filled with them.
template <size_t kInputs, class T>
const T* read(const Walk<kInputs>& walk, int k, const T* base, int64_t begin, int64_t n, T* buffer) {
  const auto& size = walk.size;
  const int dims = walk.dims;
  const auto& step = walk.stride[k];
  if (dims == 1 && step[0] == 1) return base + begin;
  std::array<int64_t, kMaxDims> index;
  int64_t rest = begin, offset = 0;
  for (int d = 0; d < dims; ++d) {
    index[d] = rest % size[d];
    rest /= size[d];
    offset += index[d] * step[d];
  }
  if (step[0] == 1 && index[0] + n <= size[0]) return base + offset;
  for (int64_t done = 0;;) {
    if (index[0] == 0 && dims > 1 && n - done >= size[0]) {  // whole rows: the usual case when rows are short
      const int64_t rows = std::min((n - done) / size[0], size[1] - index[1]);
      copy_rows(base + offset, step[0], step[1], size[0], rows, buffer + done);
      done += rows * size[0];
      offset += rows * step[1];
      index[1] += rows;
    } else {
      const int64_t run = std::min(n - done, size[0] - index[0]);
      copy_rows(base + offset, step[0], 0, run, 1, buffer + done);
      done += run;
      offset += run * step[0];
      index[0] += run;
    }
    if (done == n) return buffer;
    for (int d = 0; d + 1 < dims; ++d) {
      if (index[d] != size[d]) continue;
      offset += step[d + 1] - size[d] * step[d];
      index[d] = 0;
      ++index[d + 1];
    }
  }
}

// f(begin, end) over [0, n), in pieces of at least `grain`, on torch's own threads.
template <class F>
void parallel(int64_t n, int64_t grain, const F& f) {
  capability();  // a bad CUSTOMOPS_CPU_CAPABILITY is reported here: a message thrown on torch's threads would get lost
  grain = std::max<int64_t>(grain, 1);
  if (n <= grain) return f(int64_t(0), n);
  torch::stable::parallel_for(0, n, grain, f);
}

}  // namespace customops::cpu
