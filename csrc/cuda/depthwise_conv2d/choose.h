// Which CUDA kernel runs: every rule is here, and depends on nothing but the problem and the GPU. Launchers do as they
// are told. takes.h says what a kernel can compute; choose_forward and choose_wgrad rank those that can by what was
// measured on an H200 (docs/depthwise-limits.md).
#pragma once

#include <optional>
#include <utility>

#include "measured.h"

namespace customops::cuda::depthwise {

struct Choice {
  Kernel kernel;
  bool copies_to_planes;  // channels_last images are copied into contiguous ones first, and results back
  const char* reason;
};

// Tiles of odd 16-bit rows are copied element by element, those of few outputs leave multiprocessors idle.
inline bool tiles_pay_for_stride_2(const Problem& p) {
  return p.x.down == 1 || (outputs(p) >= 200'000 && !(is_16_bit(p.dtype) && p.x.in % 2 == 1));
}

// Long rows, where many taps or stores that are not aligned make up for the way through shared memory.
inline bool rows_pay(const Problem& p) {
  if (!is_dense(p.x) || p.x.out < 128) return false;
  if (p.x.taps == 1) return outputs(p) >= 1 << 20;
  return p.x.taps >= 8 || (is_16_bit(p.dtype) && p.x.out % 8 != 0 && outputs(p) >= 1 << 20);
}

// One output a thread: for so few outputs that a GPU is not full, and few taps, which are not worth more.
inline bool simple_pays(const Problem& p) {
  const bool is_3x3 = p.y.taps == 3 && p.x.taps == 3, upsamples = p.x.up > 1 || p.y.up > 1;
  if (p.taps() == 1) return outputs(p) < (is_dense(p.x) || p.channels_last ? 1 << 18 : 1 << 20);
  if (upsamples || !(is_3x3 || (p.y.taps <= 2 && p.taps() <= 8))) return false;
  if (p.channels_last) return p.taps() <= 5 && outputs(p) < 1 << 17;
  return outputs(p) < (is_3x3 ? 1 << 18 : 1 << 17);
}

inline Choice choose_forward_planes(const Problem& p, const Gpu& gpu) {
  const bool two_dimensional = p.y.taps > 1 && p.x.taps > 1, mostly_inside = p.y.taps <= 3 * p.y.in;
  if (fwd_small_takes(p) && two_dimensional && outputs(p) >= 1 << 19)
    return {Kernel::kFwdSmall, false, "many images up to 8 pixels wide at stride 1"};
  if (fwd_mma_takes(p, gpu) && two_dimensional && mostly_inside)
    return {Kernel::kFwdMma, false, "16-bit at stride 1: tensor cores"};
  if (fwd_planes_takes(p, gpu) && tiles_pay_for_stride_2(p))
    return {Kernel::kFwdPlanes, false, "3x3, 5x5 or 7x7 taps, compiled for their stride"};
  if (fwd_rows_takes(p) && rows_pay(p)) return {Kernel::kFwdRows, false, "a kernel one tap high over long rows"};
  if (fwd_large_takes(p, gpu) && std::min(p.y.taps, p.x.taps) >= 9 && mostly_inside && outputs(p) >= 500'000)
    return {Kernel::kFwdLarge, false, "a large kernel at stride 1: bound by multiply-adds"};
  return {Kernel::kFwdSliding, false, "takes every kernel, stride, dilation and dtype"};
}

// The choice for contiguous images, where copying channels_last ones there and back pays: for large kernels at stride
// 1, which are bound by multiply-adds, and for 16-bit images of an odd number of channels, which no vector reads.
inline bool copying_pays(const Problem& p, Kernel kernel, Kernel sliding, Kernel rows) {
  if (!is_dense(p.y) || !is_dense(p.x) || kernel == sliding || kernel == rows) return false;
  return p.taps() > 49;
}

inline bool has_odd_channels(const Problem& p) { return is_16_bit(p.dtype) && p.channels % 2 == 1; }

// Where no measurement says otherwise.
inline Choice choose_forward_by_rule(const Problem& p, const Gpu& gpu) {
  if (fwd_simple_takes(p) && simple_pays(p)) return {Kernel::kFwdSimple, false, "few outputs and few taps"};
  if (!p.channels_last) return choose_forward_planes(p, gpu);
  Choice planes = choose_forward_planes(as_planes(p), gpu);
  planes.copies_to_planes = true;
  if (!sliding_has_room(p, 1) || copying_pays(p, planes.kernel, Kernel::kFwdSliding, Kernel::kFwdRows) ||
      (has_odd_channels(p) && p.taps() == 49 && planes.kernel == Kernel::kFwdMma))
    return planes;
  if (outputs(p) < 1 << 15) return {Kernel::kFwdSliding, false, "few outputs: threads that take one each"};
  if (fwd_pixels_takes(p)) return {Kernel::kFwdPixels, false, "3x3, 5x5 or 7x7 taps: tiles of channels_last images"};
  if (fwd_direct_lanes(p) > 0) return {Kernel::kFwdDirect, false, "3x3 or 5x5 taps straight from memory"};
  if (fwd_direct_takes_dilation(p)) return {Kernel::kFwdDirect, false, "dilated 3x3 taps straight from memory"};
  return {Kernel::kFwdSliding, false, "takes every kernel, stride, dilation and dtype"};
}

// Rows pay from a number of taps on, or where they are long.
inline bool wgrad_rows_pay(const Problem& p) {
  return p.x.taps >= 15 ? p.x.out >= 48 : (p.x.taps >= 8 && p.x.out >= 256 && is_dense(p.x));
}

inline Choice choose_wgrad_planes(const Problem& p, const Gpu& gpu) {
  const int64_t pixels = p.y.out * p.x.out;
  if (wgrad_small_takes(p) && outputs(p) >= 1 << 19)
    return {Kernel::kWgradSmall, false, "many images 7 or 8 pixels wide at stride 1"};
  if (wgrad_mma_planes_takes(p, gpu)) return {Kernel::kWgradMmaPlanes, false, "16-bit, 5x5 or 7x7: tensor cores"};
  if (wgrad_planes_takes(p) && p.x.out > 6 &&
      (p.x.down == 1 || (p.x.in % 2 == 0 && (p.x.taps > 3 || outputs(p) >= 1 << 16))))
    return {Kernel::kWgradPlanes, false, "3x3, 5x5 or 7x7 taps, compiled for their stride"};
  if (wgrad_rows_takes(p) && wgrad_rows_pay(p))
    return {Kernel::kWgradRows, false, "a kernel one tap high over long rows"};
  if (wgrad_large_takes(p, gpu) && std::min(p.y.taps, p.x.taps) >= 5 && p.taps() >= 49)
    return {Kernel::kWgradLarge, false, "a large kernel at stride 1: whole planes in shared memory"};
  if (wgrad_correlation_takes(p) && p.taps() >= 9 && (3 * p.taps() >= pixels || (p.taps() >= 128 && is_dense(p.x))))
    return {Kernel::kWgradCorrelation, false, "about as many taps as pixels: the gradient in the place of the kernel"};
  return {Kernel::kWgradSliding, false, "takes every kernel, stride, dilation and dtype"};
}

inline Choice choose_wgrad_by_rule(const Problem& p, const Gpu& gpu) {
  if (!p.channels_last) return choose_wgrad_planes(p, gpu);
  Choice planes = choose_wgrad_planes(as_planes(p), gpu);
  planes.copies_to_planes = true;
  if ((copying_pays(p, planes.kernel, Kernel::kWgradSliding, Kernel::kWgradRows) &&
       planes.kernel != Kernel::kWgradCorrelation && outputs(p) >= 1 << 17) ||
      (has_odd_channels(p) && p.taps() == 49 && planes.kernel == Kernel::kWgradMmaPlanes))
    return planes;
  if (wgrad_mma_pixels_takes(p, gpu)) return {Kernel::kWgradMmaPixels, false, "16-bit, 5x5 or 7x7: tensor cores"};
  if (wgrad_pixels_takes(p))
    return {Kernel::kWgradPixels, false, "3x3, 5x5 or 7x7 taps: tiles of channels_last images"};
  if (wgrad_direct_lanes(p) > 0) return {Kernel::kWgradDirect, false, "3x3 or 5x5 taps straight from memory"};
  return {Kernel::kWgradSliding, false, "takes every kernel, stride, dilation and dtype"};
}

// The measured kernel, if it can compute the problem; otherwise what the rules say.
inline Choice choose(const std::optional<Measured>& measured, Choice (*by_rule)(const Problem&, const Gpu&),
                     const Problem& p, const Gpu& gpu) {
  if (measured && takes(measured->kernel, measured->copies_to_planes ? as_planes(p) : p, gpu))
    return {measured->kernel, measured->copies_to_planes, measured->reason};
  return by_rule(p, gpu);
}

// Forward and dgrad: the problem says which by its axes.
inline Choice choose_forward(const Problem& p, const Gpu& gpu) {
  const auto measured = p.flipped ? (p.channels_last ? measured_dgrad_nhwc(p) : measured_dgrad_nchw(p))
                                  : (p.channels_last ? measured_fwd_nhwc(p) : measured_fwd_nchw(p));
  return choose(measured, choose_forward_by_rule, p, gpu);
}

inline Choice choose_wgrad(const Problem& p, const Gpu& gpu) {
  return choose(p.channels_last ? measured_wgrad_nhwc(p) : measured_wgrad_nchw(p), choose_wgrad_by_rule, p, gpu);
}

}  // namespace customops::cuda::depthwise
