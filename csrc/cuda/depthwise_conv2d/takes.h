// What each CUDA kernel of depthwise_conv2d can compute, and nothing about when it should: choose.h ranks them.
#pragma once

#include "problem.h"

namespace customops::cuda::depthwise {

enum class Kernel {
  kFwdSmall,
  kFwdMma,
  kFwdPlanes,
  kFwdLarge,
  kFwdPixels,
  kFwdDirect,
  kFwdChannels,
  kFwdColumns,
  kFwdMmaLines,
  kFwdMmaPixels,
  kFwdDenseRows,
  kFwdRows,
  kFwdRuns,
  kFwdWholePlanes,
  kFwdScale,
  kFwdSimple,
  kFwdSliding,
  kFwdTorch,
  kFwdCudnn,
  kWgradSmall,
  kWgradMmaPlanes,
  kWgradMmaPixels,
  kWgradMmaWindows,
  kWgradMmaLines,
  kWgradPlanes,
  kWgradWholePlanes,
  kWgradPixels,
  kWgradDirect,
  kWgradLarge,
  kWgradRows,
  kWgradCorrelation,
  kWgradPoints,
  kWgradScale,
  kWgradSliding,
  kWgradTorch,
};
constexpr int kKernels = int(Kernel::kWgradTorch) + 1;

// The name of the file that has the kernel, or of the kernel in it.
inline const char* name_of(Kernel kernel) {
  constexpr const char* kNames[] = {
      "fwd_small",          "fwd_mma",          "fwd_planes",        "fwd_large",        "fwd_pixels",
      "fwd_direct",         "fwd_channels",     "fwd_columns",       "fwd_mma_lines",    "fwd_mma_pixels",
      "fwd_dense_rows",     "fwd_rows",         "fwd_runs",          "fwd_whole_planes", "fwd_scale",
      "fwd_simple",         "fwd_sliding",      "fwd_torch",         "fwd_cudnn",        "wgrad_small",
      "wgrad_mma_planes",   "wgrad_mma_pixels", "wgrad_mma_windows", "wgrad_mma_lines",  "wgrad_planes",
      "wgrad_whole_planes", "wgrad_pixels",     "wgrad_direct",      "wgrad_large",      "wgrad_rows",
      "wgrad_correlation",  "wgrad_points",     "wgrad_scale",       "wgrad_sliding",    "wgrad_torch"};
  return kNames[int(kernel)];
}

inline bool is_wgrad(Kernel kernel) { return kernel >= Kernel::kWgradSmall; }

inline bool has_tensor_cores(const Gpu& gpu) { return gpu.capability >= 80; }
inline bool has_clusters(const Gpu& gpu) { return gpu.capability >= 90; }  // of blocks; and kernels that start early

inline bool is_square(const Problem& problem) {
  return problem.y.taps == problem.x.taps && problem.y.dilation == 1 && problem.x.dilation == 1 &&
         problem.y.up == problem.x.up && problem.y.down == problem.x.down && fits_int32(problem.y) &&
         fits_int32(problem.x);
}
inline bool is_step(const Problem& problem, int64_t up, int64_t down) {
  return problem.x.up == up && problem.x.down == down;
}

// Tiled kernels start their threads' windows at a multiple of `up`.
inline bool starts_at_phase(const Axis& a) { return (a.pad - (a.taps - 1) / 2 % a.up) % a.up == 0; }

// Indices in one image, and numbers of blocks, are ints in the kernels for certain sizes.
inline bool has_int32_images(const Problem& problem) {
  const int64_t pixels = std::max(problem.y.in * problem.x.in, problem.y.out * problem.x.out);
  return problem.batch < kMaxIndex && problem.channels < kMaxIndex &&
         pixels <= (problem.channels_last ? kMaxIndex / problem.channels
                                          : std::min(kMaxIndex, 32 * kMaxIndex / problem.channels));
}

// Vectors of `lanes` channels of channels_last images.
inline bool has_channel_vectors(const Problem& problem, int64_t lanes) {
  return problem.channels % lanes == 0 &&
         std::min(problem.in_alignment, problem.out_alignment) % (lanes * problem.element_bytes()) == 0;
}

// Contiguous, stride 1, up to 8 pixels wide and 16 high; a lane an image.
inline bool fwd_small_takes(const Problem& problem) {
  return !problem.channels_last && problem.dtype != Dtype::kFloat64 && is_dense(problem.y) && is_dense(problem.x) &&
         problem.x.in <= 8 && problem.x.out <= 8 && problem.y.in <= 16 && problem.y.out <= 16 && problem.y.taps <= 64 &&
         problem.x.taps <= kMaxIndex / 64 && problem.batch >= 8 && problem.batch <= 65535 * 32 &&
         problem.channels < kMaxIndex;
}

// Blocks of eight taps, of the row with its lead of zeros, as a template of fwd_mma takes them; 0: too many.
inline int fwd_mma_blocks(const Problem& problem) {
  const int64_t vector = row_vector(problem.element_bytes(), problem.in_alignment, problem.x.in);
  const int64_t blocks = ceil_div(round_up(problem.x.pad, vector) - problem.x.pad + 7 + problem.x.taps, 8);
  if (blocks <= 2 && (problem.y.taps == 5 || problem.y.taps == 7)) return 2;
  return blocks <= 3 ? 3 : (blocks <= 5 ? 5 : (blocks <= 9 ? 9 : 0));
}

// Contiguous, 16-bit, stride 1: tensor cores.
inline bool fwd_mma_takes(const Problem& problem, const Gpu& gpu) {
  const auto takes = [](const Axis& a) { return is_dense(a) && a.pad >= 0; };
  if (problem.taps() == 9) return false;  // 3x3: fwd_planes is faster for large batches
  if (problem.channels_last || !is_16_bit(problem.dtype) || !has_tensor_cores(gpu) || !takes(problem.y) ||
      !takes(problem.x) || problem.y.taps > 4096 || !has_int32_images(problem))
    return false;
  const int blocks = fwd_mma_blocks(problem);
  const int64_t pitch = ((7 + blocks - 1) | 1) * 8, patch = (16 + problem.y.taps - 1) * pitch + 8;
  return blocks > 0 && 2 * (2 * patch + 16 * 72 + problem.y.taps * 2 * (blocks + 1) * 8 + 16) <= gpu.shared_a_block;
}

// Contiguous, 3x3 and 5x5 at strides 1 and 2, 7x7 at stride 1.
inline bool fwd_planes_takes(const Problem& problem, const Gpu& gpu) {
  // Not compiled where tensor cores are faster.
  if (is_16_bit(problem.dtype) && has_tensor_cores(gpu) && is_step(problem, 1, 1) && problem.x.taps > 3) return false;
  if (problem.channels_last || problem.dtype == Dtype::kFloat64 || !is_square(problem) || !has_int32_images(problem) ||
      !starts_at_phase(problem.y) || !starts_at_phase(problem.x))
    return false;
  if (is_step(problem, 1, 1)) return problem.x.taps == 3 || problem.x.taps == 5 || problem.x.taps == 7;
  return (is_step(problem, 1, 2) || is_step(problem, 2, 1)) && (problem.x.taps == 3 || problem.x.taps == 5);
}

// Contiguous, float32, stride 1, any number of taps; shared memory has to have a tile of 7 rows and the taps.
inline bool fwd_large_takes(const Problem& problem, const Gpu& gpu) {
  if (problem.channels_last || problem.dtype != Dtype::kFloat32 || !is_dense(problem.y) || !is_dense(problem.x) ||
      !has_int32_images(problem) || problem.batch > 65535)
    return false;
  const int64_t steps = ceil_div(problem.x.taps, 4), pitch = (steps - 1) * 4 + 12;
  return 4 * (std::min(problem.y.in, 6 + problem.y.taps) * pitch + (problem.y.taps + 12) * steps * 4) <=
         gpu.shared_a_block;
}

// channels_last, 3x3, 5x5 and 7x7 at stride 1, 5x5 and 7x7 also at stride 2: tiles in shared memory.
inline bool fwd_pixels_takes(const Problem& problem) {
  if (!problem.channels_last || problem.dtype == Dtype::kFloat64 || !is_square(problem) || !has_int32_images(problem) ||
      !starts_at_phase(problem.y) || !starts_at_phase(problem.x) ||
      !has_channel_vectors(problem, channel_lanes(problem.x.taps)))
    return false;
  if (is_step(problem, 1, 1)) return problem.x.taps == 3 || problem.x.taps == 5 || problem.x.taps == 7;
  return (is_step(problem, 1, 2) || is_step(problem, 2, 1)) && (problem.x.taps == 5 || problem.x.taps == 7);
}

// channels_last, 16-bit, whole vectors of channels, 5x5 and 7x7: tensor cores. At stride 2 forward under 5x5, dgrad
// under 7x7 alone: with all of it, a wheel for ARM would have more than 40 MB.
constexpr int64_t kFwdMmaPixelsShared = 72 << 10;  // bytes of the largest block, with one image in it
inline bool fwd_mma_pixels_takes(const Problem& problem, const Gpu& gpu) {
  if (!problem.channels_last || !is_16_bit(problem.dtype) || !has_tensor_cores(gpu) ||
      gpu.shared_a_block < kFwdMmaPixelsShared || !is_square(problem) || !has_int32_images(problem) ||
      !starts_at_phase(problem.y) || !starts_at_phase(problem.x) || !has_channel_vectors(problem, 8))
    return false;
  return ((is_step(problem, 1, 1) || is_step(problem, 1, 2)) && problem.x.taps == 5) ||
         ((is_step(problem, 1, 1) || is_step(problem, 2, 1)) && problem.x.taps == 7);
}

// The channels that a thread of fwd_direct takes; 0: it does not take the problem.
inline int fwd_direct_lanes(const Problem& problem) {
  if (!problem.channels_last || problem.dtype == Dtype::kFloat64 || !is_square(problem) ||
      (problem.x.taps != 3 && problem.x.taps != 5) ||
      !(is_step(problem, 1, 1) || is_step(problem, 1, 2) || is_step(problem, 2, 1)) || !starts_at_phase(problem.y) ||
      !starts_at_phase(problem.x))
    return 0;
  const auto extent = [](const Axis& a) { return std::max(a.in, a.out * a.down) + std::abs(a.pad) + 2 * a.taps; };
  if (problem.channels >= kMaxIndex / 25 || extent(problem.y) * extent(problem.x) > kMaxIndex / problem.channels)
    return 0;
  for (int lanes = problem.x.taps == 3 ? 4 : 1; lanes > 0; lanes /= 2) {
    if (is_step(problem, 1, 1) && lanes >= channel_lanes(problem.x.taps)) continue;
    if (problem.channels % lanes != 0 || problem.in_alignment % (lanes * problem.element_bytes()) != 0) continue;
    const int64_t threads = problem.channels / lanes * problem.x.out * ceil_div(problem.y.out, 2);
    return threads <= kMaxIndex && problem.batch <= kMaxIndex / threads ? lanes : 0;
  }
  return 0;
}

// fwd_direct also takes 3x3 taps at a dilation, 16-bit, at stride 1: pixels a dilation apart are an image of their own.
inline bool fwd_direct_takes_dilation(const Problem& problem) {
  const auto takes = [](const Axis& a) {
    return a.taps == 3 && a.up == 1 && a.down == 1 && fits_int32(a) && a.dilation <= a.out;
  };
  if (!problem.channels_last || !is_16_bit(problem.dtype) || !takes(problem.y) || !takes(problem.x) ||
      !has_channel_vectors(problem, 2))
    return false;
  // Each dilation adds less than a tile of 4 pixels an image.
  const auto extent = [](const Axis& a) { return std::max(a.in, a.out) + std::abs(a.pad) + 8 * a.dilation; };
  return problem.channels < kMaxIndex / 25 &&
         extent(problem.y) * extent(problem.x) <= kMaxIndex / problem.channels / problem.batch;
}

// Contiguous: a thread walks down a column of an image. 2x2 to 7x7 taps, or as many in one column, where the vertical
// stride, divided by the greatest common divisor of stride and dilation, is 1 or 2; up to 16 taps in one row; and for
// dgrad at a stride, windows of which an output meets few taps. Shared memory has to have the rows under a run of
// outputs.
constexpr int kColumnsMostTaps = 7, kColumnsMostRowTaps = 16, kColumnsPhaseTaps = 4;
constexpr int64_t kColumnsShared = 40 << 10, kColumnsEnds = 32;  // bytes; Ends: of vectors that lie partly outside

inline bool has_phases(const Problem& problem) { return problem.y.up > 1 || problem.x.up > 1; }
// first_tap.cuh multiplies two numbers below `up` in 32 bits.
inline bool takes_steps(const Problem& problem) { return std::max(problem.y.up, problem.x.up) < 1 << 15; }

// The taps that a thread's code has along y, and along x where it has any more than one.
inline int64_t columns_taps(const Problem& problem) {
  if (!has_phases(problem)) return problem.y.taps;
  return std::max<int64_t>(
      {2, sliding_axis<int64_t>(problem.y).taps_of_class(), sliding_axis<int64_t>(problem.x).taps_of_class()});
}

// Bytes of the rows under `rows` rows of outputs of an image.
inline int64_t columns_bytes(const Problem& problem, int64_t rows) {
  const Axis& y = problem.y;
  const int64_t span = ((rows - 1) * y.down + (y.taps - 1) * y.dilation) / y.up + (y.up > 1 ? 2 : 1);
  return std::min(y.in, span) * problem.x.in * problem.element_bytes() + kColumnsEnds;
}

inline bool fwd_columns_takes(const Problem& problem) {
  const Axis &y = problem.y, &x = problem.x;
  if (problem.channels_last || problem.in_alignment < 16 || !slides_in_int32(problem) ||
      problem.batch * problem.channels >= kMaxIndex / y.out)
    return false;
  const auto axis = sliding_axis<int64_t>(y);
  const auto takes = [&] {
    if (has_phases(problem)) return takes_steps(problem) && columns_taps(problem) <= kColumnsPhaseTaps;
    if (y.taps == 1) return x.taps > 1 && x.taps <= kColumnsMostRowTaps && y.out > 1;
    return y.taps <= kColumnsMostTaps && (x.taps == y.taps || x.taps == 1) && axis.tap_step <= 2;
  };
  return takes() && (std::abs(y.pad) + y.out * y.down + y.taps * y.dilation) * x.in < kMaxIndex &&
         x.out * axis.stride() < kMaxIndex && columns_bytes(problem, axis.stride()) <= kColumnsShared;
}

// Contiguous, one tap high, stride and dilation 1 along rows. kDenseRowsGroup: taps that a thread takes at a time.
constexpr int kDenseRowsMostTaps = 64, kDenseRowsGroup = 16;
inline bool fwd_dense_rows_takes(const Problem& problem) {
  return !problem.channels_last && problem.dtype != Dtype::kFloat64 && problem.y.taps == 1 && problem.y.up == 1 &&
         is_dense(problem.x) && slides_in_int32(problem) && problem.x.taps > 1 &&
         problem.x.taps <= kDenseRowsMostTaps && problem.channels < kMaxIndex / kDenseRowsMostTaps &&
         problem.batch * problem.channels < kMaxIndex / problem.y.out / ceil_div(problem.x.out, 4);
}

// Of these, 16-bit rows that fill half a product: tensor cores.
inline bool fwd_mma_lines_takes(const Problem& problem, const Gpu& gpu) {
  return is_16_bit(problem.dtype) && has_tensor_cores(gpu) && problem.x.out >= 64 && fwd_dense_rows_takes(problem);
}

// Contiguous, one tap high: rows in shared memory, for taps and steps that fit there.
inline bool fwd_rows_takes(const Problem& problem) {
  if (problem.channels_last || problem.y.taps != 1 || !slides_in_int32(problem) ||
      problem.batch * problem.channels >= kMaxIndex / 16 / problem.y.out)
    return false;
  const auto x = sliding_axis<int64_t>(problem.x);
  return x.stride() * x.classes <= 64 && (x.stride() + 1) * (x.taps + 8 * x.classes) <= 4096 &&
         problem.x.out < kMaxIndex / 16 / x.stride();
}

// Whether numbers of outputs, taps and indices in an image are ints.
inline bool has_int32_outputs(const Problem& problem) {
  const int64_t pixel = problem.channels_last ? problem.channels : 1;
  return fits_int32(problem.y) && fits_int32(problem.x) && problem.taps() < kMaxIndex / problem.channels &&
         problem.y.in * problem.x.in < kMaxIndex / pixel &&
         problem.batch < kMaxIndex / (problem.y.out * problem.x.out) / problem.channels;
}

inline bool fwd_simple_takes(const Problem& problem) { return has_int32_outputs(problem) && takes_steps(problem); }

// Whether the outputs of a run of fwd_runs share rows of pixels.
inline bool runs_share_rows(const Problem& problem) {
  const int64_t taps = problem.y.taps;
  return problem.dtype != Dtype::kFloat64 && is_square(problem) && problem.y.down <= 2 &&
         (taps == 3 || taps == 4 || taps == 5 || taps == 7);
}

// Contiguous, as many taps along both axes.
inline bool fwd_runs_takes(const Problem& problem) {
  const int64_t taps = problem.y.taps;
  return !problem.channels_last && problem.x.taps == taps && problem.y.up == 1 && problem.x.up == 1 &&
         (runs_share_rows(problem) || (taps >= 2 && taps <= 5)) && has_int32_outputs(problem);
}

// Stride 1, images and outputs up to 32 pixels wide and high. One plane and its taps take at most 53,456 bytes of
// shared memory (float64, 32x32): GPUs from sm_70 on have as much.
inline bool fwd_whole_planes_takes(const Problem& problem) {
  const auto takes = [](const Axis& a) { return is_dense(a) && std::max(a.in, a.out) <= kFwdWholeMost; };
  return takes(problem.y) && takes(problem.x) && problem.batch < kMaxIndex && problem.channels < kMaxIndex &&
         problem.taps() < kMaxIndex;
}

// channels_last, where vectors of four channels do not fit, and few taps meet an output: a block has the taps of its
// channels in shared memory.
inline bool fwd_channels_takes(const Problem& problem) {
  const bool has_steps = problem.y.up > 1 || problem.x.up > 1;
  return problem.channels_last && problem.channels % 4 != 0 && problem.channels >= 16 && problem.taps() > 1 &&
         problem.taps() <= (has_steps ? 32 : 9) && fwd_simple_takes(problem);
}

// One tap, where numbers of pixels are ints too.
inline bool fwd_scale_takes(const Problem& problem) {
  return problem.taps() == 1 && has_int32_outputs(problem) &&
         problem.batch < kMaxIndex / (problem.y.in * problem.x.in) / problem.channels;
}

// Contiguous, stride 1, gradient and image 7 or 8 pixels wide; a lane an image.
inline bool wgrad_small_takes(const Problem& problem) {
  return fwd_small_takes(problem) && problem.x.in == problem.x.out && (problem.x.in == 7 || problem.x.in == 8) &&
         problem.batch < kMaxIndex && problem.x.taps <= kMaxIndex / (64 * 32);
}

// 16-bit, 5x5 at stride 1, 7x7 at strides 1 and 2: tensor cores.
inline bool wgrad_mma_takes(const Problem& problem, const Gpu& gpu) {
  // Less padding behind the images than taps: then a patch has all rows of the gradient.
  const auto takes = [](const Axis& a) {
    return a.down <= 2 && a.pad >= 0 && a.pad < a.taps && (a.out - 1) * a.down < a.in + a.pad;
  };
  return has_tensor_cores(gpu) && is_16_bit(problem.dtype) && is_square(problem) && takes(problem.y) &&
         takes(problem.x) && (problem.x.taps == 7 || (problem.x.taps == 5 && problem.x.down == 1)) &&
         has_int32_images(problem) && problem.batch <= 65535;
}

inline bool wgrad_mma_planes_takes(const Problem& problem, const Gpu& gpu) {
  if (problem.channels_last || !wgrad_mma_takes(problem, gpu) || problem.x.out > 4096) return false;
  // Sums of at most 1024 products of matrices; patches of one to four times 16 rows of the gradient.
  const int64_t down = problem.x.down, rows = ceil_div(problem.y.in + problem.y.pad % down, 16 * down),
                steps = ceil_div(problem.x.out, 8);
  const int64_t shifts = round_up(ceil_div(problem.x.taps, down), 2), pitch = ((steps * down + down) | 1) * 8;
  const auto patch = [&](int64_t units) {
    return 2 * (units * 16 * down * pitch + (units * 16 + shifts - 1) * (steps | 1) * 8);
  };
  int64_t units = std::min<int64_t>(rows, 4);
  units = ceil_div(rows, ceil_div(rows, units));
  while (units > 1 && patch(units) > 48 << 10) units = (units + 1) / 2;
  return patch(units) <= gpu.shared_a_block && ceil_div(rows, units) * steps <= 1024;
}

inline bool wgrad_mma_pixels_takes(const Problem& problem, const Gpu& gpu) {
  const int64_t least = std::min(problem.x.out, problem.y.out), most = std::max(problem.x.out, problem.y.out);
  if (!problem.channels_last || problem.x.down != 1 || !wgrad_mma_takes(problem, gpu) ||
      (!has_channel_vectors(problem, 8) && problem.x.taps == 5))
    return false;
  const int64_t all_steps = ceil_div(problem.x.out, 8), steps = ceil_div(all_steps, ceil_div(all_steps, 7));
  const int64_t pitch = ((steps + 1) | 1) * 8, grad_pitch = (steps | 1) * 8;
  const int64_t shifts = round_up(problem.x.taps, 2), grad_rows = round_up(15 + shifts, 2);
  const bool one_row = problem.y.in <= 16, one_column = all_steps == steps;
  // One patch alone is copied without what lies around the images.
  const auto elements = [&](int64_t rows, int64_t row, int64_t above, int64_t before, int64_t h, int64_t w,
                            int64_t all) {
    int64_t whole = ceil_div(w, 8);
    if (whole * 8 != row) whole = round_up(whole, 2);
    const bool one = one_column && before + whole * 8 <= row;
    return (one_row ? round_up(std::min(h, rows - above), 2) : rows) * (one ? whole : all) * 8;
  };
  const int64_t stage =
      elements(16, pitch, 0, round_up(problem.x.pad, 2), problem.y.in, problem.x.in, pitch / 8) +
      elements(grad_rows, grad_pitch, shifts - 1 - problem.y.pad, 0, problem.y.out, problem.x.out, steps);
  const int64_t planes = 16 * pitch + 8 + grad_rows * grad_pitch + 8;
  const int64_t pixel = has_channel_vectors(problem, 8) ? 16 : 24;  // copied shifted (copy_images.cuh)
  if (2 * (pixel * stage + 16 * planes) > gpu.shared_a_block) return false;
  // 5x5: only where one patch holds the image and more than half of each of its sides is filled; multiply-adds are
  // faster otherwise.
  return problem.x.taps == 7 ? least > 8 || most <= 16 : least > 8 && most <= 16;
}

// Contiguous, 16-bit, stride 1, windows with more than seven taps along an axis and several along the other: tensor
// cores. Shared memory has to have rows of the gradient under 32 of the taps, and rows of the image, several where the
// window is narrow.
inline bool wgrad_mma_windows_takes(const Problem& problem, const Gpu& gpu) {
  const auto takes = [](const Axis& a) { return is_dense(a) && a.pad >= 0 && a.pad < a.taps; };
  if (problem.channels_last || !is_16_bit(problem.dtype) || !has_tensor_cores(gpu) || !takes(problem.y) ||
      !takes(problem.x) || std::max(problem.y.taps, problem.x.taps) <= 7 ||
      std::min(problem.y.taps, problem.x.taps) == 1 || !has_int32_images(problem) || problem.x.out > 4096 ||
      problem.channels > kMaxIndex / problem.taps())
    return false;
  // Of narrow windows, also those of which few columns meet pixels, a stage has several rows of the image.
  const bool narrow = std::min(problem.x.taps, problem.x.in + problem.x.pad) <= 8;
  const int64_t rows = narrow ? std::min(problem.y.in, problem.y.taps + 8) : 1;
  const int64_t width = std::max(problem.x.in, problem.x.out) + problem.x.taps + 256;
  // Sums of at most 1024 products of matrices, and as many splits of the batch as a grid has.
  return 2 * (rows + 32 + 2) * width <= gpu.shared_a_block &&
         problem.batch < 65535 * 256 / (problem.y.out + problem.y.taps) / ceil_div(problem.x.out, 16);
}

// The same with taps in one row or one column; shared memory has to have a row, or eight rows under a column of taps.
inline bool wgrad_mma_lines_takes(const Problem& problem, const Gpu& gpu) {
  const bool wide = problem.y.taps == 1;
  const auto takes = [](const Axis& a) { return is_dense(a) && a.pad >= 0 && a.pad < a.taps; };
  if (problem.channels_last || !is_16_bit(problem.dtype) || !has_tensor_cores(gpu) || !takes(problem.y) ||
      !takes(problem.x) || (!wide && problem.x.taps != 1) || problem.taps() <= 7 || problem.taps() > 118 ||
      !has_int32_images(problem) || problem.channels > kMaxIndex / problem.taps())
    return false;
  const int64_t width = std::max(problem.x.in, problem.x.out) + 32;
  // As many splits of the batch as a grid has, of sums of at most 1024 products of matrices.
  return (wide ? 4 * (width + 512) : 2 * 152 * width) <= gpu.shared_a_block && problem.x.out <= 8192 &&
         problem.batch < 65535 / problem.y.out;
}

inline bool wgrad_tiles_take(const Problem& problem) {
  return problem.dtype != Dtype::kFloat64 && is_square(problem) && has_int32_images(problem) &&
         (problem.x.taps == 3 || problem.x.taps == 5 || problem.x.taps == 7) && problem.x.down <= 2;
}
inline bool wgrad_planes_takes(const Problem& problem) {
  return !problem.channels_last && wgrad_tiles_take(problem) && (problem.x.taps < 7 || problem.x.down == 1) &&
         ceil_div(problem.x.out, 4 / problem.x.down) <= 128;
}

// Contiguous, 16-bit, 5x5 at strides 1 and 2, 3x3 at stride 2: so small that a block has whole planes.
constexpr int64_t kWholePlanesShared = 96 << 10;  // bytes of a block
inline bool wgrad_whole_planes_takes(const Problem& problem, const Gpu& gpu) {
  const auto takes = [](const Axis& a) { return a.in <= 32 && a.out <= 32 && a.pad >= 0 && a.pad < a.taps; };
  return gpu.capability >= 80 && gpu.shared_a_block >= kWholePlanesShared && !problem.channels_last &&
         is_16_bit(problem.dtype) && wgrad_tiles_take(problem) && takes(problem.y) && takes(problem.x) &&
         (problem.x.taps == 5 || (problem.x.taps == 3 && problem.x.down == 2)) &&
         std::min(problem.in_alignment, problem.out_alignment) % 16 == 0;
}

inline bool wgrad_pixels_takes(const Problem& problem) {
  return problem.channels_last && wgrad_tiles_take(problem) &&
         has_channel_vectors(problem, channel_lanes(problem.x.taps));
}

// The channels that a thread of wgrad_direct takes; 0: it does not take the problem.
inline int wgrad_direct_lanes(const Problem& problem) {
  const auto extent = [](const Axis& a) { return std::max(a.in, a.out * a.down) + std::abs(a.pad) + 2 * a.taps; };
  if (!problem.channels_last || !wgrad_tiles_take(problem) || problem.x.taps == 7 ||
      extent(problem.y) * extent(problem.x) > kMaxIndex / problem.channels ||
      problem.batch > kMaxIndex / (problem.y.out * problem.x.out))
    return 0;
  return problem.x.taps == 3 && has_channel_vectors(problem, 2) ? 2 : 1;
}

// wgrad_direct also takes 3x3 taps at a dilation, at stride 1: pixels a dilation apart are an image of their own.
inline bool wgrad_direct_takes_dilation(const Problem& problem) {
  const auto takes = [](const Axis& a) {
    return a.taps == 3 && a.up == 1 && a.down == 1 && fits_int32(a) && a.dilation <= a.out;
  };
  if (!problem.channels_last || problem.dtype == Dtype::kFloat64 || !takes(problem.y) || !takes(problem.x) ||
      (is_dense(problem.y) && is_dense(problem.x)))
    return false;
  // Tiles of one dilation are filled up with less than 8 pixels, and read 2 more.
  const auto extent = [](const Axis& a) { return std::max(a.in, a.out) + std::abs(a.pad) + 16 * a.dilation; };
  return extent(problem.y) * extent(problem.x) <= kMaxIndex / problem.channels &&
         problem.batch <= kMaxIndex / (4 * problem.y.out * problem.x.out);
}

inline bool wgrad_large_takes(const Problem& problem, const Gpu& gpu) {
  const int64_t tiles_x = ceil_div(problem.x.taps, 8), tiles_y = ceil_div(problem.y.taps, 7),
                steps = ceil_div(problem.x.out, 4);
  if (problem.channels_last || problem.dtype == Dtype::kFloat64 || problem.taps() == 1 || !is_dense(problem.y) ||
      !is_dense(problem.x) || !has_int32_images(problem) || tiles_x * tiles_y > 128 || problem.y.in > 65535 ||
      problem.x.out > 65535)
    return false;
  const int64_t pitch = (tiles_x - 1) * 8 + (steps - 1) * 4 + 12,
                rows = std::min(problem.y.in, tiles_y * 7 - 1 + problem.y.out);
  return 4 * (rows * pitch + (problem.y.out + 12) * steps * 4) <= gpu.shared_a_block;
}

// Contiguous, one tap high: rows in shared memory, for taps and steps that fit there.
inline bool wgrad_rows_takes(const Problem& problem) {
  if (problem.channels_last || problem.y.taps != 1 || !slides_in_int32(problem) ||
      problem.batch >= kMaxIndex / problem.y.out || problem.channels >= kMaxIndex / 16 / problem.x.taps)
    return false;
  const auto x = sliding_axis<int64_t>(problem.x);
  return x.spacing * x.classes <= 64 && (x.spacing + 1) * (x.taps + 24 * x.classes) <= 4096 &&
         problem.x.out < kMaxIndex / 16 / x.spacing;
}

// Contiguous; the gradient in the place of the kernel.
inline bool wgrad_correlation_takes(const Problem& problem) {
  Problem correlation = problem;
  correlation.y = correlation_axis(problem.y), correlation.x = correlation_axis(problem.x);
  return !problem.channels_last && slides_in_int32(correlation) && problem.taps() * 8 < kMaxIndex / problem.channels;
}

// channels_last, where bytes of whole tensors and everything that is counted along an axis have 32 bits.
inline bool wgrad_points_takes(const Problem& problem) {
  const int64_t pixels = std::max(problem.y.in * problem.x.in, problem.y.out * problem.x.out);
  return problem.channels_last && problem.dtype != Dtype::kFloat64 && fits_int32(problem.y) && fits_int32(problem.x) &&
         problem.taps() <= 256 && problem.channels < kMaxIndex / 256 && pixels < kMaxIndex / problem.channels &&
         problem.batch < kMaxIndex / (pixels * problem.channels);
}

constexpr int64_t kSlidingTaps = 48 << 10;  // bytes of shared memory for the taps of a block

// Whether the taps of `vector` channels fit into the shared memory that fwd_sliding takes for channels_last images, and
// the pixels of a row into an int.
inline bool sliding_has_room(const Problem& problem, int vector) {
  return problem.taps() * vector * std::max<int64_t>(problem.element_bytes(), 4) <= kSlidingTaps &&
         problem.x.out < kMaxIndex;
}

// One tap, where numbers of outputs of a channel and of pixels of an image are ints.
inline bool wgrad_scale_takes(const Problem& problem) {
  return problem.taps() == 1 && fits_int32(problem.y) && fits_int32(problem.x) && problem.channels < kMaxIndex &&
         problem.y.in < kMaxIndex / problem.x.in && problem.batch < kMaxIndex / (problem.y.out * problem.x.out);
}

// The convolutions of torch_conv.h know one padding an axis and 32-bit indices.
inline bool torch_takes(const Problem& problem) {
  const auto symmetric = [&](const Axis& a) {
    const int64_t span = a.dilation * (a.taps - 1) + 1;
    if (problem.flipped) {  // dgrad: `in` is the gradient
      const int64_t pad = span - 1 - a.pad, rest = a.out + 2 * pad - span;
      return pad >= 0 && rest >= 0 && rest / a.up + 1 == a.in;
    }
    return a.pad >= 0 && (a.in + 2 * a.pad - span) / a.down + 1 == a.out;
  };
  return symmetric(problem.y) && symmetric(problem.x) && fits_int32(problem.y) && fits_int32(problem.x) &&
         problem.batch * problem.channels <
             kMaxIndex / std::max(problem.y.in * problem.x.in, problem.y.out * problem.x.out);
}

// torch's native kernels. For gradients torch itself decides between them and cuDNN, for some contiguous float16
// problems without dilation, in favour of the latter: those are left out. So is one channel, which is no depthwise
// convolution to torch: its kernels for that may round to TensorFloat-32.
inline bool torch_native_takes(const Problem& problem, bool gradient) {
  if (problem.channels_last || !torch_takes(problem) || (gradient && problem.channels == 1)) return false;
  const bool dilated = problem.y.dilation > 1 || problem.x.dilation > 1;
  return !gradient || problem.dtype != Dtype::kFloat16 || problem.channels < 32 || dilated;
}

// It rounds to the images' dtype, and the gradient of a float32 weight beside 16-bit images must not be.
inline bool wgrad_torch_takes(const Problem& problem) {
  return !(is_16_bit(problem.dtype) && problem.float32_weight) && torch_native_takes(problem, true);
}

// Not for gradients of weights, for which cuDNN promises no order of sums. A bias would be a pass of its own.
// Contiguous float32 images are left out because cuDNN 9.19 computed one of 1,211 problems wrongly (1x1 at a stride of
// 3x2), float64 because its results are not channels_last, and taps one column wide because cuDNN was seldom the
// fastest there and up to nine times slower than torch's native kernel. More than 5 taps over contiguous images are
// left out because cuDNN fills them up with zeros there, which makes NaN of infinities outside an output's window,
// and dilated ones because it took up to nine times as long as torch's native kernel.
inline bool torch_cudnn_takes(const Problem& problem) {
  const auto suits = [](const Axis& a) { return a.taps == 1 || (a.taps <= 5 && a.dilation == 1); };
  return !problem.bias && problem.dtype != Dtype::kFloat64 &&
         (problem.channels_last || (is_16_bit(problem.dtype) && suits(problem.y) && suits(problem.x))) &&
         problem.channels > 1 && problem.x.taps > 1 && problem.y.in * problem.x.in > 1 &&
         problem.y.out * problem.x.out > 1 && torch_takes(problem);
}

// Whether channels_last images may be copied into contiguous ones for it. torch's native kernel copies them in any
// case; copying the result back as well pays off under large windows. fwd_mma_lines and fwd_dense_rows never gained by
// it, and fwd_mma_pixels does not take contiguous images; the others below were not measured after a copy.
inline bool may_copy_to_planes(Kernel kernel) {
  switch (kernel) {
    case Kernel::kFwdCudnn:
    case Kernel::kFwdColumns:
    case Kernel::kFwdMmaLines:
    case Kernel::kFwdMmaPixels:
    case Kernel::kFwdDenseRows:
    case Kernel::kFwdRuns:
    case Kernel::kFwdWholePlanes:
    case Kernel::kWgradTorch:
    case Kernel::kWgradWholePlanes: return false;
    default: return true;
  }
}

inline bool takes(Kernel kernel, const Problem& problem, const Gpu& gpu) {
  switch (kernel) {
    case Kernel::kFwdSmall: return fwd_small_takes(problem);
    case Kernel::kFwdMma: return fwd_mma_takes(problem, gpu);
    case Kernel::kFwdPlanes: return fwd_planes_takes(problem, gpu);
    case Kernel::kFwdLarge: return fwd_large_takes(problem, gpu);
    case Kernel::kFwdPixels: return fwd_pixels_takes(problem);
    case Kernel::kFwdDirect: return fwd_direct_lanes(problem) > 0 || fwd_direct_takes_dilation(problem);
    case Kernel::kFwdChannels: return fwd_channels_takes(problem);
    case Kernel::kFwdColumns: return fwd_columns_takes(problem);
    case Kernel::kFwdMmaLines: return fwd_mma_lines_takes(problem, gpu);
    case Kernel::kFwdMmaPixels: return fwd_mma_pixels_takes(problem, gpu);
    case Kernel::kFwdDenseRows: return fwd_dense_rows_takes(problem);
    case Kernel::kFwdRows: return fwd_rows_takes(problem);
    case Kernel::kFwdRuns: return fwd_runs_takes(problem);
    case Kernel::kFwdWholePlanes: return fwd_whole_planes_takes(problem);
    case Kernel::kFwdScale: return fwd_scale_takes(problem);
    case Kernel::kFwdSimple: return fwd_simple_takes(problem);
    case Kernel::kFwdSliding: return !problem.channels_last || sliding_has_room(problem, 1);
    case Kernel::kFwdTorch: return gpu.torch_kernels && torch_native_takes(problem, problem.flipped);
    case Kernel::kFwdCudnn: return gpu.torch_kernels && torch_cudnn_takes(problem);
    case Kernel::kWgradSmall: return wgrad_small_takes(problem);
    case Kernel::kWgradMmaPlanes: return wgrad_mma_planes_takes(problem, gpu);
    case Kernel::kWgradMmaPixels: return wgrad_mma_pixels_takes(problem, gpu);
    case Kernel::kWgradMmaWindows: return wgrad_mma_windows_takes(problem, gpu);
    case Kernel::kWgradMmaLines: return wgrad_mma_lines_takes(problem, gpu);
    case Kernel::kWgradPlanes: return wgrad_planes_takes(problem);
    case Kernel::kWgradWholePlanes: return wgrad_whole_planes_takes(problem, gpu);
    case Kernel::kWgradPixels: return wgrad_pixels_takes(problem);
    case Kernel::kWgradDirect: return wgrad_direct_lanes(problem) > 0 || wgrad_direct_takes_dilation(problem);
    case Kernel::kWgradLarge: return wgrad_large_takes(problem, gpu);
    case Kernel::kWgradRows: return wgrad_rows_takes(problem);
    case Kernel::kWgradCorrelation: return wgrad_correlation_takes(problem);
    case Kernel::kWgradPoints: return wgrad_points_takes(problem);
    case Kernel::kWgradScale: return wgrad_scale_takes(problem);
    case Kernel::kWgradSliding: return true;
    case Kernel::kWgradTorch: return gpu.torch_kernels && wgrad_torch_takes(problem);
  }
  return false;
}

}  // namespace customops::cuda::depthwise
