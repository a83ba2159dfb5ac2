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
inline bool tiles_pay_for_stride_2(const Problem& problem) {
  return problem.x.down == 1 || (outputs(problem) >= 200'000 && !(is_16_bit(problem.dtype) && problem.x.in % 2 == 1));
}

// Long rows, where many taps or stores that are not aligned make up for the way through shared memory.
inline bool rows_pay(const Problem& problem) {
  if (!is_dense(problem.x) || problem.x.out < 128) return false;
  if (problem.x.taps == 1) return outputs(problem) >= 1 << 20;
  return problem.x.taps >= 8 || (is_16_bit(problem.dtype) && problem.x.out % 8 != 0 && outputs(problem) >= 1 << 20);
}

// One output a thread: for so few outputs that a GPU is not full, and few taps, which are not worth more.
inline bool simple_pays(const Problem& problem) {
  const bool is_3x3 = problem.y.taps == 3 && problem.x.taps == 3, upsamples = problem.x.up > 1 || problem.y.up > 1;
  if (upsamples || !(is_3x3 || (problem.y.taps <= 2 && problem.taps() <= 8))) return false;
  if (problem.channels_last) return problem.taps() <= 5 && outputs(problem) < 1 << 17;
  return outputs(problem) < (is_3x3 ? 1 << 18 : 1 << 17);
}

inline Choice choose_forward_planes(const Problem& problem, const Gpu& gpu) {
  const bool two_dimensional = problem.y.taps > 1 && problem.x.taps > 1,
             mostly_inside = problem.y.taps <= 3 * problem.y.in;
  if (fwd_small_takes(problem) && two_dimensional && outputs(problem) >= 1 << 19)
    return {Kernel::kFwdSmall, false, "many images up to 8 pixels wide at stride 1"};
  if (fwd_dense_rows_takes(problem) && problem.x.out >= 256 && problem.x.taps <= 32)
    return {Kernel::kFwdDenseRows, false, "a kernel one tap high over long rows at stride 1"};
  if (fwd_mma_takes(problem, gpu) && two_dimensional && mostly_inside)
    return {Kernel::kFwdMma, false, "16-bit at stride 1: tensor cores"};
  if (fwd_planes_takes(problem, gpu) && tiles_pay_for_stride_2(problem))
    return {Kernel::kFwdPlanes, false, "3x3, 5x5 or 7x7 taps, compiled for their stride"};
  if (fwd_rows_takes(problem) && rows_pay(problem))
    return {Kernel::kFwdRows, false, "a kernel one tap high over long rows"};
  if (fwd_large_takes(problem, gpu) && std::min(problem.y.taps, problem.x.taps) >= 9 && mostly_inside &&
      outputs(problem) >= 500'000)
    return {Kernel::kFwdLarge, false, "a large kernel at stride 1: bound by multiply-adds"};
  return {Kernel::kFwdSliding, false, "takes every kernel, stride, dilation and dtype"};
}

// The choice for contiguous images, where copying channels_last ones there and back pays: for large kernels at stride
// 1, which are bound by multiply-adds, and for 16-bit images of an odd number of channels, which no vector reads.
inline bool copying_pays(const Problem& problem, Kernel kernel, Kernel sliding, Kernel rows) {
  if (!is_dense(problem.y) || !is_dense(problem.x) || kernel == sliding || kernel == rows) return false;
  return problem.taps() > 49;
}

// Those that fwd_pixels and wgrad_pixels compute. The trees of measured.h were made before that: rules decide.
inline bool is_7x7_stride_2_pixels(const Problem& problem) {
  return problem.channels_last && problem.dtype != ScalarType::Double && is_square(problem) && problem.x.taps == 7 &&
         problem.x.up * problem.x.down == 2;
}
// So few pixels that blocks with tiles in shared memory would be few and long.
inline bool is_small_7x7_stride_2(const Problem& problem) {
  return is_7x7_stride_2_pixels(problem) && problem.x.down == 2 &&
         double(problem.batch) * double(problem.channels) * double(problem.y.in) * double(problem.x.in) < 1 << 18;
}

inline bool has_odd_channels(const Problem& problem) { return is_16_bit(problem.dtype) && problem.channels % 2 == 1; }

// Where no measurement says otherwise.
inline Choice choose_forward_by_rule(const Problem& problem, const Gpu& gpu) {
  if (fwd_simple_takes(problem) && simple_pays(problem)) return {Kernel::kFwdSimple, false, "few outputs and few taps"};
  if (!problem.channels_last) return choose_forward_planes(problem, gpu);
  Choice planes = choose_forward_planes(as_planes(problem), gpu);
  planes.copies_to_planes = true;
  if (!sliding_has_room(problem, 1) || copying_pays(problem, planes.kernel, Kernel::kFwdSliding, Kernel::kFwdRows) ||
      (has_odd_channels(problem) && problem.taps() == 49 && planes.kernel == Kernel::kFwdMma))
    return planes;
  if (is_small_7x7_stride_2(problem) && problem.dtype == ScalarType::Float && takes(Kernel::kFwdCudnn, problem, gpu))
    return {Kernel::kFwdCudnn, false, "float32, 7x7 taps at stride 2 over few pixels"};
  if (outputs(problem) < 1 << 15) return {Kernel::kFwdSliding, false, "few outputs: threads that take one each"};
  if (fwd_pixels_takes(problem))
    return {Kernel::kFwdPixels, false, "3x3, 5x5 or 7x7 taps: tiles of channels_last images"};
  if (fwd_direct_lanes(problem) > 0) return {Kernel::kFwdDirect, false, "3x3 or 5x5 taps straight from memory"};
  if (fwd_direct_takes_dilation(problem)) return {Kernel::kFwdDirect, false, "dilated 3x3 taps straight from memory"};
  return {Kernel::kFwdSliding, false, "takes every kernel, stride, dilation and dtype"};
}

// Rows pay from a number of taps on, or where they are long.
inline bool wgrad_rows_pay(const Problem& problem) {
  return problem.x.taps >= 15 ? problem.x.out >= 48
                              : (problem.x.taps >= 8 && problem.x.out >= 256 && is_dense(problem.x));
}

inline Choice choose_wgrad_planes(const Problem& problem, const Gpu& gpu) {
  const int64_t pixels = problem.y.out * problem.x.out;
  if (wgrad_small_takes(problem) && outputs(problem) >= 1 << 19)
    return {Kernel::kWgradSmall, false, "many images 7 or 8 pixels wide at stride 1"};
  if (wgrad_mma_planes_takes(problem, gpu)) return {Kernel::kWgradMmaPlanes, false, "16-bit, 5x5 or 7x7: tensor cores"};
  if (wgrad_planes_takes(problem) && problem.x.out > 6 &&
      (problem.x.down == 1 || (problem.x.in % 2 == 0 && (problem.x.taps > 3 || outputs(problem) >= 1 << 16))))
    return {Kernel::kWgradPlanes, false, "3x3, 5x5 or 7x7 taps, compiled for their stride"};
  if (wgrad_rows_takes(problem) && wgrad_rows_pay(problem))
    return {Kernel::kWgradRows, false, "a kernel one tap high over long rows"};
  if (wgrad_large_takes(problem, gpu) && std::min(problem.y.taps, problem.x.taps) >= 5 && problem.taps() >= 49)
    return {Kernel::kWgradLarge, false, "a large kernel at stride 1: whole planes in shared memory"};
  if (wgrad_correlation_takes(problem) && problem.taps() >= 9 &&
      (3 * problem.taps() >= pixels || (problem.taps() >= 128 && is_dense(problem.x))))
    return {Kernel::kWgradCorrelation, false, "about as many taps as pixels: the gradient in the place of the kernel"};
  return {Kernel::kWgradSliding, false, "takes every kernel, stride, dilation and dtype"};
}

inline Choice choose_wgrad_by_rule(const Problem& problem, const Gpu& gpu) {
  if (!problem.channels_last) return choose_wgrad_planes(problem, gpu);
  Choice planes = choose_wgrad_planes(as_planes(problem), gpu);
  planes.copies_to_planes = true;
  if ((copying_pays(problem, planes.kernel, Kernel::kWgradSliding, Kernel::kWgradRows) &&
       planes.kernel != Kernel::kWgradCorrelation && outputs(problem) >= 1 << 17) ||
      (has_odd_channels(problem) && problem.taps() == 49 && planes.kernel == Kernel::kWgradMmaPlanes))
    return planes;
  if (wgrad_mma_pixels_takes(problem, gpu)) return {Kernel::kWgradMmaPixels, false, "16-bit, 5x5 or 7x7: tensor cores"};
  if (wgrad_pixels_takes(problem) && (!is_small_7x7_stride_2(problem) || has_channel_vectors(problem, 4)))
    return {Kernel::kWgradPixels, false, "3x3, 5x5 or 7x7 taps: tiles of channels_last images"};
  if (wgrad_direct_lanes(problem) > 0) return {Kernel::kWgradDirect, false, "3x3 or 5x5 taps straight from memory"};
  return {Kernel::kWgradSliding, false, "takes every kernel, stride, dilation and dtype"};
}

// Over so many contiguous outputs cuDNN was the fastest of all in one of twenty problems, and took more than twice the
// time of the fastest in half of them: no tree is that sure of itself.
inline bool is_risky(Kernel kernel, const Problem& problem) {
  return kernel == Kernel::kFwdCudnn && !problem.channels_last && outputs(problem) >= 1'000'000;
}

// The measured kernel, if it can compute the problem; otherwise what the rules say.
inline Choice choose(const std::optional<Measured>& measured, Choice (*by_rule)(const Problem&, const Gpu&),
                     const Problem& problem, const Gpu& gpu) {
  if (measured && !is_7x7_stride_2_pixels(problem) && !is_risky(measured->kernel, problem) &&
      takes(measured->kernel, measured->copies_to_planes ? as_planes(problem) : problem, gpu))
    return {measured->kernel, measured->copies_to_planes, measured->reason};
  return by_rule(problem, gpu);
}

// Forward and dgrad: the problem says which by its axes.
inline Choice choose_forward(const Problem& problem, const Gpu& gpu) {
  if (fwd_scale_takes(problem)) return {Kernel::kFwdScale, false, "one tap: pixels times a weight"};
  const auto measured = fwd_dense_rows_takes(problem) ? measured_rows(problem)
                        : problem.flipped
                            ? (problem.channels_last ? measured_dgrad_nhwc(problem) : measured_dgrad_nchw(problem))
                            : (problem.channels_last ? measured_fwd_nhwc(problem) : measured_fwd_nchw(problem));
  return choose(measured, choose_forward_by_rule, problem, gpu);
}

inline Choice choose_wgrad(const Problem& problem, const Gpu& gpu) {
  if (wgrad_scale_takes(problem)) return {Kernel::kWgradScale, false, "one tap: sums of products"};
  return choose(problem.channels_last ? measured_wgrad_nhwc(problem) : measured_wgrad_nchw(problem),
                choose_wgrad_by_rule, problem, gpu);
}

}  // namespace customops::cuda::depthwise
