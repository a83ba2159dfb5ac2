// Inner loops of forward and dgrad where a register holds neighbouring pixels.
#pragma once

#include "plan.h"

namespace customops::cpu {

constexpr int kRegisters = 8;       // sums at a time: enough to hide the latency of a multiply-add
constexpr int kManyRegisters = 16;  // where loads are instructions of their own: a tap's other ones are shared by more
constexpr int64_t kFewSteps = 2;    // of a run, which has too few registers of the same channels
constexpr int kNeighbours = 4;      // registers of other channels at a time

// Computes kCount registers of outputs, `apart` elements from one to the next. A tap has one weight (kOneChannel), or
// as many as a step has elements.
template <bool kOneChannel, class V, int kCount, class A>
void add_all_taps(const A* buffer, int64_t apart, int64_t step, const std::vector<TilePlan::TapOffset>& taps,
                  const A* weight, const A* bias, V (&out)[kCount]) {
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
        load_and_step(v, from, apart);
        sum.fma(factor, v);
      }
      continue;
    }
#pragma GCC unroll 16
    for (int i = 0; i < kCount; ++i, from += apart) out[i].fma(factor, from);
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

// Rows of outputs, each of `length` elements, `pitch` elements from one row to the next: the same in both buffers.
template <class A>
struct OutputRows {
  const A* from;
  A* to;
  int64_t rows, length, pitch;
  bool exact;  // whether nothing is written beyond `length`: of a single row
};

// Several rows of one channel, the same register of up to eight rows at a time. The last rows may be computed again:
// few sizes of blocks make less code.
template <class A, class F>
void add_columns(const OutputRows<A>& run, int64_t lanes, const F& block) {
  const auto at = [&](auto count, int64_t row, int64_t x) {
    block(std::true_type(), count, std::min(row, run.rows - count) * run.pitch + x, 0, run.pitch);
    return row + count;
  };
  for (int64_t x = 0; x < run.length; x += lanes)
    for (int64_t row = 0; row < run.rows;) {
      if (run.rows >= 8 && run.rows - row > 4)
        row = at(std::integral_constant<int, 8>(), row, x);
      else if (run.rows >= 4)
        row = at(std::integral_constant<int, 4>(), row, x);
      else
        row = at(std::integral_constant<int, 1>(), row, x);
    }
}

// Computes rows of outputs from a buffer. Of several rows, it computes the same registers of each at a time. A function
// of its own for each instruction set, which dtypes share.
template <class I, class A>
void add_run(I isa, const OutputRows<A>& run, const std::vector<TilePlan::TapOffset>& taps, const A* weight,
             const A* bias, bool one_channel, int64_t step) {
  using V = Vec<I::value, A>;
  outline(isa, [=, &taps](auto) {
    const int64_t length = run.length;
    const auto block = [&](auto one, auto constant, int64_t at, int64_t first, int64_t apart) {
      constexpr int kCount = constant;
      V sums[kCount];
      add_all_taps<one>(run.from + at, apart, step, taps, weight + first, bias + first, sums);
      A* end = run.to + at;
      for (int i = 0; i + 1 < kCount; ++i, end += apart) sums[i].store(end);
      const int64_t rest = run.to + length - end;
      if (run.exact && rest < V::kLanes)
        store_part(sums[kCount - 1], end, rest);
      else
        sums[kCount - 1].store(end);
    };
    // `count` registers that have the same channels, from element `at` on.
    const auto every = [&](auto one, int64_t at, int64_t first, int64_t count, int64_t apart) {
      while (count > 0) {
        const auto next = [&](auto constant) {
          block(one, constant, at, first, apart);
          at += constant * apart, count -= constant;
        };
        if constexpr (kOwnLoads<V>)
          if (count >= kManyRegisters) {
            next(std::integral_constant<int, kManyRegisters>());
            continue;
          }
        with_constant<kRegisters>(std::min<int64_t>(count, kRegisters), next);
      }
    };
    if constexpr (!kOwnLoads<V>)
      if (one_channel && run.rows > 1) return add_columns(run, V::kLanes, block);
    if (one_channel) return every(std::true_type(), 0, 0, ceil_div(length, step), V::kLanes);
    if (run.rows > 1 || length > kFewSteps * step) {
      const bool several = run.rows > 1;
      const int64_t apart = several ? run.pitch : step, end = several ? length : step;
      for (int64_t at = 0, first = 0; at < end; at += V::kLanes) {
        every(std::false_type(), at, first, several ? run.rows : ceil_div(length - at, step), apart);
        first = first + V::kLanes == step ? 0 : first + V::kLanes;
      }
      return;
    }
    for (int64_t at = 0, first = 0; at < length;) {  // in the order of the outputs: never `exact`
      const int64_t left = ceil_div(std::min(step - first, length - at), V::kLanes);
      with_constant<kNeighbours>(std::min<int64_t>(left, kNeighbours), [&](auto constant) {
        constexpr int kCount = constant;
        V sums[kCount];
        add_neighbours(run.from + at, step, taps, weight + first, bias + first, sums);
#pragma GCC unroll 4
        for (int i = 0; i < kCount; ++i) sums[i].store(run.to + at + i * V::kLanes);
        at += kCount * V::kLanes;
        first = first + kCount * V::kLanes == step ? 0 : first + kCount * V::kLanes;
      });
    }
  });
}

}  // namespace customops::cpu
