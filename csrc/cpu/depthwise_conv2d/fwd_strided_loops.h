// Inner loops of forward for images read in place, under three neighbouring taps of a row at a stride of 2: of float32,
// and of bfloat16 with instructions for it, where registers have 512 bits. A pixel that two windows share is loaded
// once. A block is three or four outputs by four registers of channels: of a pixel in memory it reads neighbouring
// cache lines one soon after the other, and it reads few pixels at a time, because those a power of two apart evict
// each other from the L1 cache.
#pragma once

#include "fwd_rows_loops.h"

namespace customops::cpu {

constexpr int kStridedTaps = 3;

// Where the first window of a row begins, and in which place among the weights of a row each of its taps is.
struct StridedTaps {
  int64_t column = 0, place[kStridedTaps] = {};
  // Whether there are such taps, three outputs or more, and at most one column of padding on a side.
  bool found = false;

  // columns: of the taps, for the first of so many outputs. Never inline, because all dtypes share it.
  [[gnu::noinline]] StridedTaps(const std::vector<int64_t>& columns, int64_t stride, int64_t outputs, int64_t width) {
    if (stride != 2 || columns.size() != kStridedTaps) return;
    column = *std::min_element(columns.begin(), columns.end());
    found = outputs > 2 && column >= -1 && 2 * (outputs - 1) + column + kStridedTaps - 1 <= width;
    for (int t = 0; t < kStridedTaps; ++t) {
      place[t] = std::find(columns.begin(), columns.end(), column + t) - columns.begin();
      found &= place[t] < kStridedTaps;
    }
  }
};

// kCount outputs from output i on, for kRegisters registers of channels from `channel` on, whose weights begin with
// those of channel g.
template <int kCount, int kRegisters, class V, class T>
void add_strided_block(const OutputRow<T>& outputs, const StridedTaps& taps, int64_t i, int64_t g, int64_t channel,
                       T* row) {
  constexpr int kLast = 2 * (kCount - 1) + kStridedTaps - 1;  // column of the block's windows
  const BlockPosition& position = outputs.position;
  const int64_t pixel = position.pixel_stride, column = 2 * i + taps.column;
  V out[kRegisters][kCount];
#pragma GCC unroll 4
  for (int c = 0; c < kRegisters; ++c)
#pragma GCC unroll 4
    for (V& sum : out[c]) sum.load(outputs.bias + channel + c * V::kLanes);
  const int64_t at = 2 * i * pixel + (g - outputs.channel) * kCount * 2;
  constexpr int kBytes = kCount * kRegisters * V::kLanes * sizeof(T);
  issue_prefetch<kBytes, kIntoL2>(outputs.prefetch, at, 2);
  for_rows<V>(outputs.rows, outputs.rows_end, [&](const auto& rows) {
    typename std::decay_t<decltype(rows)>::Sample factor[kRegisters][kStridedTaps], v;
#pragma GCC unroll 4
    for (int c = 0; c < kRegisters; ++c)
#pragma GCC unroll 3
      for (int t = 0; t < kStridedTaps; ++t)
        rows.load_weight(factor[c][t], (g + c * V::kLanes) * outputs.tap_count + taps.place[t] * V::kLanes);
    int64_t from = column * pixel + channel;
#pragma GCC unroll 16
    for (int p = 0; p <= kLast; ++p, advance(from, pixel))
#pragma GCC unroll 4
      for (int c = 0; c < kRegisters; ++c) {
        if (p == 0 || p == kLast)
          rows.template load<true>(v, from + c * V::kLanes, column + p, position.width);
        else
          rows.template load<false>(v, from + c * V::kLanes, column + p, position.width);
        v.keep();
#pragma GCC unroll 3
        for (int t = p % 2; t < kStridedTaps; t += 2)
          if (p >= t && p - t < 2 * kCount) out[c][(p - t) / 2].fma(factor[c][t], v);
      }
  });
  T* const to = row + i * outputs.to_step + (channel - outputs.channel);
#pragma GCC unroll 4
  for (int o = 0; o < kCount; ++o)
#pragma GCC unroll 4
    for (int c = 0; c < kRegisters; ++c) out[c][o].store(to + o * outputs.to_step + c * V::kLanes);
}

// The outputs of a row, for all the channels of a tile, of which there is a register or more.
template <class I, class T>
void add_strided([[maybe_unused]] I isa, const OutputRow<T>& outputs, const StridedTaps& taps, T* to) {
  if constexpr (I::value < (sizeof(T) == 2 ? Capability::avx512_bf16 : Capability::avx512)) return;
  outline(isa, [&all = outputs, &taps, to](auto) {
    using V = Vec<I::value, acc_t<T>>;
    constexpr int kRegisters = 4;
    const OutputRow<T> outputs = all;  // a copy, which no store can change
    const int64_t end = outputs.channels_end;
    for (int64_t i = 0, count; i < outputs.count; i += count) {
      count = (outputs.count - i) % 4 == 0 ? 4 : 3;
      i = std::min(i, outputs.count - count);  // of five outputs, one is computed twice
      with_constant<2>(count - 2, [&](auto more) {
        constexpr int kCount = 2 + more;
        int64_t g = outputs.channel;
        for (; g + kRegisters * V::kLanes <= end; g += kRegisters * V::kLanes)
          add_strided_block<kCount, kRegisters, V>(outputs, taps, i, g, g, to);
        for (; g < end; g += V::kLanes)
          add_strided_block<kCount, 1, V>(outputs, taps, i, g, first_channel(g, end, V::kLanes), to);
      });
    }
  });
}

}  // namespace customops::cpu
