// Inner loops of wgrad: sums of products of image and gradient, a register for each tap.
#pragma once

#include "plan.h"

namespace customops::cpu {

constexpr int kTapsAtOnce = 9;         // scattered ones: each needs a pointer
constexpr int kTapsOfThreeAtOnce = 8;  // those that have three registers each

// A row of grad. In elements: from one register of a pixel to the next, to the next pixel, to what is prefetched.
template <class T>
struct GradRow {
  const T* first;
  int64_t register_stride, pixel_stride, prefetch_distance;

  // Registers of two pixels.
  template <class V>
  void load_two(V (&two)[2]) {
    for (V& v : two) {
      __builtin_prefetch(first + prefetch_distance);
      v.load(first);
      first += pixel_stride;
    }
  }
};

// Rows of outputs that are summed at once: how many, their elements in the buffer, and elements from one to the next.
struct OutputRows {
  int64_t count, length, step;
};

// sums += grad * buffer, a register for each of kCount taps, over registers `step` elements apart in a row of `length`.
template <Capability c, int kCount, class T, class A>
void add_products(GradRow<T> grad, const A* buffer, const int64_t* offsets, int64_t length, int64_t step, A* sums) {
  using V = Vec<c, A>;
  V sum[kCount];
  const A* from[kCount];
#pragma GCC unroll 16
  for (int i = 0; i < kCount; ++i) sum[i].set(0), from[i] = buffer + offsets[i];
  int64_t at = 0;
  if constexpr (kOwnLoads<V>)
    if (step == V::kLanes) {
      for (; at + 2 * step <= length; at += 2 * step) {
        V g[2], two[2];
        grad.load_two(g);
#pragma GCC unroll 16
        for (int i = 0; i < kCount; ++i) {
          load_two(two, from[i]);
          sum[i].fma(g[0], two[0]);
          sum[i].fma(g[1], two[1]);
        }
      }
#pragma GCC unroll 16
      for (int i = 0; i < kCount; ++i) from[i] -= at;
    }
  for (; at < length; at += step, grad.first += grad.pixel_stride) {
    V g;
    __builtin_prefetch(grad.first + grad.prefetch_distance);
    g.load(grad.first);
#pragma GCC unroll 16
    for (int i = 0; i < kCount; ++i) sum[i].fma(g, from[i] + at);
  }
  V one;
  one.set(1);
#pragma GCC unroll 16
  for (int i = 0; i < kCount; ++i, sums += step) {
    sum[i].fma(one, sums);
    sum[i].store(sums);
  }
}

// The same for the three registers of a step, where one instruction loads them: pixels of three channels.
template <Capability c, int kCount, class A>
void add_products_of_three(const A* grad, const A* buffer, const int64_t* offsets, int64_t length, A* sums) {
  using V = Vec<c, A>;
  V sum[kCount][3];
  const A* from[kCount];
#pragma GCC unroll 8
  for (int i = 0; i < kCount; ++i) {
    for (V& v : sum[i]) v.set(0);
    from[i] = buffer + offsets[i];
  }
  for (; length >= 3 * V::kLanes; length -= 3 * V::kLanes) {
    V g[3], three[3];
    load_three(g, grad);
#pragma GCC unroll 8
    for (int i = 0; i < kCount; ++i) {
      load_three(three, from[i]);
      for (int r = 0; r < 3; ++r) sum[i][r].fma(g[r], three[r]);
    }
  }
  V one;
  one.set(1);
#pragma GCC unroll 3
  for (int r = 0; r < 3; ++r) {
    V g;
    if (r * V::kLanes < length) g.load(grad + r * V::kLanes);
#pragma GCC unroll 8
    for (int i = 0; i < kCount; ++i) {
      A* const to = sums + (3 * i + r) * V::kLanes;
      if (r * V::kLanes < length) sum[i][r].fma(g, from[i] + r * V::kLanes);
      sum[i][r].fma(one, to);
      sum[i][r].store(to);
    }
  }
}

// The same for a buffer whose registers have all the same channels, and a grad whose registers lie side by side: two of
// them are loaded by one instruction.
template <Capability c, int kCount, class A>
void add_products_of_two(const A* grad, const A* buffer, const int64_t* offsets, int64_t length, A* sums) {
  using V = Vec<c, A>;
  V sum[kCount], g[2], two[2];
  const A* from[kCount];
#pragma GCC unroll 16
  for (int i = 0; i < kCount; ++i) sum[i].set(0), from[i] = buffer + offsets[i];
  for (; length >= 2 * V::kLanes; length -= 2 * V::kLanes) {
    load_two(g, grad);
#pragma GCC unroll 16
    for (int i = 0; i < kCount; ++i) {
      load_two(two, from[i]);
      sum[i].fma(g[0], two[0]);
      sum[i].fma(g[1], two[1]);
    }
  }
  for (int64_t at = 0; at < length; at += V::kLanes) {
    g[0].load(grad + at);
#pragma GCC unroll 16
    for (int i = 0; i < kCount; ++i) sum[i].fma(g[0], from[i] + at);
  }
  V one;
  one.set(1);
#pragma GCC unroll 16
  for (int i = 0; i < kCount; ++i, sums += V::kLanes) {
    sum[i].fma(one, sums);
    sum[i].store(sums);
  }
}

// How many taps add_products takes at most.
template <class V>
int64_t taps_at_once(int64_t step) {
  return kOwnLoads<V> && step == 3 * V::kLanes ? kTapsOfThreeAtOnce : kTapsAtOnce;
}

// The same for `count` taps, and for all the registers of a step. A function of its own for each instruction set, which
// dtypes share.
template <class I, class T, class A>
void add_products(I isa, GradRow<T> grad, const A* buffer, const int64_t* offsets, int64_t count, int64_t length,
                  int64_t step, A* sums) {
  using V = Vec<I::value, A>;
  constexpr int64_t kLanes = V::kLanes;
  if constexpr (kOwnLoads<V> && std::is_same_v<T, A>) {
    if (step == 3 * kLanes)
      return with_constant<kTapsOfThreeAtOnce>(count, [&](auto constant) {
        constexpr int kCount = constant;
        outline(isa, [=](auto) { add_products_of_three<I::value, kCount>(grad.first, buffer, offsets, length, sums); });
      });
    if (step == kLanes && grad.pixel_stride == kLanes)
      return with_constant<kTapsAtOnce>(count, [&](auto constant) {
        constexpr int kCount = constant;
        outline(isa, [=](auto) { add_products_of_two<I::value, kCount>(grad.first, buffer, offsets, length, sums); });
      });
  }
  with_constant<kTapsAtOnce>(count, [&](auto constant) {
    constexpr int kCount = constant;
    outline(isa, [=](auto) {
      if (step == kLanes) return add_products<I::value, kCount>(grad, buffer, offsets, length, kLanes, sums);
      for (int64_t r = 0; r < step; r += kLanes) {
        const GradRow<T> part{grad.first + r, 0, grad.pixel_stride, 0};
        add_products<I::value, kCount>(part, buffer + r, offsets, length - r, step, sums + r);
      }
    });
  });
}

// The same for kRows rows of kColumns neighbouring taps: more taps at once, because only each row needs a pointer. The
// rows of grad follow each other.
template <Capability c, int kRows, int kColumns, class T, class A>
void add_window(GradRow<T> grad, const A* buffer, const int64_t* offsets, OutputRows outputs, A* sums) {
  using V = Vec<c, A>;
  static_assert(kColumns % 2 == 1);  // so that loads by twos end with the window
  V sum[kRows * kColumns];
  const A* from[kRows];
#pragma GCC unroll 32
  for (V& v : sum) v.set(0);
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) from[r] = buffer + offsets[r * kColumns];
  for (int64_t left = outputs.count; left > 0; --left) {
    int64_t at = 0;
    if constexpr (kOwnLoads<V>)  // two pixels at once share the columns that they both read
      for (; at + 2 * V::kLanes <= outputs.length; at += 2 * V::kLanes) {
        V g[2], two[2];
        grad.load_two(g);
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
          const A* columns = from[r] + at;
#pragma GCC unroll 8
          for (int k = 0; k <= kColumns; ++k) {
            if (k % 2 == 0) load_two(two, columns);
            if (k < kColumns) sum[r * kColumns + k].fma(g[0], two[k % 2]);
            if (k > 0) sum[r * kColumns + k - 1].fma(g[1], two[k % 2]);
          }
        }
      }
    for (; at < outputs.length; at += V::kLanes, grad.first += grad.pixel_stride) {
      V g;
      __builtin_prefetch(grad.first + grad.prefetch_distance);
      g.load(grad.first);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 8
        for (int k = 0; k < kColumns; ++k) sum[r * kColumns + k].fma(g, from[r] + at + k * V::kLanes);
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) from[r] += outputs.step;
  }
  V one;
  one.set(1);
#pragma GCC unroll 32
  for (V& v : sum) {
    v.fma(one, sums);
    v.store(sums);
    sums += V::kLanes;
  }
}

// The same for a window of `rows` rows: as many at once as there are registers for, at most kColumns.
template <class I, int kColumns, class T, class A>
void add_windows(I isa, GradRow<T> grad, const A* buffer, const int64_t* offsets, int64_t rows, OutputRows outputs,
                 A* sums) {
  constexpr int kMaxRows = std::min((kVectorRegisters<I::value> == 32 ? 28 : 14) / kColumns, kColumns);
  for (int64_t blocks = ceil_div(rows, kMaxRows); blocks > 0; --blocks) {
    const int64_t count = ceil_div(rows, blocks);
    with_constant<kMaxRows>(count, [&](auto constant) {
      constexpr int kRows = constant;
      outline(isa, [=](auto) { add_window<I::value, kRows, kColumns>(grad, buffer, offsets, outputs, sums); });
    });
    rows -= count;
    offsets += count * kColumns;
    sums += count * kColumns * Vec<I::value, A>::kLanes;
  }
}

}  // namespace customops::cpu
