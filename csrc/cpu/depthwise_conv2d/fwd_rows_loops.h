// depthwise_conv2d's inner loops where a register holds the channels of a pixel: the rows that outputs meet are added
// up, weight by weight, in registers.
#pragma once

#include "plan.h"

namespace customops::cpu {

// A row of a buffer or of the image, and the weights of the taps that meet it.
template <class T>
struct Row {
  const T* from;
  const acc_t<T>* weight;
};

// Where outputs side by side meet the rows. Beyond the image, if that is what rows are of, there are zeros.
struct Place {
  int64_t at, weight_at;   // elements from the beginning of a row, for the first output; of its weights
  int64_t pixel;           // elements from one column to the next
  int64_t x, step, width;  // column of the first output, columns to the next output, columns of the image

  int64_t of(int64_t column) const { return at + (x + column) * pixel; }
};

// Whether registers V add up two rows of T at once.
template <class V, class T>
constexpr bool kByPairs = false;
template <>
constexpr bool kByPairs<Vec<Capability::avx512_bf16, float>, BFloat16> = true;

template <bool kPadded, class V, class T>
const T* pixel_or_zeros(const T* pixel, int64_t x, int64_t width) {
  alignas(64) static const T zeros[V::kLanes] = {};
  return !kPadded || uint64_t(x) < uint64_t(width) ? pixel : zeros;
}

// A row that is added to outputs, and two at once.
template <class V, class T>
struct OneRow {
  using Sample = V;
  Row<T> row;

  void load_weight(V& factor, int64_t at) const { factor.load(row.weight + at); }
  template <bool kPadded>
  void load(V& v, int64_t at, int64_t x, int64_t width) const {
    v.load(pixel_or_zeros<kPadded, V>(row.from + at, x, width));
  }
};

template <class V, class T>
struct TwoRows {
  using Sample = typename V::Pair;
  Row<T> a, b;

  void load_weight(Sample& factor, int64_t at) const { factor.load(a.weight + at, b.weight + at); }
  template <bool kPadded>
  void load(Sample& v, int64_t at, int64_t x, int64_t width) const {
    v.load(pixel_or_zeros<kPadded, V>(a.from + at, x, width), pixel_or_zeros<kPadded, V>(b.from + at, x, width));
  }
};

template <class V, class T, class F>
void for_rows(const Row<T>* row, const Row<T>* end, const F& f) {
  if constexpr (kByPairs<V, T>)
    for (; end - row >= 2; row += 2) f(TwoRows<V, T>{row[0], row[1]});
  for (; row != end; ++row) f(OneRow<V, T>{*row});
}

// One addition for each pixel: otherwise the compiler keeps a sum for each of them, in memory.
inline void next(int64_t& at, int64_t step) {
  at += step;
  asm("" : "+r"(at));
}

// Registers of outputs, side by side, to which weight * row is added, for taps [first, taps) of each row. Here a
// register holds the channels of a pixel.
template <bool kPadded, class V, int kCount, class T>
void add_rows(const Row<T>* begin, const Row<T>* end, const int64_t* columns, int64_t first, int64_t taps,
              const Place& place, V (&out)[kCount]) {
  for_rows<V>(begin, end, [&](const auto& rows) {
    const int64_t step = place.step * place.pixel;
    int64_t weight = place.weight_at + first * V::kLanes;
    for (int64_t t = first; t < taps; ++t, weight += V::kLanes) {
      typename std::decay_t<decltype(rows)>::Sample factor, v;
      rows.load_weight(factor, weight);
      int64_t at = place.of(columns[t]), x = place.x + columns[t];
#pragma GCC unroll 16
      for (int i = 0; i < kCount; ++i, next(at, step), x += place.step) {
        rows.template load<kPadded>(v, at, x, place.width);
        out[i].fma(factor, v);
      }
    }
  });
}

// The same for taps side by side, kTaps at a time: each register of the row is loaded once for them.
template <int kTaps, bool kPadded, class V, int kCount, class T>
void add_neighbours(const Row<T>* begin, const Row<T>* end, int64_t column, int64_t taps, const Place& place,
                    V (&out)[kCount]) {
  for_rows<V>(begin, end, [&](const auto& rows) {
    const int64_t step = place.step * place.pixel;
    for (int64_t first = 0; first + kTaps <= taps; first += kTaps) {
      typename std::decay_t<decltype(rows)>::Sample factor[kTaps], v;
#pragma GCC unroll 16
      for (int t = 0; t < kTaps; ++t) rows.load_weight(factor[t], place.weight_at + (first + t) * V::kLanes);
      int64_t at = place.of(column + first * place.step), x = place.x + column + first * place.step;
#pragma GCC unroll 32
      for (int p = 0; p < kCount + kTaps - 1; ++p, next(at, step), x += place.step) {
        rows.template load<kPadded>(v, at, x, place.width);
        v.keep();
#pragma GCC unroll 16
        for (int t = 0; t < kTaps; ++t)
          if (p - t >= 0 && p - t < kCount) out[p - t].fma(factor[t], v);
      }
    }
  });
}

// How the taps of a row lie: 2, 3, 5 or 7 side by side, kMany of them, in phases, or scattered. Known at compile time,
// so that the sums stay in registers.
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

// f(constant) for as many outputs as a block takes of those that are left: up to 8, in blocks about as long. 14 keep
// more sums in flight, where there are registers for them.
template <bool kFew, bool kTwice, class F>
int64_t with_block(int64_t left, const F& f) {
  if constexpr (kFew) {
    if (left >= 7) return f(std::integral_constant<int, 7>()), 7;
    return f(std::integral_constant<int, 1>()), 1;
  } else {
    if constexpr (kTwice)
      if ((left == 14 || left >= 21) && (left % 8 != 0 || left % 7 == 0))
        return f(std::integral_constant<int, 14>()), 14;
    const int64_t count = left % 7 == 0 ? 7 : ceil_div(left, ceil_div(left, 8));
    with_constant<8>(count, f);
    return count;
  }
}

// The same for taps that do not all lie side by side: those of each phase of a stride do. `columns` are in order of
// phases. For fewer taps than kFewTaps that is not worth its branches.
template <bool kPadded, class V, int kCount, class T>
void add_phases(const Row<T>* begin, const Row<T>* end, const int64_t* columns, int64_t taps, const Place& place,
                V (&out)[kCount]) {
  for (int64_t t = 0; t < taps;) {
    int64_t run = 1;
    while (t + run < taps && columns[t + run] == columns[t] + run * place.step) ++run;
    Place there = place;
    there.weight_at = place.weight_at + t * V::kLanes;
    const int64_t count = run < 3 ? run : run % 3 == 1 ? 4 : 3;
    switch (count) {
      case 1: add_rows<kPadded>(begin, end, columns, t, t + 1, place, out); break;
      case 2: add_neighbours<2, kPadded>(begin, end, columns[t], 2, there, out); break;
      case 3: add_neighbours<3, kPadded>(begin, end, columns[t], 3, there, out); break;
      default: add_neighbours<4, kPadded>(begin, end, columns[t], 4, there, out);
    }
    t += count;
  }
}

template <int kTaps, bool kPadded, class V, int kCount, class T>
void add_taps(const Row<T>* row, const Row<T>* end, const int64_t* columns, int64_t taps, const Place& place,
              V (&out)[kCount]) {
  if constexpr (kTaps == kScattered) {
    add_rows<kPadded>(row, end, columns, 0, taps, place, out);
  } else if constexpr (kTaps == kPhases) {
    add_phases<kPadded>(row, end, columns, taps, place, out);
  } else if constexpr (kTaps == kMany) {
    add_neighbours<7, kPadded>(row, end, columns[0], taps, place, out);
    add_rows<kPadded>(row, end, columns, taps / 7 * 7, taps, place, out);
  } else {
    add_neighbours<kTaps, kPadded>(row, end, columns[0], kTaps, place, out);
  }
}

// What is prefetched while a row of outputs is added up: as many rows as the outputs go on by. Processors do not guess
// what comes next where blocks of pixels are read from several rows in turn: on Zen 5 images that are not in the cache
// took up to 4 times as long, on a Xeon up to 1.6 times.
template <class T>
struct Ahead {
  const T* from;
  int64_t rows, row;  // elements from one to the next
};

// Outputs side by side in a row, of the channels of a tile.
template <class T, class O>
struct Outputs {
  const Row<T>*rows, *rows_end;
  const int64_t* columns;  // of the taps
  int64_t taps;
  const acc_t<T>* bias;
  int64_t channel, end;  // of the tile
  int64_t all_taps;      // of a channel
  int64_t next;          // elements of a buffer from one register of channels to the next
  Place place;           // for the first output
  O* to;
  int64_t count, to_step;  // outputs; elements from one to the next
  bool last;               // whether that has the image's channels side by side, or whole registers
  int64_t inner, outer;    // columns between which all taps are within the image
  Ahead<T> ahead;          // of the first output
};

// As much as a register of so many outputs, of kBytes, goes on by. Inline, because GCC takes calls of a function that
// only prefetches for calls without an effect, and drops them.
template <int kBytes, class T>
[[gnu::always_inline]] inline void prefetch(const Ahead<T>& ahead, int64_t at, int64_t step) {
  const T* row = ahead.from + at;
  for (int64_t y = 0; y < ahead.rows; ++y, row += ahead.row) {
    const char* line = reinterpret_cast<const char*>(row);
    for (int64_t x = 0; x < step; ++x, line += kBytes)
#pragma GCC unroll 16
      for (int i = 0; i < kBytes; i += 64) __builtin_prefetch(line + i);
  }
}

// kCount outputs from number i on, of all the channels of a tile.
template <bool kInPlace, int kTaps, int kCount, bool kPadded, class V, class T, class O>
void add_block(const Outputs<T, O>& p, int64_t i) {
  for (int64_t g = p.channel; g < p.end; g += V::kLanes) {
    const int64_t channel = kInPlace ? first_channel(g, p.end, V::kLanes) : g;
    Place place = p.place;
    place.at = kInPlace ? channel : (g - p.channel) / V::kLanes * p.next;
    place.weight_at = g * p.all_taps;
    place.x = i * place.step;
    V out[kCount];
#pragma GCC unroll 16
    for (int o = 0; o < kCount; ++o) out[o].load(p.bias + channel);
    if constexpr (kInPlace) {
      const int64_t at = place.x * place.pixel + (g - p.channel) * kCount * place.step;
      prefetch<kCount * V::kLanes * sizeof(T)>(p.ahead, at, place.step);
    }
    add_taps<kTaps, kPadded>(p.rows, p.rows_end, p.columns, p.taps, place, out);
    const int64_t lanes = p.last ? std::min<int64_t>(p.end - channel, V::kLanes) : V::kLanes;
    O* const to = p.to + i * p.to_step + (channel - p.channel);
    // What is beyond the channels of a pixel is overwritten by the next, but for the last in a row: they come in order,
    // and registers are less than twice as wide.
    const bool whole = lanes == V::kLanes || (p.to_step == lanes && i + kCount < p.count);
    if (whole) {
#pragma GCC unroll 16
      for (int o = 0; o < kCount; ++o) out[o].store(to + o * p.to_step);
    } else {
#pragma GCC unroll 16
      for (int o = 0; o < kCount; ++o) store_part(out[o], to + o * p.to_step, lanes);
    }
  }
}

template <bool kInPlace, int kTaps, Capability c, class T, class O>
void add_blocks(const Outputs<T, O> p) {
  using V = Vec<c, acc_t<T>>;
  constexpr bool kFew = kOldest<c>;
  // Three taps of wider numbers wait for memory rather than for sums.
  constexpr bool kTwice = c >= Capability::avx512 && (kTaps > 3 || sizeof(T) < 4);
  for (int64_t i = 0; i < p.count;)
    i += with_block<kFew, kTwice>(p.count - i, [&](auto constant) {
      constexpr int kCount = constant;
      if (!kInPlace || (i * p.place.step >= p.inner && (i + kCount - 1) * p.place.step < p.outer))
        add_block<kInPlace, kTaps, kCount, false, V>(p, i);
      else if constexpr (kInPlace)
        add_block<kInPlace, kTaps, kCount, true, V>(p, i);
    });
}

// In a function of its own for each instruction set and kind of taps, which dtypes share where their buffers hold the
// same. Of larger functions compilers keep fewer numbers in registers.
template <bool kInPlace, class I, class T, class O>
void add_up(I isa, const Outputs<T, O>& outputs) {
  with_taps<kInPlace, kOldest<I::value>>(outputs.columns, outputs.taps, outputs.place.step, [&](auto kind) {
    constexpr int kTaps = kind;
    outline(isa, [&](auto) { add_blocks<kInPlace, kTaps, I::value>(outputs); });
  });
}

// The outputs of phase rx of a row, from the rows that they meet, for the channels of a tile from c on. columns: of the
// taps of the phase. next: elements of a buffer from one register of channels to the next.
template <bool kInPlace, class I, class T, class O>
void add_up_row(I isa, const Plan& plan, const Row<T>* begin, const Row<T>* end, const std::vector<int64_t>& columns,
                int64_t rx, int64_t c, int64_t next, const Place& place, const acc_t<T>* bias, O* to, int64_t to_step,
                const Ahead<T>& ahead = {}) {
  int64_t inner = 0, outer = place.width;
  for (int64_t column : columns) inner = std::max(inner, -column), outer = std::min(outer, place.width - column);
  const Outputs<T, O> outputs{begin,
                              end,
                              columns.data(),
                              int64_t(columns.size()),
                              bias,
                              c,
                              plan.end(c),
                              plan.taps,
                              next,
                              place,
                              to,
                              plan.x.periods(rx),
                              to_step,
                              plan.last,
                              inner,
                              outer,
                              ahead};
  add_up<kInPlace>(isa, outputs);
}

}  // namespace customops::cpu
