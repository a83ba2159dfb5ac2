// What the CUDA kernels of depthwise_conv2d share: their arguments, parameters of two dtypes, and the geometry of the
// kernels that are compiled for a number of taps. How they load images into shared memory is in copy_images.cuh, how
// they divide the work in split_batch.cuh.
#pragma once

#include "../elements.cuh"
#include "memory.h"
#include "takes.h"

namespace customops::cuda::depthwise {

constexpr int kWarp = 32;
// A weight or a bias: of the images' dtype, or float32 for 16-bit images, which is rounded to their dtype on reading.
template <class T>
struct Parameters {
  const void* data = nullptr;  // or none
  bool float32 = false;

  __device__ explicit operator bool() const { return data != nullptr; }
  __device__ acc_t<T> operator[](int64_t i) const { return widen(narrowed(i)); }
  __device__ T narrowed(int64_t i) const {
    T value;
    visit([&](const auto& element) { value = element(i); });
    return value;
  }
  // The same without a branch, so that loads of several elements do not wait for each other.
  __device__ acc_t<T> select(int64_t i) const {
    if constexpr (sizeof(T) == 2) {
      const float wide = float32 ? static_cast<const float*>(data)[i] : 0.0f;
      const T narrow_value = float32 ? narrow<T>(wide) : static_cast<const T*>(data)[i];
      return widen(narrow_value);
    } else {
      return widen(static_cast<const T*>(data)[i]);
    }
  }
  // f(element) with the function element(i): for many elements at once, whose loads then don't wait for each other.
  template <class F>
  __device__ void visit(const F& f) const {
    if constexpr (sizeof(T) == 2)
      if (float32) return f([&](int64_t i) { return narrow<T>(static_cast<const float*>(data)[i]); });
    f([&](int64_t i) { return static_cast<const T*>(data)[i]; });
  }
};

struct ForwardProblem : Problem {
  const void *weight, *bias;  // bias: null for none
  bool float32_bias;          // as float32_weight
  const void* in;
  void* out;
};
template <class T>
Parameters<T> weight_of(const ForwardProblem& problem) {
  return {problem.weight, problem.float32_weight};
}
template <class T>
Parameters<T> bias_of(const ForwardProblem& problem) {
  return {problem.bias, problem.float32_bias};
}

// How `taps` taps lie over outputs from a multiple of up on, where pad = (taps - 1) / 2 modulo up. All is constant, and
// so is which tap meets which pixel.
template <int up, int down, int taps>
struct TapWindow {
  static constexpr int kUp = up, kDown = down, kTaps = taps, kCentre = (taps - 1) / 2;
  static constexpr int kPhase = kCentre % up;

  // Input pixels under the windows of n outputs.
  __host__ __device__ static constexpr int span(int n) { return (taps - 1 - kPhase + (n - 1) * down) / up + 1; }
  // The tap by which pixel i of these counts for output o, or -1.
  __host__ __device__ static constexpr int tap(int i, int o) {
    const int k = i * up + kPhase - o * down;
    return k < taps ? k : -1;
  }
};

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

// The same for wgrad: adds products of row i with the gradient to the sums of the taps.
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

// Wgrad goes through partial sums, one a split of the batch, added up in their order: the result does not depend on
// which block comes first.
struct WgradProblem : Problem {
  const void *in, *grad;
  void* out;  // float32_weight: in that dtype
};

// Sets the members that the parameters of all kernels for certain sizes have in common.
template <class Params>
void set_sizes(const Problem& problem, Params& params) {
  params.in_h = int(problem.y.in), params.in_w = int(problem.x.in);
  params.out_h = int(problem.y.out), params.out_w = int(problem.x.out);
  params.channels = int(problem.channels), params.batch = int(problem.batch);
}
template <class T, class Params>
void set_problem(const ForwardProblem& problem, Params& params) {
  set_sizes(problem, params);
  params.weight = weight_of<T>(problem), params.bias = bias_of<T>(problem);
  params.in = static_cast<const T*>(problem.in), params.out = static_cast<T*>(problem.out);
  params.flipped = problem.flipped;
}
template <class T, class Params>
void set_problem(const WgradProblem& problem, Params& params) {
  set_sizes(problem, params);
  params.in = static_cast<const T*>(problem.in);
  params.grad = static_cast<const T*>(problem.grad);
}

// A launcher does what takes.h says about its kernel.
void launch_fwd_small(const ForwardProblem& problem, cudaStream_t stream);
void launch_fwd_mma(const ForwardProblem& problem, cudaStream_t stream);
void launch_fwd_planes(const ForwardProblem& problem, cudaStream_t stream);
void launch_fwd_large(const ForwardProblem& problem, cudaStream_t stream);
void launch_fwd_pixels(const ForwardProblem& problem, cudaStream_t stream);
void launch_fwd_direct(const ForwardProblem& problem, cudaStream_t stream);
void launch_fwd_channels(const ForwardProblem& problem, cudaStream_t stream);
void launch_fwd_columns(const ForwardProblem& problem, cudaStream_t stream);
void launch_fwd_mma_lines(const ForwardProblem& problem, cudaStream_t stream);
void launch_fwd_mma_pixels(const ForwardProblem& problem, cudaStream_t stream);
void launch_fwd_dense_rows(const ForwardProblem& problem, cudaStream_t stream);
void launch_fwd_rows(const ForwardProblem& problem, cudaStream_t stream);
void launch_fwd_runs(const ForwardProblem& problem, cudaStream_t stream);
void launch_fwd_whole_planes(const ForwardProblem& problem, cudaStream_t stream);
void launch_fwd_scale(const ForwardProblem& problem, cudaStream_t stream);
void launch_fwd_simple(const ForwardProblem& problem, cudaStream_t stream);
void launch_fwd_sliding(const ForwardProblem& problem, cudaStream_t stream);
void launch_wgrad_small(const WgradProblem& problem, cudaStream_t stream);
void launch_wgrad_mma_planes(const WgradProblem& problem, cudaStream_t stream);
void launch_wgrad_mma_pixels(const WgradProblem& problem, cudaStream_t stream);
void launch_wgrad_mma_windows(const WgradProblem& problem, cudaStream_t stream);
void launch_wgrad_mma_lines(const WgradProblem& problem, cudaStream_t stream);
void launch_wgrad_planes(const WgradProblem& problem, cudaStream_t stream);
void launch_wgrad_whole_planes(const WgradProblem& problem, cudaStream_t stream);
void launch_wgrad_pixels(const WgradProblem& problem, cudaStream_t stream);
void launch_wgrad_direct(const WgradProblem& problem, cudaStream_t stream);
void launch_wgrad_large(const WgradProblem& problem, cudaStream_t stream);
void launch_wgrad_rows(const WgradProblem& problem, cudaStream_t stream);
void launch_wgrad_correlation(const WgradProblem& problem, cudaStream_t stream);
void launch_wgrad_points(const WgradProblem& problem, cudaStream_t stream);
void launch_wgrad_scale(const WgradProblem& problem, cudaStream_t stream);
void launch_wgrad_sliding(const WgradProblem& problem, cudaStream_t stream);

// In ../depthwise_conv2d.cu, which has torch's headers: errors of launchers, where they find that choose.h was wrong,
// or a problem too large for any kernel.
[[noreturn]] void fail_choice(Kernel kernel);
[[noreturn]] void fail_size(const WgradProblem& problem);

// Also there. The capability is that of the code that was loaded: below 80 the kernels for tensor cores
// are empty, also where a newer GPU compiles such a PTX.
Gpu current_gpu();

// f(T()) for the dtypes of the kernels for certain sizes: all but float64.
template <class F>
void dispatch_float(Kernel kernel, Dtype dtype, const F& f) {
  dispatch(dtype, [&](auto zero) {
    if constexpr (std::is_same_v<decltype(zero), double>)
      fail_choice(kernel);
    else
      f(zero);
  });
}
// f(std::integral_constant<int, taps>()) for the taps that kernels are compiled for.
template <class F>
void dispatch_taps(Kernel kernel, int64_t taps, const F& f) {
  switch (taps) {
    case 3: return f(std::integral_constant<int, 3>());
    case 5: return f(std::integral_constant<int, 5>());
    case 7: return f(std::integral_constant<int, 7>());
    default: fail_choice(kernel);
  }
}
template <class F>
void dispatch_16_bit(Kernel kernel, Dtype dtype, const F& f) {
  if (dtype == Dtype::kFloat16) return f(c10::Half());
  if (dtype == Dtype::kBFloat16) return f(c10::BFloat16());
  fail_choice(kernel);
}

}  // namespace customops::cuda::depthwise
