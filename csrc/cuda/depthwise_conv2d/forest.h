// What measured.h is made of: forests of small trees, whose costs add up for each kernel. The kernel with the least sum
// that can compute the problem is chosen.
#pragma once

#include <cstdint>
#include <limits>

#include "takes.h"

namespace customops::cuda::depthwise {

struct Candidate {
  Kernel kernel;
  bool copies_to_planes;  // channels_last images are copied into contiguous ones first, and results back
};

// Choices that are seldom the fastest, and where a forest is wrong, much slower. Over channels_last images cuDNN often
// takes more than twice the time of the fastest for a million outputs or more, and for windows other than rows and 3x3,
// 5x5 and 7x7 with one stride, without dilation. fwd_rows was the fastest for 1 of 394 problems with fewer than 32
// outputs a row, counted for each residue of the stride, and took up to 21 times as long as the fastest.
inline bool is_gamble(Kernel kernel, const Problem& problem) {
  if (kernel == Kernel::kFwdRows) return sliding_axis<int64_t>(problem.x).residue_outputs() < 32;
  if (kernel != Kernel::kFwdCudnn || !problem.channels_last) return false;
  const int64_t taps = problem.x.taps;
  const bool row = problem.y.taps == 1 && problem.x.dilation == 1;
  const bool square = is_square(problem) && (taps == 3 || taps == 5 || taps == 7);
  return outputs(problem) >= 1'000'000 || !(row || square);
}

// Whether it can compute the problem, and is not a gamble.
inline bool may_choose(const Candidate& candidate, const Problem& problem, const Gpu& gpu) {
  if (is_gamble(candidate.kernel, problem)) return false;
  if (candidate.copies_to_planes && !may_copy_to_planes(candidate.kernel)) return false;
  return takes(candidate.kernel, candidate.copies_to_planes ? as_planes(problem) : problem, gpu);
}

// The same questions for all problems: their answers, as bits, are the number of the leaf.
template <int kDepth, int kCandidates>
struct Tree {
  struct {
    uint8_t feature;
    double at_least;
  } questions[kDepth];
  char costs[(1 << kDepth) * kCandidates + 1];  // leaf by leaf: a digit, or for 10 and more what follows '9' in ASCII
};

template <int kDepth, int kCandidates, int kTrees>
struct Forest {
  Candidate candidates[kCandidates];
  Tree<kDepth, kCandidates> trees[kTrees];
};

// The cheapest candidate that may be chosen for the problem, otherwise `fallback`.
template <int kDepth, int kCandidates, int kTrees, class Features>
Candidate cheapest(const Forest<kDepth, kCandidates, kTrees>& forest, const Features& features, const Problem& problem,
                   const Gpu& gpu, const Candidate& fallback) {
  int costs[kCandidates] = {};
  for (const auto& tree : forest.trees) {
    int leaf = 0;
    for (const auto& question : tree.questions) leaf = 2 * leaf + (features[question.feature] >= question.at_least);
    for (int i = 0; i < kCandidates; ++i) costs[i] += tree.costs[leaf * kCandidates + i] - '0';
  }
  Candidate best = fallback;
  int least = std::numeric_limits<int>::max();
  for (int i = 0; i < kCandidates; ++i) {
    const Candidate& candidate = forest.candidates[i];
    if (costs[i] < least && may_choose(candidate, problem, gpu)) least = costs[i], best = candidate;
  }
  return best;
}

}  // namespace customops::cuda::depthwise
