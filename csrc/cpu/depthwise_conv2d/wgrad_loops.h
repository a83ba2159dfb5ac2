// The inner loops of the gradient of depthwise_conv2d's weight: sums of products, one tap a register.
#pragma once

#include "plan.h"

namespace customops::cpu {

constexpr int kProducts = 9;  // scattered taps at a time: each has a pointer

// Registers of a row of grad: elements from one to the next of a pixel, to the next pixel, and to the row after it.
template <class T>
struct Registers {
  const T* first;
  int64_t next, step, ahead;
};

// Registers of sums, one for each tap: sums += grad * buffer, over registers `step` apart in a row of that length.
template <Capability c, int kCount, class T, class A>
void add_products(Registers<T> grad, const A* buffer, const int64_t* offsets, int64_t length, int64_t step, A* sums) {
  using V = Vec<c, A>;
  V sum[kCount];
  const A* from[kCount];
#pragma GCC unroll 16
  for (int i = 0; i < kCount; ++i) sum[i].set(0), from[i] = buffer + offsets[i];
  for (int64_t at = 0; at < length; at += step, grad.first += grad.step) {
    V g;
    __builtin_prefetch(grad.first + grad.ahead);
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

// The same for `count` taps, and for the registers between as well. In a function of its own for each instruction set,
// which dtypes share.
template <class I, class T, class A>
void add_products(I isa, Registers<T> grad, const A* buffer, const int64_t* offsets, int64_t count, int64_t length,
                  int64_t step, A* sums) {
  constexpr int64_t kLanes = Vec<I::value, A>::kLanes;
  with_constant<kProducts>(count, [&](auto constant) {
    constexpr int kCount = constant;
    outline(isa, [=](auto) {
      if (step == kLanes) return add_products<I::value, kCount>(grad, buffer, offsets, length, kLanes, sums);
      for (int64_t r = 0; r < step; r += kLanes) {
        const Registers<T> part{grad.first + r, 0, grad.step, 0};
        add_products<I::value, kCount>(part, buffer + r, offsets, length - r, step, sums + r);
      }
    });
  });
}

// The same for kRows rows of kColumns taps that lie side by side: more taps at a time, because only the rows need a
// pointer each.
template <Capability c, int kRows, int kColumns, class T, class A>
void add_window(Registers<T> grad, const A* buffer, const int64_t* offsets, int64_t length, A* sums) {
  using V = Vec<c, A>;
  V sum[kRows * kColumns];
  const A* from[kRows];
#pragma GCC unroll 32
  for (V& v : sum) v.set(0);
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) from[r] = buffer + offsets[r * kColumns];
  for (int64_t at = 0; at < length; at += V::kLanes, grad.first += grad.step) {
    V g;
    __builtin_prefetch(grad.first + grad.ahead);
    g.load(grad.first);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 8
      for (int k = 0; k < kColumns; ++k) sum[r * kColumns + k].fma(g, from[r] + at + k * V::kLanes);
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

// The same for a window of that many rows: as many at a time as there are registers for, and as squares have.
template <class I, int kColumns, class T, class A>
void add_windows(I isa, Registers<T> grad, const A* buffer, const int64_t* offsets, int64_t rows, int64_t length,
                 A* sums) {
  constexpr int kMost = std::min((I::value >= Capability::avx512 ? 28 : 14) / kColumns, kColumns);
  for (int64_t blocks = ceil_div(rows, kMost); blocks > 0; --blocks) {
    const int64_t count = ceil_div(rows, blocks);
    with_constant<kMost>(count, [&](auto constant) {
      constexpr int kRows = constant;
      outline(isa, [=](auto) { add_window<I::value, kRows, kColumns>(grad, buffer, offsets, length, sums); });
    });
    rows -= count;
    offsets += count * kColumns;
    sums += count * kColumns * Vec<I::value, A>::kLanes;
  }
}

}  // namespace customops::cpu
