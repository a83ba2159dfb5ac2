// Forward and dgrad for contiguous images, 3x3 and 5x5 taps, stride 1. A register holds neighbouring pixels of a row.
// The rows of a strip of a plane are copied into a buffer, widened and padded with zeros. Each buffer row is added to
// all the rows of outputs whose windows it is in; their sums stay in registers until their last row is added.
#include "fwd.h"

namespace customops::cpu {
namespace {

// For each plane: to[y][x] = bias + sum of weight[ky][kx] * from[y + ky - top][x + kx - left].
struct PlanesShape {
  int64_t batch, channels, from_h, from_w, to_h, to_w, top, left;
};

// Registers of neighbouring outputs that are summed at once: enough chains of additions to hide their latency.
template <int kTaps>
constexpr int kSideBySide = kTaps == 3 ? 2 : 1;

// Whether the taps of a channel stay in registers.
template <Capability c, int kTaps>
constexpr bool kTapsStay = kVectorRegisters<c> == 32 || kTaps == 3;

template <class T, int kTaps>
class PlanesKernel {
  using A = acc_t<T>;
  const PlanesShape& shape_;
  const T *const from_, *const end_;
  T* const to_;
  const A *const weight_, *const bias_;  // [channel][tap], and [channel]
  const int64_t strip_, pitch_;
  Buffer<A> rows_, taps_;

 public:
  // Rows of outputs of a strip.
  static int64_t strip(const PlanesShape& shape, int64_t lanes) {
    const int64_t rows = kTileBytes / (pitch(shape, lanes) * int64_t(sizeof(A))) - kTaps + 1;
    return std::min(std::max<int64_t>(rows, kTaps), shape.to_h);
  }
  static int64_t pitch(const PlanesShape& shape, int64_t lanes) {
    return ceil_div(shape.to_w, lanes) * lanes + kTaps - 1;
  }

  PlanesKernel(const PlanesShape& shape, int64_t strip, int64_t lanes, const T* from, T* to, const A* weight,
               const A* bias)
      : shape_(shape),
        from_(from),
        end_(from + shape.batch * shape.channels * shape.from_h * shape.from_w),
        to_(to),
        weight_(weight),
        bias_(bias),
        strip_(strip),
        pitch_(pitch(shape, lanes)),
        rows_((strip + kTaps - 1) * pitch_),
        taps_(kTaps * kTaps * lanes) {}

  template <class I>
  void run(I isa, int64_t item) {
    using V = Vec<I::value, A>;
    const int64_t strips = ceil_div(shape_.to_h, strip_), plane = item / strips,
                  first = (item - plane * strips) * strip_;
    const int64_t rows = std::min(strip_, shape_.to_h - first), channel = plane % shape_.channels;
    const int64_t y = first - shape_.top, buffer_rows = rows + kTaps - 1;  // buffer row 0 is row y of the image
    const int64_t begin = std::clamp<int64_t>(-y, 0, buffer_rows),
                  end = std::clamp<int64_t>(shape_.from_h - y, begin, buffer_rows);
    copy_rows(isa, from_ + plane * shape_.from_h * shape_.from_w, y, begin, end);
    const A* weight = weight_ + channel * kTaps * kTaps;
    if (!kTapsStay<I::value, kTaps>) {
      broadcast_taps(isa, weight, taps_.data());
      weight = taps_.data();
    }
    T* const to = to_ + (plane * shape_.to_h + first) * shape_.to_w;
    constexpr int kMaxRegisters = kSideBySide<kTaps>;
    for (int64_t x = 0; x < shape_.to_w;)
      with_constant<kMaxRegisters>(std::min<int64_t>(ceil_div(shape_.to_w - x, V::kLanes), kMaxRegisters),
                                   [&](auto count) {
                                     column<count>(isa, rows_.data() + x, pitch_, begin, end, weight, bias_[channel],
                                                   rows, to + x, shape_.to_w, shape_.to_w - x);
                                     x += count * V::kLanes;
                                   });
  }

 private:
  template <class I>
  static void broadcast_taps(I, const A* weight, A* taps) {
#pragma GCC unroll 1
    for (int i = 0; i < kTaps * kTaps; ++i) {
      Vec<I::value, A> tap;
      tap.set(weight[i]);
      tap.store(taps + i * tap.kLanes);
    }
  }

  // Copies buffer rows [first, last), where buffer row 0 is row y of the image; the zeros around them stay.
  template <class I>
  void copy_rows(I isa, const T* image, int64_t y, int64_t first, int64_t last) {
    using V = Vec<I::value, A>;
    const int64_t width = shape_.from_w, pitch = pitch_, begin = std::clamp<int64_t>(-shape_.left, 0, width),
                  n = std::clamp<int64_t>(pitch_ - shape_.left, begin, width) - begin;
    // Registers may read beyond the ends of rows, but not behind the last image.
    const int64_t safe =
        n == 0 ? last
               : std::clamp<int64_t>(
                     (end_ - image - V::kLanes - begin - (n - 1) / V::kLanes * V::kLanes + width) / width - y, first,
                     last);
    const T* const from = image + y * width + begin;
    A* const out = rows_.data() + shape_.left + begin;
    outline(isa, [=](auto) {
      const int64_t whole = n - n % V::kLanes, rest = n % V::kLanes, in_step = width, out_step = pitch, end = safe;
      const T* in = from + first * in_step;
      A* row = out + first * out_step;
      for (int64_t i = first; i < end; ++i, in += in_step, row += out_step) {
        V v;
        for (int64_t x = 0; x < whole; x += V::kLanes) v.load(in + x), v.store(row + x);
        if (rest > 0) v.load(in + whole), store_part(v, row + whole, rest);
      }
    });
    for (int64_t i = safe; i < last; ++i) widen_row<T>(isa, from + i * width, out + i * pitch, n);
  }

  // Computes kCount registers of each of `rows` rows of outputs, of which buffer rows [begin, end) lie in the image. A
  // row has `left` outputs left. weight: one number a tap if the taps stay in registers, else a register a tap.
  template <int kCount, class I>
  static void column(I isa, const A* from, int64_t pitch, int64_t begin, int64_t end, const A* weight, A bias,
                     int64_t rows, T* to, int64_t width, int64_t left) {
    outline(isa, [=](auto) {
      using V = Vec<I::value, A>;
      constexpr bool kStay = kTapsStay<I::value, kTaps>;
      V taps[kStay ? kTaps * kTaps : 1], sum[kTaps][kCount], start;
      if constexpr (kStay)
#pragma GCC unroll 32
        for (int i = 0; i < kTaps * kTaps; ++i) taps[i].set(weight[i]), taps[i].keep();
      start.set(bias);
#pragma GCC unroll 8
      for (int j = 0; j < kTaps; ++j)
#pragma GCC unroll 2
        for (int c = 0; c < kCount; ++c) sum[j][c] = start;
      T* out = to;
      const int64_t step = width, lanes = left, pitch_ = pitch;
      const auto finish = [&](int64_t y) {  // row y is complete
        if (y >= 0) {
#pragma GCC unroll 2
          for (int c = 0; c < kCount; ++c)
            if (lanes >= (c + 1) * V::kLanes)
              sum[0][c].store(out + c * V::kLanes);
            else
              store_part(sum[0][c], out + c * V::kLanes, lanes - c * V::kLanes);
          out += step;
        }
#pragma GCC unroll 8
        for (int j = 0; j < kTaps; ++j)
#pragma GCC unroll 2
          for (int c = 0; c < kCount; ++c) sum[j][c] = j + 1 < kTaps ? sum[j + 1 < kTaps ? j + 1 : j][c] : start;
      };
      const A* row = from + begin * pitch;
      int64_t y = std::min<int64_t>(begin - (kTaps - 1), 0);
      for (; y < begin - (kTaps - 1); ++y) finish(y);
      for (const int64_t last = end - (kTaps - 1); y < last; ++y, row += pitch_) {
#pragma GCC unroll 8
        for (int kx = 0; kx < kTaps; ++kx)
#pragma GCC unroll 2
          for (int c = 0; c < kCount; ++c) {
            V pixels;
            pixels.load(row + kx + c * V::kLanes);
            pixels.keep();
#pragma GCC unroll 8
            for (int j = 0; j < kTaps; ++j) {  // outputs of row y + j
              const int tap = (kTaps - 1 - j) * kTaps + kx;
              if constexpr (kStay)
                sum[j][c].fma(pixels, taps[tap]);
              else
                sum[j][c].fma(pixels, weight + tap * V::kLanes);
            }
          }
        finish(y);
      }
      for (; y < rows; ++y) finish(y);
    });
  }
};

template <class T, int kTaps>
void run_planes(const PlanesShape& planes, bool flipped, const ConvTensors& tensors) {
  using A = acc_t<T>;
  constexpr int kAll = kTaps * kTaps;
  Buffer<A> weight(planes.channels * kAll), bias(planes.channels);
  const auto taps = parameter<T>(tensors.weight);
  for (int64_t c = 0; c < planes.channels; ++c)
    for (int k = 0; k < kAll; ++k) weight.data()[c * kAll + k] = taps(c * kAll + (flipped ? kAll - 1 - k : k));
  if (tensors.bias) {
    const auto biases = parameter<T>(*tensors.bias);
    for (int64_t c = 0; c < planes.channels; ++c) bias.data()[c] = biases(c);
  }
  const int64_t lanes = vector_lanes<A>(), strip = PlanesKernel<T, kTaps>::strip(planes, lanes);
  const T* const in = tensors.from.template const_data_ptr<T>();
  T* const out = static_cast<T*>(tensors.to.mutable_data_ptr());
  parallel(planes.batch * planes.channels * ceil_div(planes.to_h, strip),
           kGrain * 4 / (strip * planes.to_w * (kAll + 4)), [&](int64_t begin, int64_t end) {
             PlanesKernel<T, kTaps> kernel(planes, strip, lanes, in, out, weight.data(), bias.data());
             run_simd([&](auto isa) {
               for (int64_t item = begin; item < end; ++item) kernel.run(isa, item);
             });
           });
}

}  // namespace

void fwd_planes(const Problem& problem, Direction direction, const ConvTensors& tensors) {
  const bool dgrad = direction == Direction::dgrad;
  const int64_t size = problem.x.taps;
  const auto from = [&](const ConvAxis& a) { return dgrad ? a.out : a.in; };
  const auto to = [&](const ConvAxis& a) { return dgrad ? a.in : a.out; };
  const auto before = [&](const ConvAxis& a) { return dgrad ? size - 1 - a.pad : a.pad; };
  const PlanesShape planes = {problem.batch, problem.channels, from(problem.y),   from(problem.x),
                              to(problem.y), to(problem.x),    before(problem.y), before(problem.x)};
  dispatch(problem.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (size == 3)
      run_planes<T, 3>(planes, dgrad, tensors);
    else
      run_planes<T, 5>(planes, dgrad, tensors);
  });
}

}  // namespace customops::cpu
