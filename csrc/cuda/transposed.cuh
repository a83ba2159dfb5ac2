// The elementwise kernel for an input that is contiguous along another dimension than the output: tiles of it pass
// through shared memory, so that both its reads and the writes are coalesced.
#pragma once

#include "../walk.h"
#include "elements.cuh"

namespace customops::cuda {

// A Walk (walk.h) in the form for kernels, whose indices have 32 bits. Dimension 0 is the output's innermost.
template <size_t kInputs>
struct Geometry {
  int dims;
  uint32_t elements;
  Divider<uint32_t> size[kMaxDims];
  uint32_t stride[kInputs][kMaxDims];

  Geometry(const Walk<kInputs>& walk, int64_t n) : dims(walk.dims), elements(uint32_t(n)) {
    for (int d = 0; d < dims; ++d) {
      size[d] = Divider<uint32_t>(walk.size[d]);
      for (size_t k = 0; k < kInputs; ++k) stride[k][d] = uint32_t(walk.stride[k][d]);
    }
  }
};

constexpr int kTile = 64;     // elements each way; 128 took 1.1 times as long for 2-byte types on an H200
constexpr int kMinTile = 16;  // below this, a tile in shared memory is mostly empty

// Tiles of dimension 0 by dimension `across`, along which input `staged` is contiguous.
struct Tiling {
  int across;
  size_t staged;
  bool whole_in, whole_out;  // each vector of the staged input, and of the output, is aligned and not cut by an edge
  unsigned vectors;          // bit k: so is each of input k, in the output's direction
  Divider<uint32_t> along_tiles, across_tiles;
};

template <class T, size_t kInputs, class Op>
__global__ void __launch_bounds__(kThreads)
    transposed(const __grid_constant__ Pointers<T, kInputs> p, const __grid_constant__ Geometry<kInputs> g,
               const __grid_constant__ Tiling t, Op op) {
  constexpr int kVector = kAccess / sizeof(T), kLanes = kTile / kVector, kRows = kThreads / kLanes;
  using V = Vector<T, kVector>;
  // Padded by a bank, so that the elements of a column do not all lie in the same one.
  __shared__ T tile[kTile][kTile + (sizeof(T) < 4 ? 4 / sizeof(T) : 1)];
  const int lane = threadIdx.x % kLanes * kVector, row = threadIdx.x / kLanes;
  uint32_t rest = blockIdx.x;
  const uint32_t along = t.along_tiles.divmod(rest) * kTile, across = t.across_tiles.divmod(rest) * kTile;
  uint32_t from[kInputs] = {}, to = 0, out_step = 1, out_across = 0;
  for (int d = 0; d < g.dims; ++d) {
    if (d == t.across) out_across = out_step;
    if (d != 0 && d != t.across) {
      const uint32_t at = g.size[d].divmod(rest);
      to += at * out_step;
#pragma unroll
      for (size_t k = 0; k < kInputs; ++k) from[k] += at * g.stride[k][d];
    }
    out_step *= g.size[d].divisor;
  }
  const int width = min(uint32_t(kTile), g.size[0].divisor - along);
  const int height = min(uint32_t(kTile), g.size[t.across].divisor - across);
  const T *corner[kInputs], *staged = nullptr;
#pragma unroll
  for (size_t k = 0; k < kInputs; ++k) {
    corner[k] = p.in[k] + from[k] + along * g.stride[k][0] + across * g.stride[k][t.across];
    if (k == t.staged) staged = corner[k];
  }
  const uint32_t step = g.stride[t.staged][0];
  if (t.whole_in) {
    V x[kTile / kRows];  // all loads are under way before the first is waited for
#pragma unroll
    for (int i = 0; i < kTile / kRows; ++i)
      if (row + i * kRows < width && lane < height)
        x[i] = *reinterpret_cast<const V*>(staged + (row + i * kRows) * step + lane);
#pragma unroll
    for (int i = 0; i < kTile / kRows; ++i)
#pragma unroll
      for (int v = 0; v < kVector; ++v) tile[row + i * kRows][lane + v] = x[i].at[v];
  } else {  // neighbouring threads take neighbouring elements
    for (int r = row; r < width; r += kRows)
#pragma unroll
      for (int c = lane / kVector; c < kTile; c += kLanes)
        if (c < height) tile[r][c] = staged[r * step + c];
  }
  __syncthreads();
  if constexpr (kInputs == 1)
    if (!t.whole_out && t.across == 1 && uint32_t(width) == g.size[0].divisor) {  // the tile is one run of the output
#pragma unroll 4
      for (int i = threadIdx.x; i < width * height; i += kThreads) {
        uint32_t r = i;
        const uint32_t c = g.size[0].divmod(r);
        const Vector<T, 1> x[1] = {{{tile[c][r]}}};
        p.out[to + across * out_across + i] = apply(op, x, std::make_index_sequence<1>()).at[0];
      }
      return;
    }
#pragma unroll
  for (int r = row; r < kTile; r += kRows) {
    if (r >= height) continue;
    T* const out = p.out + to + along + (across + r) * out_across;
    const int first = t.whole_out ? lane : lane / kVector, next = t.whole_out ? 1 : kLanes;
    if (first >= width) continue;
    V x[kInputs];
#pragma unroll
    for (size_t k = 0; k < kInputs; ++k) {
      const T* const in = corner[k] + r * g.stride[k][t.across];
      if (k != t.staged && t.vectors >> k & 1) {
        x[k] = *reinterpret_cast<const V*>(in + lane);
      } else {
#pragma unroll
        for (int v = 0; v < kVector; ++v) {
          const int c = min(first + v * next, width - 1);
          x[k].at[v] = k == t.staged ? tile[c][r] : in[c * g.stride[k][0]];
        }
      }
    }
    const V y = apply(op, x, std::make_index_sequence<kInputs>());
    if (t.whole_out) {
      *reinterpret_cast<V*>(out + lane) = y;
    } else {
#pragma unroll
      for (int v = 0; v < kVector; ++v)
        if (first + v * next < width) out[first + v * next] = y.at[v];
    }
  }
}

}  // namespace customops::cuda
