// out[i] = op(in0[i], in1[i], ...) for any strides and the four floating dtypes.
//
// Memory: each input is read once, the output is written once, 16 bytes an access where alignment allows. `flat` runs
// when every input is laid out like the output: one long row. `strided` runs when some is not: a vector of outputs
// shares one index computation, and inputs with unit stride are still read as vectors. `transposed` (transposed.cuh)
// runs when that would read an input across its rows. Two vectors in flight a thread saturate the memory, so threads do
// little and blocks are many.
#pragma once

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "../allocate.h"
#include "../dispatch.h"
#include "elements.cuh"
#include "launch.h"
#include "transposed.cuh"

namespace customops::cuda {

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
template <int kVector, int kUnroll, class T, size_t kInputs, class Op>
__global__ void __launch_bounds__(kThreads)
    strided(const __grid_constant__ Pointers<T, kInputs> p, const __grid_constant__ Geometry<kInputs> g,
            unsigned vectors, Op op) {
  using V = Vector<T, kVector>;
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    const uint32_t i = ((uint32_t(blockIdx.x) * kUnroll + u) * kThreads + threadIdx.x) * kVector;
    if (i >= g.elements) return;
    uint32_t rest = i, offset[kInputs] = {};
    for (int d = 0; d < g.dims; ++d) {
      const uint32_t at = d + 1 < g.dims ? g.size[d].divmod(rest) : rest;
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

constexpr int64_t kMaxPart = std::numeric_limits<int32_t>::max() / 2;  // kernels count elements in 32 bits
constexpr int64_t kMaxCopied = int64_t(1) << 28;                       // of them: 2 GB of float64

// Whether kernels can find input k along the first `dims` dimensions of a walk.
template <size_t kInputs>
bool within_reach(const Walk<kInputs>& walk, size_t k, int dims) {
  int64_t last = 0;
  for (int d = 0; d < dims; ++d) last += (walk.size[d] - 1) * walk.stride[k][d];
  return last < kMaxPart;
}

template <size_t kInputs>
bool all_within_reach(const Walk<kInputs>& walk, int dims) {
  for (size_t k = 0; k < kInputs; ++k)
    if (!within_reach(walk, k, dims)) return false;
  return true;
}

// Calls f(walk, p, n) for parts of a walk of n elements: halves along the outermost dimension, until
// is_part(walk, n). Long halves are whole tiles, as aligned as the whole.
template <class T, size_t kInputs, class IsPart, class F>
void for_each_part(const Walk<kInputs>& whole, Pointers<T, kInputs> p, int64_t n, const IsPart& is_part, const F& f) {
  if (is_part(whole, n)) return f(whole, p, n);
  Walk<kInputs> walk = whole;
  const int outermost = walk.dims - 1;
  const int64_t size = walk.size[outermost], slice = n / size;
  const int64_t half = size < 2 * kTile ? size / 2 : size / (2 * kTile) * kTile;
  for (const int64_t part : {half, size - half}) {
    walk.size[outermost] = part;
    walk.dims = part == 1 ? std::max(outermost, 1) : outermost + 1;
    for_each_part(walk, p, part * slice, is_part, f);
    for (size_t k = 0; k < kInputs; ++k) p.in[k] += part * walk.stride[k][outermost];
    p.out += part * slice;
  }
}

// Whether vectors along dimension `along` of input k, where its stride is 1, are aligned wherever they start.
template <class T, size_t kInputs>
bool whole_vectors(const Walk<kInputs>& walk, size_t k, const T* base, int along) {
  for (int d = 0; d < walk.dims; ++d)
    if (d != along && walk.stride[k][d] % (kAccess / sizeof(T)) != 0) return false;
  return aligned(base);
}

template <class T, size_t kInputs, class Op>
void launch_strided(const Walk<kInputs>& walk, const Pointers<T, kInputs>& p, int64_t n, const Op& op,
                    cudaStream_t stream) {
  constexpr int kVector = kAccess / sizeof(T);
  const Geometry<kInputs> g(walk, n);
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
      const Tiling t{d, k, whole_in, whole_out, vectors, Divider<uint32_t>(along), Divider<uint32_t>(across)};
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

// Writes the elements of a walk one after the other to `to`. They have the dtype of `like` (flatten_copy.cu).
void copy_walk(const Tensor& like, const Walk<1>& walk, const void* from, void* to, int64_t n, cudaStream_t stream);

// Where inputs are out of reach, makes the walk read copies of what it reads of them, dense and in the same order in
// memory. Returns the copies.
template <class T, size_t kInputs>
std::vector<Tensor> copy_what_is_out_of_reach(const Tensor& like, Walk<kInputs>& walk, Pointers<T, kInputs>& p,
                                              int64_t n, cudaStream_t stream) {
  std::vector<Tensor> copies;
  for (size_t k = 0; k < kInputs; ++k) {
    if (within_reach(walk, k, walk.dims)) continue;
    std::array<int, kMaxDims> order;
    std::iota(order.begin(), order.begin() + walk.dims, 0);
    std::sort(order.begin(), order.begin() + walk.dims,
              [&](int a, int b) { return walk.stride[k][a] < walk.stride[k][b]; });
    Walk<1> source;
    source.dims = walk.dims;
    int64_t step = 1;
    for (int i = 0; i < walk.dims; ++i) {
      const int d = order[i];
      source.size[i] = walk.size[d];
      source.stride[0][i] = std::exchange(walk.stride[k][d], step);
      step *= walk.size[d];
    }
    const int64_t one = 1;
    copies.push_back(empty_strided(like, {&n, 1}, {&one, 1}));
    copy_walk(like, source, p.in[k], copies.back().mutable_data_ptr(), n, stream);
    p.in[k] = static_cast<const T*>(copies.back().const_data_ptr());
  }
  return copies;
}

// Halving alone does not help where a row of the output spans too much of an input: each of the rows, and there may be
// billions, would become a part. Such a part is only made small enough for copies of its inputs.
template <class T, size_t kInputs, class Op>
void launch_in_parts(const Tensor& out, const Walk<kInputs>& whole, const Pointers<T, kInputs>& pointers, int64_t n,
                     const Op& op, cudaStream_t stream) {
  const auto is_part = [](const auto& walk, int64_t n) {
    return n < kMaxPart &&
           (all_within_reach(walk, walk.dims) || (n <= kMaxCopied && !all_within_reach(walk, walk.dims - 1)));
  };
  for_each_part(whole, pointers, n, is_part, [&](Walk<kInputs> walk, Pointers<T, kInputs> p, int64_t n) {
    const std::vector<Tensor> copies = copy_what_is_out_of_reach(out, walk, p, n, stream);
    launch_strided(walk, p, n, op, stream);
  });
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
    else
      launch_in_parts(out, walk, p, n, op, stream);
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
