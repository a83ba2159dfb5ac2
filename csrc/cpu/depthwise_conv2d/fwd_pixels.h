// Forward and dgrad for channels_last images, read in place. Each tensor is read once, the result is written once, and
// sums stay in registers from the first tap to the last.
#pragma once

#include "fwd.h"
#include "fwd_strided_loops.h"

namespace customops::cpu {
namespace {

constexpr int64_t kFarBytes = 1 << 20;   // of outputs: most are beyond the L2 cache
constexpr int64_t kFarImages = 8 << 20;  // bytes, from which on add_strided prefetches: it cost time below
constexpr int64_t kClearedBytes = 2048;  // of a row: clearing shorter ones waits for memory
constexpr int64_t kFewRows = 64;         // of outputs: their windows are listed once
constexpr int64_t kLargePixel = 1024;    // bytes: columns of such that no tap reads are not prefetched
// Where prefetches cost time: pixels of so many bytes at most, and so many of the rows under a window. On a Zen 4.
constexpr int64_t kSmallPixel = 128, kNearBytes = 2048;
// Of pixels that share a set of the L1 cache (kSetPeriod): fewer at a time. Measured with AVX-512.
constexpr BlockSizes kShortBlocks(6);

template <class T, class B>
class PixelsKernel {
  using A = acc_t<T>;
  const TilePlan& plan_;
  const T* const from_;
  const A* const weight_;
  T* const to_;
  const bool far_;                             // whether outputs are prefetched, too
  const bool in_order_;                        // whether nothing is prefetched
  const bool some_empty_;                      // whether no tap reaches the outputs of some phase of a row
  Buffer<T> last_row_;                         // of the tensor, where registers would read behind its end
  const bool lists_all_;                       // whether rows_ has those of all rows of outputs
  std::vector<InputRow<T>> rows_;              // under the windows of a row of outputs, or of all
  std::vector<InputRow<T>*> row_ends_;         // of all: for each row of outputs, for each phase
  int64_t listed_ = -1;                        // the image that rows_ points to
  std::vector<std::vector<int64_t>> columns_;  // of the taps of each phase
  std::vector<OutputRow<T>> outputs_;          // of each phase
  std::vector<StridedTaps> strided_;           // of each phase

 public:
  PixelsKernel(const TilePlan& plan, const T* from, const A* weight, const A* bias, T* to)
      : plan_(plan),
        from_(from),
        weight_(weight),
        to_(to),
        far_(plan.batch * plan.y.to * plan.x.to * plan.channels * int64_t(sizeof(T)) > kFarBytes),
        in_order_(reads_in_order(plan)),
        some_empty_(std::any_of(plan.x.taps.begin(), plan.x.taps.end(), [](const auto& taps) { return taps.empty(); })),
        lists_all_(plan.y.to * int64_t(plan.x.taps.size()) <= kFewRows),
        rows_(plan.y.max_taps() * (lists_all_ ? plan.y.to * plan.x.taps.size() : 1)),
        columns_(plan.x.taps.size()) {
    if (plan.channels < plan.block_channels) {
      const int64_t size = plan.x.from * plan.channels;
      last_row_ = Buffer<T>(size);
      std::copy_n(image_row(plan.batch - 1, plan.y.from - 1), size, last_row_.data());
    }
    const int64_t pixel = plan.channels, width = plan.x.from;
    for (size_t r = 0; r < columns_.size(); ++r) {
      for (const auto& tap : plan.x.taps[r]) columns_[r].push_back(plan.x.column(tap));
      strided_.emplace_back(columns_[r], plan.x.in_phases, plan.x.periods(r), width);
      const BlockPosition position{0, 0, pixel, 0, plan.x.in_phases, width, 0, width};
      outputs_.emplace_back(plan, rows_.data(), columns_[r], r, pixel, position, bias, plan.x.out_phases * pixel);
      const bool share_set = pixel * int64_t(sizeof(T)) % kSetPeriod == 0 && plan.block_channels * sizeof(A) == 64;
      if (share_set && outputs_[r].count > kMaxBlock) outputs_[r].blocks = &kShortBlocks;
      outputs_[r].prefetch.pixels = from;  // of no rows, until set_prefetch
    }
  }

  template <class I>
  void run(I isa, int64_t item) {
    const int64_t q = item % plan_.strips * plan_.strip, n = item / plan_.strips / plan_.channel_tiles;
    const int64_t c = item / plan_.strips % plan_.channel_tiles * plan_.tile_blocks * plan_.block_channels;
    const int64_t phases = plan_.y.taps.size(), rows = std::min(plan_.strip, plan_.y.periods() - q);
    if (lists_all_ && listed_ != n) list_all_rows(n);
    for (int64_t j = 0; j < rows; ++j)
      for (int64_t r = 0; r < phases && (q + j) * plan_.y.out_phases + r < plan_.y.to; ++r)
        write_pixels(isa, n, c, q + j, r);
  }

 private:
  // Lists the rows of image n under the windows of phases ry and rx in period q. Returns their end. Never inline,
  // because all instruction sets share it.
  [[gnu::noinline]] InputRow<T>* find_rows(int64_t n, int64_t q, int64_t ry, int64_t rx, InputRow<T>* end) {
    const AxisTaps &x = plan_.x, &y = plan_.y;
    const A* weight = weight_ + plan_.first_taps[ry * x.taps.size() + rx] * plan_.block_channels;
    for (const auto& tap : y.taps[ry]) {
      const int64_t i = (q + tap.shift) * y.in_phases + y.phases[tap.phase];
      const bool copied = plan_.channels < plan_.block_channels && n + 1 == plan_.batch && i + 1 == y.from;
      if (0 <= i && i < y.from) *end++ = {copied ? last_row_.data() : image_row(n, i), weight};
      weight += x.taps[rx].size() * plan_.block_channels;
    }
    return end;
  }

  // Lists the rows of image n under the windows of all rows of outputs. If another image is listed, its pointers are
  // moved by the distance of the two images, unless image n has the row that is copied (last_row_).
  [[gnu::noinline]] void list_all_rows(int64_t n) {
    const int64_t phases = plan_.y.out_phases;
    InputRow<T>* end = rows_.data();
    if (listed_ < 0 || (plan_.channels < plan_.block_channels && n + 1 == plan_.batch)) {
      row_ends_.clear();
      for (int64_t oy = 0; oy < plan_.y.to; ++oy)
        for (size_t rx = 0; rx < plan_.x.taps.size(); ++rx)
          row_ends_.push_back(end = find_rows(n, oy / phases, oy % phases, rx, end));
    } else {
      const int64_t step = image_row(n, 0) - image_row(listed_, 0);
      for (; end != row_ends_.back(); ++end) end->from += step;
    }
    listed_ = n;
  }

  // Phase ry in period q of the rows of outputs, for all the channels of a tile.
  template <class I>
  void write_pixels(I isa, int64_t n, int64_t c, int64_t q, int64_t ry) {
    const AxisTaps &x = plan_.x, &y = plan_.y;
    const int64_t pixel = plan_.channels, oy = q * y.out_phases + ry, phases = x.taps.size();
    T* const to = to_ + (n * y.to + oy) * x.to * pixel + c;
    // Of dgrad, which has no bias: outputs that no tap reaches are cleared at once, not phase by phase.
    const bool clears = plan_.channel_tiles == 1 && (some_empty_ || y.taps[ry].empty()) &&
                        x.to * pixel * int64_t(sizeof(T)) >= kClearedBytes;
    if (clears) std::fill_n(to, x.to * pixel, T(0));
    if (clears && y.taps[ry].empty()) return;
    int64_t last_row = 0;
    for (const auto& tap : y.taps[ry])
      last_row = std::max(last_row, (q + tap.shift) * y.in_phases + y.phases[tap.phase]);
    for (int64_t rx = 0; rx < phases; ++rx) {
      if (clears && x.taps[rx].empty()) continue;
      OutputRow<T>& outputs = outputs_[rx];
      if (lists_all_) {
        const int64_t window = oy * phases + rx;
        outputs.rows = window == 0 ? rows_.data() : row_ends_[window - 1];
        outputs.rows_end = row_ends_[window];
      } else {
        outputs.rows_end = find_rows(n, q, ry, rx, rows_.data());
      }
      outputs.channel = c, outputs.channels_end = plan_.channels_end(c);
      if constexpr (std::is_same_v<T, B> && !std::is_same_v<T, double>)
        if (strided_[rx].found && reads_by_fours()) {
          set_strided_prefetch(n, last_row, outputs.prefetch);
          add_strided(isa, outputs, strided_[rx], to + rx * pixel);
          continue;
        }
      if (!in_order_) set_prefetch(n, last_row, rx, c, to, outputs.prefetch);
      add_up<true>(isa, outputs, to + rx * pixel);
    }
  }

  // What to prefetch while outputs are computed, from `to` on, whose windows end with row last_row. Never inline,
  // because all instruction sets share it; the asm tells GCC that a call has an effect. Not a function that returns it:
  // GCC would copy that by instructions wider than those that wrote it, which wait until all stores are done.
  [[gnu::noinline]] void set_prefetch(int64_t n, int64_t last_row, int64_t rx, int64_t c, const T* to,
                                      Prefetch<T>& prefetch) const {
    const AxisTaps &x = plan_.x, &y = plan_.y;
    const int64_t pixel = plan_.channels, row = x.from * pixel, to_row = x.to * pixel;
    // Of the rows that a stride steps over, a dilation may read only some.
    const int64_t new_rows = std::max<int64_t>(y.phases.size(), 1), step = y.in_phases / new_rows;
    const int64_t rows = y.out_phases == 1 && rx == 0 ? new_rows : 0;
    const T* const first = image_row(n, last_row - (new_rows - 1) * step);
    asm volatile("");
    const int64_t read = x.phases.size();  // of in_phases columns
    const bool skips = read == 1 || (3 * read <= 2 * x.in_phases && pixel * int64_t(sizeof(T)) >= kLargePixel);
    if (skips && read < x.in_phases && x.out_phases == 1 && y.to > 1)
      return prefetch_columns(first + y.in_phases * row, rows, step * row, c);
    if (plan_.channel_tiles > 1) return;  // pixels are not one stretch of memory
    // What a block of outputs reads is prefetched while the block before it is computed, but no rows that none reads.
    // Short rows need more than the next one: with it alone, images beyond the L2 cache took up to 1.4 times as long.
    const int64_t block = std::max<int64_t>(kPrefetchBytes / sizeof(T), kPrefetchPixels * x.in_phases * pixel);
    const T* const ahead = first + (new_rows < y.in_phases ? y.in_phases * row : block);
    prefetch.pixels = ahead, prefetch.rows = rows, prefetch.row_stride = step * row;
    if (!far_ || rows > 1 || x.in_phases > 1) return;
    // Outputs, too: those of the next block or, where a stride of dgrad scatters them, a part of the next row.
    const bool scattered = y.out_phases > 1 || x.out_phases > 1;
    const T* const out = to + (scattered ? to_row + rx * (to_row / x.out_phases) : block);
    if (rows == 0)
      prefetch.pixels = out, prefetch.rows = 1;
    else
      prefetch.rows = 2, prefetch.row_stride = out - ahead;
  }

  // The rows that the next row of outputs adds to its window.
  [[gnu::noinline]] void set_strided_prefetch(int64_t n, int64_t last_row, Prefetch<T>& prefetch) const {
    const AxisTaps &x = plan_.x, &y = plan_.y;
    const int64_t row = x.from * plan_.channels, new_rows = y.phases.size(), step = y.in_phases / new_rows;
    const bool far = plan_.batch * y.from * row * int64_t(sizeof(T)) > kFarImages && plan_.channel_tiles == 1;
    asm volatile("");
    prefetch.pixels = image_row(n, last_row - (new_rows - 1) * step) + y.in_phases * row;
    prefetch.rows = far ? new_rows : 0, prefetch.row_stride = step * row;
  }

  // Where taps read only some columns: prefetches those that the next row of outputs reads. Always inline, as
  // issue_prefetch.
  [[gnu::always_inline]] void prefetch_columns(const T* from, int64_t rows, int64_t row_stride, int64_t c) const {
    const AxisTaps& x = plan_.x;
    const int64_t channels = plan_.channels_end(c) - c, step = x.in_phases * plan_.channels;
    for (int64_t y = 0; y < rows; ++y, from += row_stride)
      for (int64_t phase : x.phases) {
        const T* pixel = from + phase * plan_.channels + c;
        for (int64_t column = phase; column < x.from; column += x.in_phases, pixel += step)
          for (int64_t i = 0; i < channels; i += 64 / sizeof(T)) __builtin_prefetch(pixel + i);
      }
  }

  // Whether small pixels are read about in the order of memory, which the processor prefetches by itself: all rows of
  // the image, under one row of taps or short enough.
  static bool reads_in_order(const TilePlan& plan) {
    const AxisTaps& y = plan.y;
    const int64_t pixel = plan.channels * int64_t(sizeof(T)), rows = (y.span + 1) * y.in_phases;
    const bool all_rows = int64_t(y.phases.size()) == y.in_phases;
    return pixel <= kSmallPixel && all_rows && (y.max_taps() == 1 || rows * plan.x.from * pixel <= kNearBytes);
  }

  // Whether add_strided is for such channels: four registers of 512 bits, or more.
  bool reads_by_fours() const {
    return plan_.block_channels * int64_t(sizeof(A)) == 64 && plan_.channels >= 4 * plan_.block_channels;
  }

  const T* image_row(int64_t n, int64_t i) const {
    return from_ + (n * plan_.y.from + i) * plan_.x.from * plan_.channels;
  }
};

}  // namespace

template <class T>
void fwd_pixels_of(const Problem& problem, Direction direction, const Choice& choice, const ConvTensors& tensors) {
  run_kernel_of<T, PixelsKernel, true>(problem, direction, choice, tensors);
}

// In fwd_pixels_bf16.cpp.
extern template void fwd_pixels_of<c10::BFloat16>(const Problem&, Direction, const Choice&, const ConvTensors&);

}  // namespace customops::cpu
