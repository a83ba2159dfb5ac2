// What the kernels of the weight's gradient on tensor cores share. wgrad_mma_windows and wgrad_mma_lines take from here
// how they write sums; the rest is for wgrad_mma_planes and wgrad_mma_pixels: float16 and bfloat16 images, 5x5 and 7x7
// taps at stride 1, 7x7 at stride 2.
//
// For one channel and one row of taps, 16 rows of the image, transposed, times the same rows of the gradient, is a
// matrix with the product of every column of the image and every column of the gradient, summed over the rows. Its
// diagonals belong to the taps of that row. Eight columns of the gradient meet 16 of the image at stride 1, 32 at
// stride 2; all such products of a channel, of all images, add to the same matrix, so that diagonals are added up only
// once, in the end. The rows of the image stay in registers, those of the gradient are shifted for each row of taps; at
// stride 2, even and odd rows of the image take turns.
//
// Zeros times infinity are NaN: where a sum is not finite, it is computed again, without what lies outside the images.
#pragma once

#include "../matrices.cuh"
#include "copy_images.cuh"
#include "split_batch.cuh"

namespace customops::cuda::depthwise {

constexpr int kColumns = 8, kRows = 16;
// Products of matrices that one sum takes at most, 16 elements each. Tensor cores round every one towards zero: of
// numbers of one sign, so many lose 1e-4 of their sum (measured on an H200).
constexpr int kMaxSteps = 1024;

template <class T>
struct WgradMmaParams {
  const T *in, *grad;
  WgradResult<T> result;
  int in_h, in_w, out_h, out_w, pad_h, pad_w, shift;
  int top, left, grad_top;  // rows and columns before the images' first, in shared memory
  int pitch, grad_pitch;    // elements
  int rows, grad_rows, steps, channels, batch, images_a_split, stages;
  int grad_at, stage_bytes, bytes;
};

// In shared memory, row r of the image and row k of the taps meet row r / kDown - k / kDown + kShifts - 1 of the
// gradient, if kDown divides r - k.
template <int down, int taps>
struct WgradMmaTile {
  static constexpr int kDown = down, kTaps = taps;
  static constexpr int kLoads = ((taps + down - 1) / down + 1) / 2;  // of the gradient, with two shifts each
  static constexpr int kShifts = 2 * kLoads;
  static constexpr int kGroups = 2 * down;  // columns of the image under eight of the gradient, by eight
  static constexpr int kLines = taps * kGroups * kColumns;
  static_assert(7 * down + taps <= kGroups * kColumns);
};

// Where a lane reads its rows of the matrices, in elements from the first row and column of a patch.
template <class S>
struct LaneOffsets {
  int lane = threadIdx.x % kWarp;
  int in_row = S::kDown == 1 ? lane / 16 * 8 + lane % 8 : lane % 8 * 2;
  int in_column = (S::kDown == 1 ? lane / 8 % 2 : lane / 8) * kColumns;
  int grad_row = S::kShifts - 1 + lane % 16 - lane / 16;
};

// Adds the products of kRows rows of the image and eight columns of the gradient.
template <class T, class S>
__device__ void add_products(unsigned from, unsigned grads, int pitch, int grad_pitch,
                             float (&sum)[S::kTaps][S::kDown][4]) {
  uint32_t a[S::kDown][S::kDown][4], b[S::kLoads][4];  // a: of even and odd rows, for each 16 columns
#pragma unroll
  for (int i = 0; i < S::kDown; ++i) {
    const unsigned row = from + i * pitch * unsigned(sizeof(T));
    if constexpr (S::kDown == 1) {
      load_matrices<true>(a[i][0], row);
    } else {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        uint32_t four[4];
        load_matrices<true>(four, row + half * 16 * pitch * unsigned(sizeof(T)));
#pragma unroll
        for (int j = 0; j < 4; ++j) a[i][j / 2][half * 2 + j % 2] = four[j];
      }
    }
  }
#pragma unroll
  for (int i = 0; i < S::kLoads; ++i) load_matrices<true>(b[i], grads - i * 2 * grad_pitch * unsigned(sizeof(T)));
#pragma unroll
  for (int k = 0; k < S::kTaps; ++k)
#pragma unroll
    for (int j = 0; j < S::kDown; ++j)
      multiply_16<T>(sum[k][j], a[k % S::kDown][j], b[k / S::kDown / 2] + k / S::kDown % 2 * 2);
}

constexpr int kLinePitch = kColumns + 1;  // odd: no two lanes in one bank

// Adds up the diagonals of a warp's products into `to`, by way of kLines lines of its own in shared memory.
template <class S>
__device__ void add_diagonals(const float (&sum)[S::kTaps][S::kDown][4], int shift, float* lines, float* to) {
  constexpr int kAll = S::kTaps * S::kTaps, kTapLines = S::kLines / S::kTaps;
  const int lane = threadIdx.x % kWarp;
#pragma unroll
  for (int k = 0; k < S::kTaps; ++k)
#pragma unroll
    for (int j = 0; j < S::kDown; ++j)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        lines[(k * kTapLines + j * 16 + i / 2 * 8 + lane / 4) * kLinePitch + lane % 4 * 2 + i % 2] = sum[k][j][i];
  __syncwarp();
  for (int k = lane; k < kAll; k += kWarp) {
    const float* const from = lines + (k / S::kTaps * kTapLines + k % S::kTaps + shift) * kLinePitch;
    float total = 0;
#pragma unroll
    for (int x = 0; x < kColumns; ++x) total += from[x * (S::kDown * kLinePitch + 1)];
    to[k] = total;
  }
  __syncwarp();
}

// The sum of tap k over columns x0 to x1 of the gradient and rows y0 to y1 of the image, by a warp: slow, and exact
// where there are infinities. `in` and `grad` are a channel's; `pixel` elements from one pixel to the next.
template <class T, class S>
__device__ float tap_by_tap(const WgradMmaParams<T>& params, const T* in, const T* grad, int pixel, int k, int x0,
                            int x1, int y0, int y1) {
  const int begin = int(blockIdx.y) * params.images_a_split, end = min(params.batch, begin + params.images_a_split);
  const int64_t in_image = int64_t(params.channels) * params.in_h * params.in_w,
                out_image = int64_t(params.channels) * params.out_h * params.out_w;
  const int ky = k / S::kTaps, kx = k % S::kTaps, width = x1 - x0;
  float total = 0;
  for (int n = begin; n < end; ++n) {
    for (int o = threadIdx.x % kWarp; o < params.out_h * width; o += kWarp) {
      const int oy = o / width, ox = x0 + o % width, iy = oy * S::kDown + ky - params.pad_h,
                ix = ox * S::kDown + kx - params.pad_w;
      if (iy >= y0 && iy < y1 && ix >= 0 && ix < params.in_w)
        total += widen(grad[n * out_image + int64_t(oy * params.out_w + ox) * pixel]) *
                 widen(in[n * in_image + int64_t(iy * params.in_w + ix) * pixel]);
    }
    if (__any_sync(0xffffffff, isnan(total))) return NAN;  // and stays it
  }
  for (int other = kWarp / 2; other > 0; other /= 2) total += __shfl_xor_sync(0xffffffff, total, other);
  return total;
}

// A block writes n sums, write(i, sum): total(i), or where that is not finite again(i), which a whole warp computes.
template <class Total, class Again, class Write>
__device__ void write_sums(int n, const Total& total, const Again& again, const Write& write) {
  const int lane = threadIdx.x % kWarp;
  for (int first = threadIdx.x - lane; first < n; first += blockDim.x) {
    const int i = first + lane;
    const float sum = i < n ? total(i) : 0.0f;
    if (i < n) write(i, sum);
    for (unsigned wrong = __ballot_sync(0xffffffff, !isfinite(sum)); wrong != 0; wrong &= wrong - 1) {
      const int at = first + __ffs(wrong) - 1;
      const float right = again(at);
      if (at == i) write(i, right);
    }
  }
}

// The image starts at a multiple of `vector` columns.
template <class S, class T>
void set_images(const WgradProblem& problem, int64_t vector, WgradMmaParams<T>& params) {
  set_problem<T>(problem, params);
  params.pad_h = int(problem.y.pad), params.pad_w = int(problem.x.pad);
  params.left = int(round_up(problem.x.pad, vector)), params.shift = params.left - params.pad_w;
  params.top = int(problem.y.pad % S::kDown), params.grad_top = int(S::kShifts - 1 - problem.y.pad / S::kDown);
}

// A patch has `times` * kRows rows of the gradient, and `steps` * 8 of its columns.
template <class S, class T>
void set_patch(int64_t times, WgradMmaParams<T>& params) {
  const int groups = params.steps * S::kDown + S::kGroups - S::kDown;
  params.pitch = (groups | 1) * kColumns,
  params.grad_pitch = (params.steps | 1) * kColumns;  // no two rows of a matrix in one bank
  params.rows = int(times) * kRows * S::kDown, params.grad_rows = int(times) * kRows + S::kShifts - 1;
}

template <class S, class T>
int64_t patch_rows(const WgradMmaParams<T>& params) {
  return ceil_div(params.in_h + params.top, kRows * S::kDown);
}

template <class S>
constexpr int64_t sums_bytes(int64_t planes, int64_t warps) {
  return round_up((planes * S::kTaps * S::kTaps + warps * S::kLines * kLinePitch) * sizeof(float), kAccess);
}

// So many images of a split keep its sums at kMaxSteps; 0 where one has more, or splits would be more than a grid has.
inline int64_t max_images(const WgradProblem& problem, int64_t steps_an_image) {
  const int64_t images = kMaxSteps / steps_an_image;
  return images > 0 && ceil_div(problem.batch, images) <= 65535 ? images : 0;
}

// launch(T(), WgradMmaTile()) for the problem's dtype, taps and stride.
template <class Launch>
void dispatch_tile(Kernel kernel, const WgradProblem& problem, const Launch& launch) {
  dispatch_16_bit(kernel, problem.dtype, [&](auto zero) {
    if (problem.x.taps == 5) return launch(zero, WgradMmaTile<1, 5>());
    if (problem.x.down == 1) return launch(zero, WgradMmaTile<1, 7>());
    launch(zero, WgradMmaTile<2, 7>());
  });
}

}  // namespace customops::cuda::depthwise
