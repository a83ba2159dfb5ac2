// Which CUDA kernel runs: that depends on nothing but the problem and the GPU. Launchers do as they are told. takes.h
// says what a kernel can compute; the forests of measured.h say what each of those costs, by what was measured on an
// H100 and an H200 (docs/depthwise-limits.md); forest.h says which of them may be chosen.
#pragma once

#include "measured.h"

namespace customops::cuda::depthwise {

struct Choice {
  Kernel kernel;
  bool copies_to_planes;  // channels_last images are copied into contiguous ones first, and results back
  const char* reason;
};

inline Choice as_measured(const Candidate& candidate) {
  return {candidate.kernel, candidate.copies_to_planes,
          "measured to be the fastest for sizes like these, on an H100 or H200"};
}

// Forward and dgrad: the problem says which by its axes.
inline Choice choose_forward(const Problem& problem, const Gpu& gpu) {
  if (fwd_scale_takes(problem)) return {Kernel::kFwdScale, false, "one tap: pixels times a weight"};
  const Candidate any{Kernel::kFwdSliding, !takes(Kernel::kFwdSliding, problem, gpu)};
  const auto among = [&](const auto& forest) {
    return as_measured(cheapest(forest, measured::features_of(problem), problem, gpu, any));
  };
  if (problem.flipped) return problem.channels_last ? among(measured::kDgradNhwc) : among(measured::kDgradNchw);
  return problem.channels_last ? among(measured::kFwdNhwc) : among(measured::kFwdNchw);
}

inline Choice choose_wgrad(const Problem& problem, const Gpu& gpu) {
  if (wgrad_scale_takes(problem)) return {Kernel::kWgradScale, false, "one tap: sums of products"};
  const Candidate any{Kernel::kWgradSliding, false};
  const auto among = [&](const auto& forest) {
    return as_measured(cheapest(forest, measured::features_of(problem), problem, gpu, any));
  };
  return problem.channels_last ? among(measured::kWgradNhwc) : among(measured::kWgradNchw);
}

}  // namespace customops::cuda::depthwise
