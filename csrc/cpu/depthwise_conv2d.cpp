// depthwise_conv2d and the gradient of its input. Each tensor is read once, but for the rows that neighbouring strips
// share, and the result is written once; sums stay in registers from the first tap to the last.
//
// Outputs are sums over the taps of what lies in the buffers of depthwise_conv2d_tiles.h. For the gradient of the input
// that is the output's gradient, with a stride's phases on the other side. Kernels of few rows take a channels_last
// image from where it is, without a buffer.
#include <torch/csrc/stable/library.h>

#include "depthwise_conv2d_tiles.h"

namespace customops::cpu {
namespace {

constexpr int kRegisters = 8;  // sums at a time: enough to hide the latency of a multiply-add

// to[i] = sum_k weight[k] from[(i + pad - k * dilation) / stride] where stride divides
Line backward_line(const ConvAxis& a) {
  Line line(a.out, a.in, 1, a.stride);
  for (int64_t k = 0; k < a.taps; ++k) {
    const int64_t at = a.pad - k * a.dilation, shift = -floor_div(-at, a.stride), r = shift * a.stride - at;
    if (r < int64_t(line.taps.size())) line.add(r, k, 0, shift);
  }
  return line;
}

// A row of a buffer or of the image, and the weights of the taps that meet it.
template <class T>
struct Row {
  const T* from;
  const acc_t<T>* weight;
};

// Where outputs side by side meet the rows. Beyond the image, if that is what rows are of, there are zeros.
template <class T>
struct Place {
  int64_t at, weight_at;   // elements from the beginning of a row, for the first output; of its weights
  int64_t pixel;           // elements from one column to the next
  int64_t x, step, width;  // column of the first output, columns to the next output, columns of the image

  const T* of(const T* row, int64_t column) const { return row + at + (x + column) * pixel; }
};

template <bool kPadded, class V, class T>
void load_pixel(V& v, const T* from, int64_t x, int64_t width) {
  alignas(64) static const T zeros[V::kLanes] = {};
  v.load(!kPadded || uint64_t(x) < uint64_t(width) ? from : zeros);
}

// Registers of outputs, side by side, to which weight * row is added, for taps [first, taps) of each row. Here a
// register holds the channels of a pixel.
template <bool kPadded, class V, int kCount, class T>
void add_rows(const Row<T>* row, const Row<T>* end, const int64_t* columns, int64_t first, int64_t taps,
              const Place<T>& place, V (&out)[kCount]) {
  for (; row != end; ++row) {
    const acc_t<T>* weight = row->weight + place.weight_at + first * V::kLanes;
    for (int64_t t = first; t < taps; ++t, weight += V::kLanes) {
      V factor;
      factor.load(weight);
      const T* from = place.of(row->from, columns[t]);
      int64_t x = place.x + columns[t];
#pragma GCC unroll 16
      for (int i = 0; i < kCount; ++i, from += place.step * place.pixel, x += place.step) {
        V v;
        load_pixel<kPadded>(v, from, x, place.width);
        out[i].fma(factor, v);
      }
    }
  }
}

// The same for taps side by side, kTaps at a time: each register of the row is loaded once for them.
template <int kTaps, bool kPadded, class V, int kCount, class T>
void add_neighbours(const Row<T>* row, const Row<T>* end, int64_t column, int64_t taps, const Place<T>& place,
                    V (&out)[kCount]) {
  for (; row != end; ++row)
    for (int64_t first = 0; first + kTaps <= taps; first += kTaps) {
      const acc_t<T>* const weight = row->weight + place.weight_at + first * V::kLanes;
      V factor[kTaps];
#pragma GCC unroll 16
      for (int t = 0; t < kTaps; ++t) factor[t].load(weight + t * V::kLanes);
      const T* from = place.of(row->from, column + first * place.step);
      int64_t x = place.x + column + first * place.step;
#pragma GCC unroll 16
      for (int p = 0; p < kCount + kTaps - 1; ++p, from += place.step * place.pixel, x += place.step) {
        V v;
        load_pixel<kPadded>(v, from, x, place.width);
        v.keep();
#pragma GCC unroll 16
        for (int t = 0; t < kTaps; ++t)
          if (p - t >= 0 && p - t < kCount) out[p - t].fma(factor[t], v);
      }
    }
}

// How the taps of a row lie: kTaps side by side, kMany more than seven, or anyhow. Known at compile time, so that the
// sums stay in registers.
constexpr int kAnyhow = 0, kMany = 8;

template <bool kInPlace, class F>
void with_taps(const std::vector<int64_t>& columns, int64_t step, const F& f) {
  const int64_t taps = columns.size();
  const bool side_by_side = taps > 0 && columns[taps - 1] - columns[0] == (taps - 1) * step;
  if (side_by_side && taps == 3) return f(std::integral_constant<int, 3>());
  if constexpr (!kInPlace) {
    if (side_by_side && taps == 5) return f(std::integral_constant<int, 5>());
    if (side_by_side && taps == 7) return f(std::integral_constant<int, 7>());
    if (side_by_side && taps >= kMany) return f(std::integral_constant<int, kMany>());
  }
  f(std::integral_constant<int, kAnyhow>());
}

// f(constant) for as many outputs as a block takes of those that are left: common widths are multiples of 7 or 8.
template <class F>
int64_t with_block(int64_t left, const F& f) {
  if (left % 8 == 0 && left % 7 != 0) return f(std::integral_constant<int, 8>()), 8;
  if (left >= 7) return f(std::integral_constant<int, 7>()), 7;
  if (left >= 4) return f(std::integral_constant<int, 4>()), 4;
  if (left >= 2) return f(std::integral_constant<int, 2>()), 2;
  return f(std::integral_constant<int, 1>()), 1;
}

template <int kTaps, bool kPadded, class V, int kCount, class T>
void add_taps(const Row<T>* row, const Row<T>* end, const std::vector<int64_t>& columns, const Place<T>& place,
              V (&out)[kCount]) {
  const int64_t taps = columns.size();
  if constexpr (kTaps == kAnyhow) {
    add_rows<kPadded>(row, end, columns.data(), 0, taps, place, out);
  } else if constexpr (kTaps == kMany) {
    add_neighbours<7, kPadded>(row, end, columns[0], taps, place, out);
    add_rows<kPadded>(row, end, columns.data(), taps / 7 * 7, taps, place, out);
  } else {
    add_neighbours<kTaps, kPadded>(row, end, columns[0], kTaps, place, out);
  }
}

// and here pixels of a channel.
template <class V, int kCount, class A>
void add_terms(const A* buffer, const std::vector<Plan::Term>& terms, const A* weight, const A* bias,
               V (&out)[kCount]) {
#pragma GCC unroll 16
  for (int i = 0; i < kCount; ++i) out[i].set(*bias);
  const Plan::Term* term = terms.data();
  for (const auto* const end = term + terms.size(); term != end; ++term, ++weight) {
    V factor;
    factor.set(*weight);
    const A* const from = buffer + term->offset;
#pragma GCC unroll 16
    for (int i = 0; i < kCount; ++i) out[i].fma(factor, from + i * V::kLanes);
  }
}

// The forward pass, and the gradient of the input: for both, outputs are sums over the taps.
template <class T>
class Convolution {
  using A = acc_t<T>;
  static constexpr bool kWide = std::is_same_v<T, A>;
  const Plan& plan_;
  const T* const from_;
  const A *const weight_, *const bias_;
  T* const image_;
  Source<T> source_;
  Buffer<A> result_, line_;
  std::vector<Row<A>> rows_;                   // that meet a row of the output
  std::vector<Row<T>> image_rows_;             // the same where the image is read in place
  std::vector<std::vector<int64_t>> columns_;  // of the taps of each phase

 public:
  // weight and bias: [register of channels][term, if any][lane].
  Convolution(const Plan& plan, const T* from, const A* weight, const A* bias, T* to)
      : plan_(plan),
        from_(from),
        weight_(weight),
        bias_(bias),
        image_(to),
        source_(plan, plan.y, plan.x,
                plan.in_place    ? 0
                : plan.lanes > 1 ? plan.y.span + 1
                                 : plan.rows,
                from),
        result_(plan.lanes > 1 ? (plan.x.to + plan.lanes) * plan.lanes
                               : plan.strip * plan.pitch * int64_t(plan.x.taps.size())),
        line_(plan.x.to),
        columns_(plan.x.taps.size()) {
    if (plan.lanes > 1) source_.clears = false;  // they are left out
    size_t most = 0;
    for (const auto& taps : plan.y.taps) most = std::max(most, taps.size());
    rows_.resize(most);
    image_rows_.resize(most);
    for (size_t r = 0; r < columns_.size(); ++r)
      for (const auto& tap : plan.x.taps[r])
        columns_[r].push_back(plan.in_place ? plan.x.column(tap) : source_.column(tap));
  }

  template <class I>
  void run(I isa, int64_t item) {
    const int64_t q = item % plan_.strips * plan_.strip, n = item / plan_.strips / plan_.chunks;
    const int64_t c = item / plan_.strips % plan_.chunks * plan_.groups * plan_.lanes;
    const int64_t phases = plan_.y.taps.size(), rows = std::min(plan_.strip, plan_.y.periods() - q);
    if (plan_.lanes == 1) {
      source_.read(isa, n, c, q, 0, plan_.rows);
      for (int64_t r = 0; r < phases; ++r) write_plane(isa, n, c, q, r);
      return;
    }
    if (plan_.in_place) {
      for (int64_t j = 0; j < rows; ++j)
        for (int64_t r = 0; r < phases && (q + j) * plan_.y.out_phases + r < plan_.y.to; ++r)
          write_pixels(isa, n, c, q + j, r);
      return;
    }
    for (int64_t j = 0; j < rows; ++j) {  // what is read is used while it is in the L1 cache
      source_.read(isa, n, c, q, j == 0 ? 0 : j + plan_.y.span, j + plan_.y.span + 1);
      for (int64_t r = 0; r < phases && (q + j) * plan_.y.out_phases + r < plan_.y.to; ++r)
        write_row(isa, n, c, q + j, q, r);
    }
  }

 private:
  // A row of outputs for all the channels of a tile, from pixels where they are: phase ry in period q.
  template <class I>
  void write_pixels(I, int64_t n, int64_t c, int64_t q, int64_t ry) {
    using V = Vec<I::value, A>;
    const Line &x = plan_.x, &y = plan_.y;
    const int64_t pixel = plan_.channels;
    T* const to = image_ + (n * y.to + q * y.out_phases + ry) * x.to * pixel + c;
    for (int64_t rx = 0; rx < int64_t(x.taps.size()); ++rx) {
      const A* weight = weight_ + plan_.begins[ry * x.taps.size() + rx] * V::kLanes;
      Row<T>* end = image_rows_.data();
      for (const auto& tap : y.taps[ry]) {
        const int64_t i = source_.row(q + tap.shift - y.first, tap.phase);
        if (0 <= i && i < y.from) *end++ = {from_ + (n * y.from + i) * x.from * pixel, weight};
        weight += x.taps[rx].size() * V::kLanes;
      }
      add_up<V, true>(image_rows_.data(), end, rx, c, pixel, {0, 0, pixel, 0, x.in_phases, x.from}, to + rx * pixel,
                      x.out_phases * pixel);
    }
  }

  // A row of outputs for all the channels of a tile, from the buffer: phase ry in period q of a tile that begins with
  // period q0.
  template <class I>
  void write_row(I, int64_t n, int64_t c, int64_t q, int64_t q0, int64_t ry) {
    using V = Vec<I::value, A>;
    const Line &x = plan_.x, &y = plan_.y;
    const int64_t oy = q * y.out_phases + ry, pixel = plan_.channels;
    for (int64_t rx = 0; rx < int64_t(x.taps.size()); ++rx) {
      const A* weight = weight_ + plan_.begins[ry * x.taps.size() + rx] * V::kLanes;
      Row<A>* end = rows_.data();
      for (const auto& tap : y.taps[ry]) {
        const int64_t i = source_.row(q + tap.shift - y.first, tap.phase);
        if (0 <= i && i < y.from)
          *end++ = {source_.data() + source_.place(q - q0 + tap.shift - y.first, tap.phase), weight};
        weight += x.taps[rx].size() * V::kLanes;
      }
      const Place<A> place{0, 0, V::kLanes, 0, 1, 0};
      if (plan_.last)
        add_up<V, false>(rows_.data(), end, rx, c, source_.size, place,
                         image_ + ((n * y.to + oy) * x.to + rx) * pixel + c, x.out_phases * pixel);
      else
        add_up<V, false>(rows_.data(), end, rx, c, source_.size, place, result_.data() + rx * V::kLanes,
                         x.out_phases * V::kLanes);
    }
    if (!plan_.last) write_planes<V>(n, c, oy);
  }

  // The outputs of phase rx of a row, from the rows that they meet, for the channels of a tile from c on. What the next
  // register of channels meets is `next` further in a buffer.
  template <class V, bool kInPlace, class R, class O>
  void add_up(const Row<R>* begin, const Row<R>* end, int64_t rx, int64_t c, int64_t next, const Place<R>& start, O* to,
              int64_t to_step) {
    const auto& columns = columns_[rx];
    const int64_t all = plan_.x.periods(rx);
    int64_t inner = 0, outer = start.width;  // columns between which all taps are within the image
    for (int64_t column : columns) inner = std::max(inner, -column), outer = std::min(outer, start.width - column);
    with_taps<kInPlace>(columns, start.step, [&](auto kind) {
      for (int64_t i = 0; i < all;)
        i += with_block(all - i, [&](auto constant) {
          constexpr int kCount = constant;
          const auto run = [&](auto padded) {
            for (int64_t g = c, last = plan_.end(c); g < last; g += V::kLanes) {
              Place<R> place = start;
              place.at = kInPlace ? std::min(g, last - V::kLanes) : (g - c) / V::kLanes * next;
              place.weight_at = g * plan_.taps;
              place.x = i * start.step;
              V out[kCount];
#pragma GCC unroll 16
              for (int o = 0; o < kCount; ++o) out[o].load(bias_ + (kInPlace ? place.at : g));
              add_taps<kind, padded>(begin, end, columns, place, out);
              // Fewer channels than a register has lanes take a way through memory.
              const int64_t lanes = plan_.last ? std::min<int64_t>(last - g, V::kLanes) : V::kLanes;
              O* const to_block = to + i * to_step + (g - c);
              if (lanes == V::kLanes) {
#pragma GCC unroll 16
                for (int o = 0; o < kCount; ++o) out[o].store(to_block + o * to_step);
              } else {
                A part[kCount * V::kLanes];
#pragma GCC unroll 16
                for (int o = 0; o < kCount; ++o) out[o].store(part + o * V::kLanes);
                for (int o = 0; o < kCount; ++o)
                  for (int64_t l = 0; l < lanes; ++l)
                    to_block[o * to_step + l] = O(part[o * V::kLanes + (kInPlace ? V::kLanes - lanes : 0) + l]);
              }
            }
          };
          if (!kInPlace || (i * start.step >= inner && (i + kCount - 1) * start.step < outer))
            run(std::false_type());
          else if constexpr (kInPlace)
            run(std::true_type());
        });
    });
  }

  // A row of result_ goes to the planes of its channels. What a register has beyond the row is overwritten by the next
  // row, and not written where that belongs to another tile.
  template <class V>
  void write_planes(int64_t n, int64_t c, int64_t y) {
    const int64_t width = plan_.x.to, plane = plan_.y.to * width, tile = plan_.strip * plan_.y.out_phases;
    const int64_t end = std::min((y / tile + 1) * tile, plan_.y.to) * width,
                  count = std::min<int64_t>(V::kLanes, plan_.channels - c);
    T* const to = image_ + (n * plan_.channels + c) * plane;
    for (int64_t x = 0; x < width; x += V::kLanes) {
      V v[V::kLanes];
#pragma GCC unroll 16
      for (int p = 0; p < V::kLanes; ++p) v[p].load(result_.data() + (x + p) * V::kLanes);
      transpose(v);
      const int64_t at = y * width + x;
      if (at + V::kLanes <= end && count == V::kLanes) {
#pragma GCC unroll 16
        for (int l = 0; l < V::kLanes; ++l) v[l].store(to + l * plane + at);
      } else {
        A rest[V::kLanes][V::kLanes];
        for (int l = 0; l < V::kLanes; ++l) v[l].store(rest[l]);
        for (int l = 0; l < count; ++l)
          for (int64_t i = 0; i < std::min<int64_t>(V::kLanes, width - x); ++i) to[l * plane + at + i] = T(rest[l][i]);
      }
    }
  }

  // Output rows of phase ry of one channel. A register holds neighbours in a row, or beyond its end those in the next.
  template <class I>
  void write_plane(I isa, int64_t n, int64_t c, int64_t q, int64_t ry) {
    using V = Vec<I::value, A>;
    const Line& x = plan_.x;
    const int64_t rows = std::min(plan_.strip, plan_.y.periods(ry) - q);
    const int64_t pixel = plan_.last ? plan_.channels : 1, step = plan_.y.out_phases * x.to * pixel;
    T* const to = image_ + (n * plan_.channels * plan_.y.to + (plan_.last ? 0 : c * plan_.y.to)) * x.to +
                  (q * plan_.y.out_phases + ry) * x.to * pixel + (plan_.last ? c : 0);
    const bool direct = kWide && pixel == 1 && x.out_phases == 1 && x.to >= 4 * V::kLanes;
    for (size_t rx = 0; rx < x.taps.size(); ++rx) {
      const int64_t pair = ry * x.taps.size() + rx;
      const A* const weight = weight_ + c * plan_.taps + plan_.begins[pair];
      const int64_t runs = direct ? rows : 1, length = x.periods(rx) + (direct ? 0 : (rows - 1) * plan_.pitch);
      for (int64_t run = 0; run < runs; ++run) {
        const A* from = source_.data() + run * plan_.pitch;
        A* out = direct ? reinterpret_cast<A*>(to + run * step) : result_.data() + rx * plan_.strip * plan_.pitch;
        for (int64_t left = length; left > 0; left -= kRegisters * V::kLanes) {
          with_constant<kRegisters>(std::min<int64_t>(ceil_div(left, V::kLanes), kRegisters), [&](auto constant) {
            constexpr int kCount = constant;
            V sums[kCount];
            add_terms(from, plan_.terms[pair], weight, bias_ + c, sums);
            for (int i = 0; i + 1 < kCount; ++i) sums[i].store(out + i * V::kLanes);
            const int64_t rest = left - (kCount - 1) * V::kLanes;
            if (direct && rest < V::kLanes)
              store_part(sums[kCount - 1], out + (kCount - 1) * V::kLanes, rest);
            else
              sums[kCount - 1].store(out + (kCount - 1) * V::kLanes);
          });
          from += kRegisters * V::kLanes;
          out += kRegisters * V::kLanes;
        }
      }
    }
    if (!direct)
      for (int64_t j = 0; j < rows; ++j) weave(isa, result_.data() + j * plan_.pitch, to + j * step);
  }

  // A row of each phase makes a row of the image.
  template <class I>
  void weave(I isa, const A* from, T* to) {
    const Line& x = plan_.x;
    if (x.out_phases > 1) {
      const int64_t size = plan_.strip * plan_.pitch, pairs = x.taps.size() == 2 ? x.periods(1) : 0;
      A* __restrict const line = line_.data();
      for (int64_t q = 0; q < pairs; ++q) line[2 * q] = from[q], line[2 * q + 1] = from[size + q];  // shuffles
      for (size_t r = 0; r < x.taps.size(); ++r)
        for (int64_t q = pairs; q < x.periods(r); ++q) line[q * x.out_phases + r] = from[r * size + q];
      from = line;
    }
    if (plan_.last)
      for (int64_t i = 0; i < x.to; ++i) to[i * plan_.channels] = T(from[i]);
    else if constexpr (kWide)
      std::memcpy(to, from, x.to * sizeof(T));
    else
      narrow(isa, from, to, x.to);
  }
};

// weight as Convolution takes it.
template <class T>
std::vector<acc_t<T>> in_order_of_terms(const Plan& plan, const T* weight, int64_t taps) {
  std::vector<acc_t<T>> ordered;
  ordered.reserve((plan.channels + plan.lanes) * plan.taps);
  for (int64_t c = 0; c < plan.channels; c += plan.lanes) {
    const int64_t first = plan.in_place ? std::min(c, plan.channels - plan.lanes) : c;
    for (const auto& terms : plan.terms)
      for (const auto& term : terms)
        for (int64_t l = 0; l < plan.lanes; ++l)
          ordered.push_back(first + l < plan.channels ? acc_t<T>(weight[(first + l) * taps + term.tap]) : 0);
  }
  return ordered;
}

void convolve(const DepthwiseConv2d& p, const Line& y, const Line& x, const Tensor& from, const Tensor& to) {
  dispatch(from.scalar_type(), [&](auto zero) {
    using T = decltype(zero);
    using A = acc_t<T>;
    const Plan plan(p, y, x, vector_lanes<A>(), sizeof(A), true);
    const auto weight = in_order_of_terms(plan, p.weight.const_data_ptr<T>(), p.y.taps * p.x.taps);
    std::vector<A> bias(plan.channels + plan.lanes);
    if (p.bias) std::copy_n(p.bias->const_data_ptr<T>(), plan.channels, bias.begin());
    const T* const in = from.const_data_ptr<T>();
    T* const out = static_cast<T*>(to.mutable_data_ptr());
    parallel(plan.batch * plan.chunks * plan.strips, kGrain * 4 / (plan.work() * (plan.taps + 4)),
             [&](int64_t begin, int64_t end) {
               Convolution<T> convolution(plan, in, weight.data(), bias.data(), out);
               run_simd([&](auto isa) {
                 for (int64_t item = begin; item < end; ++item) convolution.run(isa, item);
               });
             });
  });
}

}  // namespace

Tensor depthwise_conv2d(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias, int64_t stride_h,
                        int64_t stride_w, int64_t pad_top, int64_t pad_bottom, int64_t pad_left, int64_t pad_right,
                        int64_t dilation_h, int64_t dilation_w) {
  const DepthwiseConv2d p = prepare_depthwise_conv2d(x, weight, bias, stride_h, stride_w, pad_top, pad_bottom, pad_left,
                                                     pad_right, dilation_h, dilation_w);
  if (p.out.numel() > 0) convolve(p, forward_line(p.y), forward_line(p.x), p.in, p.out);
  return p.out;
}

Tensor depthwise_conv2d_grad_input(const Tensor& grad, const Tensor& weight, int64_t height, int64_t width,
                                   int64_t stride_h, int64_t stride_w, int64_t pad_top, int64_t pad_left,
                                   int64_t dilation_h, int64_t dilation_w, bool channels_last) {
  const DepthwiseConv2d p = prepare_depthwise_conv2d_grad_input(
      grad, weight, height, width, stride_h, stride_w, pad_top, pad_left, dilation_h, dilation_w, channels_last);
  if (p.in.numel() > 0) convolve(p, backward_line(p.y), backward_line(p.x), p.out, p.in);
  return p.in;
}

}  // namespace customops::cpu

STABLE_TORCH_LIBRARY_IMPL(customops, CPU, m) {
  m.impl("depthwise_conv2d", TORCH_BOX(&customops::cpu::depthwise_conv2d));
  m.impl("_depthwise_conv2d", TORCH_BOX(&customops::cpu::depthwise_conv2d));
  m.impl("_depthwise_conv2d_grad_input", TORCH_BOX(&customops::cpu::depthwise_conv2d_grad_input));
}
