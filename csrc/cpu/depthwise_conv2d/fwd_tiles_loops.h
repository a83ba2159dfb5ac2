// Inner loops of forward and dgrad where a register holds neighbouring pixels.
#pragma once

#include "plan.h"

namespace customops::cpu {

constexpr int kRegisters = 8;       // sums at a time: enough to hide the latency of a multiply-add
constexpr int kManyRegisters = 16;  // where loads are instructions of their own: a tap's other ones are shared by more
constexpr int64_t kFewSteps = 2;    // of a run, which has too few registers of the same channels
constexpr int kNeighbours = 4;      // registers of other channels at a time

// Computes kCount registers of outputs, `step` elements apart. A tap has one weight (kOneChannel), or as many as a step
// has elements.
template <bool kOneChannel, class V, int kCount, class A>
void add_all_taps(const A* buffer, int64_t step, const std::vector<TilePlan::TapOffset>& taps, const A* weight,
                  const A* bias, V (&out)[kCount]) {
  const auto set = [](V& v, const A* p) { kOneChannel ? v.set(*p) : v.load(p); };
#pragma GCC unroll 16
  for (int i = 0; i < kCount; ++i) set(out[i], bias);
  const TilePlan::TapOffset* tap = taps.data();
  for (const auto* const end = tap + taps.size(); tap != end; ++tap, weight += kOneChannel ? 1 : step) {
    V factor;
    set(factor, weight);
    const A* from = buffer + tap->offset;
    if constexpr (kOwnLoads<V> && kOneChannel && kCount % 2 == 0) {
#pragma GCC unroll 16
      for (int i = 0; i < kCount; i += 2) {
        V two[2];
        load_two(two, from);
        out[i].fma(factor, two[0]);
        out[i + 1].fma(factor, two[1]);
      }
      continue;
    } else if constexpr (kOwnLoads<V>) {
#pragma GCC unroll 16
      for (V& sum : out) {
        V v;
        load_and_step(v, from, step);
        sum.fma(factor, v);
      }
      continue;
    }
#pragma GCC unroll 16
    for (int i = 0; i < kCount; ++i, from += step) out[i].fma(factor, from);
  }
}

// Computes kCount neighbouring registers of outputs, of a step that has as many or more: each has weights of its own.
template <class V, int kCount, class A>
void add_neighbours(const A* buffer, int64_t step, const std::vector<TilePlan::TapOffset>& taps, const A* weight,
                    const A* bias, V (&out)[kCount]) {
#pragma GCC unroll 4
  for (int i = 0; i < kCount; ++i) out[i].load(bias + i * V::kLanes);
  const TilePlan::TapOffset* tap = taps.data();
  for (const auto* const end = tap + taps.size(); tap != end; ++tap, weight += step) {
    const A* const from = buffer + tap->offset;
#pragma GCC unroll 4
    for (int i = 0; i < kCount; ++i) {
      V factor;
      factor.load(weight + i * V::kLanes);
      out[i].fma(factor, from + i * V::kLanes);
    }
  }
}

// Computes `length` elements of a row of outputs from a buffer; writes nothing beyond them if `exact`. A function of
// its own for each instruction set, which dtypes share.
template <class I, class A>
void add_run(I isa, const A* from, const std::vector<TilePlan::TapOffset>& taps, const A* weight, const A* bias,
             bool one_channel, int64_t step, int64_t length, bool exact, A* to) {
  using V = Vec<I::value, A>;
  outline(isa, [=, &taps](auto) {
    const auto every = [&](auto one, int64_t first, int64_t step) {  // registers of the same channels
      for (int64_t at = first; at < length;) {
        const int64_t left = ceil_div(length - at, step);
        const auto block = [&](auto constant) {
          constexpr int kCount = constant;
          V sums[kCount];
          add_all_taps<one>(from + at, step, taps, weight + first, bias + first, sums);
          A* end = to + at;
          for (int i = 0; i + 1 < kCount; ++i, end += step) sums[i].store(end);
          const int64_t rest = to + length - end;
          if (exact && rest < V::kLanes)
            store_part(sums[kCount - 1], end, rest);
          else
            sums[kCount - 1].store(end);
          at += kCount * step;
        };
        if constexpr (kOwnLoads<V>)
          if (left >= kManyRegisters) {
            block(std::integral_constant<int, kManyRegisters>());
            continue;
          }
        with_constant<kRegisters>(std::min<int64_t>(left, kRegisters), block);
      }
    };
    if (one_channel) return every(std::true_type(), 0, V::kLanes);
    if (length > kFewSteps * step) {
      for (int64_t first = 0; first < step; first += V::kLanes) every(std::false_type(), first, step);
      return;
    }
    for (int64_t at = 0, first = 0; at < length;) {  // in the order of the outputs: never `exact`
      const int64_t left = ceil_div(std::min(step - first, length - at), V::kLanes);
      with_constant<kNeighbours>(std::min<int64_t>(left, kNeighbours), [&](auto constant) {
        constexpr int kCount = constant;
        V sums[kCount];
        add_neighbours(from + at, step, taps, weight + first, bias + first, sums);
#pragma GCC unroll 4
        for (int i = 0; i < kCount; ++i) sums[i].store(to + at + i * V::kLanes);
        at += kCount * V::kLanes;
        first = first + kCount * V::kLanes == step ? 0 : first + kCount * V::kLanes;
      });
    }
  });
}

}  // namespace customops::cpu
