// The kernels of upfirdn2d; upfirdn2d.cu chooses one.
//
//   tiled    contiguous images, the common factors and filters: a tile of the input in shared memory;
//   pixels   channels_last images, the same factors and filters: neighbouring threads take neighbouring channels, and
//            the L1 cache serves the pixels that windows share;
//   general  everything else, an output a thread.
// In the first two a thread computes kX by kY outputs in registers. It walks down the rows of its window and adds each
// row to all the outputs whose windows it is in, so that every value is read and widened once; a separable filter is
// applied along x to the row, and along y to the result. As factors and taps are constants, so is the tap for each
// pixel and output.
#pragma once

#include "../upfirdn2d.h"
#include "pointwise.cuh"

namespace customops::cuda {

constexpr int kWarp = 32;

// For outputs from a multiple of up, with padding that up divides: then the windows of every tile look alike.
template <int up, int down, int taps, bool separable>
struct Common {
  static constexpr int kUp = up, kDown = down, kTaps = taps;
  static constexpr bool kSeparable = separable;
  static constexpr int kAllTaps = separable ? 2 * taps : taps * taps;  // separable: along x, then along y
  static constexpr int kTapsX = separable ? taps : taps * taps;        // those that a thread keeps in registers

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
struct TileParams {
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

// A row of a thread's window, filtered along x: kX outputs wide, `lanes` channels deep.
template <class C, int kX, int lanes, int width, class A, class Taps>
__device__ void filter_along_x(const Taps& taps, const A (&row)[width][lanes], A (&along)[kX][lanes]) {
#pragma unroll
  for (int x = 0; x < kX; ++x)
#pragma unroll
    for (int j = 0; j < width; ++j)
      if (const int k = C::tap(j, x); k >= 0)
#pragma unroll
        for (int v = 0; v < lanes; ++v) along[x][v] += taps[k] * row[j][v];
}

// Adds row i of a thread's window to the sums of its kY rows of outputs. `taps` along x, or all; `taps_y` along y.
template <class C, int kX, int kY, int lanes, int width, class A, class Taps, class TapsY>
__device__ void add_row(int i, const Taps& taps, const TapsY& taps_y, const A (&row)[width][lanes],
                        A (&sum)[kY][kX][lanes]) {
  if constexpr (C::kSeparable) {
    A along[kX][lanes] = {};
    filter_along_x<C>(taps, row, along);
#pragma unroll
    for (int y = 0; y < kY; ++y)
      if (const int k = C::tap(i, y); k >= 0)
#pragma unroll
        for (int x = 0; x < kX; ++x)
#pragma unroll
          for (int v = 0; v < lanes; ++v) sum[y][x][v] += taps_y[k] * along[x][v];
  } else {
#pragma unroll
    for (int y = 0; y < kY; ++y)
      if (const int k = C::tap(i, y); k >= 0) filter_along_x<C>(taps + k * C::kTaps, row, sum[y]);
  }
}

// A thread takes x by y outputs; a warp has `flight` rows of pixels under way; `blocks` share a multiprocessor.
struct Shape {
  int x, y, warps, flight, blocks;
};

// The fastest of some thirty on an H200. 16-bit dtypes are bound by instructions there: longer vectors spare some.
constexpr Shape shape(bool half, int up, int down, int taps) {
  if (!half) return down > 1 ? Shape{4, 4, 4, 4, 6} : Shape{4, 8, 4, 4, 8};
  if (down > 1) return taps > 4 ? Shape{4, 8, 4, 2, 9} : Shape{4, 4, 8, 2, 6};
  return up > 1 && taps == 4 ? Shape{8, 4, 4, 3, 10} : Shape{8, 8, 4, 3, 6};
}

// A warp takes kWarp * kX by kY outputs; a block keeps the pixels under them as they come, in words of 4 bytes.
template <class T, class C>
struct Tile {
  static constexpr Shape kShape = shape(sizeof(T) == 2, C::kUp, C::kDown, C::kTaps);
  static constexpr int kX = kShape.x, kY = kShape.y, kWarps = kShape.warps, kFlight = kShape.flight;
  static constexpr int kThreads = kWarps * kWarp, kPixels = 4 / sizeof(T);                // in a word
  static constexpr int kStepX = kX * C::kDown / C::kUp, kStepY = kY * C::kDown / C::kUp;  // pixels to the next thread
  static constexpr int kVector = std::min<int>(kAccess / sizeof(T), kStepX);
  static constexpr int kSpan = (C::span(kX) + kPixels - 1 + kVector - 1) / kVector * kVector;  // in whole vectors
  static constexpr int kOutW = kWarp * kX, kOutH = kWarps * kY;
  static constexpr int kInW = ((kWarp - 1) * kStepX + kSpan) / kPixels;  // words
  static constexpr int kInH = (kWarps - 1) * kStepY + C::span(kY);
  // Threads that are 32 bytes apart would use only half of the banks: every other group of 32 words swaps neighbouring
  // vectors.
  static constexpr bool kSwizzled = kStepX * sizeof(T) == 32;
  // The slack keeps five blocks in a multiprocessor instead of six, which is 8 % faster on an H200.
  static constexpr int kPitch = kSwizzled && C::kTaps == 4 ? (kInW + 63) / 64 * 64 : kInW;
  static_assert(kX % C::kUp == 0 && kY % C::kUp == 0, "the windows of a thread start at a multiple of up");
  static_assert(kPixels == 1 || kWarps % 2 == 0, "the rows of a warp in the first phase start alike in a word");

  static __device__ int place(int word) { return kSwizzled ? word ^ ((word >> 3) & 4) : word; }
};

template <class T, class C>
__global__ void __launch_bounds__(Tile<T, C>::kThreads, Tile<T, C>::kShape.blocks)
    tiled(const __grid_constant__ TileParams<T> params) {
  using S = Tile<T, C>;
  constexpr int kPixels = S::kPixels;
  __shared__ alignas(kAccess) uint32_t tile[S::kInH][S::kPitch];
  __shared__ alignas(kAccess) T staged[S::kWarps][S::kOutW];
  __shared__ float shared_taps[C::kAllTaps];
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  uint32_t plane = blockIdx.x;
  const int ox = int(params.tiles_x.divmod(plane)) * S::kOutW, oy = int(params.tiles_y.divmod(plane)) * S::kOutH;
  const int ix = ox / C::kUp * C::kDown - params.shift_x, iy = oy / C::kUp * C::kDown - params.shift_y;
  load_taps<C>(params.filter, params.gain, shared_taps);

  // Rows start anywhere. A row of 16-bit pixels is read from the word in which it starts, and shifted only when it is
  // used: `odd_row(r)` says by how many pixels.
  const T* const corner = params.in + (int64_t(plane) * params.in_h + iy) * params.in_w + ix;  // may lie outside
  const unsigned start = unsigned(reinterpret_cast<uintptr_t>(corner) / sizeof(T));
  const auto odd_row = [&](int r) { return int((start + unsigned(r) * unsigned(params.in_w)) % kPixels); };
  constexpr int kColumns = (S::kInW + kWarp - 1) / kWarp;
  const int odd = odd_row(warp);  // and of every row that this warp reads
#pragma unroll 1
  for (int top = warp; top < S::kInH; top += S::kWarps * S::kFlight) {
    uint32_t value[S::kFlight][kColumns];
#pragma unroll
    for (int f = 0; f < S::kFlight; ++f) {
      const int r = top + f * S::kWarps;
      const bool inside = r < S::kInH && unsigned(iy + r) < unsigned(params.in_h);
      const uint32_t* const row = reinterpret_cast<const uint32_t*>(corner + int64_t(r) * params.in_w - odd);
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        const int word = c * kWarp + lane, column = ix + word * kPixels - odd;
        const bool first = unsigned(column) < unsigned(params.in_w),
                   second = unsigned(column + 1) < unsigned(params.in_w);
        const bool any = inside && word < S::kInW && (kPixels == 1 ? first : first || second);
        value[f][c] = any ? row[word] : 0;
        if (kPixels > 1 && !first) value[f][c] &= 0xffff0000u;
        if (kPixels > 1 && !second) value[f][c] &= 0x0000ffffu;
      }
    }
#pragma unroll
    for (int f = 0; f < S::kFlight; ++f)
#pragma unroll
      for (int c = 0; c < kColumns; ++c)
        if (const int r = top + f * S::kWarps, word = c * kWarp + lane; r < S::kInH && word < S::kInW)
          tile[r][S::place(word)] = value[f][c];
  }
  __syncthreads();

  const int first = oy + warp * S::kY, rows = min(S::kY, params.out_h - first);
  if (rows <= 0) return;  // the whole warp; nothing below waits for other warps
  float taps[C::kTapsX];
#pragma unroll
  for (int k = 0; k < C::kTapsX; ++k) taps[k] = shared_taps[k];
  float sum[S::kY][S::kX][1] = {};
#pragma unroll
  for (int i = 0; i < C::span(S::kY); ++i) {
    constexpr int kWords = S::kVector / kPixels;
    const int r = warp * S::kStepY + i;
    uint32_t words[S::kSpan / kPixels + 1] = {};
#pragma unroll
    for (int j = 0; j < S::kSpan / S::kVector; ++j) {
      const int at = S::place(lane * (S::kStepX / kPixels) + j * kWords);
      const auto vector = *reinterpret_cast<const Bits<4 * kWords>*>(&tile[r][at]);
#pragma unroll
      for (int v = 0; v < kWords; ++v) words[j * kWords + v] = reinterpret_cast<const uint32_t*>(&vector)[v];
    }
    float row[C::span(S::kX)][1];
    if constexpr (kPixels == 1) {
#pragma unroll
      for (int j = 0; j < C::span(S::kX); ++j) row[j][0] = __uint_as_float(words[j]);
    } else {
      const int shift = odd_row(r) * 16;
#pragma unroll
      for (int j = 0; j < C::span(S::kX); ++j) {
        const uint32_t pair = __funnelshift_r(words[j / 2], words[j / 2 + 1], shift);
        row[j][0] = widen(T(uint16_t(pair >> j % 2 * 16), T::from_bits()));
      }
    }
    add_row<C>(i, taps, shared_taps + C::kTaps, row, sum);
  }

  T* const out = params.out + (int64_t(plane) * params.out_h + first) * params.out_w + ox;
  const int width = params.out_w - ox;
#pragma unroll
  for (int y = 0; y < S::kY; ++y) {
    if (y >= rows) break;
    using V = Vector<T, S::kX>;
    V vector;
#pragma unroll
    for (int x = 0; x < S::kX; ++x) vector.at[x] = narrow<T>(sum[y][x][0]);
    T* const to = out + int64_t(y) * params.out_w;
    if (params.whole) {
      if (lane * S::kX < width) *reinterpret_cast<V*>(to + lane * S::kX) = vector;
    } else {  // through shared memory, so that neighbouring threads write neighbouring pixels
      *reinterpret_cast<V*>(&staged[warp][lane * S::kX]) = vector;
      __syncwarp();
#pragma unroll
      for (int x = 0; x < S::kX; ++x)
        if (const int column = x * kWarp + lane; column < width) to[column] = staged[warp][column];
      __syncwarp();
    }
  }
}

template <class T, class C>
struct Patch {
  static constexpr int kX = 2, kY = C::kSeparable ? 8 : 4;
  static constexpr int kVector = kAccess / sizeof(acc_t<T>);  // channels of a thread
};

template <class T, class C>
__global__ void __launch_bounds__(kThreads) pixels(const __grid_constant__ TileParams<T> params) {
  using S = Patch<T, C>;
  using A = acc_t<T>;
  using V = Vector<T, S::kVector>;
  constexpr int kSpan = C::span(S::kX);
  __shared__ A shared_taps[C::kAllTaps];
  load_taps<C>(params.filter, params.gain, shared_taps);
  __syncthreads();
  uint32_t rest = blockIdx.x * kThreads + threadIdx.x;
  if (rest >= params.threads) return;
  const int channel = int(params.vectors.divmod(rest)) * S::kVector;
  const int ox = int(params.tiles_x.divmod(rest)) * S::kX, oy = int(params.tiles_y.divmod(rest)) * S::kY;
  const int ix = ox / C::kUp * C::kDown - params.shift_x, iy = oy / C::kUp * C::kDown - params.shift_y;
  const T* const image = params.in + int64_t(rest) * params.in_h * params.in_w * params.channels + channel;
  A sum[S::kY][S::kX][S::kVector] = {};
  const auto load_row = [&](int i, A(&row)[kSpan][S::kVector]) {
    const bool inside = unsigned(iy + i) < unsigned(params.in_h);
    const T* const from = image + (int64_t(iy + i) * params.in_w + ix) * params.channels;
#pragma unroll
    for (int j = 0; j < kSpan; ++j) {
      const bool there = inside && unsigned(ix + j) < unsigned(params.in_w);
      V vector;
      if (there) vector = *reinterpret_cast<const V*>(from + int64_t(j) * params.channels);
#pragma unroll
      for (int v = 0; v < S::kVector; ++v) row[j][v] = there ? widen(vector.at[v]) : A(0);
    }
  };
  A taps[C::kTapsX];
#pragma unroll
  for (int k = 0; k < C::kTapsX; ++k) taps[k] = shared_taps[k];
#pragma unroll(C::kSeparable ? 1 : C::span(S::kY))
  for (int i = 0; i < C::span(S::kY); ++i) {
    A row[kSpan][S::kVector];
    load_row(i, row);
    add_row<C>(i, taps, shared_taps + C::kTaps, row, sum);
  }
#pragma unroll
  for (int y = 0; y < S::kY; ++y)
#pragma unroll
    for (int x = 0; x < S::kX; ++x) {
      if (oy + y >= params.out_h || ox + x >= params.out_w) continue;
      V vector;
#pragma unroll
      for (int v = 0; v < S::kVector; ++v) vector.at[v] = narrow<T>(sum[y][x][v]);
      const int64_t pixel = (int64_t(rest) * params.out_h + oy + y) * params.out_w + ox + x;
      *reinterpret_cast<V*>(params.out + pixel * params.channels + channel) = vector;
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
  const Index channel = channels.divmod(rest);
  const auto x = along_x.window(Int(out_w.divmod(rest)));
  const auto y = along_y.window(Int(out_h.divmod(rest)));
  const auto tap = [&](Int k, Int taps, int64_t stride) { return (f.reversed ? taps - 1 - k : k) * stride; };
  A sum = 0;
  Int ky = y.tap;
#pragma unroll 1
  for (Int iy = y.pixel; iy < y.end; ++iy, ky += along_y.up) {
    const int64_t start = (int64_t(rest) * along_y.in + iy) * along_x.in;
    const float* const row = f.separable ? f.data : f.data + tap(ky, along_y.taps, f.stride_y);
    A along = 0;
    Int kx = x.tap;
#pragma unroll(sizeof(Index) == 4 ? 4 : 1)
    for (Int ix = x.pixel; ix < x.end; ++ix, kx += along_x.up) {
      const A factor = f.data == nullptr ? A(1) : A(row[tap(kx, along_x.taps, f.stride_x)]);
      along += factor * widen(in[(start + ix) * int64_t(channels.divisor) + channel]);
    }
    sum += f.separable ? A(f.data[tap(ky, along_y.taps, f.stride_y)]) * along : along;
  }
  out[i] = narrow<T>(sum * gain);
}

}  // namespace customops::cuda
