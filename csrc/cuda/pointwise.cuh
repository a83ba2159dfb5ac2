// out[i] = op(in0[i], in1[i], ...) for any strides and the four floating dtypes.
//
// Memory: each input is read once, the output is written once, 16 bytes an access where alignment allows. Three
// kernels:
//   flat        every input is laid out like the output: one long row;
//   strided     some is not: a vector of outputs shares one index computation, inputs with unit stride are read as
//   vectors; transposed  the first such input is contiguous along another dimension: tiles of it pass through shared
//   memory, so
//               that both its reads and the writes are coalesced.
// Two levels of loads in flight are enough to saturate HBM, so each thread takes few elements and blocks are many.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <array>
#include <limits>
#include <type_traits>

#include "../allocate.h"
#include "../dispatch.h"
#include "../walk.h"
#include "launch.h"

namespace customops::cuda {

constexpr int kThreads = 256;
constexpr int kAccess = 16;   // bytes
constexpr int kTile = 64;     // elements each way: longer was slower for 2 bytes (H200: 128 took 1.1 times as long)
constexpr int kMinTile = 16;  // below this, a tile in shared memory is mostly empty

template <class T, int n>
struct alignas(sizeof(T) * n) Vector {
  T at[n];
};

// Division by a fixed divisor as a multiplication and a shift, for numerators below 2^31
// (Granlund and Montgomery 1994, https://doi.org/10.1145/178243.178249). 64-bit indices are divided in the plain way.
template <class Index>
struct Divider {
  Index divisor = 1;
  uint32_t multiplier = 0, shift = 0;

  Divider() = default;
  explicit Divider(int64_t d) : divisor(Index(d)) {
    if constexpr (sizeof(Index) == 4) {
      while ((uint64_t(1) << shift) < uint64_t(d)) ++shift;
      multiplier = uint32_t(((uint64_t(1) << 32) * ((uint64_t(1) << shift) - d)) / d + 1);
    }
  }
  // Replaces n by n / divisor; returns n % divisor.
  __device__ Index split(Index& n) const {
    const Index whole = n;
    if constexpr (sizeof(Index) == 4)
      n = (__umulhi(n, multiplier) + n) >> shift;
    else
      n /= divisor;
    return whole - n * divisor;
  }
};

template <class T, size_t kInputs>
struct Pointers {
  const T* in[kInputs];
  T* out;
};

// A Walk (walk.h) as kernels want it. Dimension 0 is the output's innermost.
template <size_t kInputs, class Index>
struct Geometry {
  int dims;
  Index elements;
  Divider<Index> size[kMaxDims];
  Index stride[kInputs][kMaxDims];

  Geometry(const Walk<kInputs>& walk, int64_t n) : dims(walk.dims), elements(Index(n)) {
    for (int d = 0; d < dims; ++d) {
      size[d] = Divider<Index>(walk.size[d]);
      for (size_t k = 0; k < kInputs; ++k) stride[k][d] = Index(walk.stride[k][d]);
    }
  }
};

// Conversions on the bits: through torch's own types, arrays of them end up in local memory.
template <class T>
__device__ acc_t<T> widen(T x) {
  if constexpr (std::is_same_v<T, c10::BFloat16>)
    return __uint_as_float(uint32_t(x.x) << 16);
  else if constexpr (std::is_same_v<T, c10::Half>)
    return __half2float(__ushort_as_half(x.x));
  else
    return x;
}

template <class T>
__device__ T narrow(acc_t<T> x) {
  if constexpr (std::is_same_v<T, c10::BFloat16>)
    return T(__bfloat16_as_ushort(__float2bfloat16_rn(x)), T::from_bits());
  else if constexpr (std::is_same_v<T, c10::Half>)
    return T(__half_as_ushort(__float2half_rn(x)), T::from_bits());
  else
    return x;
}

template <class Op, int n, class T, size_t kInputs, size_t... k>
__device__ Vector<T, n> apply(const Op& op, const Vector<T, n> (&x)[kInputs], std::index_sequence<k...>) {
  Vector<T, n> y;
#pragma unroll
  for (int v = 0; v < n; ++v) y.at[v] = narrow<T>(op(widen(x[k].at[v])...));
  return y;
}

template <int kVector, int kUnroll, class T, size_t kInputs, class Op>
__global__ void __launch_bounds__(kThreads) flat(Pointers<T, kInputs> p, int64_t n, Op op) {
  using V = Vector<T, kVector>;
  constexpr auto kEach = std::make_index_sequence<kInputs>();
  const int64_t first = (int64_t(blockIdx.x) * kUnroll * kThreads + threadIdx.x) * kVector;
  V x[kUnroll][kInputs];
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    const int64_t i = first + u * kThreads * kVector;
#pragma unroll
    for (size_t k = 0; k < kInputs; ++k)
      if (i + kVector <= n) x[u][k] = *reinterpret_cast<const V*>(p.in[k] + i);
  }
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    const int64_t i = first + u * kThreads * kVector;
    if (i + kVector <= n) {
      *reinterpret_cast<V*>(p.out + i) = apply(op, x[u], kEach);
    } else {
      for (int64_t j = i; j < n; ++j) {  // the end, when n is no multiple of the vector
        Vector<T, 1> y[kInputs];
        for (size_t k = 0; k < kInputs; ++k) y[k].at[0] = p.in[k][j];
        p.out[j] = apply(op, y, kEach).at[0];
      }
    }
  }
}

// Rows are a multiple of kVector long. Bit k of `vectors`: input k has unit stride and is aligned in every row.
template <int kVector, int kUnroll, class Index, class T, size_t kInputs, class Op>
__global__ void __launch_bounds__(kThreads)
    strided(const __grid_constant__ Pointers<T, kInputs> p, const __grid_constant__ Geometry<kInputs, Index> g,
            unsigned vectors, Op op) {
  using V = Vector<T, kVector>;
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    const Index i = ((Index(blockIdx.x) * kUnroll + u) * kThreads + threadIdx.x) * kVector;
    if (i >= g.elements) return;
    Index rest = i, offset[kInputs] = {};
    for (int d = 0; d < g.dims; ++d) {
      const Index at = d + 1 < g.dims ? g.size[d].split(rest) : rest;
#pragma unroll
      for (size_t k = 0; k < kInputs; ++k) offset[k] += at * g.stride[k][d];
    }
    V x[kInputs];
#pragma unroll
    for (size_t k = 0; k < kInputs; ++k) {
      const T* from = p.in[k] + offset[k];
      if (vectors >> k & 1) {
        x[k] = *reinterpret_cast<const V*>(from);
      } else {
#pragma unroll
        for (int v = 0; v < kVector; ++v) x[k].at[v] = from[v * g.stride[k][0]];
      }
    }
    *reinterpret_cast<V*>(p.out + i) = apply(op, x, std::make_index_sequence<kInputs>());
  }
}

// Tiles of dimension 0 by dimension `across`, along which input `staged` is contiguous.
template <class Index>
struct Tiling {
  int across;
  size_t staged;
  bool whole_in, whole_out;  // each vector of the staged input, and of the output, is aligned and not cut by an edge
  unsigned vectors;          // bit k: so is each of input k, in the output's direction
  Divider<Index> along_tiles, across_tiles;
};

template <class T, size_t kInputs, class Index, class Op>
__global__ void __launch_bounds__(kThreads)
    transposed(const __grid_constant__ Pointers<T, kInputs> p, const __grid_constant__ Geometry<kInputs, Index> g,
               const __grid_constant__ Tiling<Index> t, Op op) {
  constexpr int kVector = kAccess / sizeof(T), kLanes = kTile / kVector, kRows = kThreads / kLanes;
  using V = Vector<T, kVector>;
  // Padded by a bank, so that the elements of a column do not all lie in the same one.
  __shared__ T tile[kTile][kTile + (sizeof(T) < 4 ? 4 / sizeof(T) : 1)];
  const int lane = threadIdx.x % kLanes * kVector, row = threadIdx.x / kLanes;
  Index rest = blockIdx.x;
  const Index along = t.along_tiles.split(rest) * kTile, across = t.across_tiles.split(rest) * kTile;
  Index from[kInputs] = {}, to = 0, out_step = 1, out_across = 0;
  for (int d = 0; d < g.dims; ++d) {
    if (d == t.across) out_across = out_step;
    if (d != 0 && d != t.across) {
      const Index at = g.size[d].split(rest);
      to += at * out_step;
#pragma unroll
      for (size_t k = 0; k < kInputs; ++k) from[k] += at * g.stride[k][d];
    }
    out_step *= g.size[d].divisor;
  }
  const int width = min(Index(kTile), g.size[0].divisor - along);
  const int height = min(Index(kTile), g.size[t.across].divisor - across);
  const T *corner[kInputs], *staged = nullptr;
#pragma unroll
  for (size_t k = 0; k < kInputs; ++k) {
    corner[k] = p.in[k] + from[k] + along * g.stride[k][0] + across * g.stride[k][t.across];
    if (k == t.staged) staged = corner[k];
  }
  const Index step = g.stride[t.staged][0];
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

inline unsigned blocks(int64_t work, int64_t per_block) { return unsigned((work + per_block - 1) / per_block); }

template <size_t kInputs>
bool fits_32_bits(const Walk<kInputs>& walk, int64_t n) {
  int64_t last[kInputs + 1] = {n};
  for (size_t k = 0; k < kInputs; ++k)
    for (int d = 0; d < walk.dims; ++d) last[k + 1] += (walk.size[d] - 1) * walk.stride[k][d];
  return *std::max_element(last, last + kInputs + 1) < std::numeric_limits<int32_t>::max() / 2;
}

template <class T>
bool aligned(const T* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) % kAccess == 0;
}

// Whether vectors along dimension `along` of input k, where its stride is 1, are aligned wherever they start.
template <class T, size_t kInputs>
bool whole_vectors(const Walk<kInputs>& walk, size_t k, const T* base, int along) {
  for (int d = 0; d < walk.dims; ++d)
    if (d != along && walk.stride[k][d] % (kAccess / sizeof(T)) != 0) return false;
  return aligned(base);
}

template <class Index, class T, size_t kInputs, class Op>
void launch_strided(const Walk<kInputs>& walk, const Pointers<T, kInputs>& p, int64_t n, const Op& op,
                    cudaStream_t stream) {
  constexpr int kVector = kAccess / sizeof(T);
  const Geometry<kInputs, Index> g(walk, n);
  const bool whole_out = walk.size[0] % kVector == 0 && aligned(p.out);
  unsigned vectors = 0;
  for (size_t k = 0; k < kInputs; ++k)
    vectors |= unsigned(whole_out && walk.stride[k][0] == 1 && whole_vectors(walk, k, p.in[k], 0)) << k;
  // The first input that steps over dimension 0 but is contiguous along another one says which one to tile.
  for (size_t k = 0; k < kInputs && walk.size[0] >= kMinTile; ++k)
    for (int d = 1; d < walk.dims && walk.stride[k][0] > 1; ++d) {
      if (walk.stride[k][d] != 1 || walk.size[d] < kMinTile) continue;
      const int64_t along = blocks(walk.size[0], kTile), across = blocks(walk.size[d], kTile);
      const bool whole_in = walk.size[d] % kVector == 0 && whole_vectors(walk, k, p.in[k], d);
      const Tiling<Index> t{d, k, whole_in, whole_out, vectors, Divider<Index>(along), Divider<Index>(across)};
      const int64_t tiles = n / walk.size[0] / walk.size[d] * along * across;
      transposed<<<unsigned(tiles), kThreads, 0, stream>>>(p, g, t, op);
      return;
    }
  if (whole_out) {
    strided<kVector, 1><<<blocks(n, kThreads * kVector), kThreads, 0, stream>>>(p, g, vectors, op);
  } else {
    strided<1, 4><<<blocks(n, 4 * kThreads), kThreads, 0, stream>>>(p, g, 0u, op);
  }
}

// Fills `out`, a dense tensor of strides `out_strides` over the inputs' sizes, by op in acc_t<T>. T is the type of the
// elements, or an integer as large when they are only moved.
template <class T, class Op, class... Inputs>
void pointwise_into(const char* name, Tensor& out, IntHeaderOnlyArrayRef sizes, IntHeaderOnlyArrayRef out_strides,
                    const Op& op, const Inputs&... inputs) {
  constexpr size_t kInputs = sizeof...(Inputs);
  const int64_t n = out.numel();
  if (n == 0) return;
  const Walk<kInputs> walk(sizes, out_strides, {&inputs...});
  const Pointers<T, kInputs> p{{static_cast<const T*>(inputs.const_data_ptr())...},
                               static_cast<T*>(out.mutable_data_ptr())};
  bool same = walk.dims == 1, whole = aligned(p.out);
  for (size_t k = 0; k < kInputs; ++k) {
    same = same && walk.stride[k][0] == 1;
    whole = whole && aligned(p.in[k]);
  }
  launch(name, out, [&](cudaStream_t stream) {
    constexpr int kVector = kAccess / sizeof(T), kUnroll = 2, kScalars = 8;
    if (same && whole)
      flat<kVector, kUnroll><<<blocks(n, kThreads * kVector * kUnroll), kThreads, 0, stream>>>(p, n, op);
    else if (same)
      flat<1, kScalars><<<blocks(n, kThreads * kScalars), kThreads, 0, stream>>>(p, n, op);
    else if (fits_32_bits(walk, n))
      launch_strided<uint32_t>(walk, p, n, op, stream);
    else
      launch_strided<uint64_t>(walk, p, n, op, stream);
  });
}

// Allocates like the first input, which fixes dtype and layout.
template <class Op, class... Inputs>
Tensor pointwise(const char* name, const Op& op, const Tensor& first, const Inputs&... others) {
  Tensor out = new_like(first);
  dispatch(first.scalar_type(), [&](auto zero) {
    pointwise_into<decltype(zero)>(name, out, out.sizes(), out.strides(), op, first, others...);
  });
  return out;
}

}  // namespace customops::cuda
