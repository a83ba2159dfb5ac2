// depthwise_conv2d and its gradients. Each tensor is read once, but for the rows that neighbouring strips share, and
// the result is written once; sums stay in registers from the first tap to the last.
//
// Work goes in tiles: a strip of rows of one channel, or in a channels_last image of as many channels as a register has
// lanes. The strip is copied into a small buffer, widened to the type of the arithmetic, with the zeros of the padding
// around it, and split by phase: for a stride of s, every s-th row and column apart. Each tap is then nothing but an
// offset into the buffer, whatever stride, dilation and padding are, and the neighbour of an output reads the
// neighbours of what the output reads. That holds across the ends of rows as well: a tile of a contiguous image is one
// long row, with some columns at the end of each of its rows that nobody asked for.
//
// The gradient of the input is such a sum over the output's gradient, with a stride's phases on the other side. The
// gradient of the weight multiplies the two tiles, one tap a register; its sums are the same however many threads there
// are, because the work is cut by its size alone and added up in order.
#include "../depthwise_conv2d.h"

#include <torch/csrc/stable/library.h>

#include <vector>

#include "strided.h"
#include "vector.h"

namespace customops::cpu {
namespace {

constexpr int64_t kTileBytes = 16 << 10;   // of a buffer for one channel: half of a usual L1 cache
constexpr int64_t kLanesBytes = 96 << 10;  // of a buffer for a register of channels: it lives in L2
constexpr int64_t kChannels = 64;          // of a channels_last tile, at most: 4 cache lines
constexpr int kRegisters = 8;              // sums at a time: enough to hide the latency of a multiply-add
constexpr int kProducts = 9;               // taps of grad_weight at a time: those of a 3x3 kernel
constexpr int64_t kSlack = 64;             // elements behind a buffer: registers are read whole
constexpr int64_t kParts = 64;             // tasks of grad_weight, about
constexpr int64_t kTilesPerSum = 64;       // of grad_weight, in float32; such sums are added in float64

int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0); }  // b > 0
int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// One axis of to[q * out_phases + r] = sum over taps[r] of weight[tap.index] * phase[tap.phase][q + tap.shift], where
// phase[p] holds every in_phases-th of `from`, beginning with phases[p].
struct Line {
  struct Tap {
    int64_t index, phase, shift;
  };
  int64_t from, to, in_phases, out_phases;
  int64_t first = 0, span = 0;  // the least shift; how far the others go beyond it
  std::vector<int64_t> phases;
  std::vector<std::vector<Tap>> taps;

  Line(int64_t from, int64_t to, int64_t in_phases, int64_t out_phases)
      : from(from), to(to), in_phases(in_phases), out_phases(out_phases), taps(std::min(out_phases, to)) {}

  // How many q there are: at all, and for output phase r.
  int64_t periods(int64_t r = 0) const { return ceil_div(to - r, out_phases); }

  // In the order of their shifts, where all are of one phase.
  void add(int64_t r, int64_t index, int64_t phase, int64_t shift) {
    const size_t p = std::find(phases.begin(), phases.end(), phase) - phases.begin();
    const int64_t end = phases.empty() ? shift : std::max(first + span, shift);
    first = phases.empty() ? shift : std::min(first, shift);
    span = end - first;
    if (p == phases.size()) phases.push_back(phase);
    const bool before = !taps[r].empty() && shift < taps[r][0].shift;
    taps[r].insert(before ? taps[r].begin() : taps[r].end(), {index, int64_t(p), shift});
  }
};

// to[o] = sum_k weight[k] from[o * stride + k * dilation - pad]
Line forward_line(const ConvAxis& a) {
  Line line(a.in, a.out, a.stride, 1);
  for (int64_t k = 0; k < a.taps; ++k) {
    const int64_t at = k * a.dilation - a.pad, shift = floor_div(at, a.stride);
    line.add(0, k, at - shift * a.stride, shift);
  }
  return line;
}

// to[i] = sum_k weight[k] from[(i + pad - k * dilation) / stride] where stride divides
Line backward_line(const ConvAxis& a) {
  Line line(a.out, a.in, 1, a.stride);
  for (int64_t k = 0; k < a.taps; ++k) {
    const int64_t at = a.pad - k * a.dilation, shift = -floor_div(-at, a.stride), r = shift * a.stride - at;
    if (r < int64_t(line.taps.size())) line.add(r, k, 0, shift);
  }
  return line;
}

// to[o] = from[o]
Line copy_line(int64_t n) {
  Line line(n, n, 1, 1);
  line.add(0, 0, 0, 0);
  return line;
}

// How images are cut into tiles, and how a tile lies in its buffers: [phase of x][phase of y][row][column][lane].
struct Plan {
  struct Term {
    int64_t offset, tap;  // into the buffer, in pixels; into the kernel
  };
  Line y, x;
  int64_t batch, channels;
  bool last;                             // channels_last
  int64_t lanes, groups, chunks;         // channels side by side in a buffer; buffers of a tile; tiles for all channels
  int64_t strip, strips;                 // periods of a tile; tiles for all of them
  int64_t rows, pitch;                   // of one phase in the buffer
  int64_t pixels;                        // of a tile's output
  int64_t taps = 0;                      // in all the terms
  std::vector<std::vector<Term>> terms;  // of each pair of output phases
  std::vector<int64_t> begins;           // how many terms come before

  Plan(const DepthwiseConv2d& p, const Line& along_y, const Line& along_x, int64_t vector, int64_t element, bool ring)
      : y(along_y), x(along_x), batch(p.batch), channels(p.channels), last(p.channels_last) {
    lanes = last || 2 * channels > vector ? vector : 1;
    groups = last ? std::min(ceil_div(channels, lanes), std::max<int64_t>(kChannels / lanes, 1)) : 1;
    chunks = ceil_div(channels, lanes * groups);
    pitch = x.periods() + x.span;
    const int64_t phases = y.phases.size(), row = std::max<int64_t>(pitch * x.phases.size() * phases, 1) * lanes;
    const int64_t most = std::max((lanes > 1 ? kLanesBytes : kTileBytes) / (row * element) - y.span, y.span + 1);
    strips = ceil_div(y.periods(), most);
    if (lanes > 1 && ring) {  // its size is that of the kernel
      const int64_t wanted = 4 * torch::stable::get_num_threads() / std::max<int64_t>(batch * chunks, 1);
      strips = std::clamp<int64_t>(wanted, 1, ceil_div(y.periods(), 4 * (y.span + 1)));
    }
    strip = ceil_div(y.periods(), strips);
    strips = ceil_div(y.periods(), strip);
    rows = strip + y.span;
    pixels = strip * y.out_phases * x.to;
    for (const auto& down : y.taps)
      for (const auto& across : x.taps) {
        auto& pair = terms.emplace_back();
        begins.push_back(taps);
        for (const auto& ty : down)
          for (const auto& tx : across) {
            const int64_t row = (tx.phase * phases + ty.phase) * rows + ty.shift - y.first;
            pair.push_back({row * pitch + tx.shift - x.first, ty.index * p.x.taps + tx.index});
          }
        taps += pair.size();
      }
  }

  int64_t work() const { return pixels * lanes * groups; }                         // outputs of a tile
  int64_t end(int64_t c) const { return std::min(c + lanes * groups, channels); }  // of the channels of a tile
};

// 64-byte aligned zeros.
template <class A>
class Buffer {
  std::vector<A> memory_;

 public:
  explicit Buffer(int64_t n = 0) : memory_(n + kSlack + 64 / sizeof(A)) {}
  A* data() { return reinterpret_cast<A*>((reinterpret_cast<uintptr_t>(memory_.data()) + 63) / 64 * 64); }
};

// Copies tiles of an image into the buffers, one for each register of channels. Whatever lies outside of the image is
// zero from the beginning, or where it moves, when strips differ, made so.
template <class T>
class Source {
  using A = acc_t<T>;
  const Plan& plan_;
  const Line &y_, &x_;
  const T* const image_;
  const int64_t rows_, part_;  // rows of one phase, pixels of one phase of x
  Buffer<A> buffer_, line_;
  std::vector<std::pair<int64_t, int64_t>> columns_;  // of each phase: those within the image
  std::vector<int64_t> places_;                       // of the image's columns in the buffer, -1 for none

 public:
  const int64_t size;  // of one buffer

  Source(const Plan& plan, const Line& y, const Line& x, int64_t rows, const T* image)
      : plan_(plan),
        y_(y),
        x_(x),
        image_(image),
        rows_(rows),
        part_(int64_t(y.phases.size()) * rows * plan.pitch),
        line_(x.from),
        places_(x.from + plan.lanes, -1),
        size(int64_t(x.phases.size()) * part_ * plan.lanes) {
    buffer_ = Buffer<A>(size * plan.groups);
    for (int64_t phase : x.phases) {
      const int64_t begin = std::clamp<int64_t>(ceil_div(-phase, x.in_phases) - x.first, 0, plan.pitch);
      const int64_t end = std::clamp<int64_t>(ceil_div(x.from - phase, x.in_phases) - x.first, begin, plan.pitch);
      for (int64_t j = begin; j < end; ++j)
        places_[(x.first + j) * x.in_phases + phase] = (int64_t(columns_.size()) * part_ + j) * plan.lanes;
      columns_.push_back({begin, end});
    }
  }

  A* data() { return buffer_.data(); }

  // Where in the buffer a row of a phase begins, and how much further a tap looks.
  int64_t place(int64_t j, int64_t phase) const { return (phase * rows_ + j % rows_) * plan_.pitch * plan_.lanes; }
  int64_t column(const Line::Tap& tap) const { return (tap.phase * part_ + tap.shift - x_.first) * plan_.lanes; }

  // The image's row, if there is one, that output rows of period q meet first in a phase.
  int64_t row(int64_t q, int64_t phase) const { return (y_.first + q) * y_.in_phases + y_.phases[phase]; }

  // Rows [begin, end) of each phase of the tile whose first row is that of period q and whose first channel is c. Row j
  // takes the place of row j - rows.
  template <class I>
  void read(I isa, int64_t n, int64_t c, int64_t q, int64_t begin, int64_t end) {
    for (int64_t j = begin; j < end; ++j)
      for (size_t py = 0; py < y_.phases.size(); ++py) {
        const int64_t i = row(q + j, py), at = (py * rows_ + j % rows_) * plan_.pitch;
        if (i < 0 || i >= y_.from)
          clear(c, at);
        else if (plan_.last)
          read_pixels(isa, image_ + (n * y_.from + i) * x_.from * plan_.channels, c, at);
        else if (plan_.lanes == 1)
          read_row(isa, image_ + ((n * plan_.channels + c) * y_.from + i) * x_.from, at);
        else
          read_planes(isa, n, c, i, at);
      }
  }

 private:
  void clear(int64_t c, int64_t at) {
    if (plan_.strips == 1 || rows_ < plan_.strip) return;  // in a ring, rows outside of the image are not used
    for (int64_t g = 0; c + g * plan_.lanes < plan_.end(c); ++g)
      for (size_t px = 0; px < x_.phases.size(); ++px)
        std::fill_n(data() + g * size + (px * part_ + at) * plan_.lanes, plan_.pitch * plan_.lanes, A(0));
  }

  // A row of one channel.
  template <class I>
  void read_row(I isa, const T* row, int64_t at) {
    const A* line;
    if constexpr (std::is_same_v<T, A>) {
      line = row;
    } else {
      widen(isa, row, line_.data(), x_.from);
      line = line_.data();
    }
    for (size_t px = 0; px < x_.phases.size(); ++px) {
      const auto [begin, end] = columns_[px];
      const A* const in = line + (x_.first + begin) * x_.in_phases + x_.phases[px];
      A* __restrict const out = data() + px * part_ + at + begin;
      if (x_.in_phases == 1)
        std::memcpy(out, in, (end - begin) * sizeof(A));
      else if (x_.in_phases == 2)  // shuffles
        for (int64_t i = 0; i < end - begin; ++i) out[i] = in[2 * i];
      else
        for (int64_t i = 0; i < end - begin; ++i) out[i] = in[x_.in_phases * i];
    }
  }

  // A row of pixels, whose channels lie side by side.
  template <class I>
  void read_pixels(I, const T* row, int64_t c, int64_t at) {
    using V = Vec<I::value, A>;
    const int64_t full = (plan_.end(c) - c) / V::kLanes, rest = (plan_.end(c) - c) % V::kLanes;
    const int64_t step = x_.in_phases * plan_.channels, next = size;
    const int64_t ahead = y_.in_phases * x_.from * plan_.channels;  // the row that is read next
    for (size_t px = 0; px < x_.phases.size(); ++px) {
      const auto [begin, end] = columns_[px];
      const T* in = row + ((x_.first + begin) * x_.in_phases + x_.phases[px]) * plan_.channels + c;
      A *out = data() + (px * part_ + at + begin) * V::kLanes, *const stop = out + (end - begin) * V::kLanes;
      for (; out < stop; in += step, out += V::kLanes) {
        V v;
        const T* from = in;
        A* to = out;
        for (int64_t g = 0; g < full; ++g, from += V::kLanes, to += next) {
          if (g * V::kLanes * sizeof(T) % 64 == 0) __builtin_prefetch(from + ahead);
          v.load(from);
          v.store(to);
        }
        if (rest > 0) {
          load_part(v, from, rest);
          v.store(to);
        }
      }
    }
  }

  // The same row of as many channels as a register has lanes: turned, so that a pixel's channels lie side by side.
  template <class I>
  void read_planes(I, int64_t n, int64_t c, int64_t i, int64_t at) {
    using V = Vec<I::value, A>;
    const int64_t plane = y_.from * x_.from, count = plan_.end(c) - c;
    const int64_t first = (n * plan_.channels + c) * plane + i * x_.from, all = plan_.batch * plan_.channels * plane;
    A* const out = data() + at * V::kLanes;
    for (int64_t x = 0; x < x_.from; x += V::kLanes) {
      V v[V::kLanes];
#pragma GCC unroll 16
      for (int l = 0; l < V::kLanes; ++l) {  // what goes beyond the row is not used
        const int64_t offset = first + std::min<int64_t>(l, count - 1) * plane + x;
        if (offset + V::kLanes <= all)
          v[l].load(image_ + offset);
        else
          load_part(v[l], image_ + offset, std::min<int64_t>(all - offset, V::kLanes));
      }
      transpose(v);
      const int64_t* const to = places_.data() + x;
#pragma GCC unroll 16
      for (int p = 0; p < V::kLanes; ++p)
        if (to[p] >= 0) v[p].store(out + to[p]);
    }
  }
};

// A row of a buffer, and the weights of the taps that meet it.
template <class A>
struct Row {
  const A *from, *weight;
};

// Registers of outputs, side by side: bias + sum of weight * buffer. Here a register holds the channels of a pixel,
template <class V, int kCount, class A>
void add_rows(const Row<A>* row, const Row<A>* end, const int64_t* columns, int64_t taps, int64_t at, const A* bias,
              V (&out)[kCount]) {
#pragma GCC unroll 16
  for (int i = 0; i < kCount; ++i) out[i].load(bias);
  for (; row != end; ++row) {
    const A *weight = row->weight, *const line = row->from + at;
    for (int64_t t = 0; t < taps; ++t, weight += V::kLanes) {
      V factor;
      factor.load(weight);
      const A* const from = line + columns[t];
#pragma GCC unroll 16
      for (int i = 0; i < kCount; ++i) out[i].fma(factor, from + i * V::kLanes);
    }
  }
}

// The same for kTaps taps side by side: each register of the row is loaded once for all of them.
template <int kTaps, class V, int kCount, class A>
void add_neighbours(const Row<A>* row, const Row<A>* end, int64_t at, const A* bias, V (&out)[kCount]) {
#pragma GCC unroll 16
  for (int i = 0; i < kCount; ++i) out[i].load(bias);
  for (; row != end; ++row) {
    const A* const line = row->from + at;
    V factor[kTaps];
#pragma GCC unroll 16
    for (int t = 0; t < kTaps; ++t) factor[t].load(row->weight + t * V::kLanes);
#pragma GCC unroll 16
    for (int p = 0; p < kCount + kTaps - 1; ++p) {
      V v;
      v.load(line + p * V::kLanes);
#pragma GCC unroll 16
      for (int t = 0; t < kTaps; ++t)
        if (p - t >= 0 && p - t < kCount) out[p - t].fma(factor[t], v);
    }
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
  const A *const weight_, *const bias_;
  T* const image_;
  Source<T> source_;
  Buffer<A> result_, line_;
  std::vector<Row<A>> rows_;                   // that meet a row of the output
  std::vector<std::vector<int64_t>> columns_;  // of the taps of each phase

 public:
  // weight and bias: [register of channels][term, if any][lane].
  Convolution(const Plan& plan, const T* from, const A* weight, const A* bias, T* to)
      : plan_(plan),
        weight_(weight),
        bias_(bias),
        image_(to),
        source_(plan, plan.y, plan.x, plan.lanes > 1 ? plan.y.span + 1 : plan.rows, from),
        result_(plan.lanes > 1 ? (plan.x.to + plan.lanes) * plan.lanes
                               : plan.strip * plan.pitch * int64_t(plan.x.taps.size())),
        line_(plan.x.to),
        columns_(plan.x.taps.size()) {
    size_t most = 0;
    for (const auto& taps : plan.y.taps) most = std::max(most, taps.size());
    rows_.resize(most);
    for (size_t r = 0; r < columns_.size(); ++r)
      for (const auto& tap : plan.x.taps[r]) columns_[r].push_back(source_.column(tap));
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
    for (int64_t j = 0; j < rows; ++j) {  // what is read is used while it is in the L1 cache
      source_.read(isa, n, c, q, j == 0 ? 0 : j + plan_.y.span, j + plan_.y.span + 1);
      for (int64_t g = 0; c + g * plan_.lanes < plan_.end(c); ++g)
        for (int64_t r = 0; r < phases && (q + j) * plan_.y.out_phases + r < plan_.y.to; ++r)
          write_row(isa, source_.data() + g * source_.size, n, c + g * plan_.lanes, q + j, q, r);
    }
  }

 private:
  // A row of outputs, that of phase ry in period q of a tile that begins with period q0; a register for the channels of
  // each.
  template <class I>
  void write_row(I, const A* buffer, int64_t n, int64_t c, int64_t q, int64_t q0, int64_t ry) {
    using V = Vec<I::value, A>;
    const Line &x = plan_.x, &y = plan_.y;
    const int64_t count = std::min<int64_t>(V::kLanes, plan_.channels - c), oy = q * y.out_phases + ry;
    T* const row = image_ + (n * y.to + oy) * x.to * plan_.channels + c;  // of a channels_last image
    for (size_t rx = 0; rx < x.taps.size(); ++rx) {
      const int64_t pair = ry * x.taps.size() + rx, taps = x.taps[rx].size();
      const A* weight = weight_ + c * plan_.taps + plan_.begins[pair] * V::kLanes;
      Row<A>* end = rows_.data();
      for (const auto& tap : y.taps[ry]) {
        const int64_t i = source_.row(q + tap.shift - y.first, tap.phase);
        if (0 <= i && i < y.from) *end++ = {buffer + source_.place(q - q0 + tap.shift - y.first, tap.phase), weight};
        weight += taps * V::kLanes;
      }
      const auto write = [&](auto* to, int64_t pixel, int64_t lanes) {
        add_up<V>(end, columns_[rx], bias_ + c, x.periods(rx), to + rx * pixel, x.out_phases * pixel, lanes);
      };
      if constexpr (kWide)
        write(plan_.last ? row : result_.data(), plan_.last ? plan_.channels : V::kLanes,
              plan_.last ? count : V::kLanes);
      else if (plan_.last)
        write(row, plan_.channels, count);
      else
        write(result_.data(), V::kLanes, V::kLanes);
    }
    if (!plan_.last) write_planes<V>(n, c, oy);
  }

  template <class V, class O>
  void add_up(const Row<A>* end, const std::vector<int64_t>& columns, const A* bias, int64_t pixels, O* to,
              int64_t step, int64_t lanes) {
    const Row<A>* const rows = rows_.data();
    const int64_t taps = columns.size();
    const int64_t neighbours = taps > 1 && columns[taps - 1] - columns[0] == (taps - 1) * V::kLanes ? taps : 0;
    int64_t at = 0;
    for (int64_t blocks = ceil_div(pixels, kRegisters); blocks > 0; --blocks) {
      const int64_t block = ceil_div(pixels, blocks);
      with_constant<kRegisters>(block, [&](auto constant) {
        constexpr int kCount = constant;
        V out[kCount];
        switch (neighbours) {
          case 3: add_neighbours<3>(rows, end, at + columns[0], bias, out); break;
          case 5: add_neighbours<5>(rows, end, at + columns[0], bias, out); break;
          case 7: add_neighbours<7>(rows, end, at + columns[0], bias, out); break;
          default: add_rows(rows, end, columns.data(), columns.size(), at, bias, out);
        }
        for (int i = 0; i < kCount; ++i, to += step)
          if (lanes == V::kLanes)
            out[i].store(to);
          else
            store_part(out[i], to, lanes);
      });
      pixels -= block;
      at += block * V::kLanes;
    }
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
    T* const to = image_ + ((n * plan_.channels + c) * plan_.y.to + q * plan_.y.out_phases + ry) * x.to;
    const bool direct = kWide && x.out_phases == 1 && x.to >= 4 * V::kLanes;
    for (size_t rx = 0; rx < x.taps.size(); ++rx) {
      const int64_t pair = ry * x.taps.size() + rx;
      const A* const weight = weight_ + c * plan_.taps + plan_.begins[pair];
      const int64_t runs = direct ? rows : 1, length = x.periods(rx) + (direct ? 0 : (rows - 1) * plan_.pitch);
      for (int64_t run = 0; run < runs; ++run) {
        const A* from = source_.data() + run * plan_.pitch;
        A* out = direct ? reinterpret_cast<A*>(to + run * plan_.y.out_phases * x.to)
                        : result_.data() + rx * plan_.strip * plan_.pitch;
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
      for (int64_t j = 0; j < rows; ++j)
        weave(isa, result_.data() + j * plan_.pitch, to + j * plan_.y.out_phases * x.to);
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
    if constexpr (kWide)
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
  for (int64_t c = 0; c < plan.channels; c += plan.lanes)
    for (const auto& terms : plan.terms)
      for (const auto& term : terms)
        for (int64_t l = 0; l < plan.lanes; ++l)
          ordered.push_back(c + l < plan.channels ? acc_t<T>(weight[(c + l) * taps + term.tap]) : 0);
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

// Registers of sums, one for each tap: sums += grad * buffer, over rows of `length` registers.
template <class V, int kCount, class A>
void add_products(const A* grad, const A* buffer, const Plan::Term* terms, int64_t unit, int64_t rows, int64_t length,
                  int64_t pitch, A* sums) {
  V sum[kCount];
  const A* from[kCount];
#pragma GCC unroll 16
  for (int i = 0; i < kCount; ++i) sum[i].set(0), from[i] = buffer + terms[i].offset * unit;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t at = row * pitch, end = at + length * V::kLanes; at < end; at += V::kLanes) {
      V g;
      g.load(grad + at);
#pragma GCC unroll 16
      for (int i = 0; i < kCount; ++i) sum[i].fma(g, from[i] + at);
    }
  V one;
  one.set(1);
#pragma GCC unroll 16
  for (int i = 0; i < kCount; ++i) {
    sum[i].fma(one, sums + i * V::kLanes);
    sum[i].store(sums + i * V::kLanes);
  }
}

// The gradient of the weight: of each channel, from a part of its tiles.
template <class T>
class Correlation {
  using A = acc_t<T>;
  const Plan& plan_;
  const Line y_, x_;
  const int64_t tiles_;
  double* const sums_;
  Source<T> image_, grad_;
  Buffer<A> registers_;

 public:
  // sums: [part][channel][tap]
  Correlation(const Plan& plan, const T* image, const T* grad, int64_t tiles, double* sums)
      : plan_(plan),
        y_(copy_line(plan.y.to)),
        x_(copy_line(plan.x.to)),
        tiles_(tiles),
        sums_(sums),
        image_(plan, plan.y, plan.x, plan.rows, image),
        grad_(plan, y_, x_, plan.strip, grad),
        registers_(plan.groups * plan.taps * kSlack) {}

  template <class I>
  void run(I isa, int64_t item) {
    using V = Vec<I::value, A>;
    const int64_t part = item / plan_.chunks, first = item % plan_.chunks * plan_.groups * plan_.lanes;
    const int64_t end = plan_.end(first), size = plan_.taps * V::kLanes;
    const Plan::Term* const terms = plan_.terms[0].data();
    std::fill_n(registers_.data(), plan_.groups * size, A(0));
    for (int64_t tile = part * tiles_; tile < std::min((part + 1) * tiles_, plan_.batch * plan_.strips); ++tile) {
      const int64_t n = tile / plan_.strips, q = tile % plan_.strips * plan_.strip;
      int64_t rows = std::min(plan_.strip, plan_.y.to - q), length = plan_.x.to;
      image_.read(isa, n, first, q, 0, plan_.rows);
      grad_.read(isa, n, first, q, 0, plan_.strip);
      if (plan_.lanes == 1) {  // one long row: between the rows of grad there are zeros
        length = ceil_div((rows - 1) * plan_.pitch + length, V::kLanes);
        rows = 1;
      }
      for (int64_t c = first, g = 0; c < end; c += plan_.lanes, ++g)
        for (int64_t t = 0, blocks = ceil_div(plan_.taps, kProducts); blocks > 0; --blocks) {
          const int64_t count = ceil_div(plan_.taps - t, blocks);
          with_constant<kProducts>(count, [&](auto constant) {
            add_products<V, constant>(grad_.data() + g * grad_.size, image_.data() + g * image_.size, terms + t,
                                      plan_.lanes, rows, length, plan_.pitch * plan_.lanes,
                                      registers_.data() + g * size + t * V::kLanes);
          });
          t += count;
        }
    }
    const A* from = registers_.data();
    for (int64_t c = first; c < end; c += plan_.lanes)
      for (int64_t t = 0; t < plan_.taps; ++t, from += V::kLanes) {
        double* const to = sums_ + (part * plan_.channels + c) * plan_.taps + terms[t].tap;
        if (plan_.lanes > 1) {
          for (int64_t l = 0; l < std::min(plan_.lanes, plan_.channels - c); ++l) to[l * plan_.taps] = from[l];
        } else {
          *to = 0;
          for (int l = 0; l < V::kLanes; ++l) *to += from[l];
        }
      }
  }
};

void correlate(const DepthwiseConv2d& p) {
  dispatch(p.weight.scalar_type(), [&](auto zero) {
    using T = decltype(zero);
    using A = acc_t<T>;
    const Plan plan(p, forward_line(p.y), forward_line(p.x), vector_lanes<A>(), sizeof(A), false);
    const int64_t tiles = plan.batch * plan.strips;
    const int64_t each = std::clamp<int64_t>(tiles * plan.chunks / kParts, 1, std::min(tiles, kTilesPerSum));
    const int64_t parts = ceil_div(tiles, each), size = plan.channels * plan.taps;
    std::vector<double> sums(parts * size);
    const T *const image = p.in.const_data_ptr<T>(), *const grad = p.out.const_data_ptr<T>();
    T* const out = static_cast<T*>(p.weight.mutable_data_ptr());
    parallel(parts * plan.chunks, kGrain * 4 / (plan.work() * (plan.taps + 4) * each), [&](int64_t begin, int64_t end) {
      Correlation<T> correlation(plan, image, grad, each, sums.data());
      run_simd([&](auto isa) {
        for (int64_t item = begin; item < end; ++item) correlation.run(isa, item);
      });
    });
    parallel(size, kGrain / parts, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        double sum = 0;
        for (int64_t part = 0; part < parts; ++part) sum += sums[part * size + i];
        out[i] = T(A(sum));
      }
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

Tensor depthwise_conv2d_grad_weight(const Tensor& grad, const Tensor& x, int64_t kernel_h, int64_t kernel_w,
                                    int64_t stride_h, int64_t stride_w, int64_t pad_top, int64_t pad_left,
                                    int64_t dilation_h, int64_t dilation_w) {
  const DepthwiseConv2d p = prepare_depthwise_conv2d_grad_weight(grad, x, kernel_h, kernel_w, stride_h, stride_w,
                                                                 pad_top, pad_left, dilation_h, dilation_w);
  if (p.in.numel() > 0)
    correlate(p);
  else if (p.weight.numel() > 0)
    torch::stable::zero_(const_cast<Tensor&>(p.weight));
  return p.weight;
}

}  // namespace customops::cpu

STABLE_TORCH_LIBRARY_IMPL(customops, CPU, m) {
  m.impl("depthwise_conv2d", TORCH_BOX(&customops::cpu::depthwise_conv2d));
  m.impl("_depthwise_conv2d", TORCH_BOX(&customops::cpu::depthwise_conv2d));
  m.impl("_depthwise_conv2d_grad_input", TORCH_BOX(&customops::cpu::depthwise_conv2d_grad_input));
  m.impl("_depthwise_conv2d_grad_weight", TORCH_BOX(&customops::cpu::depthwise_conv2d_grad_weight));
}
