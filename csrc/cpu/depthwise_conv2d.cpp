// depthwise_conv2d and the gradient of its input. Each tensor is read once, but for the rows that neighbouring strips
// share, and the result is written once; sums stay in registers from the first tap to the last.
//
// Outputs are sums over the taps of what lies in the buffers of depthwise_conv2d_tiles.h. For the gradient of the input
// that is the output's gradient, with a stride's phases on the other side. Kernels of few rows, or on small rows, take
// a channels_last image from where it is, without a buffer. Contiguous images go to depthwise_conv2d_planes.cpp, for
// what that has a kernel.
#include <torch/csrc/stable/library.h>

#include "../depthwise_conv2d_hook.h"
#include "depthwise_conv2d_neighbours.h"
#include "depthwise_conv2d_rows.h"

namespace customops::cpu {
namespace {

// to[i] = sum_k weight[k] from[(i + pad - k * dilation) / stride] where stride divides
Line backward_line(const ConvAxis& a) {
  Line line(a.out, a.in, 1, a.stride);
  for (int64_t k = 0; k < a.taps; ++k) {
    const int64_t at = a.pad - k * a.dilation, shift = -floor_div(-at, a.stride), r = shift * a.stride - at;
    if (r < int64_t(line.taps.size())) line.add(r, k, 0, shift);
  }
  return line;
}

// The forward pass, and the gradient of the input: for both, outputs are sums over the taps. B is what buffers hold.
template <class T, class B>
class Convolution {
  using A = acc_t<T>;
  static constexpr bool kWide = std::is_same_v<T, A>;
  const Plan& plan_;
  const T* const from_;
  const A *const weight_, *const bias_;
  T* const image_;
  Source<T, B> source_;
  Buffer<B> result_;
  Buffer<A> line_;
  Buffer<T> last_row_;                         // of the tensor, with room behind it for registers wider than pixels
  std::vector<Row<B>> rows_;                   // that meet a row of the output
  std::vector<Row<T>> image_rows_;             // the same where the image is read in place
  std::vector<std::vector<int64_t>> columns_;  // of the taps of each phase

 public:
  // weight and bias: [channels of a buffer][term, if any][number of a factor].
  Convolution(const Plan& plan, const T* from, const A* weight, const A* bias, T* to)
      : plan_(plan),
        from_(from),
        weight_(weight),
        bias_(bias),
        image_(to),
        source_(plan, plan.y, plan.x,
                plan.in_place     ? 0
                : plan.neighbours ? plan.rows
                                  : plan.y.span + 1,
                from),
        result_(plan.lanes *
                (plan.neighbours ? plan.strip * plan.pitch * int64_t(plan.x.taps.size()) : plan.x.to + plan.lanes)),
        line_(plan.neighbours ? plan.x.periods() * int64_t(plan.x.taps.size()) * plan.lanes : 0),  // whole periods
        columns_(plan.x.taps.size()) {
    if (!plan.neighbours) source_.clears = false;  // they are left out
    if (plan.in_place && plan.channels < plan.lanes) {
      const int64_t size = plan.x.from * plan.channels;
      last_row_ = Buffer<T>(size);
      std::copy_n(image_row(plan.batch - 1, plan.y.from - 1), size, last_row_.data());
    }
    rows_.resize(plan.y.most());
    image_rows_.resize(plan.y.most());
    for (size_t r = 0; r < columns_.size(); ++r)
      for (const auto& tap : plan.x.taps[r])
        columns_[r].push_back(plan.in_place ? plan.x.column(tap) : source_.column(tap));
  }

  template <class I>
  void run(I isa, int64_t item) {
    const int64_t q = item % plan_.strips * plan_.strip, n = item / plan_.strips / plan_.chunks;
    const int64_t c = item / plan_.strips % plan_.chunks * plan_.groups * plan_.lanes;
    const int64_t phases = plan_.y.taps.size(), rows = std::min(plan_.strip, plan_.y.periods() - q);
    if constexpr (std::is_same_v<B, A>)
      if (plan_.neighbours) {
        source_.read(isa, n, c, q, 0, plan_.rows);
        for (int64_t r = 0; r < phases; ++r) write_tile(isa, n, c, q, r);
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
  void write_pixels(I isa, int64_t n, int64_t c, int64_t q, int64_t ry) {
    using V = Vec<I::value, A>;
    const Line &x = plan_.x, &y = plan_.y;
    const int64_t pixel = plan_.channels, row = x.from * pixel;
    T* const to = image_ + (n * y.to + q * y.out_phases + ry) * x.to * pixel + c;
    for (int64_t rx = 0; rx < int64_t(x.taps.size()); ++rx) {
      const A* weight = weight_ + plan_.begins[ry * x.taps.size() + rx] * V::kLanes;
      Row<T>* end = image_rows_.data();
      int64_t last = 0;
      for (const auto& tap : y.taps[ry]) {
        const int64_t i = source_.row(q + tap.shift - y.first, tap.phase);
        last = std::max(last, i);
        const bool copied = plan_.channels < plan_.lanes && n + 1 == plan_.batch && i + 1 == y.from;
        if (0 <= i && i < y.from) *end++ = {copied ? last_row_.data() : image_row(n, i), weight};
        weight += x.taps[rx].size() * V::kLanes;
      }
      const int64_t far = std::min<int64_t>(y.in_phases * row, kAheadBytes / sizeof(T));
      const Ahead<T> ahead{image_row(n, last - y.in_phases + 1) + far,
                           y.out_phases * x.out_phases == 1 ? y.in_phases : 0, row};
      add_up_row<true>(isa, image_rows_.data(), end, rx, c, pixel, {0, 0, pixel, 0, x.in_phases, x.from},
                       to + rx * pixel, x.out_phases * pixel, ahead);
    }
  }

  const T* image_row(int64_t n, int64_t i) const {
    return from_ + (n * plan_.y.from + i) * plan_.x.from * plan_.channels;
  }

  // A row of outputs for all the channels of a tile, from the buffer: phase ry in period q of a tile that begins with
  // period q0.
  template <class I>
  void write_row(I isa, int64_t n, int64_t c, int64_t q, int64_t q0, int64_t ry) {
    using V = Vec<I::value, A>;
    const Line &x = plan_.x, &y = plan_.y;
    const int64_t oy = q * y.out_phases + ry, pixel = plan_.channels;
    for (int64_t rx = 0; rx < int64_t(x.taps.size()); ++rx) {
      const A* weight = weight_ + plan_.begins[ry * x.taps.size() + rx] * V::kLanes;
      Row<B>* end = rows_.data();
      for (const auto& tap : y.taps[ry]) {
        const int64_t i = source_.row(q + tap.shift - y.first, tap.phase);
        if (0 <= i && i < y.from)
          *end++ = {source_.data() + source_.place(q - q0 + tap.shift - y.first, tap.phase), weight};
        weight += x.taps[rx].size() * V::kLanes;
      }
      const Place place{0, 0, V::kLanes, 0, 1, 0};
      if (plan_.last)
        add_up_row<false>(isa, rows_.data(), end, rx, c, source_.size, place,
                          image_ + ((n * y.to + oy) * x.to + rx) * pixel + c, x.out_phases * pixel);
      else
        add_up_row<false>(isa, rows_.data(), end, rx, c, source_.size, place, result_.data() + rx * V::kLanes,
                          x.out_phases * V::kLanes);
    }
    if (!plan_.last) write_planes<V>(n, c, oy);
  }

  // The outputs of phase rx of a row, from the rows that they meet, for the channels of a tile from c on.
  template <bool kInPlace, class I, class R, class O>
  void add_up_row(I isa, const Row<R>* begin, const Row<R>* end, int64_t rx, int64_t c, int64_t next,
                  const Place& place, O* to, int64_t to_step, const Ahead<R>& ahead = {}) {
    const auto& columns = columns_[rx];
    int64_t inner = 0, outer = place.width;
    for (int64_t column : columns) inner = std::max(inner, -column), outer = std::min(outer, place.width - column);
    const Outputs<R, O> outputs{begin,
                                end,
                                columns.data(),
                                int64_t(columns.size()),
                                bias_,
                                c,
                                plan_.end(c),
                                plan_.taps,
                                next,
                                place,
                                to,
                                plan_.x.periods(rx),
                                to_step,
                                plan_.last,
                                inner,
                                outer,
                                ahead};
    add_up<kInPlace>(isa, outputs);
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
      Square<V, B> square;
#pragma GCC unroll 16
      for (int p = 0; p < V::kLanes; ++p) square.load(p, result_.data() + (x + p) * V::kLanes);
      square.turn();
      const int64_t at = y * width + x;
      if (at + V::kLanes <= end && count == V::kLanes) {
#pragma GCC unroll 16
        for (int l = 0; l < V::kLanes; ++l) square.store(l, to + l * plane + at);
      } else {
        T rest[V::kLanes][V::kLanes];
#pragma GCC unroll 16
        for (int l = 0; l < V::kLanes; ++l) square.store(l, rest[l]);
        const int64_t left = std::min<int64_t>(V::kLanes, width - x);
        for (int l = 0; l < count; ++l) copy_part<V::kLanes>(rest[l], to + l * plane + at, left);
      }
    }
  }

  // All output rows of phase ry. A register holds neighbours in a row, or beyond its end those in the next.
  template <class I>
  void write_tile(I isa, int64_t n, int64_t c, int64_t q, int64_t ry) {
    const Line& x = plan_.x;
    const int64_t rows = std::min(plan_.strip, plan_.y.periods(ry) - q), lanes = plan_.lanes, step = plan_.step;
    const int64_t row = x.to * lanes, buffer_row = plan_.pitch * lanes;
    T* const to = image_ + ((n * plan_.chunks + c) * plan_.y.to + q * plan_.y.out_phases + ry) * row;
    const bool direct = kWide && x.out_phases == 1 && row >= 4 * step;
    for (size_t rx = 0; rx < x.taps.size(); ++rx) {
      const int64_t pair = ry * x.taps.size() + rx;
      const A* const weight = weight_ + (c * plan_.taps + plan_.begins[pair]) * plan_.factor;
      const int64_t runs = direct ? rows : 1, length = x.periods(rx) * lanes + (direct ? 0 : (rows - 1) * buffer_row);
      for (int64_t run = 0; run < runs; ++run) {
        const A* const from = source_.data() + run * buffer_row;
        A* const out = direct ? reinterpret_cast<A*>(to + run * plan_.y.out_phases * row)
                              : result_.data() + rx * plan_.strip * buffer_row;
        add_run(isa, from, plan_.terms[pair], weight, bias_ + c * plan_.factor, lanes == 1, step, length, direct, out);
      }
    }
    if (!direct)
      for (int64_t j = 0; j < rows; ++j) weave(isa, result_.data() + j * buffer_row, to + j * plan_.y.out_phases * row);
  }

  // A row of each phase makes a row of the image.
  template <class I>
  void weave(I isa, const A* from, T* to) {
    const Line& x = plan_.x;
    const int64_t lanes = plan_.lanes;
    if (x.out_phases > 1) {
      const int64_t size = plan_.strip * plan_.pitch * lanes;
      const int64_t pairs = lanes == 1 && x.taps.size() == 2 ? x.periods(1) : 0;
      A* __restrict const line = line_.data();
      for (int64_t q = 0; q < pairs; ++q) line[2 * q] = from[q], line[2 * q + 1] = from[size + q];  // shuffles
      with_room(lanes, [&](auto room) {  // what is written beyond the end of a pixel is overwritten by the next
        A* to = line + pairs * x.out_phases;
        for (int64_t q = pairs; q < x.periods(); ++q)
          for (int64_t r = 0; r < int64_t(x.taps.size()); ++r, to += lanes)
            std::memcpy(to, from + r * size + q * lanes, room * sizeof(A));
      });
      from = line;
    }
    if constexpr (kWide)
      std::memcpy(to, from, x.to * lanes * sizeof(T));
    else
      narrow(isa, from, to, x.to * lanes);
  }
};

// weight as Convolution takes it.
template <class T>
Buffer<acc_t<T>> in_order_of_terms(const Plan& plan, const Tensor& tensor, int64_t taps) {
  const auto weight = parameter<T>(tensor);
  Buffer<acc_t<T>> ordered(plan.factors() * plan.taps);
  auto* to = ordered.data();
  for (int64_t c = 0; c < plan.channels; c += plan.lanes) {
    const int64_t first = plan.in_place ? first_channel(c, plan.channels, plan.lanes) : c;
    for (const auto& terms : plan.terms)
      for (const auto& term : terms) {
        for (int64_t i = first; i < first + plan.lanes; ++i)
          *to++ = i < plan.channels ? weight(i * taps + term.tap) : 0;
        for (int64_t i = plan.lanes; i < plan.factor; ++i, ++to) *to = to[-plan.lanes];
      }
  }
  return ordered;
}

// The same of the bias; zeros if there is none.
template <class T>
Buffer<acc_t<T>> in_order_of_channels(const Plan& plan, const std::optional<Tensor>& tensor) {
  Buffer<acc_t<T>> ordered(plan.factors());
  if (!tensor) return ordered;
  const auto bias = parameter<T>(*tensor);
  auto* to = ordered.data();
  for (int64_t c = 0; c < plan.channels; c += plan.lanes) {
    for (int64_t i = c; i < c + plan.lanes; ++i) *to++ = i < plan.channels ? bias(i) : 0;
    for (int64_t i = plan.lanes; i < plan.factor; ++i, ++to) *to = to[-plan.lanes];
  }
  return ordered;
}

template <class T, class B>
void convolve(const DepthwiseConv2d& p, const Plan& plan, const Tensor& from, const Tensor& to) {
  auto weight = in_order_of_terms<T>(plan, p.weight, p.y.taps * p.x.taps);
  auto bias = in_order_of_channels<T>(plan, p.bias);
  const T* const in = from.const_data_ptr<T>();
  T* const out = static_cast<T*>(to.mutable_data_ptr());
  parallel(plan.batch * plan.chunks * plan.strips, kGrain * 4 / (plan.work() * (plan.taps + 4)),
           [&](int64_t begin, int64_t end) {
             Convolution<T, B> convolution(plan, in, weight.data(), bias.data(), out);
             const auto run = [&](auto isa) {
               for (int64_t item = begin; item < end; ++item) convolution.run(isa, item);
             };
             if constexpr (std::is_same_v<B, BFloat16>)
               run_simd_bf16(run);
             else
               run_simd(run);
           });
}

void convolve(const DepthwiseConv2d& p, const Line& y, const Line& x, const Tensor& from, const Tensor& to) {
  dispatch(from.scalar_type(), [&](auto zero) {
    using T = decltype(zero);
    using A = acc_t<T>;
    if constexpr (std::is_same_v<T, BFloat16>)
      if (capability() == Capability::avx512_bf16) {
        const Plan plan(p, y, x, vector_lanes<A>(), sizeof(T), true);
        if (!plan.neighbours) return convolve<T, T>(p, plan, from, to);
      }
    convolve<T, A>(p, Plan(p, y, x, vector_lanes<A>(), sizeof(A), true), from, to);
  });
}

}  // namespace

Tensor depthwise_conv2d(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias, int64_t stride_h,
                        int64_t stride_w, int64_t pad_top, int64_t pad_bottom, int64_t pad_left, int64_t pad_right,
                        int64_t dilation_h, int64_t dilation_w) {
  const DepthwiseConv2d p = prepare_depthwise_conv2d(x, weight, bias, stride_h, stride_w, pad_top, pad_bottom, pad_left,
                                                     pad_right, dilation_h, dilation_w);
  if (p.out.numel() > 0 && !convolve_planes(p, false, p.in, p.out))
    convolve(p, forward_line(p.y), forward_line(p.x), p.in, p.out);
  return p.out;
}

Tensor depthwise_conv2d_grad_input(const Tensor& grad, const Tensor& weight, int64_t height, int64_t width,
                                   int64_t stride_h, int64_t stride_w, int64_t pad_top, int64_t pad_left,
                                   int64_t dilation_h, int64_t dilation_w, bool channels_last) {
  const DepthwiseConv2d p = prepare_depthwise_conv2d_grad_input(
      grad, weight, height, width, stride_h, stride_w, pad_top, pad_left, dilation_h, dilation_w, channels_last);
  if (p.in.numel() > 0 && !convolve_planes(p, true, p.out, p.in))
    convolve(p, backward_line(p.y), backward_line(p.x), p.out, p.in);
  return p.in;
}

Tensor depthwise_conv2d_grad_weight(const Tensor& grad, const Tensor& x, int64_t kernel_h, int64_t kernel_w,
                                    int64_t stride_h, int64_t stride_w, int64_t pad_top, int64_t pad_left,
                                    int64_t dilation_h, int64_t dilation_w, bool float32);  // in _grad_weight.cpp

constexpr auto& depthwise_conv2d_gradients = gradients<depthwise_conv2d_grad_input, depthwise_conv2d_grad_weight>;

}  // namespace customops::cpu

STABLE_TORCH_LIBRARY_IMPL(customops, CPU, m) {
  m.impl("depthwise_conv2d", TORCH_BOX(&customops::cpu::depthwise_conv2d));
  m.impl("_depthwise_conv2d", TORCH_BOX(&customops::cpu::depthwise_conv2d));
  m.impl("_depthwise_conv2d_grad_input", TORCH_BOX(&customops::cpu::depthwise_conv2d_grad_input));
  m.impl("_depthwise_conv2d_gradients", TORCH_BOX(&customops::cpu::depthwise_conv2d_gradients));
}

STABLE_TORCH_LIBRARY_IMPL(aten, CPU, m) {
  if (customops::hook_enabled())
    m.impl("_mps_convolution", TORCH_BOX(&customops::hooked<customops::cpu::depthwise_conv2d>));
}
