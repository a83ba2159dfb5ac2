// One axis of forward, dgrad or wgrad: which pixels the outputs read, split by phase, so that a stride leaves nothing
// but offsets.
#pragma once

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "../../depthwise_conv2d.h"

namespace customops::cpu {

inline int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0); }  // b > 0
inline int64_t ceil_div(int64_t a, int64_t b) { return -floor_div(-a, b); }

// One axis of to[q * out_phases + r] = sum over taps[r] of weight[tap.index] * phase[tap.phase][q + tap.shift], where
// phase[p] holds every in_phases-th of `from`, beginning with phases[p].
struct AxisTaps {
  struct Tap {
    int64_t index, phase, shift;
  };
  int64_t from, to, in_phases, out_phases;
  int64_t first = 0, span = 0;  // the least shift; the greatest minus the least
  std::vector<int64_t> phases;
  std::vector<std::vector<Tap>> taps;

  AxisTaps(int64_t from, int64_t to, int64_t in_phases, int64_t out_phases)
      : from(from), to(to), in_phases(in_phases), out_phases(out_phases), taps(std::min(out_phases, to)) {}

  // How many periods q there are, for output phase r.
  int64_t periods(int64_t r = 0) const { return ceil_div(to - r, out_phases); }

  // The taps of the phase with the most taps.
  int64_t max_taps() const {
    const auto fewer = [](const auto& a, const auto& b) { return a.size() < b.size(); };
    return std::max_element(taps.begin(), taps.end(), fewer)->size();
  }

  // The pixel of `from` that output 0 of a phase reads by a tap.
  int64_t column(const Tap& tap) const { return tap.shift * in_phases + phases[tap.phase]; }

  // Keeps taps in the order of the buffer.
  void add(int64_t r, int64_t index, int64_t phase, int64_t shift) {
    const size_t p = std::find(phases.begin(), phases.end(), phase) - phases.begin();
    const int64_t end = phases.empty() ? shift : std::max(first + span, shift);
    first = phases.empty() ? shift : std::min(first, shift);
    span = end - first;
    if (p == phases.size()) phases.push_back(phase);
    const Tap tap{index, int64_t(p), shift};
    const auto before = [](const Tap& a, const Tap& b) {
      return std::tie(a.phase, a.shift) < std::tie(b.phase, b.shift);
    };
    taps[r].insert(std::upper_bound(taps[r].begin(), taps[r].end(), tap, before), tap);
  }
};

// The taps [first, last) that read a pixel of the image for some output; at least one tap, even if none does.
inline std::pair<int64_t, int64_t> taps_met(const ConvAxis& a) {
  const int64_t first = std::clamp<int64_t>(ceil_div(a.pad - (a.out - 1) * a.stride, a.dilation), 0, a.taps - 1);
  return {first, std::clamp<int64_t>(ceil_div(a.in + a.pad, a.dilation), first + 1, a.taps)};
}

// to[o] = sum_k weight[k] from[o * stride + k * dilation - pad]
//
// With a dilation, outputs that are `phases` apart read neighbouring pixels: they are computed together.
inline AxisTaps fwd_axis(const ConvAxis& a, int64_t phases = 1) {
  AxisTaps axis(a.in, a.out, a.stride * phases, phases);
  const auto [first, last] = taps_met(a);
  for (int64_t r = 0; r < int64_t(axis.taps.size()); ++r)
    for (int64_t k = first; k < last; ++k) {
      const int64_t at = r * a.stride + k * a.dilation - a.pad, shift = floor_div(at, axis.in_phases);
      axis.add(r, k, at - shift * axis.in_phases, shift);
    }
  return axis;
}

// to[i] = sum_k weight[k] from[(i + pad - k * dilation) / stride] where stride divides
inline AxisTaps dgrad_axis(const ConvAxis& a) {
  AxisTaps axis(a.out, a.in, 1, a.stride);
  const auto [first, last] = taps_met(a);
  for (int64_t k = first; k < last; ++k) {
    const int64_t at = a.pad - k * a.dilation, shift = -floor_div(-at, a.stride), r = shift * a.stride - at;
    if (r < int64_t(axis.taps.size())) axis.add(r, k, 0, shift);
  }
  return axis;
}

// to[o] = from[o]
inline AxisTaps identity_axis(int64_t n) {
  AxisTaps axis(n, n, 1, 1);
  axis.add(0, 0, 0, 0);
  return axis;
}

}  // namespace customops::cpu
