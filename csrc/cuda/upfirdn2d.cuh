// The kernels of upfirdn2d; upfirdn2d.cu chooses one.
//
//   tiled    contiguous images, the common factors and filters: a tile of the input in shared memory;
//   pixels   channels_last images, the same factors and filters: neighbouring threads take neighbouring channels, and
//            the L1 cache serves the pixels that windows share;
//   general  everything else, an output a thread.
// In the first two a thread computes kX by kY outputs in registers. It walks down the rows of its window and adds each
// to all the outputs that it concerns, so that every value is read and widened once; a separable filter is applied
// along x to the row, and along y to the result. As factors and taps are constants, so is which tap meets which pixel.
#pragma once

#include "../upfirdn2d.h"
#include "pointwise.cuh"

namespace customops::cuda {

constexpr int kWarp = 32;
constexpr int64_t kSharedBytes = 48 << 10;  // what a block gets without asking

template <int bytes>
using BitsOf = std::conditional_t<bytes == 8, uint64_t, std::conditional_t<bytes == 4, uint32_t, uint16_t>>;

// For outputs from a multiple of up, with padding that up divides: then the windows of every tile look alike.
template <int up, int down, int taps, bool separable>
struct Common {
  static constexpr int kUp = up, kDown = down, kTaps = taps;
  static constexpr bool kSeparable = separable;
  static constexpr int kAllTaps = separable ? 2 * taps : taps * taps;  // separable: along x, then along y

  // Input pixels under the windows of n outputs; the first lies under the first window.
  __host__ __device__ static constexpr int span(int n) {
    const int last = (n - 1) * down, first_of_last = (last + up - 1) / up;
    return first_of_last + (taps - 1 - (first_of_last * up - last)) / up + 1;
  }
  // The tap by which input pixel i counts for output o, or less than 0.
  __host__ __device__ static constexpr int tap(int i, int o) {
    const int k = i * up - o * down;
    return k < taps ? k : -1;
  }
};

template <class T>
struct ImagesOf {
  const T* in;
  T* out;
  int in_w, in_h, out_w, out_h, channels;
  int shift_x, shift_y;  // input pixels by which the padding moves the windows to the left
  bool whole;            // every vector of outputs is aligned, and not cut by the right edge
  Divider<uint32_t> tiles_x, tiles_y, vectors;
  uint32_t threads;
  Filter filter;
  acc_t<T> gain;
};

// Taps in the order of pixels, with the gain in them. All threads of the block take part.
template <class C, class A>
__device__ void load_taps(const Filter& f, A gain, A* taps) {
  for (int i = threadIdx.x; i < C::kAllTaps; i += blockDim.x) {
    const int kx = i % C::kTaps, ky = i / C::kTaps;
    const int x = f.reversed ? C::kTaps - 1 - kx : kx, y = f.reversed ? C::kTaps - 1 - ky : ky;
    if (C::kSeparable)
      taps[i] = A(f.data[x * f.stride_x]) * (ky == 0 ? A(1) : gain);
    else
      taps[i] = A(f.data[x * f.stride_x + y * f.stride_y]) * gain;
  }
}

// Adds row i of a thread's window, kX outputs wide and `lanes` channels deep, to the sums of its kY rows of outputs.
template <class C, int kX, int kY, int lanes, int width, class A>
__device__ void add_row(int i, const A (&taps)[C::kAllTaps], const A (&row)[width][lanes], A (&sum)[kY][kX][lanes]) {
  if constexpr (C::kSeparable) {
    A along[kX][lanes] = {};
#pragma unroll
    for (int x = 0; x < kX; ++x)
#pragma unroll
      for (int j = 0; j < width; ++j)
        if (const int k = C::tap(j, x); k >= 0)
#pragma unroll
          for (int v = 0; v < lanes; ++v) along[x][v] += taps[k] * row[j][v];
#pragma unroll
    for (int y = 0; y < kY; ++y)
      if (const int k = C::tap(i, y); k >= 0)
#pragma unroll
        for (int x = 0; x < kX; ++x)
#pragma unroll
          for (int v = 0; v < lanes; ++v) sum[y][x][v] += taps[C::kTaps + k] * along[x][v];
  } else {
#pragma unroll
    for (int y = 0; y < kY; ++y)
      if (const int ky = C::tap(i, y); ky >= 0)
#pragma unroll
        for (int x = 0; x < kX; ++x)
#pragma unroll
          for (int j = 0; j < width; ++j)
            if (const int kx = C::tap(j, x); kx >= 0)
#pragma unroll
              for (int v = 0; v < lanes; ++v) sum[y][x][v] += taps[ky * C::kTaps + kx] * row[j][v];
  }
}

// A warp takes kWarp * kX by kY outputs. Threads write 16 bytes at once, or read them, where that is more.
template <class T, class C>
struct Tile {
  static constexpr int kX = std::max<int>(kAccess / sizeof(T) / C::kDown, 1);
  static constexpr int kY = C::kSeparable ? 8 : std::min(8, 32 / kX);
  static constexpr int kWarps = C::kDown > 1 || (C::kSeparable && C::kUp == 1) ? 4 : 8;  // that fit into shared memory
  static constexpr int kThreads = kWarps * kWarp;
  static constexpr int kStepX = kX * C::kDown / C::kUp, kStepY = kY * C::kDown / C::kUp;  // pixels to the next thread
  static constexpr int kVector = std::min<int>(kAccess / sizeof(T), kStepX);
  static constexpr int kSpan = (C::span(kX) + kVector - 1) / kVector * kVector;  // in whole vectors
  static constexpr int kOutW = kWarp * kX, kOutH = kWarps * kY;
  static constexpr int kInW = (kWarp - 1) * kStepX + kSpan, kInH = (kWarps - 1) * kStepY + C::span(kY);
  static_assert(kX % C::kUp == 0 && kY % C::kUp == 0, "the windows of a thread start at a multiple of up");
  static_assert((kInW * kInH + kWarps * kOutW) * sizeof(T) + C::kAllTaps * sizeof(acc_t<T>) <= kSharedBytes);
};

template <class T, class C>
__global__ void __launch_bounds__(Tile<T, C>::kThreads) tiled(const __grid_constant__ ImagesOf<T> p) {
  using S = Tile<T, C>;
  using A = acc_t<T>;
  using Bits = BitsOf<sizeof(T)>;
  __shared__ alignas(kAccess) Bits tile[S::kInH][S::kInW];
  __shared__ alignas(kAccess) Bits staged[S::kWarps][S::kOutW];
  __shared__ A shared_taps[C::kAllTaps];
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  uint32_t plane = blockIdx.x;
  const int ox = int(p.tiles_x.split(plane)) * S::kOutW, oy = int(p.tiles_y.split(plane)) * S::kOutH;
  const int ix = ox / C::kUp * C::kDown - p.shift_x, iy = oy / C::kUp * C::kDown - p.shift_y;
  load_taps<C>(p.filter, p.gain, shared_taps);

  // Neighbouring threads read neighbouring pixels: rows start anywhere, so vectors would have to be shifted.
  const Bits* const image = reinterpret_cast<const Bits*>(p.in) + int64_t(plane) * p.in_h * p.in_w;
  constexpr int kColumns = (S::kInW + kWarp - 1) / kWarp;
  for (int r = warp; r < S::kInH; r += S::kWarps) {
    const bool inside = unsigned(iy + r) < unsigned(p.in_h);
    const Bits* const row = image + int64_t(iy + r) * p.in_w + ix;
    Bits value[kColumns];  // all loads are under way before the first is waited for
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      const int column = c * kWarp + lane;
      value[c] = inside && column < S::kInW && unsigned(ix + column) < unsigned(p.in_w) ? row[column] : Bits(0);
    }
#pragma unroll
    for (int c = 0; c < kColumns; ++c)
      if (c * kWarp + lane < S::kInW) tile[r][c * kWarp + lane] = value[c];
  }
  __syncthreads();

  const int first = oy + warp * S::kY, rows = min(S::kY, p.out_h - first);
  if (rows <= 0) return;  // the whole warp; nothing below waits for other warps
  A taps[C::kAllTaps];
#pragma unroll
  for (int k = 0; k < C::kAllTaps; ++k) taps[k] = shared_taps[k];
  A sum[S::kY][S::kX][1] = {};
#pragma unroll
  for (int i = 0; i < C::span(S::kY); ++i) {
    using V = Vector<T, S::kVector>;
    const V* const from = reinterpret_cast<const V*>(&tile[warp * S::kStepY + i][lane * S::kStepX]);
    A row[S::kSpan][1];
#pragma unroll
    for (int j = 0; j < S::kSpan / S::kVector; ++j) {
      const V vector = from[j];
#pragma unroll
      for (int v = 0; v < S::kVector; ++v) row[j * S::kVector + v][0] = widen(vector.at[v]);
    }
    add_row<C>(i, taps, row, sum);
  }

  T* const out = p.out + (int64_t(plane) * p.out_h + first) * p.out_w + ox;
  const int width = p.out_w - ox;
#pragma unroll
  for (int y = 0; y < S::kY; ++y) {
    if (y >= rows) break;
    using V = Vector<T, S::kX>;
    V vector;
#pragma unroll
    for (int x = 0; x < S::kX; ++x) vector.at[x] = narrow<T>(sum[y][x][0]);
    if (p.whole) {
      if (lane * S::kX < width) *reinterpret_cast<V*>(out + int64_t(y) * p.out_w + lane * S::kX) = vector;
    } else {  // by way of shared memory, so that neighbouring threads write neighbouring pixels
      *reinterpret_cast<V*>(&staged[warp][lane * S::kX]) = vector;
      __syncwarp();
#pragma unroll
      for (int x = 0; x < S::kX; ++x)
        if (const int column = x * kWarp + lane; column < width)
          reinterpret_cast<Bits*>(out)[int64_t(y) * p.out_w + column] = staged[warp][column];
      __syncwarp();
    }
  }
}

template <class T, class C>
struct Patch {
  static constexpr int kX = 2, kY = C::kSeparable && C::kDown == 1 ? 8 : 4;
  static constexpr int kVector = kAccess / sizeof(acc_t<T>);  // channels of a thread
};

template <class T, class C>
__global__ void __launch_bounds__(kThreads) pixels(const __grid_constant__ ImagesOf<T> p) {
  using S = Patch<T, C>;
  using A = acc_t<T>;
  using V = Vector<T, S::kVector>;
  constexpr int kSpan = C::span(S::kX);
  __shared__ A shared_taps[C::kAllTaps];
  load_taps<C>(p.filter, p.gain, shared_taps);
  __syncthreads();
  uint32_t rest = blockIdx.x * kThreads + threadIdx.x;
  if (rest >= p.threads) return;
  const int channel = int(p.vectors.split(rest)) * S::kVector;
  const int ox = int(p.tiles_x.split(rest)) * S::kX, oy = int(p.tiles_y.split(rest)) * S::kY;
  const int ix = ox / C::kUp * C::kDown - p.shift_x, iy = oy / C::kUp * C::kDown - p.shift_y;
  const T* const image = p.in + int64_t(rest) * p.in_h * p.in_w * p.channels + channel;
  A taps[C::kAllTaps];
#pragma unroll
  for (int k = 0; k < C::kAllTaps; ++k) taps[k] = shared_taps[k];
  A sum[S::kY][S::kX][S::kVector] = {};
#pragma unroll
  for (int i = 0; i < C::span(S::kY); ++i) {
    const bool inside = unsigned(iy + i) < unsigned(p.in_h);
    const T* const from = image + (int64_t(iy + i) * p.in_w + ix) * p.channels;
    A row[kSpan][S::kVector];
#pragma unroll
    for (int j = 0; j < kSpan; ++j) {
      const bool there = inside && unsigned(ix + j) < unsigned(p.in_w);
      V vector;
      if (there) vector = *reinterpret_cast<const V*>(from + int64_t(j) * p.channels);
#pragma unroll
      for (int v = 0; v < S::kVector; ++v) row[j][v] = there ? widen(vector.at[v]) : A(0);
    }
    add_row<C>(i, taps, row, sum);
  }
#pragma unroll
  for (int y = 0; y < S::kY; ++y)
#pragma unroll
    for (int x = 0; x < S::kX; ++x) {
      if (oy + y >= p.out_h || ox + x >= p.out_w) continue;
      V vector;
#pragma unroll
      for (int v = 0; v < S::kVector; ++v) vector.at[v] = narrow<T>(sum[y][x][v]);
      const int64_t pixel = (int64_t(rest) * p.out_h + oy + y) * p.out_w + ox + x;
      *reinterpret_cast<V*>(p.out + pixel * p.channels + channel) = vector;
    }
}

// One axis for `general`; Index is unsigned, Int its signed twin.
template <class Int>
struct Steps {
  Int in, up, down, pad, taps;

  explicit Steps(const Axis& a) : in(Int(a.in)), up(Int(a.up)), down(Int(a.down)), pad(Int(a.pad)), taps(Int(a.taps)) {}

  struct Range {
    Int tap, pixel, end;  // the first tap that meets a pixel of the image, its pixel, and the end of the pixels
  };
  __device__ Range window(Int o) const {
    const Int back = pad - o * down;
    Int tap = back % up;
    if (tap < 0) tap += up;
    Int pixel = (tap - back) / up;
    const Int end = pixel + (tap < taps ? (taps - 1 - tap) / up + 1 : 0);
    if (pixel < 0) {
      tap -= pixel * up;
      pixel = 0;
    }
    return {tap, pixel, end < in ? end : in};
  }
};

template <class Index, class T>
__global__ void __launch_bounds__(kThreads)
    general(const T* in, T* out, Index outputs, const __grid_constant__ Steps<std::make_signed_t<Index>> along_x,
            const __grid_constant__ Steps<std::make_signed_t<Index>> along_y, Divider<Index> channels,
            Divider<Index> out_w, Divider<Index> out_h, Filter f, acc_t<T> gain) {
  using A = acc_t<T>;
  using Int = std::make_signed_t<Index>;
  const Index i = Index(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= outputs) return;
  Index rest = i;
  const Index channel = channels.split(rest);
  const auto x = along_x.window(Int(out_w.split(rest)));
  const auto y = along_y.window(Int(out_h.split(rest)));
  const auto tap = [&](Int k, Int taps, int64_t stride) { return (f.reversed ? taps - 1 - k : k) * stride; };
  A sum = 0;
  Int ky = y.tap;
  for (Int iy = y.pixel; iy < y.end; ++iy, ky += along_y.up) {
    const int64_t start = (int64_t(rest) * along_y.in + iy) * along_x.in;
    const float* const row = f.separable ? f.data : f.data + tap(ky, along_y.taps, f.stride_y);
    A along = 0;
    Int kx = x.tap;
    for (Int ix = x.pixel; ix < x.end; ++ix, kx += along_x.up) {
      const A factor = f.data == nullptr ? A(1) : A(row[tap(kx, along_x.taps, f.stride_x)]);
      along += factor * widen(in[(start + ix) * int64_t(channels.divisor) + channel]);
    }
    sum += f.separable ? A(f.data[tap(ky, along_y.taps, f.stride_y)]) * along : along;
  }
  out[i] = narrow<T>(sum * gain);
}

}  // namespace customops::cuda
