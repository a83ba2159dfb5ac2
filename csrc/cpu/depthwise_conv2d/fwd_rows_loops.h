// Inner loops of forward and dgrad where a register holds the channels of a pixel. Sums stay in registers while all the
// rows under the outputs' windows are multiplied by their weights and added.
#pragma once

#include "plan.h"

namespace customops::cpu {

// A row of pixels, in a buffer or in the image, and the weights of the taps that read it.
template <class T>
struct InputRow {
  const T* from;
  const acc_t<T>* weight;
};

// Which part of the rows a block of neighbouring outputs reads. If the rows are those of the image, columns outside of
// it are zeros.
struct BlockPosition {
  int64_t offset, weight_offset;  // elements from the beginning of a row and of its weights
  int64_t pixel_stride;           // elements from one column to the next
  int64_t column, stride;         // column of the first output; columns to the next output
  int64_t width;                  // columns of the image
  int64_t inside, inside_end;     // columns that are not padding

  int64_t offset_of(int64_t tap_column) const { return offset + (column + tap_column) * pixel_stride; }
  // Whether taps at columns [first, last] read only padding, for so many outputs.
  bool all_padding(int64_t first, int64_t last, int64_t outputs) const {
    return column + (outputs - 1) * stride + last < inside || column + first >= inside_end;
  }
};

// Whether one instruction adds the products of two rows of T to a register V.
template <class V, class T>
constexpr bool kByPairs = false;
template <>
constexpr bool kByPairs<Vec<Capability::avx512_bf16, float>, BFloat16> = true;

template <bool kPadded, class V, class T>
const T* pixel_or_zeros(const T* pixel, int64_t x, int64_t width) {
  alignas(64) static const T zeros[V::kLanes] = {};
  return !kPadded || uint64_t(x) < uint64_t(width) ? pixel : zeros;
}

// One row that is added to outputs, or two at once.
template <class V, class T>
struct OneRow {
  using Sample = V;
  InputRow<T> row;

  void load_weight(V& factor, int64_t at) const { factor.load(row.weight + at); }
  template <bool kPadded>
  void load(V& v, int64_t at, int64_t x, int64_t width) const {
    v.load(pixel_or_zeros<kPadded, V>(row.from + at, x, width));
  }
};

template <class V, class T>
struct TwoRows {
  using Sample = typename V::Pair;
  InputRow<T> a, b;

  void load_weight(Sample& factor, int64_t at) const { factor.load(a.weight + at, b.weight + at); }
  template <bool kPadded>
  void load(Sample& v, int64_t at, int64_t x, int64_t width) const {
    v.load(pixel_or_zeros<kPadded, V>(a.from + at, x, width), pixel_or_zeros<kPadded, V>(b.from + at, x, width));
  }
};

template <class V, class T, class F>
void for_rows(const InputRow<T>* row, const InputRow<T>* end, const F& f) {
  if constexpr (kByPairs<V, T>)
    for (; end - row >= 2; row += 2) f(TwoRows<V, T>{row[0], row[1]});
  for (; row != end; ++row) f(OneRow<V, T>{*row});
}

// Steps to the next pixel. Hidden from the compiler, which otherwise keeps an index for each pixel, in memory.
inline void advance(int64_t& at, int64_t step) {
  at += step;
  asm("" : "+r"(at));
}

// Whether a load also steps to the next pixel.
template <bool kPadded, class V, class T>
constexpr bool kStepsInLoads = kOwnLoads<V> && !kPadded && std::is_same_v<T, float>;

// Adds weight * row to neighbouring outputs, for taps [first, taps) of each row.
template <bool kPadded, class V, int kCount, class T>
void add_rows(const InputRow<T>* begin, const InputRow<T>* end, const int64_t* columns, int64_t first, int64_t taps,
              const BlockPosition& position, V (&out)[kCount]) {
  for_rows<V>(begin, end, [&](const auto& rows) {
    const int64_t step = position.stride * position.pixel_stride;
    int64_t weight = position.weight_offset + first * V::kLanes;
    for (int64_t t = first; t < taps; ++t, weight += V::kLanes) {
      typename std::decay_t<decltype(rows)>::Sample factor, v;
      rows.load_weight(factor, weight);
      int64_t at = position.offset_of(columns[t]), x = position.column + columns[t];
      if constexpr (kStepsInLoads<kPadded, V, T>) {
        const T* from = rows.row.from + at;
#pragma GCC unroll 16
        for (V& sum : out) {
          load_and_step(v, from, step);
          sum.fma(factor, v);
        }
        continue;
      }
#pragma GCC unroll 16
      for (int i = 0; i < kCount; ++i, advance(at, step), x += position.stride) {
        rows.template load<kPadded>(v, at, x, position.width);
        out[i].fma(factor, v);
      }
    }
  });
}

// The same for two, four or eight neighbouring taps of one row, of which an instruction adds two products.
template <int kTaps, bool kPadded, class V, int kCount, class T>
void add_pairs_of_taps(const InputRow<T>& row, int64_t column, const BlockPosition& position, V (&out)[kCount]) {
  const int64_t step = position.stride * position.pixel_stride;
  typename V::Pair factor[kTaps / 2], v;
#pragma GCC unroll 4
  for (int t = 0; t < kTaps / 2; ++t) {
    const acc_t<T>* weight = row.weight + position.weight_offset + 2 * t * V::kLanes;
    factor[t].load(weight, weight + V::kLanes);
  }
  int64_t at = position.offset_of(column), x = position.column + column;
#pragma GCC unroll 32
  for (int p = 0; p < kCount + kTaps - 2; ++p, advance(at, step), x += position.stride) {
    v.load(pixel_or_zeros<kPadded, V>(row.from + at, x, position.width),
           pixel_or_zeros<kPadded, V>(row.from + at + step, x + position.stride, position.width));
#pragma GCC unroll 4
    for (int t = 0; t < kTaps / 2; ++t)
      if (p - 2 * t >= 0 && p - 2 * t < kCount) out[p - 2 * t].fma(factor[t], v);
  }
}

// The same for neighbouring taps, kTaps at a time: each register of the row is loaded once for all of them.
template <int kTaps, bool kPadded, class V, int kCount, class T>
void add_neighbouring_taps(const InputRow<T>* begin, const InputRow<T>* end, int64_t column, int64_t taps,
                           const BlockPosition& position, V (&out)[kCount]) {
  if constexpr (kByPairs<V, T> && kTaps % 2 == 0)
    if ((end - begin) % 2 == 1) add_pairs_of_taps<kTaps, kPadded>(*--end, column, position, out);
  for_rows<V>(begin, end, [&](const auto& rows) {
    const int64_t step = position.stride * position.pixel_stride;
    for (int64_t first = 0; first + kTaps <= taps; first += kTaps) {
      typename std::decay_t<decltype(rows)>::Sample factor[kTaps], v;
#pragma GCC unroll 16
      for (int t = 0; t < kTaps; ++t) rows.load_weight(factor[t], position.weight_offset + (first + t) * V::kLanes);
      int64_t at = position.offset_of(column + first * position.stride),
              x = position.column + column + first * position.stride;
#pragma GCC unroll 32
      for (int p = 0; p < kCount + kTaps - 1; ++p, advance(at, step), x += position.stride) {
        rows.template load<kPadded>(v, at, x, position.width);
        v.keep();
#pragma GCC unroll 16
        for (int t = 0; t < kTaps; ++t)
          if (p - t >= 0 && p - t < kCount) out[p - t].fma(factor[t], v);
      }
    }
  });
}

// How the taps of a row lie: 2, 3, 5 or 7 neighbours, kMany neighbours, neighbours within each phase, or scattered. A
// constant, so that the sums stay in registers.
constexpr int kScattered = 0, kMany = 8, kPhases = 9;
constexpr int kFewTaps = 4;

template <bool kInPlace, bool kFew, class F>
void with_taps(const int64_t* columns, int64_t taps, int64_t step, const F& f) {
  [[maybe_unused]] const bool side_by_side = taps > 0 && columns[taps - 1] - columns[0] == (taps - 1) * step;
  if (side_by_side && taps == 3) return f(std::integral_constant<int, 3>());
  if constexpr (!kFew) {
    if (side_by_side && taps == 5) return f(std::integral_constant<int, 5>());
    if (side_by_side && taps == 7) return f(std::integral_constant<int, 7>());
  }
  if constexpr (!kInPlace || !kFew)
    if (side_by_side && taps >= 7) return f(std::integral_constant<int, kMany>());
  if constexpr (!kFew) {
    if (side_by_side && taps == 2) return f(std::integral_constant<int, 2>());
    if (taps >= kFewTaps) return f(std::integral_constant<int, kPhases>());
  }
  f(std::integral_constant<int, kScattered>());
}

constexpr int kMaxBlock = 8;
// From so many outputs on, the next of equally long blocks has kMaxBlock outputs.
constexpr int kManyOutputs = (kMaxBlock - 1) * (kMaxBlock - 1) + 1;

// How many outputs the next block has, for each number of outputs that are left, up to kManyOutputs. A block has at
// most `most`, and blocks are about equally long. A table, because a division or a call in the loop over blocks is
// slower.
struct BlockSizes {
  int8_t of[kManyOutputs + 1];
  int64_t most;

  constexpr explicit BlockSizes(int most) : of{}, most(most) {
    for (int left = 1; left <= kManyOutputs; ++left) {
      const int blocks = (left + most - 1) / most;
      of[left] = most == kMaxBlock && left % 7 == 0 ? 7 : (left + blocks - 1) / blocks;
    }
  }
};
inline constexpr BlockSizes kBlocks(kMaxBlock);
// Of windows so wide that for most outputs some of their taps, seven at a time, read only padding: the fewer outputs a
// block has, the more of these add_many_taps leaves out. Buffers of bfloat16 were slower so.
inline constexpr BlockSizes kPaddedBlocks(7);
constexpr int64_t kPaddedTaps = 14;  // of a row, at least, and half the columns of the image

// f(constant) for the outputs of the next block. Blocks of 14 (kTwice) keep more sums in flight, where there are
// registers for them.
template <bool kFew, bool kTwice, class F>
int64_t with_block(int64_t left, const BlockSizes& blocks, const F& f) {
  if constexpr (kFew) {
    if (left >= 7) return f(std::integral_constant<int, 7>()), 7;
    return f(std::integral_constant<int, 1>()), 1;
  } else {
    if constexpr (kTwice)
      if (blocks.most == kMaxBlock && (left == 14 || left >= 21) && (left % 8 != 0 || left % 7 == 0))
        return f(std::integral_constant<int, 14>()), 14;
    const int64_t count = blocks.of[std::min<int64_t>(left, kManyOutputs)];
    with_constant<kMaxBlock>(count, f);
    return count;
  }
}

// The same for taps that are neighbours only within each phase of a stride. `columns` are sorted by phase. With fewer
// than kFewTaps taps this is not worth its branches.
template <bool kPadded, class V, int kCount, class T>
void add_phases(const InputRow<T>* begin, const InputRow<T>* end, const int64_t* columns, int64_t taps,
                const BlockPosition& position, V (&out)[kCount]) {
  for (int64_t t = 0; t < taps;) {
    int64_t run = 1;
    while (t + run < taps && columns[t + run] == columns[t] + run * position.stride) ++run;
    BlockPosition run_position = position;
    run_position.weight_offset = position.weight_offset + t * V::kLanes;
    const int64_t count = run < 3 ? run : run % 3 == 1 ? 4 : 3;
    switch (count) {
      case 1: add_rows<kPadded>(begin, end, columns, t, t + 1, position, out); break;
      case 2: add_neighbouring_taps<2, kPadded>(begin, end, columns[t], 2, run_position, out); break;
      case 3: add_neighbouring_taps<3, kPadded>(begin, end, columns[t], 3, run_position, out); break;
      default: add_neighbouring_taps<4, kPadded>(begin, end, columns[t], 4, run_position, out);
    }
    t += count;
  }
}

// The same for 7 and more neighbouring taps, 7 at a time, then 4, without those that read only padding. From a buffer
// the 4 are as fast one by one. Of a single row, where an instruction adds two products, 8 at a time, then 2.
template <bool kInPlace, bool kPadded, class V, int kCount, class T>
void add_many_taps(const InputRow<T>* row, const InputRow<T>* end, const int64_t* columns, int64_t taps,
                   const BlockPosition& position, V (&out)[kCount]) {
  const auto left_out = [&](int64_t first, int64_t last) {
    return position.all_padding(columns[first], columns[last], kCount);
  };
  BlockPosition group = position;
  const auto from_tap = [&](int64_t tap) -> const BlockPosition& {
    group.weight_offset = position.weight_offset + tap * V::kLanes;
    return group;
  };
  if constexpr (kByPairs<V, T>)
    if ((end - row) % 2 == 1) {
      const InputRow<T>* const single = --end;
      int64_t t = 0;
      for (; t + 8 <= taps; t += 8)
        if (!left_out(t, t + 7)) add_pairs_of_taps<8, kPadded>(*single, columns[t], from_tap(t), out);
      for (; t + 2 <= taps; t += 2)
        if (!left_out(t, t + 1)) add_pairs_of_taps<2, kPadded>(*single, columns[t], from_tap(t), out);
      if (t < taps && !left_out(t, t)) add_rows<kPadded>(single, single + 1, columns, t, taps, position, out);
      if (row == end) return;
    }
  int64_t first = 0, whole = taps / 7 * 7, next = whole;
  while (first < whole && left_out(first, first + 6)) first += 7;
  while (first < whole && left_out(whole - 7, whole - 1)) whole -= 7;
  add_neighbouring_taps<7, kPadded>(row, end, columns[0] + first * position.stride, whole - first, from_tap(first),
                                    out);
  if constexpr (kInPlace)
    if (taps - next >= 4) {
      if (!left_out(next, next + 3)) add_neighbouring_taps<4, kPadded>(row, end, columns[next], 4, from_tap(next), out);
      next += 4;
    }
  for (; next < taps; next += 4) {
    int64_t t = next, last = std::min(next + 4, taps);
    while (t < last && left_out(t, t)) ++t;
    while (t < last && left_out(last - 1, last - 1)) --last;
    add_rows<kPadded>(row, end, columns, t, last, position, out);
  }
}

template <bool kInPlace, int kTaps, bool kPadded, class V, int kCount, class T>
void add_taps(const InputRow<T>* row, const InputRow<T>* end, const int64_t* columns, int64_t taps,
              const BlockPosition& position, V (&out)[kCount]) {
  if constexpr (kTaps == kScattered) {
    add_rows<kPadded>(row, end, columns, 0, taps, position, out);
  } else if constexpr (kTaps == kPhases) {
    add_phases<kPadded>(row, end, columns, taps, position, out);
  } else if constexpr (kTaps == kMany) {
    add_many_taps<kInPlace, kPadded>(row, end, columns, taps, position, out);
  } else {
    add_neighbouring_taps<kTaps, kPadded>(row, end, columns[0], kTaps, position, out);
  }
}

// The rows to prefetch while a row of outputs is computed: those that the next row of outputs adds to its window.
// Hardware prefetchers miss them, because blocks of pixels are read from several rows in turn: without this, images
// that are not in the cache took up to 4 times as long on a Zen 5, and up to 1.6 times on a Xeon.
template <class T>
struct Prefetch {
  const T* pixels;
  int64_t rows, row_stride;  // row_stride: elements
};

// The outputs of one phase of a row, for the channels of a tile. What does not depend on the row is set once: numbers
// that are read right after they were written, by wider instructions or across cache lines, keep short rows waiting.
template <class T>
struct OutputRow {
  const InputRow<T>* rows;
  const int64_t* columns;  // of the taps
  int64_t taps;
  const acc_t<T>* bias;
  int64_t tap_count;       // of a channel, over all phases
  int64_t buffer_size;     // elements from one block of channels to the next
  BlockPosition position;  // of the first output
  int64_t count, to_step;  // outputs; elements from one to the next
  bool channels_last;      // whether outputs have the image's channels side by side, or whole registers
  int64_t inner, outer;    // columns between which all taps lie within the image

  const BlockSizes* blocks = &kBlocks;
  const InputRow<T>* rows_end = nullptr;
  int64_t channel = 0, channels_end = 0;  // of the tile
  Prefetch<T> prefetch{};                 // of the first output

  // For phase rx. columns: of its taps.
  OutputRow(const TilePlan& plan, const InputRow<T>* rows, const std::vector<int64_t>& columns, int64_t rx,
            int64_t buffer_size, const BlockPosition& position, const acc_t<T>* bias, int64_t to_step)
      : rows(rows),
        columns(columns.data()),
        taps(columns.size()),
        bias(bias),
        tap_count(plan.tap_count),
        buffer_size(buffer_size),
        position(position),
        count(plan.x.periods(rx)),
        to_step(to_step),
        channels_last(plan.channels_last),
        inner(0),
        outer(position.width) {
    for (int64_t column : columns) inner = std::max(inner, -column), outer = std::min(outer, position.width - column);
    // A call of more or fewer images may be computed by fwd_tiles, which leaves out no taps.
    if (plan.weight_channels <= kMaxTileChannels)
      this->position.inside = INT64_MIN / 2, this->position.inside_end = INT64_MAX / 2;
    else if (taps >= kPaddedTaps && columns.back() - columns[0] == (taps - 1) * position.stride &&
             2 * taps >= position.inside_end - position.inside && !std::is_same_v<T, BFloat16>)
      blocks = &kPaddedBlocks;
  }
};

// Which cache prefetched lines go into, for __builtin_prefetch. On a Zen 4 the L2 cache was faster, but under seven
// taps of a row the L1 cache. Not measured elsewhere.
constexpr int kIntoL1 = 3, kIntoL2 = 2;

// Prefetches what `step` blocks of kBytes read next. Always inline: GCC takes a call of a function that only prefetches
// for one without effect, and drops it.
template <int kBytes, int kWhere, class T>
[[gnu::always_inline]] inline void issue_prefetch(const Prefetch<T>& prefetch, int64_t at, int64_t step) {
  const T* row = prefetch.pixels + at;
  for (int64_t y = 0; y < prefetch.rows; ++y, row += prefetch.row_stride) {
    const char* line = reinterpret_cast<const char*>(row);
    for (int64_t x = 0; x < step; ++x, line += kBytes)
#pragma GCC unroll 16
      for (int i = 0; i < kBytes; i += 64) __builtin_prefetch(line + i, 0, kWhere);
  }
}

// Whether the store of a part of a register is one instruction.
template <class V>
constexpr bool kMaskedStores = sizeof(V) == 64;

// Copies `lanes` numbers of each of so many registers. Never inline: blocks of all sizes and kinds share it.
template <int kLanes, class O>
[[gnu::noinline]] void copy_parts(const O* parts, int64_t registers, O* to, int64_t step, int64_t lanes) {
  for (int64_t i = 0; i < registers; ++i, parts += kLanes, to += step) copy_part<kLanes>(parts, to, lanes);
}

// kCount outputs from output i on, for all the channels of a tile.
template <bool kInPlace, int kTaps, int kCount, bool kPadded, class V, class T, class O>
void add_block(const OutputRow<T>& outputs, int64_t i, O* row) {
  for (int64_t g = outputs.channel; g < outputs.channels_end; g += V::kLanes) {
    const int64_t channel = kInPlace ? first_channel(g, outputs.channels_end, V::kLanes) : g;
    BlockPosition position = outputs.position;
    if constexpr (!kInPlace) position.pixel_stride = V::kLanes, position.stride = 1;  // constants in the loops below
    position.offset = kInPlace ? channel : (g - outputs.channel) / V::kLanes * outputs.buffer_size;
    position.weight_offset = g * outputs.tap_count;
    position.column = i * position.stride;
    V out[kCount];
#pragma GCC unroll 16
    for (int o = 0; o < kCount; ++o) out[o].load(outputs.bias + channel);
    if constexpr (kInPlace) {
      const int64_t at = position.column * position.pixel_stride + (g - outputs.channel) * kCount * position.stride;
      constexpr int kBytes = kCount * V::kLanes * sizeof(T);
      issue_prefetch<kBytes, kTaps == 7 ? kIntoL1 : kIntoL2>(outputs.prefetch, at, position.stride);
    }
    add_taps<kInPlace, kTaps, kPadded>(outputs.rows, outputs.rows_end, outputs.columns, outputs.taps, position, out);
    const int64_t lanes =
        outputs.channels_last ? std::min<int64_t>(outputs.channels_end - channel, V::kLanes) : V::kLanes;
    O* const to = row + i * outputs.to_step + (channel - outputs.channel);
    // A register may write beyond its pixel's channels, within the row: pixels are written in order, and the next ones
    // overwrite that.
    const int64_t pixels_left = outputs.count - (i + kCount - 1);  // from the block's last one on
    const bool whole = lanes == V::kLanes || (outputs.to_step == lanes && pixels_left * lanes >= V::kLanes);
    if (whole) {
#pragma GCC unroll 16
      for (int o = 0; o < kCount; ++o) out[o].store(to + o * outputs.to_step);
    } else if constexpr (kMaskedStores<V>) {
#pragma GCC unroll 16
      for (int o = 0; o < kCount; ++o) store_part(out[o], to + o * outputs.to_step, lanes);
    } else {
      O parts[kCount * V::kLanes];
#pragma GCC unroll 16
      for (int o = 0; o < kCount; ++o) out[o].store(parts + o * V::kLanes);
      copy_parts<V::kLanes>(parts, kCount, to, outputs.to_step, lanes);
    }
  }
}

template <bool kInPlace, int kTaps, Capability c, class T, class O>
void add_blocks(const OutputRow<T> outputs, O* to) {
  using V = Vec<c, acc_t<T>>;
  constexpr bool kFew = kOldest<c>;
  // Three taps of wider numbers wait for memory rather than for sums.
  constexpr bool kTwice = kVectorRegisters<c> == 32 && (kTaps > 3 || sizeof(T) < 4);
  for (int64_t i = 0; i < outputs.count;)
    i += with_block<kFew, kTwice>(outputs.count - i, *outputs.blocks, [&](auto constant) {
      constexpr int kCount = constant;
      if (!kInPlace ||
          (i * outputs.position.stride >= outputs.inner && (i + kCount - 1) * outputs.position.stride < outputs.outer))
        add_block<kInPlace, kTaps, kCount, false, V>(outputs, i, to);
      else if constexpr (kInPlace)
        add_block<kInPlace, kTaps, kCount, true, V>(outputs, i, to);
    });
}

// A function of its own for each instruction set and kind of taps, which dtypes with the same buffers share: in larger
// functions compilers keep fewer numbers in registers.
template <bool kInPlace, class I, class T, class O>
void add_up(I isa, const OutputRow<T>& outputs, O* to) {
  with_taps<kInPlace, kOldest<I::value>>(outputs.columns, outputs.taps, outputs.position.stride, [&](auto kind) {
    constexpr int kTaps = kind;
    outline(isa, [&outputs, to](auto) { add_blocks<kInPlace, kTaps, I::value>(outputs, to); });
  });
}

}  // namespace customops::cpu
