// Inner loops of wgrad over channels_last images, which are read in place: a register of sums for each tap.
#pragma once

#include "plan.h"

namespace customops::cpu {

constexpr int kMaxColumns = 5;        // of taps at once: as many as choose.cpp allows for several rows of taps
constexpr int kMaxColumnsOfRow = 11;  // the same for one row of taps

// What a register of channels prefetches before a row of outputs is summed: a part of what the next row of outputs
// reads first. In the order of memory if all channels are summed, because hardware prefetchers follow that.
template <class T>
struct RowsAhead {
  const T *image = nullptr, *grad = nullptr;      // of the first register
  int64_t rows = 0, row_step = 0;                 // of the image
  int64_t image_count = 0, image_step = 0;        // prefetches of a row; elements from one to the next
  int64_t grad_count = 0, grad_step = 0;          // the same
  int64_t image_register = 0, grad_register = 0;  // elements to what the next register of channels prefetches
  bool far = false;                               // whether it is too much for the L1 cache

  // Always inline, as issue_prefetch in fwd_rows_loops.h.
  [[gnu::always_inline]] void prefetch(const T* image, const T* grad) const {
    for (int64_t y = 0; y < rows; ++y, image += row_step) prefetch_some(image, image_count, image_step);
    prefetch_some(grad, grad_count, grad_step);
  }
  [[gnu::always_inline]] void prefetch_some(const T* from, int64_t count, int64_t step) const {
    if (far)
      for (int64_t i = 0; i < count; ++i, from += step) __builtin_prefetch(from, 0, 2);
    else
      for (int64_t i = 0; i < count; ++i, from += step) __builtin_prefetch(from);
  }
};

// Rows of outputs, and the rows of pixels that their taps read. Taps beyond the ends of a row are left out.
template <class T>
struct WindowRows {
  int64_t count;                     // of outputs
  const T* grad;                     // of output 0 and channel 0 of the first
  int64_t grad_step;                 // elements to the next
  const T* const* image;             // for each row of outputs, for each row of taps: column 0 and channel 0
  int64_t image_step;                // rows of taps
  int64_t channels;                  // from one pixel to the next
  int64_t first, last;               // channels to sum
  int64_t column, stride, dilation;  // columns: of the first tap for output 0, to the next output, to the next tap
  int64_t width, outputs;            // columns of the image, and of the outputs
  const T* zeros;                    // as many as the wider of both has elements, where rows are summed by pairs
  int64_t begin, end;                // outputs: those that some tap within the image reaches
  int64_t inner, outer;              // those whose taps all lie within the image
  RowsAhead<T> ahead;
  acc_t<T>* sums;                   // of the first tap and channel
  int64_t row_sums, register_sums;  // elements to the next row of taps, and to the next register of channels
};

template <class V, class T>
void add_product(V& sum, const V& a, const T* p) {
  V b;
  b.load(p);
  sum.fma(a, b);
}

// sums += grad * image for kRows rows of kColumns taps, of one register of channels. The sums stay in registers from
// the first row of outputs to the last.
template <Capability c, int kRows, int kColumns, bool kSeveral, class T>
void add_window_in_place(const WindowRows<T>& window, int64_t channel, acc_t<T>* sums) {
  using V = Vec<c, acc_t<T>>;
  V sum[kRows * kColumns];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 16
    for (int k = 0; k < kColumns; ++k) sum[r * kColumns + k].load(sums + r * window.row_sums + k * V::kLanes);
  const int64_t pixel = window.channels, width = window.width, dilation = window.dilation, stride = window.stride;
  const int64_t inner = window.inner, outer = window.outer, step = stride * pixel, tap_step = dilation * pixel;
  const T* row_grad = window.grad + channel;
  const T* const* image = window.image;
  for (int64_t left_rows = window.count;;) {
    for (int64_t i = inner > window.begin ? window.begin : outer; i < window.end; i = i + 1 == inner ? outer : i + 1) {
      V g;
      g.load(row_grad + i * pixel);
#pragma GCC unroll 16
      for (int k = 0; k < kColumns; ++k) {
        const int64_t x = window.column + i * stride + k * dilation;
        if (uint64_t(x) < uint64_t(width))
#pragma GCC unroll 16
          for (int r = 0; r < kRows; ++r) add_product(sum[r * kColumns + k], g, image[r] + x * pixel + channel);
      }
    }
    const T* from[kRows];
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) from[r] = image[r] + (window.column + inner * stride) * pixel + channel;
    const T* grad = row_grad + inner * pixel;
    for (int64_t left = outer - inner; left > 0; --left, grad += pixel) {
      V g;
      g.load(grad);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
        for (int k = 0; k < kColumns; ++k) add_product(sum[r * kColumns + k], g, from[r] + k * tap_step);
        from[r] += step;
      }
    }
    if (!kSeveral || --left_rows == 0) break;
    row_grad += window.grad_step, image += window.image_step;
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 16
    for (int k = 0; k < kColumns; ++k) sum[r * kColumns + k].store(sums + r * window.row_sums + k * V::kLanes);
}

// The same for all the channels of a window. A function of its own for each instruction set, and for one row of
// outputs: those of several take more numbers out of registers.
template <class I, int kColumns, bool kSeveral, class T>
void add_windows_in_place(I isa, WindowRows<T>& window, int64_t rows) {
  constexpr int kRegisters = kVectorRegisters<I::value> == 32 ? 28 : 14;
  constexpr int kMostRows = std::min(kRegisters / kColumns, std::max(kColumns, kMaxColumns / kColumns));
  constexpr int kMaxRows = kColumns > kMaxColumns ? 1 : kMostRows;
  for (int64_t blocks = ceil_div(rows, kMaxRows); blocks > 0; --blocks) {
    const int64_t count = ceil_div(rows, blocks);
    with_constant<kMaxRows>(count, [&](auto constant) {
      constexpr int kRows = constant;
      outline(isa, [&window](auto) {
        constexpr int64_t kLanes = Vec<I::value, acc_t<T>>::kLanes;
        acc_t<T>* sums = window.sums;
        const RowsAhead<T>& ahead = window.ahead;
        const T *image = ahead.image, *grad = ahead.grad;
        for (int64_t c = window.first; c < window.last; c += kLanes, sums += window.register_sums) {
          ahead.prefetch(image, grad);
          image += ahead.image_register;
          grad += ahead.grad_register;
          add_window_in_place<I::value, kRows, kColumns, kSeveral>(window, first_channel(c, window.channels, kLanes),
                                                                   sums);
        }
      });
    });
    window.ahead.rows = window.ahead.grad_count = 0;
    rows -= count;
    window.image += count;
    window.sums += count * window.row_sums;
  }
}

}  // namespace customops::cpu
