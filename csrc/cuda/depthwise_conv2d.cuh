// What the CUDA kernels of depthwise_conv2d share: the sum that they compute, and the way of images into shared memory.
//
// Forward and grad_input are one sum, a correlation of each plane with the taps of its channel,
//   out[o] = bias + sum_k w[k] in[(o * down - pad + k * dilation) / up],  where up divides that, and a pixel is there;
// grad_input exchanges up and down and flips the taps. grad_weight has the image in the place of `in`, the gradient in
// the place of the taps, and sums over the batch.
#pragma once

#include <numeric>

#include "../depthwise_conv2d.h"
#include "pointwise.cuh"

namespace customops::cuda::depthwise {

constexpr int kWarp = 32;
constexpr int64_t kMost = std::numeric_limits<int32_t>::max() / 4;  // so that sums of a few don't overflow

struct Line {
  int64_t in, out, taps, up, down, pad, dilation;
};

struct Correlation {
  int64_t batch, channels;
  Line y, x;
  bool channels_last, flipped;
  const void *in, *weight, *bias;  // bias: null for none
  void* out;
};

inline bool small(const Line& a) {
  return std::max({a.in * a.up, a.out * a.down, a.taps * a.dilation, a.up, a.down, std::abs(a.pad)}) < kMost;
}

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

// How `taps` taps lie over outputs from a multiple of up on, where pad = (taps - 1) / 2 modulo up. All is constant, and
// so is which tap meets which pixel.
template <int up, int down, int taps>
struct Reach {
  static constexpr int kUp = up, kDown = down, kTaps = taps, kSame = (taps - 1) / 2;
  static constexpr int kPhase = kSame % up;

  // Input pixels under the windows of n outputs.
  __host__ __device__ static constexpr int span(int n) { return (taps - 1 - kPhase + (n - 1) * down) / up + 1; }
  // The tap by which pixel i of these counts for output o, or -1.
  __host__ __device__ static constexpr int tap(int i, int o) {
    const int k = i * up + kPhase - o * down;
    return k < taps ? k : -1;
  }
};

// A pixel's elements as far as one access takes them: 4, 2 or 1, whatever divides the rows and the base.
template <class T>
int row_vector(const void* base, int64_t width, int64_t also = 0) {
  for (int v = 4; v > 1; v /= 2)
    if (width % v == 0 && also % v == 0 && reinterpret_cast<uintptr_t>(base) % (v * sizeof(T)) == 0) return v;
  return 1;
}

// Lanes that take a row together: a power of two, at most a warp, at least the row's vectors where those are fewer.
inline int row_lanes(int64_t vectors) {
  int log = 0;
  while (log < 5 && (1 << log) < vectors) ++log;
  return log;
}

// Copies that need no registers on their way, from sm_80 on; done at wait_copies, in the issuing thread's eyes.
template <int bytes>
__device__ void copy_async(void* shared, const void* global) {
  static_assert(bytes == 2 || bytes == 4 || bytes == 8 || bytes == 16);
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  if constexpr (bytes >= 4) {
    const unsigned to = unsigned(__cvta_generic_to_shared(shared));
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(global), "n"(bytes) : "memory");
    return;
  }
#endif
  using Bits = std::conditional_t<bytes == 16, uint4,
                                  std::conditional_t<bytes == 8, uint2, std::conditional_t<bytes == 4, uint32_t, uint16_t>>>;
  *static_cast<Bits*>(shared) = *static_cast<const Bits*>(global);
}

__device__ inline void wait_copies() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

// The part of some planes that a block has in shared memory: `rows` rows of `pitch` elements a plane; element (0, 0) is
// the pixel (y0, x0), which may lie outside, as may others.
template <class T>
struct Patch {
  T* at;
  int pitch, y0, x0, columns;
  Divider<uint32_t> rows;  // of a plane
};

// Elements of Patch outside the image along x have to be zero before; rows outside too, unless `zero_rows`.
template <int vector, class T>
__device__ void load_patch(const Patch<T>& to, const T* from, int planes, int64_t plane_stride, int h, int w,
                           int lanes_log, bool zero_rows) {
  const int lo = max(to.x0, 0), hi = min(to.x0 + to.columns, w);
  const int lane = threadIdx.x & ((1 << lanes_log) - 1);
  const int all = planes * int(to.rows.divisor);
  for (int r = threadIdx.x >> lanes_log; r < all; r += blockDim.x >> lanes_log) {
    uint32_t plane = r;
    const int y = to.y0 + int(to.rows.split(plane));
    T* const row = to.at + int64_t(r) * to.pitch + (lo - to.x0);
    if (unsigned(y) < unsigned(h)) {
      const T* const source = from + plane * plane_stride + int64_t(y) * w + lo;
      for (int c = lane * vector; c < hi - lo; c += vector << lanes_log)
        copy_async<vector * sizeof(T)>(row + c, source + c);
    } else if (zero_rows) {
      for (int c = lane; c < hi - lo; c += 1 << lanes_log) row[c] = narrow<T>(0);
    }
  }
}

template <class T>
__device__ void load_patch(const Patch<T>& to, const T* from, int planes, int64_t plane_stride, int h, int w, int vector,
                           int lanes_log, bool zero_rows = false) {
  if (vector == 4)
    load_patch<4>(to, from, planes, plane_stride, h, w, lanes_log, zero_rows);
  else if (vector == 2)
    load_patch<2>(to, from, planes, plane_stride, h, w, lanes_log, zero_rows);
  else
    load_patch<1>(to, from, planes, plane_stride, h, w, lanes_log, zero_rows);
}

// All threads of the block; bytes is a multiple of 16.
__device__ inline void clear(void* shared, int bytes) {
  for (int i = threadIdx.x; i < bytes / 16; i += blockDim.x) static_cast<uint4*>(shared)[i] = uint4{};
}

// Adds row i of a thread's window, kX outputs wide and `lanes` channels deep, to the sums of its kY rows of outputs.
template <class R, int kX, int kY, int lanes, int width, class A>
__device__ void add_row(int i, const A (&taps)[R::kTaps * R::kTaps][lanes], const A (&row)[width][lanes], int shift,
                        A (&sum)[kY][kX][lanes]) {
#pragma unroll
  for (int y = 0; y < kY; ++y)
    if (const int ky = R::tap(i, y); ky >= 0)
#pragma unroll
      for (int x = 0; x < kX; ++x)
#pragma unroll
        for (int j = 0; j < R::span(kX); ++j)
          if (const int kx = R::tap(j, x); kx >= 0)
#pragma unroll
            for (int v = 0; v < lanes; ++v) sum[y][x][v] += taps[ky * R::kTaps + kx][v] * row[j + shift][v];
}

// The other way round: adds products of row i with the gradient to the sums of the taps.
template <class R, int kX, int kY, int lanes, int width, class A>
__device__ void add_taps(int i, const A (&grad)[kY][kX][lanes], const A (&row)[width][lanes], int shift,
                         A (&sum)[R::kTaps * R::kTaps][lanes]) {
#pragma unroll
  for (int y = 0; y < kY; ++y)
    if (const int ky = R::tap(i, y); ky >= 0)
#pragma unroll
      for (int x = 0; x < kX; ++x)
#pragma unroll
        for (int j = 0; j < R::span(kX); ++j)
          if (const int kx = R::tap(j, x); kx >= 0)
#pragma unroll
            for (int v = 0; v < lanes; ++v) sum[ky * R::kTaps + kx][v] += grad[y][x][v] * row[j + shift][v];
}

// Lets a block have more shared memory than it gets without asking; false where the GPU has less.
template <class Kernel>
bool allow_shared(Kernel kernel, int64_t bytes) {
  if (bytes <= 48 << 10) return true;
  int device = 0, most = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  return bytes <= most && cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(bytes)) ==
                              cudaSuccess;
}

// grad_weight goes through partial sums, one a split of the batch, added up in their order: the result does not depend
// on which block comes first.
struct WeightGradient {
  int64_t batch, channels;
  Line y, x;  // of the forward pass
  bool channels_last;
  Tensor in, grad, out;

  int64_t taps() const { return y.taps * x.taps; }
};

constexpr int64_t kWantedBlocks = 2048;  // enough for every GPU; fixed, so that results depend on shapes alone

// Memory for the partial sums: (splits, channels, taps) of acc_t<T>.
template <class T>
Tensor partial_sums(const WeightGradient& p, int64_t splits) {
  const int64_t n = splits * p.channels * p.taps() * int64_t(sizeof(acc_t<T>) / sizeof(T)), one = 1;
  return empty_strided(p.in, {&n, 1}, {&one, 1});
}

template <class T>
__global__ void __launch_bounds__(kThreads) add_splits(const acc_t<T>* partial, T* out, int64_t n, int splits) {
  const int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= n) return;
  acc_t<T> sum = 0;
#pragma unroll 8
  for (int s = 0; s < splits; ++s) sum += partial[s * n + i];
  out[i] = narrow<T>(sum);
}

template <class T>
void launch_add_splits(const WeightGradient& p, const Tensor& partial, int64_t splits, cudaStream_t stream) {
  const int64_t n = p.channels * p.taps();
  add_splits<T><<<blocks(n, kThreads), kThreads, 0, stream>>>(static_cast<const acc_t<T>*>(partial.data_ptr()),
                                                              static_cast<T*>(p.out.data_ptr()), n, int(splits));
}

// Each returns false where it has no kernel for the case. channels_last for `pixels`, the others take planes.
bool launch_planes(const Correlation& p, ScalarType dtype, cudaStream_t stream);
bool launch_pixels(const Correlation& p, ScalarType dtype, cudaStream_t stream);
bool launch_large(const Correlation& p, ScalarType dtype, cudaStream_t stream);
bool launch_large_grad_weight(const WeightGradient& p, cudaStream_t stream);
bool launch_mma(const Correlation& p, ScalarType dtype, cudaStream_t stream);

// Copies an image into another memory format.
void copy_image(const char* op, const Tensor& from, Tensor& to);
Tensor in_planes(const char* op, const Tensor& image);

}  // namespace customops::cuda::depthwise
