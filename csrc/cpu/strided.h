// Reads strided inputs (walk.h) block by block, and spreads work over torch's threads.
#pragma once

#include "../walk.h"
#include "simd.h"

namespace customops::cpu {

constexpr int64_t kGrain = 1 << 15;      // elements that are worth a thread, as in ATen
constexpr int64_t kCopiedByColumns = 8;  // elements of a row, at most

// One loop nest for each kind of row: the first two are vectorised. `out` is a block of our own and aliases nothing.
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
  } else if (rows <= length || length > kCopiedByColumns) {
    for (int64_t r = 0; r < rows; ++r, in += row_step, out += length)
#pragma GCC unroll 4
      for (int64_t i = 0; i < length; ++i) out[i] = in[i * step];
  } else {  // the longer loop inside; its rows stay in the L1 cache until the next element of each
    for (int64_t i = 0; i < length; ++i, in += step, ++out)
#pragma GCC unroll 4
      for (int64_t r = 0; r < rows; ++r) out[r * length] = in[r * row_step];
  }
}

// What read() does where an input is no single row: index arithmetic, in one function for all instruction sets and ops.
template <class T>
[[gnu::noinline]] const T* gather(int dims, const int64_t* size, const int64_t* step, const T* from, int64_t begin,
                                  int64_t n, T* buffer) {
  std::array<int64_t, kMaxDims> index;
  index[1] = 0;  // with one dimension, too
  for (int d = 0; d < dims; ++d) {
    index[d] = begin % size[d];
    begin /= size[d];
    from += index[d] * step[d];
  }
  if (step[0] == 1 && index[0] + n <= size[0]) return from;
  const int64_t row_step = dims > 1 ? step[1] : 0;
  for (int64_t done = 0;;) {
    const int64_t length = std::min(n - done, size[0] - index[0]);
    int64_t rows = 1;
    if (dims > 1 && length == size[0])  // whole rows: the usual case when rows are short
      rows = std::min((n - done) / length, size[1] - index[1]);
    run_simd([=](auto) { copy_rows(from, step[0], row_step, length, rows, buffer + done); });
    done += rows * length;
    if (done == n) return buffer;
    from += length * step[0] + (rows - 1) * row_step;
    index[0] += length;
    index[1] += rows - 1;
    for (int d = 0; d + 1 < dims && index[d] == size[d]; ++d) {
      from += step[d + 1] - size[d] * step[d];
      index[d] = 0;
      ++index[d + 1];
    }
  }
}

// Returns elements [begin, begin + n) of input k in the output's memory order: a pointer into the input if they are
// contiguous there, else `buffer`, filled with them.
template <size_t kInputs, class T>
const T* read(const Walk<kInputs>& walk, int k, const T* base, int64_t begin, int64_t n, T* buffer) {
  const auto& step = walk.stride[k];
  if (walk.dims == 1 && step[0] == 1) return base + begin;
  return gather(walk.dims, walk.size.data(), step.data(), base, begin, n, buffer);
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
