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
  kFwdRows,
  kFwdSimple,
  kFwdSliding,
  kFwdTorch,
  kFwdCudnn,
  kWgradSmall,
  kWgradMmaPlanes,
  kWgradMmaPixels,
  kWgradPlanes,
  kWgradPixels,
  kWgradDirect,
  kWgradLarge,
  kWgradRows,
  kWgradCorrelation,
  kWgradSliding,
  kWgradTorch,
};
constexpr int kKernels = int(Kernel::kWgradTorch) + 1;

// The name of the file that has the kernel, or of the kernel in it.
inline const char* name_of(Kernel kernel) {
  constexpr const char* kNames[] = {
      "fwd_small",        "fwd_mma",           "fwd_planes",    "fwd_large",    "fwd_pixels",   "fwd_direct",
      "fwd_rows",         "fwd_simple",        "fwd_sliding",   "fwd_torch",    "fwd_cudnn",    "wgrad_small",
      "wgrad_mma_planes", "wgrad_mma_pixels",  "wgrad_planes",  "wgrad_pixels", "wgrad_direct", "wgrad_large",
      "wgrad_rows",       "wgrad_correlation", "wgrad_sliding", "wgrad_torch"};
  return kNames[int(kernel)];
}

inline bool has_tensor_cores(const Gpu& gpu) { return gpu.capability >= 80; }

inline bool is_square(const Problem& p) {
  return p.y.taps == p.x.taps && p.y.dilation == 1 && p.x.dilation == 1 && p.y.up == p.x.up && p.y.down == p.x.down &&
         fits_int32(p.y) && fits_int32(p.x);
}
inline bool is_step(const Problem& p, int64_t up, int64_t down) { return p.x.up == up && p.x.down == down; }

// Tiled kernels start their threads' windows at a multiple of `up`.
inline bool starts_at_phase(const Axis& a) { return (a.pad - (a.taps - 1) / 2 % a.up) % a.up == 0; }

// Indices in one image, and numbers of blocks, are ints in the kernels for certain sizes.
inline bool has_int32_images(const Problem& p) {
  const int64_t pixels = std::max(p.y.in * p.x.in, p.y.out * p.x.out);
  return p.batch < kMaxIndex && p.channels < kMaxIndex &&
         pixels <= (p.channels_last ? kMaxIndex / p.channels : std::min(kMaxIndex, 32 * kMaxIndex / p.channels));
}

// Vectors of `lanes` channels of channels_last images.
inline bool has_channel_vectors(const Problem& p, int64_t lanes) {
  return p.channels % lanes == 0 && std::min(p.in_alignment, p.out_alignment) % (lanes * p.element_bytes()) == 0;
}

// Contiguous, stride 1, up to 8 pixels wide and 16 high; a lane an image.
inline bool fwd_small_takes(const Problem& p) {
  return !p.channels_last && p.dtype != ScalarType::Double && is_dense(p.y) && is_dense(p.x) && p.x.in <= 8 &&
         p.x.out <= 8 && p.y.in <= 16 && p.y.out <= 16 && p.y.taps <= 64 && p.x.taps <= kMaxIndex / 64 &&
         p.batch >= 8 && p.batch <= 65535 * 32 && p.channels < kMaxIndex;
}

// Blocks of eight taps, of the row with its lead of zeros, as a template of fwd_mma takes them; 0: too many.
inline int fwd_mma_blocks(const Problem& p) {
  const int64_t vector = row_vector(p.element_bytes(), p.in_alignment, p.x.in);
  const int64_t blocks = ceil_div(round_up(p.x.pad, vector) - p.x.pad + 7 + p.x.taps, 8);
  if (blocks <= 2 && (p.y.taps == 5 || p.y.taps == 7)) return 2;
  return blocks <= 3 ? 3 : (blocks <= 5 ? 5 : (blocks <= 9 ? 9 : 0));
}

// Contiguous, 16-bit, stride 1: tensor cores.
inline bool fwd_mma_takes(const Problem& p, const Gpu& gpu) {
  const auto takes = [](const Axis& a) { return is_dense(a) && a.pad >= 0; };
  if (p.taps() == 9) return false;  // 3x3: fwd_planes is faster for large batches
  if (p.channels_last || !is_16_bit(p.dtype) || !has_tensor_cores(gpu) || !takes(p.y) || !takes(p.x) ||
      p.y.taps > 4096 || !has_int32_images(p))
    return false;
  const int blocks = fwd_mma_blocks(p);
  const int64_t pitch = ((7 + blocks - 1) | 1) * 8, patch = (16 + p.y.taps - 1) * pitch + 8;
  return blocks > 0 && 2 * (2 * patch + 16 * 72 + p.y.taps * 2 * (blocks + 1) * 8 + 16) <= gpu.shared_a_block;
}

// Contiguous, 3x3 and 5x5 at strides 1 and 2, 7x7 at stride 1.
inline bool fwd_planes_takes(const Problem& p, const Gpu& gpu) {
  // Not compiled where tensor cores are faster.
  if (is_16_bit(p.dtype) && has_tensor_cores(gpu) && is_step(p, 1, 1) && p.x.taps > 3) return false;
  if (p.channels_last || p.dtype == ScalarType::Double || !is_square(p) || !has_int32_images(p) ||
      !starts_at_phase(p.y) || !starts_at_phase(p.x))
    return false;
  if (is_step(p, 1, 1)) return p.x.taps == 3 || p.x.taps == 5 || p.x.taps == 7;
  return (is_step(p, 1, 2) || is_step(p, 2, 1)) && (p.x.taps == 3 || p.x.taps == 5);
}

// Contiguous, float32, stride 1, any number of taps; shared memory has to have a tile of 7 rows and the taps.
inline bool fwd_large_takes(const Problem& p, const Gpu& gpu) {
  if (p.channels_last || p.dtype != ScalarType::Float || !is_dense(p.y) || !is_dense(p.x) || !has_int32_images(p) ||
      p.batch > 65535)
    return false;
  const int64_t steps = ceil_div(p.x.taps, 4), pitch = (steps - 1) * 4 + 12;
  return 4 * (std::min(p.y.in, 6 + p.y.taps) * pitch + (p.y.taps + 12) * steps * 4) <= gpu.shared_a_block;
}

// channels_last, 3x3, 5x5 and 7x7 at stride 1, 5x5 also at stride 2: tiles in shared memory.
inline bool fwd_pixels_takes(const Problem& p) {
  if (!p.channels_last || p.dtype == ScalarType::Double || !is_square(p) || !has_int32_images(p) ||
      !starts_at_phase(p.y) || !starts_at_phase(p.x) || !has_channel_vectors(p, channel_lanes(p.x.taps)))
    return false;
  if (is_step(p, 1, 1)) return p.x.taps == 3 || p.x.taps == 5 || p.x.taps == 7;
  return (is_step(p, 1, 2) || is_step(p, 2, 1)) && p.x.taps == 5;
}

// The channels that a thread of fwd_direct takes; 0: it does not take the problem.
inline int fwd_direct_lanes(const Problem& p) {
  if (!p.channels_last || p.dtype == ScalarType::Double || !is_square(p) || (p.x.taps != 3 && p.x.taps != 5) ||
      !(is_step(p, 1, 1) || is_step(p, 1, 2) || is_step(p, 2, 1)) || !starts_at_phase(p.y) || !starts_at_phase(p.x))
    return 0;
  const auto extent = [](const Axis& a) { return std::max(a.in, a.out * a.down) + std::abs(a.pad) + 2 * a.taps; };
  if (p.channels >= kMaxIndex / 25 || extent(p.y) * extent(p.x) > kMaxIndex / p.channels) return 0;
  for (int lanes = p.x.taps == 3 ? 4 : 1; lanes > 0; lanes /= 2) {
    if (is_step(p, 1, 1) && lanes >= channel_lanes(p.x.taps)) continue;
    if (p.channels % lanes != 0 || p.in_alignment % (lanes * p.element_bytes()) != 0) continue;
    const int64_t threads = p.channels / lanes * p.x.out * ceil_div(p.y.out, 2);
    return threads <= kMaxIndex && p.batch <= kMaxIndex / threads ? lanes : 0;
  }
  return 0;
}

// fwd_direct also takes 3x3 taps at a dilation, 16-bit, at stride 1: pixels a dilation apart are an image of their own.
inline bool fwd_direct_takes_dilation(const Problem& p) {
  const auto takes = [](const Axis& a) {
    return a.taps == 3 && a.up == 1 && a.down == 1 && fits_int32(a) && a.dilation <= a.out;
  };
  if (!p.channels_last || !is_16_bit(p.dtype) || !takes(p.y) || !takes(p.x) || !has_channel_vectors(p, 2)) return false;
  // Each dilation adds less than a tile of 4 pixels an image.
  const auto extent = [](const Axis& a) { return std::max(a.in, a.out) + std::abs(a.pad) + 8 * a.dilation; };
  return p.channels < kMaxIndex / 25 && extent(p.y) * extent(p.x) <= kMaxIndex / p.channels / p.batch;
}

// Contiguous, one tap high: rows in shared memory, for taps and steps that fit there.
inline bool fwd_rows_takes(const Problem& p) {
  if (p.channels_last || p.y.taps != 1 || !slides_in_int32(p) || p.batch * p.channels >= kMaxIndex / 16 / p.y.out)
    return false;
  const auto x = sliding_axis<int64_t>(p.x);
  return x.stride() * x.classes <= 64 && (x.stride() + 1) * (x.taps + 8 * x.classes) <= 4096 &&
         p.x.out < kMaxIndex / 16 / x.stride();
}

// Any kernel, where numbers of outputs and indices in an image are ints.
inline bool fwd_simple_takes(const Problem& p) {
  const int64_t pixel = p.channels_last ? p.channels : 1;
  return fits_int32(p.y) && fits_int32(p.x) && p.taps() < kMaxIndex / p.channels &&
         p.y.in * p.x.in < kMaxIndex / pixel && p.batch < kMaxIndex / (p.y.out * p.x.out) / p.channels;
}

// Contiguous, stride 1, gradient and image 7 or 8 pixels wide; a lane an image.
inline bool wgrad_small_takes(const Problem& p) {
  return fwd_small_takes(p) && p.x.in == p.x.out && (p.x.in == 7 || p.x.in == 8) && p.batch < kMaxIndex &&
         p.x.taps <= kMaxIndex / (64 * 32);
}

// 16-bit, 5x5 at stride 1, 7x7 at strides 1 and 2: tensor cores.
inline bool wgrad_mma_takes(const Problem& p, const Gpu& gpu) {
  // Less padding behind the images than taps: then a patch has all rows of the gradient.
  const auto takes = [](const Axis& a) {
    return a.down <= 2 && a.pad >= 0 && a.pad < a.taps && (a.out - 1) * a.down < a.in + a.pad;
  };
  return has_tensor_cores(gpu) && is_16_bit(p.dtype) && is_square(p) && takes(p.y) && takes(p.x) &&
         (p.x.taps == 7 || (p.x.taps == 5 && p.x.down == 1)) && has_int32_images(p) && p.batch <= 65535;
}

inline bool wgrad_mma_planes_takes(const Problem& p, const Gpu& gpu) {
  if (p.channels_last || !wgrad_mma_takes(p, gpu) || p.x.out > 4096) return false;
  // Sums of at most 1024 products of matrices; patches of one to four times 16 rows of the gradient.
  const int64_t down = p.x.down, rows = ceil_div(p.y.in + p.y.pad % down, 16 * down), steps = ceil_div(p.x.out, 8);
  const int64_t shifts = round_up(ceil_div(p.x.taps, down), 2), pitch = ((steps * down + down) | 1) * 8;
  const auto patch = [&](int64_t units) {
    return 2 * (units * 16 * down * pitch + (units * 16 + shifts - 1) * (steps | 1) * 8);
  };
  int64_t units = std::min<int64_t>(rows, 4);
  units = ceil_div(rows, ceil_div(rows, units));
  while (units > 1 && patch(units) > 48 << 10) units = (units + 1) / 2;
  return patch(units) <= gpu.shared_a_block && ceil_div(rows, units) * steps <= 1024;
}

inline bool wgrad_mma_pixels_takes(const Problem& p, const Gpu& gpu) {
  if (!p.channels_last || !wgrad_mma_takes(p, gpu) || !has_channel_vectors(p, 8)) return false;
  const int64_t down = p.x.down, all_steps = ceil_div(p.x.out, 8), steps = ceil_div(all_steps, ceil_div(all_steps, 7));
  const int64_t pitch = ((steps * down + down) | 1) * 8, grad_pitch = (steps | 1) * 8;
  const int64_t top = p.y.pad % down, shifts = round_up(ceil_div(p.x.taps, down), 2),
                grad_rows = round_up(15 + shifts, 2);
  const bool one_row = p.y.in + top <= 16 * down, one_column = all_steps == steps;
  // One patch alone is copied without what lies around the images.
  const auto elements = [&](int64_t rows, int64_t row, int64_t above, int64_t before, int64_t h, int64_t w,
                            int64_t all) {
    int64_t whole = ceil_div(w, 8);
    if (whole * 8 != row) whole = round_up(whole, 2);
    const bool one = one_column && before + whole * 8 <= row;
    return (one_row ? round_up(std::min(h, rows - above), 2) : rows) * (one ? whole : all) * 8;
  };
  const int64_t stage = elements(16 * down, pitch, top, round_up(p.x.pad, 2), p.y.in, p.x.in, pitch / 8) +
                        elements(grad_rows, grad_pitch, shifts - 1 - p.y.pad / down, 0, p.y.out, p.x.out, steps);
  const int64_t planes = 16 * down * pitch + 8 + grad_rows * grad_pitch + 8;
  if (2 * 16 * (stage + planes) > gpu.shared_a_block) return false;
  if (p.x.down == 2) return true;
  // Multiply-adds are faster where half of a patch would be empty, and for fewer taps.
  const auto one_patch = [](const Axis& a) { return a.out > 8 && a.out <= 16; };
  return (one_patch(p.x) && one_patch(p.y)) || (std::min(p.x.out, p.y.out) > 8 && p.x.taps == 7);
}

inline bool wgrad_tiles_take(const Problem& p) {
  return p.dtype != ScalarType::Double && is_square(p) && has_int32_images(p) &&
         (p.x.taps == 3 || p.x.taps == 5 || p.x.taps == 7) && (p.x.down == 1 || (p.x.down == 2 && p.x.taps < 7));
}
inline bool wgrad_planes_takes(const Problem& p) {
  return !p.channels_last && wgrad_tiles_take(p) && ceil_div(p.x.out, 4 / p.x.down) <= 128;
}
inline bool wgrad_pixels_takes(const Problem& p) {
  return p.channels_last && wgrad_tiles_take(p) && has_channel_vectors(p, channel_lanes(p.x.taps));
}

// The channels that a thread of wgrad_direct takes; 0: it does not take the problem.
inline int wgrad_direct_lanes(const Problem& p) {
  const auto extent = [](const Axis& a) { return std::max(a.in, a.out * a.down) + std::abs(a.pad) + 2 * a.taps; };
  if (!p.channels_last || !wgrad_tiles_take(p) || p.x.taps == 7 || extent(p.y) * extent(p.x) > kMaxIndex / p.channels ||
      p.batch > kMaxIndex / (p.y.out * p.x.out))
    return 0;
  return p.x.taps == 3 && has_channel_vectors(p, 2) ? 2 : 1;
}

inline bool wgrad_large_takes(const Problem& p, const Gpu& gpu) {
  const int64_t tiles_x = ceil_div(p.x.taps, 8), tiles_y = ceil_div(p.y.taps, 7), steps = ceil_div(p.x.out, 4);
  if (p.channels_last || p.dtype == ScalarType::Double || p.taps() == 1 || !is_dense(p.y) || !is_dense(p.x) ||
      !has_int32_images(p) || tiles_x * tiles_y > 128 || p.y.in > 65535 || p.x.out > 65535)
    return false;
  const int64_t pitch = (tiles_x - 1) * 8 + (steps - 1) * 4 + 12, rows = std::min(p.y.in, tiles_y * 7 - 1 + p.y.out);
  return 4 * (rows * pitch + (p.y.out + 12) * steps * 4) <= gpu.shared_a_block;
}

// Contiguous, one tap high: rows in shared memory, for taps and steps that fit there.
inline bool wgrad_rows_takes(const Problem& p) {
  if (p.channels_last || p.y.taps != 1 || !slides_in_int32(p) || p.batch >= kMaxIndex / p.y.out ||
      p.channels >= kMaxIndex / 16 / p.x.taps)
    return false;
  const auto x = sliding_axis<int64_t>(p.x);
  return x.spacing * x.classes <= 64 && (x.spacing + 1) * (x.taps + 24 * x.classes) <= 4096 &&
         p.x.out < kMaxIndex / 16 / x.spacing;
}

// Contiguous; the gradient in the place of the kernel.
inline bool wgrad_correlation_takes(const Problem& p) {
  Problem correlation = p;
  correlation.y = correlation_axis(p.y), correlation.x = correlation_axis(p.x);
  return !p.channels_last && slides_in_int32(correlation) && p.taps() * 8 < kMaxIndex / p.channels;
}

// Whether the taps of `vector` channels fit into the shared memory that fwd_sliding takes for channels_last images, and
// the pixels of a row into an int.
inline bool sliding_has_room(const Problem& p, int vector) {
  return p.taps() * vector * std::max<int64_t>(p.element_bytes(), 4) <= 48 << 10 && p.x.out < kMaxIndex;
}

// The convolutions of torch_conv.h know one padding an axis and 32-bit indices.
inline bool torch_takes(const Problem& p) {
  const auto symmetric = [&](const Axis& a) {
    const int64_t span = a.dilation * (a.taps - 1) + 1;
    if (p.flipped) {  // dgrad: `in` is the gradient
      const int64_t pad = span - 1 - a.pad, rest = a.out + 2 * pad - span;
      return pad >= 0 && rest >= 0 && rest / a.up + 1 == a.in;
    }
    return a.pad >= 0 && (a.in + 2 * a.pad - span) / a.down + 1 == a.out;
  };
  return symmetric(p.y) && symmetric(p.x) && fits_int32(p.y) && fits_int32(p.x) &&
         p.batch * p.channels < kMaxIndex / std::max(p.y.in * p.x.in, p.y.out * p.x.out);
}

// torch's native kernels. For gradients torch itself decides between them and cuDNN, for some contiguous float16
// problems without dilation, in favour of the latter: those are left out.
inline bool torch_native_takes(const Problem& p, bool gradient) {
  if (p.channels_last || !torch_takes(p)) return false;
  const bool dilated = p.y.dilation > 1 || p.x.dilation > 1;
  return !gradient || p.dtype != ScalarType::Half || p.channels < 32 || dilated;
}

// Its sums are rounded to the images' dtype, and those of a float32 weight beside 16-bit images must not be.
inline bool wgrad_torch_takes(const Problem& p) { return !is_16_bit(p.dtype) && torch_native_takes(p, true); }

// Not for gradients of weights, for which cuDNN promises no order of sums. A bias would be a pass of its own.
// Contiguous float32 images are left out because cuDNN 9.19 computed one of 1,211 problems wrongly (1x1 at a stride of
// 3x2), float64 because its results are not channels_last, and taps one column wide because cuDNN was seldom the
// fastest there and up to nine times slower than torch's native kernel.
inline bool torch_cudnn_takes(const Problem& p) {
  return !p.bias && p.dtype != ScalarType::Double && (p.channels_last || is_16_bit(p.dtype)) && p.channels > 1 &&
         p.x.taps > 1 && p.y.in * p.x.in > 1 && p.y.out * p.x.out > 1 && torch_takes(p);
}

inline bool takes(Kernel kernel, const Problem& p, const Gpu& gpu) {
  switch (kernel) {
    case Kernel::kFwdSmall: return fwd_small_takes(p);
    case Kernel::kFwdMma: return fwd_mma_takes(p, gpu);
    case Kernel::kFwdPlanes: return fwd_planes_takes(p, gpu);
    case Kernel::kFwdLarge: return fwd_large_takes(p, gpu);
    case Kernel::kFwdPixels: return fwd_pixels_takes(p);
    case Kernel::kFwdDirect: return fwd_direct_lanes(p) > 0 || fwd_direct_takes_dilation(p);
    case Kernel::kFwdRows: return fwd_rows_takes(p);
    case Kernel::kFwdSimple: return fwd_simple_takes(p);
    case Kernel::kFwdSliding: return !p.channels_last || sliding_has_room(p, 1);
    case Kernel::kFwdTorch: return gpu.torch_kernels && torch_native_takes(p, p.flipped);
    case Kernel::kFwdCudnn: return gpu.torch_kernels && torch_cudnn_takes(p);
    case Kernel::kWgradSmall: return wgrad_small_takes(p);
    case Kernel::kWgradMmaPlanes: return wgrad_mma_planes_takes(p, gpu);
    case Kernel::kWgradMmaPixels: return wgrad_mma_pixels_takes(p, gpu);
    case Kernel::kWgradPlanes: return wgrad_planes_takes(p);
    case Kernel::kWgradPixels: return wgrad_pixels_takes(p);
    case Kernel::kWgradDirect: return wgrad_direct_lanes(p) > 0;
    case Kernel::kWgradLarge: return wgrad_large_takes(p, gpu);
    case Kernel::kWgradRows: return wgrad_rows_takes(p);
    case Kernel::kWgradCorrelation: return wgrad_correlation_takes(p);
    case Kernel::kWgradSliding: return true;
    case Kernel::kWgradTorch: return gpu.torch_kernels && wgrad_torch_takes(p);
  }
  return false;
}

}  // namespace customops::cuda::depthwise
