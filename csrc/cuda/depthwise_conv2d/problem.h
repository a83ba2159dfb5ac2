// What the CUDA kernels of depthwise_conv2d compute, without the images: all that the choice of a kernel depends on.
// Plain C++, so that the choice can be tested and explained on machines without a GPU.
//
// Forward and dgrad are one sum, a correlation of each plane with the taps of its channel,
//   out[o] = bias + sum_k weight[k] in[(o * down - pad + k * dilation) / up],
// over the taps where up divides that and a pixel is there. Dgrad exchanges up and down and flips the taps. Wgrad has
// the image in the place of `in` and the gradient in the place of the taps, and sums over the batch.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

#include "../../conv_axis.h"
#include "../../dtype.h"

namespace customops::cuda::depthwise {

constexpr int64_t kMaxIndex = std::numeric_limits<int32_t>::max() / 4;  // so that sums of a few do not overflow

struct Axis {
  int64_t in, out, taps, up, down, pad, dilation;
};

struct Problem {
  int64_t batch, channels;
  Axis y, x;  // of wgrad: those of the forward pass
  bool channels_last, flipped;
  Dtype dtype;
  bool float32_weight;                       // of 16-bit images: rounded to their dtype on reading
  int64_t in_alignment, out_alignment = 16;  // bytes; out: of the gradient for wgrad
  bool bias = false;

  int64_t taps() const { return y.taps * x.taps; }
  int64_t element_bytes() const { return dtype == Dtype::kFloat64 ? 8 : (dtype == Dtype::kFloat32 ? 4 : 2); }
  int64_t weight_element_bytes() const { return float32_weight ? 4 : element_bytes(); }
};

// What of a GPU matters to the choice and the layout of the work.
struct Gpu {
  int64_t capability;  // of the machine code that was loaded: 90 for sm_90
  int64_t multiprocessors, shared_a_multiprocessor, shared_a_block;  // bytes
  bool torch_kernels = true;                                         // whether torch's own kernels may be chosen
};
constexpr Gpu kH200{90, 132, 228 << 10, 227 << 10};

inline bool is_16_bit(Dtype dtype) { return dtype == Dtype::kFloat16 || dtype == Dtype::kBFloat16; }
inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

// The largest power of two, up to 16, that divides an address.
inline int64_t alignment_of(const void* data) {
  int64_t bytes = 16;
  while (reinterpret_cast<uintptr_t>(data) % bytes != 0) bytes /= 2;
  return bytes;
}

inline bool fits_int32(const Axis& a) {
  return std::max({a.in * a.up, a.out * a.down, a.taps * a.dilation, a.up, a.down, std::abs(a.pad)}) < kMaxIndex;
}
inline bool is_dense(const Axis& a) { return a.up == 1 && a.down == 1 && a.dilation == 1 && fits_int32(a); }

inline Axis forward_axis(const ConvAxis& a) { return {a.in, a.out, a.taps, 1, a.stride, a.pad, a.dilation}; }
inline Axis dgrad_axis(const ConvAxis& a) {
  return {a.out, a.in, a.taps, a.stride, 1, a.dilation * (a.taps - 1) - a.pad, a.dilation};
}

// Whether an axis is padded alike on both sides, as far as its outputs show.
inline bool symmetric(const ConvAxis& a) {
  return a.pad >= 0 && (a.in + 2 * a.pad - a.dilation * (a.taps - 1) - 1) / a.stride + 1 == a.out;
}

// A window without the taps at its edges that meet no pixel for any output, as 51 taps have over 7 pixels.
struct MetWindow {
  ConvAxis y, x;
  int64_t first_y, first_x;  // of the taps that are left
};

// The first tap along an axis that meets a pixel, and what is left of the axis from there on.
inline std::pair<int64_t, ConvAxis> met_axis(ConvAxis a) {
  const int64_t unmet = ceil_div(std::max<int64_t>(0, a.pad - (a.out - 1) * a.stride), a.dilation);
  const int64_t first = std::min(unmet, a.taps - 1), last = std::min(a.taps - 1, (a.in - 1 + a.pad) / a.dilation);
  a.taps = std::max<int64_t>(1, last - first + 1), a.pad -= first * a.dilation;
  return {first, a};
}

// Images and outputs that fwd_whole_planes takes: at most so wide and high, at stride 1 and dilation 1.
constexpr int64_t kFwdWholeMost = 32;
inline bool fits_whole_planes(const ConvAxis& a) {
  return a.stride == 1 && a.dilation == 1 && std::max(a.in, a.out) <= kFwdWholeMost;
}

// Of forward and dgrad. All taps are left for fwd_whole_planes, which skips those that meet no pixel itself, and where
// the others are few: the copy of what is left of the weight is a launch of its own, and among the kernels for
// contiguous images is torch's native one, which skips such taps one by one. Padding stays as symmetric as it was, for
// torch's kernels.
inline MetWindow met_window(int64_t batch, int64_t channels, const ConvAxis& y, const ConvAxis& x, bool channels_last,
                            bool dgrad) {
  if (fits_whole_planes(y) && fits_whole_planes(x)) return {y, x, 0, 0};
  const auto [first_y, met_y] = met_axis(y);
  const auto [first_x, met_x] = met_axis(x);
  const double taps = double(y.taps) * double(x.taps), met = double(met_y.taps) * double(met_x.taps);
  const double outputs = double(batch * channels) * double(dgrad ? y.in * x.in : y.out * x.out);
  const double fewest = channels_last ? 18e6 : 200e6;  // H200: below, the copy took more time than the taps
  if (met > 0.75 * taps || outputs * (taps - met) < fewest || symmetric(met_y) != symmetric(y) ||
      symmetric(met_x) != symmetric(x))
    return {y, x, 0, 0};
  return {met_y, met_x, first_y, first_x};
}

inline int64_t outputs(const Problem& problem) {
  return problem.batch * problem.channels * problem.y.out * problem.x.out;
}

// Steps that no sum uses are 1: they may be as large as 2^31 otherwise.
inline Axis without_unused_steps(Axis axis) {
  if (axis.taps == 1) axis.dilation = 1;
  if (axis.out == 1) axis.down = 1;
  if (axis.in == 1) axis.up = 1;
  return axis;
}

// The same sum over the same memory, with fewer cases: images one pixel wide become one pixel high, and where every
// output meets one pixel, all of them become one row.
inline Problem simplified(Problem problem) {
  for (Axis* a : {&problem.y, &problem.x})
    if (a->in == 1 && a->out == 1 && a->taps == 1) *a = without_unused_steps(*a);
  const auto pointwise = [](const Axis& a) {
    return a.taps == 1 && a.up == 1 && a.down == 1 && a.pad == 0 && a.in == a.out;
  };
  if (problem.x.in == 1 && pointwise(problem.x)) std::swap(problem.x, problem.y);
  if (pointwise(problem.x) && pointwise(problem.y))
    problem.x.in = problem.x.out = problem.x.in * problem.y.in, problem.y.in = problem.y.out = 1;
  return problem;
}

// The same with contiguous images, freshly allocated.
inline Problem as_planes(Problem problem) {
  problem.channels_last = false, problem.in_alignment = problem.out_alignment = 16;
  return problem;
}

// Wgrad as a forward pass with the gradient for a kernel: outputs are the taps, stride and dilation change places.
inline Axis correlation_axis(const Axis& forward) {
  return {forward.in, forward.taps, forward.out, 1, forward.dilation, forward.pad, forward.down};
}

// Elements of a row that one access takes: 4, 2 or 1, whatever divides the width, `also`, and the alignment.
inline int64_t row_vector(int64_t element_bytes, int64_t alignment, int64_t width, int64_t also = 0) {
  for (int64_t v = 4; v > 1; v /= 2)
    if (width % v == 0 && also % v == 0 && alignment % (v * element_bytes) == 0) return v;
  return 1;
}

// Channels that a thread of the kernels for tiles of channels_last images takes.
constexpr int channel_lanes(int64_t taps) { return taps == 3 ? 4 : (taps == 5 ? 2 : 1); }

// Geometry for kernels that take any stride and any dilation. Outputs along an axis are grouped so that the windows of
// a thread's outputs overlap as if stride and dilation were 1: the thread reads each input once for all of them.
//
// Forward, stride s, dilation d, g = gcd(s, d): output o and tap t read input o * s + t * d - pad. Moving o by d / g
// and t back by s / g reads the same input. So outputs that lie `spacing` = d / g apart slide over inputs that lie
// `input_step` = s * d / g apart, with every `tap_step` = (s / g)th tap; the taps form tap_step classes.
//
// Dgrad: the image's pixels fall into s phases. A phase meets every (s / g)th tap from a first one on, or none, and
// within a phase the sum is a forward pass of stride 1 and dilation d / g.
//
// Int: int, or int64_t where products do not fit.
template <class Int>
struct SlidingAxis {
  Int in, out, taps, pad, dilation, down, up;
  Int tap_step, classes, spacing, input_step;
  Int inverse;  // of dilation / g modulo tap_step

  // Group i takes outputs i % stride + stride * (n * (i / stride) + 0, 1, ... n - 1).
#ifdef __CUDACC__
  __host__ __device__
#endif
      Int stride() const {
    return up * spacing;
  }
  // Groups of n outputs that cover the axis.
  Int groups(Int n) const { return stride() * Int(ceil_div(residue_outputs(), n)); }
  // Outputs of one residue modulo the stride, at most.
  Int residue_outputs() const { return Int(ceil_div(out, stride())); }
  Int taps_of_class() const { return Int(ceil_div(taps, tap_step)); }
};

inline int64_t inverse_modulo(int64_t value, int64_t modulus) {  // the extended Euclidean algorithm
  int64_t rest = modulus, divisor = value % modulus, inverse = 0, next = 1;
  while (divisor != 0) {
    const int64_t quotient = rest / divisor;
    std::tie(rest, divisor) = std::pair(divisor, rest - quotient * divisor);
    std::tie(inverse, next) = std::pair(next, inverse - quotient * next);
  }
  return (inverse % modulus + modulus) % modulus;
}

template <class Int>
SlidingAxis<Int> sliding_axis(const Axis& given) {
  const Axis a = without_unused_steps(given);
  const int64_t stride = a.up * a.down, common = std::gcd(stride, a.dilation), tap_step = stride / common;
  return {Int(a.in),
          Int(a.out),
          Int(a.taps),
          Int(a.pad),
          Int(a.dilation),
          Int(a.down),
          Int(a.up),
          Int(tap_step),
          Int(a.down > 1 ? tap_step : 1),
          Int(a.dilation / common),
          Int(a.down * (a.dilation / common)),
          Int(inverse_modulo(a.dilation / common, tap_step))};
}

// Whether ints hold every position along an axis, also those of a few groups beyond its end.
inline bool slides_in_int32(const Axis& given) {
  const Axis a = without_unused_steps(given);
  return std::max({a.in * a.up, a.out * a.down, a.taps * a.dilation, a.up * a.dilation, a.down * a.dilation,
                   std::abs(a.pad)}) < kMaxIndex / 16;
}
inline bool slides_in_int32(const Problem& problem) {
  const int64_t pixel = problem.channels_last ? problem.channels : 1;
  return slides_in_int32(problem.y) && slides_in_int32(problem.x) && problem.channels < kMaxIndex &&
         std::max(problem.y.in * problem.x.in, problem.y.out * problem.x.out) < kMaxIndex / pixel &&
         problem.taps() < kMaxIndex;
}

// How the threads of the sliding kernels work: `outputs` outputs along an axis, whose taps `shares` threads share.
struct SlidingPlan {
  bool along_x;
  int outputs;  // 1, 4 or 8
  int shares;   // 1, 2, 4 or 8
};
constexpr int kMaxShares = 8, kFewTaps = 25;

// Instructions of a thread, about: for `outputs` outputs along `slide`, whose windows overlap.
inline double sliding_cost(const Axis& slide_axis, const Axis& cross_axis, int outputs, int shares, int vector) {
  const auto slide = sliding_axis<int64_t>(slide_axis), cross = sliding_axis<int64_t>(cross_axis);
  // Taps that meet padding alone are skipped.
  const auto met = [](const SlidingAxis<int64_t>& a) {
    return double(std::min(a.up > 1 ? a.taps_of_class() : a.taps, (a.in + a.input_step - 1) / a.input_step + 2));
  };
  double rows = std::min<double>(double(cross.up > 1 ? cross.taps_of_class() : cross.taps), double(cross.in));
  const double adding = shares == 1 ? 0 : 100 + outputs * vector * shares;
  if (outputs == 1) return 100 + adding + std::min(met(slide), double(slide.in)) * rows / shares * (12 + 2 * vector);
  double taps = std::min(double(slide.taps_of_class()), met(slide));
  (cross.taps > 1 ? rows : taps) = std::ceil((cross.taps > 1 ? rows : taps) / shares);
  const double row = (outputs + taps - 1) * (5 + vector) + taps * (3 + outputs * vector) + 30;
  return 150 + 20 * outputs + adding + double(slide.classes) * rows * row;
}

// The plan with the least time: a GPU's multiprocessors run so many threads at a time as fast as one. Only where
// outputs have many taps do threads share them.
inline SlidingPlan plan_sliding(const Problem& problem, int vector, int most_outputs, int most_shares,
                                int64_t multiprocessors) {
  const auto x = sliding_axis<int64_t>(problem.x), y = sliding_axis<int64_t>(problem.y);
  const double images = double(problem.batch) * double(problem.channels) / vector;
  const int max_shares = problem.taps() < kFewTaps ? 1 : most_shares;
  SlidingPlan best{false, 1, 1};
  double best_time = 0;
  for (int outputs = 1; outputs <= most_outputs; outputs *= outputs == 1 ? 4 : 2)
    for (const bool along_x : {false, true}) {
      if (outputs == 1 && along_x) continue;
      const Axis &slide_axis = along_x ? problem.x : problem.y, &cross_axis = along_x ? problem.y : problem.x;
      const double threads = images * double((along_x ? x : y).groups(outputs)) * double(cross_axis.out);
      // Neighbouring threads of contiguous images read as many columns apart as they have outputs along x.
      const double apart = along_x && !problem.channels_last ? (problem.element_bytes() >= 4 ? 1.6 : 1.25) : 1;
      for (int shares = 1; shares <= max_shares; shares *= 2) {
        const double at_once = double(multiprocessors) * (shares == 1 ? 1024 : 896);
        const double time = apart * sliding_cost(slide_axis, cross_axis, outputs, shares, vector) *
                            std::max(1.0, shares * threads / at_once);
        if (best_time == 0 || time < best_time) best_time = time, best = {along_x, outputs, shares};
      }
    }
  return best;
}

}  // namespace customops::cuda::depthwise
