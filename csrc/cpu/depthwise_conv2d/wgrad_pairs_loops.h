// The inner loop of wgrad_pixels for bfloat16 under 3x3 taps, where one instruction adds two products: those of two
// rows of outputs. Each register of the image and of the gradient alternates words of both rows.
#pragma once

#include "wgrad_pixels_loops.h"

namespace customops::cpu {

constexpr int64_t kPairChannels = 32;  // at a time: a cache line of each pixel
constexpr int kPairTaps = 3;           // of a row and of a column

// Puts the sums of a tap in the order of the channels: unpacking takes four words of each 128 bits.
inline void sort_pair_sums(const float* sums, float* sorted) {
  for (int i = 0; i < kPairChannels; i += 8) {
    std::copy_n(sums + i / 2, 4, sorted + i);
    std::copy_n(sums + kPairChannels / 2 + i / 2, 4, sorted + i + 4);
  }
}

#if CUSTOMOPS_X86_64

// A pixel of two rows.
struct PixelPair {
  __m512i lo, hi;

  CUSTOMOPS_AVX512_BF16 void load(const BFloat16* a, const BFloat16* b) {
    const __m512i x = _mm512_loadu_si512(a), y = _mm512_loadu_si512(b);
    lo = _mm512_unpacklo_epi16(x, y), hi = _mm512_unpackhi_epi16(x, y);
  }
  CUSTOMOPS_AVX512_BF16 void clear() { lo = hi = _mm512_setzero_si512(); }
};

struct PairSum {
  __m512 lo, hi;

  CUSTOMOPS_AVX512_BF16 void load(const float* p) { lo = _mm512_load_ps(p), hi = _mm512_load_ps(p + 16); }
  CUSTOMOPS_AVX512_BF16 void store(float* p) const { _mm512_store_ps(p, lo), _mm512_store_ps(p + 16, hi); }
  CUSTOMOPS_AVX512_BF16 void add(const PixelPair& a, const PixelPair& b) {
    lo = _mm512_dpbf16_ps(lo, (__m512bh)a.lo, (__m512bh)b.lo);
    hi = _mm512_dpbf16_ps(hi, (__m512bh)a.hi, (__m512bh)b.hi);
  }
};

// Two rows of outputs, and under each the rows of the image; of all, the first channel of pixel 0. `zeros` stands for
// what is not there.
struct PairedRows {
  const BFloat16 *grad[2], *image[2][kPairTaps];

  template <int kStride>
  CUSTOMOPS_AVX512_BF16 void add(const WindowRows<BFloat16>& window, PairSum (&sum)[kPairTaps][kPairTaps]) const;
};

// At stride 1, a pixel meets the outputs of three columns, which stay in registers.
template <>
CUSTOMOPS_AVX512_BF16 inline void PairedRows::add<1>(const WindowRows<BFloat16>& window,
                                                     PairSum (&sum)[kPairTaps][kPairTaps]) const {
  const int64_t pixel = window.channels, outputs = window.outputs, begin = std::max<int64_t>(window.column, 0),
                end = std::min(window.width, window.column + outputs + kPairTaps - 1);
  PixelPair g[kPairTaps];
  const auto load = [&](PixelPair& pair, int64_t output) CUSTOMOPS_AVX512_BF16 {
    if (uint64_t(output) < uint64_t(outputs))
      pair.load(grad[0] + output * pixel, grad[1] + output * pixel);
    else
      pair.clear();
  };
  load(g[1], begin - window.column - 1), load(g[2], begin - window.column - 2);
  for (int64_t x = begin; x < end; ++x) {
    load(g[0], x - window.column);
#pragma GCC unroll 3
    for (int r = 0; r < kPairTaps; ++r) {
      PixelPair v;
      v.load(image[0][r] + x * pixel, image[1][r] + x * pixel);
#pragma GCC unroll 3
      for (int k = 0; k < kPairTaps; ++k) sum[r][k].add(g[k], v);
    }
    g[2] = g[1], g[1] = g[0];
  }
}

// At stride 2, the last pixel of a window is the first of the next one.
template <>
CUSTOMOPS_AVX512_BF16 inline void PairedRows::add<2>(const WindowRows<BFloat16>& window,
                                                     PairSum (&sum)[kPairTaps][kPairTaps]) const {
  const int64_t pixel = window.channels, width = window.width;
  const auto load = [&](PixelPair& pair, int r, int64_t x) CUSTOMOPS_AVX512_BF16 {
    if (uint64_t(x) < uint64_t(width))
      pair.load(image[0][r] + x * pixel, image[1][r] + x * pixel);
    else
      pair.clear();
  };
  PixelPair first[kPairTaps];
#pragma GCC unroll 3
  for (int r = 0; r < kPairTaps; ++r) load(first[r], r, window.column);
  for (int64_t i = 0, x = window.column; i < window.outputs; ++i, x += 2) {
    PixelPair g, v;
    g.load(grad[0] + i * pixel, grad[1] + i * pixel);
#pragma GCC unroll 3
    for (int r = 0; r < kPairTaps; ++r) {
      sum[r][0].add(g, first[r]);
      load(v, r, x + 1);
      sum[r][1].add(g, v);
      load(first[r], r, x + 2);
      sum[r][2].add(g, first[r]);
    }
  }
}

// sums += grad * image, for 32 channels from `channel` on: sums[tap], each in the order of sort_pair_sums.
template <int kStride>
CUSTOMOPS_AVX512_BF16 void add_window_by_pairs(const WindowRows<BFloat16>& window, int64_t channel, float* sums) {
  PairSum sum[kPairTaps][kPairTaps];
#pragma GCC unroll 9
  for (int t = 0; t < kPairTaps * kPairTaps; ++t) sum[t / kPairTaps][t % kPairTaps].load(sums + t * kPairChannels);
  for (int64_t j = 0; j < window.count; j += 2) {
    PairedRows rows;
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
      const bool inside = j + i < window.count;
      rows.grad[i] = inside ? window.grad + (j + i) * window.grad_step + channel : window.zeros;
#pragma GCC unroll 3
      for (int r = 0; r < kPairTaps; ++r)
        rows.image[i][r] = inside ? window.image[(j + i) * window.image_step + r] + channel : window.zeros;
    }
    rows.add<kStride>(window, sum);
  }
#pragma GCC unroll 9
  for (int t = 0; t < kPairTaps * kPairTaps; ++t) sum[t / kPairTaps][t % kPairTaps].store(sums + t * kPairChannels);
}

#endif

// The same for all the channels of a window, of which there are at least 32.
template <class I>
void add_windows_by_pairs([[maybe_unused]] I isa, [[maybe_unused]] const WindowRows<BFloat16>& window) {
#if CUSTOMOPS_X86_64
  const auto add = [&window](auto stride) CUSTOMOPS_AVX512_BF16 {
    float* sums = window.sums;
    const RowsAhead<BFloat16>& ahead = window.ahead;
    const BFloat16 *image = ahead.image, *grad = ahead.grad;
    for (int64_t c = window.first; c < window.last; c += kPairChannels) {
      ahead.prefetch(image, grad);
      image += ahead.image_register, grad += ahead.grad_register;
      add_window_by_pairs<stride>(window, first_channel(c, window.channels, kPairChannels), sums);
      sums += kPairTaps * kPairTaps * kPairChannels;
    }
  };
  if (window.stride == 1)
    outline(isa, [&](auto) { add(std::integral_constant<int, 1>()); });
  else
    outline(isa, [&](auto) { add(std::integral_constant<int, 2>()); });
#endif
}

}  // namespace customops::cpu
