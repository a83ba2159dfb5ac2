// depthwise_conv2d's inner loops where a register holds neighbouring pixels: of one channel, or of all channels if
// those are few.
#pragma once

#include "plan.h"

namespace customops::cpu {

constexpr int kRegisters = 8;  // sums at a time: enough to hide the latency of a multiply-add

// Registers of outputs, `step` apart, to which all their terms are added. A term has one weight, or as many as a step
// has elements.
template <bool kOneChannel, class V, int kCount, class A>
void add_terms(const A* buffer, int64_t step, const std::vector<Plan::Term>& terms, const A* weight, const A* bias,
               V (&out)[kCount]) {
  const auto set = [](V& v, const A* p) { kOneChannel ? v.set(*p) : v.load(p); };
#pragma GCC unroll 16
  for (int i = 0; i < kCount; ++i) set(out[i], bias);
  const Plan::Term* term = terms.data();
  for (const auto* const end = term + terms.size(); term != end; ++term, weight += kOneChannel ? 1 : step) {
    V factor;
    set(factor, weight);
    const A* from = buffer + term->offset;
#pragma GCC unroll 16
    for (int i = 0; i < kCount; ++i, from += step) out[i].fma(factor, from);
  }
}

// A row of outputs, of that length, from a buffer, with nothing written beyond the end if that is exact. In a function
// of its own for each instruction set, which dtypes share.
template <class I, class A>
void add_run(I isa, const A* from, const std::vector<Plan::Term>& terms, const A* weight, const A* bias,
             bool one_channel, int64_t step, int64_t length, bool exact, A* to) {
  using V = Vec<I::value, A>;
  outline(isa, [=, &terms](auto) {
    const auto every = [&](auto one, int64_t first, int64_t step) {  // registers of the same channels
      for (int64_t at = first; at < length;) {
        const int64_t left = ceil_div(length - at, step);
        with_constant<kRegisters>(std::min<int64_t>(left, kRegisters), [&](auto constant) {
          constexpr int kCount = constant;
          V sums[kCount];
          add_terms<one>(from + at, step, terms, weight + first, bias + first, sums);
          A* end = to + at;
          for (int i = 0; i + 1 < kCount; ++i, end += step) sums[i].store(end);
          const int64_t rest = to + length - end;
          if (exact && rest < V::kLanes)
            store_part(sums[kCount - 1], end, rest);
          else
            sums[kCount - 1].store(end);
          at += kCount * step;
        });
      }
    };
    if (one_channel) return every(std::true_type(), 0, V::kLanes);
    for (int64_t first = 0; first < step; first += V::kLanes) every(std::false_type(), first, step);
  });
}

}  // namespace customops::cpu
