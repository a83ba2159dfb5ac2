// What the CUDA kernels of depthwise_conv2d compute. How they bring images into shared memory is in
// depthwise_conv2d_load.cuh, how they share out the work in depthwise_conv2d_split.cuh.
//
// Forward and grad_input are one sum, a correlation of each plane with the taps of its channel,
//   out[o] = bias + sum_k w[k] in[(o * down - pad + k * dilation) / up],  where up divides that, and a pixel is there;
// grad_input exchanges up and down and flips the taps. grad_weight has the image in the place of `in`, the gradient in
// the place of the taps, and sums over the batch.
#pragma once

#include <numeric>

#include "../depthwise_conv2d.h"
#include "pointwise.cuh"

namespace customops::cuda {

// In flatten_copy.cu: fills `out` from an input of its shape and of any strides.
void copy_strided(const char* op, const Tensor& from, Tensor& out);

namespace depthwise {

constexpr int kWarp = 32;
constexpr int64_t kMost = std::numeric_limits<int32_t>::max() / 4;  // so that sums of a few don't overflow

struct Line {
  int64_t in, out, taps, up, down, pad, dilation;
};

// A weight or a bias: of the images' dtype, or float32 for 16-bit images, which is rounded to their dtype on reading.
template <class T>
struct Parameters {
  const void* data = nullptr;  // or none
  bool float32 = false;

  Parameters() = default;
  explicit Parameters(const Tensor* t)
      : data(t ? t->data_ptr() : nullptr), float32(t && t->scalar_type() == ScalarType::Float) {}
  __device__ explicit operator bool() const { return data != nullptr; }
  __device__ acc_t<T> operator[](int64_t i) const { return widen(narrowed(i)); }
  __device__ T narrowed(int64_t i) const {
    T value;
    visit([&](const auto& element) { value = element(i); });
    return value;
  }
  // f(element) with the function element(i): for many elements at once, whose loads then don't wait for each other.
  template <class F>
  __device__ void visit(const F& f) const {
    if constexpr (sizeof(T) == 2)
      if (float32) return f([&](int64_t i) { return narrow<T>(static_cast<const float*>(data)[i]); });
    f([&](int64_t i) { return static_cast<const T*>(data)[i]; });
  }
};

struct Correlation {
  int64_t batch, channels;
  Line y, x;
  bool channels_last, flipped;
  const Tensor *weight, *bias;  // bias: null for none
  const void* in;
  void* out;
};

inline bool small(const Line& a) {
  return std::max({a.in * a.up, a.out * a.down, a.taps * a.dilation, a.up, a.down, std::abs(a.pad)}) < kMost;
}

inline bool stride_1(const Line& a) { return a.up == 1 && a.down == 1 && a.dilation == 1 && small(a); }

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

// Channels that a thread of `pixels` and `grad_pixels`, the kernels for channels_last images, takes.
constexpr int channel_lanes(int64_t taps) { return taps == 3 ? 4 : (taps == 5 ? 2 : 1); }

// Whether channels_last images are copied into planes: large kernels are bound by multiply-adds, so that this is cheap
// beside them.
inline bool worth_transposing(const Line& y, const Line& x) {
  return stride_1(y) && stride_1(x) && y.taps * x.taps > 49;
}

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

inline Tensor in_planes(const char* op, const Tensor& image) {
  Tensor planes = empty_image(image, image.size(0), image.size(1), image.size(2), image.size(3), false);
  copy_strided(op, image, planes);
  return planes;
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

// grad_weight goes through partial sums, one a split of the batch, added up in their order: the result does not depend
// on which block comes first.
struct WeightGradient {
  int64_t batch, channels;
  Line y, x;  // of the forward pass
  bool channels_last;
  Tensor in, grad, out;

  int64_t taps() const { return y.taps * x.taps; }
};

// Each returns false where it has no kernel for the case. `direct` and `pixels` take channels_last,
// `mma_grad_weight` both, the others planes.
bool launch_small(const Correlation& p, ScalarType dtype, cudaStream_t stream);
bool launch_small_grad_weight(const WeightGradient& p, cudaStream_t stream);
bool launch_planes(const Correlation& p, ScalarType dtype, cudaStream_t stream);
bool launch_direct(const Correlation& p, ScalarType dtype, cudaStream_t stream);
bool launch_pixels(const Correlation& p, ScalarType dtype, cudaStream_t stream);
bool launch_large(const Correlation& p, ScalarType dtype, cudaStream_t stream);
bool launch_large_grad_weight(const WeightGradient& p, cudaStream_t stream);
bool launch_direct_grad_weight(const WeightGradient& p, cudaStream_t stream);
bool launch_mma(const Correlation& p, ScalarType dtype, cudaStream_t stream);
bool launch_mma_grad_weight(const WeightGradient& p, cudaStream_t stream);
bool has_tensor_cores();  // that the two can use

}  // namespace depthwise
}  // namespace customops::cuda
