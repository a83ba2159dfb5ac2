// What the CPU kernels of depthwise_conv2d and of its gradients share: how images are cut into tiles, and how tiles get
// into a buffer.
//
// Work goes in tiles: a strip of rows of as many channels as a register has lanes. Rows are copied into a small ring,
// widened to the type of the arithmetic (unless that takes them as they are), with a pixel's channels side by side (a
// contiguous image is turned for that, and the result turned back), with the zeros of the padding around them, and
// split by phase: for a stride of s, every s-th row and column apart. Each tap is then nothing but a row and an offset,
// whatever stride, dilation and padding are, and the neighbour of an output meets the neighbours of what the output
// meets. Where pixels have at most half as many channels as a register has lanes, a register holds neighbouring pixels,
// across the ends of rows too, because a tile is one long row with some columns at the end of each of its rows that
// nobody asked for. Pixels are then of one channel, or of all where those lie side by side; the weights repeat in the
// same order. Where they have more, registers reach into the next pixel, whose channels are of no use there.
#pragma once

#include <cstring>
#include <numeric>
#include <tuple>
#include <vector>

#include "../depthwise_conv2d.h"
#include "strided.h"
#include "vector.h"

namespace customops::cpu {

constexpr int64_t kTileBytes = 16 << 10;   // of a buffer for one channel: half of a usual L1 cache
constexpr int64_t kLanesBytes = 96 << 10;  // of one for several channels, if its size is free; L2 holds that
constexpr int64_t kRowsBytes = 64 << 10;   // of the rows that an output meets, of images that are read in place
constexpr int64_t kAheadBytes = 4 << 10;   // from what is read in place to what is prefetched, at most
constexpr int64_t kChannels = 32;          // of a buffered channels_last tile, about; twice as many if they are small
constexpr int kGroups = 4;                 // registers of a pixel that are copied at once
constexpr int64_t kSlack = 64;             // elements behind a buffer: registers are read whole

inline int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0); }  // b > 0
inline int64_t ceil_div(int64_t a, int64_t b) { return -floor_div(-a, b); }

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

  // The taps of the phase that has most.
  int64_t most() const {
    const auto fewer = [](const auto& a, const auto& b) { return a.size() < b.size(); };
    return std::max_element(taps.begin(), taps.end(), fewer)->size();
  }

  // Where output 0 of a phase meets a tap, in pixels of `from`.
  int64_t column(const Tap& tap) const { return tap.shift * in_phases + phases[tap.phase]; }

  // Taps are kept in the order in which they meet the buffer.
  void add(int64_t r, int64_t index, int64_t phase, int64_t shift) {
    const size_t p = std::find(phases.begin(), phases.end(), phase) - phases.begin();
    const int64_t end = phases.empty() ? shift : std::max(first + span, shift);
    first = phases.empty() ? shift : std::min(first, shift);
    span = end - first;
    if (p == phases.size()) phases.push_back(phase);
    const Tap tap{index, int64_t(p), shift};
    const auto before = [](const Tap& a, const Tap& b) {
      return std::tie(a.phase, a.shift) < std::tie(b.phase, b.shift);
    };
    taps[r].insert(std::upper_bound(taps[r].begin(), taps[r].end(), tap, before), tap);
  }
};

// to[o] = sum_k weight[k] from[o * stride + k * dilation - pad]
inline Line forward_line(const ConvAxis& a) {
  Line line(a.in, a.out, a.stride, 1);
  for (int64_t k = 0; k < a.taps; ++k) {
    const int64_t at = k * a.dilation - a.pad, shift = floor_div(at, a.stride);
    line.add(0, k, at - shift * a.stride, shift);
  }
  return line;
}

// Where the register of channels from c on begins if images are read in place: the last one of a pixel goes back to its
// end, over channels that the one before has, too.
inline int64_t first_channel(int64_t c, int64_t channels, int64_t lanes) {
  return std::clamp<int64_t>(channels - lanes, 0, c);
}

// How images are cut into tiles, and how a tile lies in its buffers: [phase of x][phase of y][row][column][lane].
struct Plan {
  struct Term {
    int64_t offset, tap;  // into the buffer; into the kernel
  };
  Line y, x;
  int64_t batch, channels;
  bool last;                             // channels_last
  bool in_place = false;                 // whose pixels are read where they are, but for the gradient of the weight
  bool neighbours;                       // a register holds neighbouring pixels, not the channels of one
  int64_t lanes, groups, chunks;         // channels side by side in a buffer; buffers of a tile; tiles for all channels
  int64_t step;                          // elements from one register to the next of the same channels
  int64_t factor;                        // numbers of a weight: one for each of those; one for a single channel
  int64_t strip, strips;                 // periods of a tile; tiles for all of them
  int64_t rows, pitch;                   // of one phase in the buffer
  int64_t pixels;                        // of a tile's output
  int64_t taps = 0;                      // in all the terms
  std::vector<std::vector<Term>> terms;  // of each pair of output phases
  std::vector<int64_t> begins;           // how many terms come before

  Plan(const DepthwiseConv2d& p, const Line& along_y, const Line& along_x, int64_t vector, int64_t element, bool ring)
      : y(along_y), x(along_x), batch(p.batch), channels(p.channels), last(p.channels_last) {
    const int64_t high = y.most(), wide = x.most();
    // Four pixels of 3 channels fill 3 registers of 4 lanes.
    neighbours = 2 * channels <= vector || (last && vector == 4 && channels == 3);
    // Larger kernels read a row too often: pixels that are far apart drive each other out of the L1 cache, and numbers
    // of 16 bits are widened each time. Registers of 16 bytes have no code for them (kFew), none has any for wide ones.
    const bool widened = element != int64_t(p.in.element_size());
    const bool small = !widened && vector * element > 16 && high * x.from * channels * element <= kRowsBytes;
    in_place = ring && last && !neighbours && wide <= 7 && (high <= 5 || (high <= 7 && small));
    lanes = !neighbours ? vector : last ? channels : 1;
    step = std::lcm(lanes, vector);
    factor = lanes == 1 ? 1 : step;
    const int64_t tile = in_place ? channels : kChannels * (element < 4 ? 2 : 1);
    chunks = ceil_div(channels, last ? std::max(tile, lanes) : lanes);
    groups = ceil_div(ceil_div(channels, lanes), chunks);
    chunks = ceil_div(channels, groups * lanes);
    pitch = x.periods() + x.span;
    const int64_t phases = y.phases.size(), row = std::max<int64_t>(pitch * x.phases.size() * phases, 1) * lanes;
    const int64_t most = std::max((lanes > 1 ? kLanesBytes : kTileBytes) / (row * element) - y.span, y.span + 1);
    strips = ceil_div(y.periods(), most);
    if (ring) {
      if (!neighbours) strips = 1;  // its size is that of the kernel
      const int64_t wanted = 4 * torch::stable::get_num_threads() / std::max<int64_t>(batch * chunks, 1);
      strips = std::max(strips, std::min(wanted, ceil_div(y.periods(), 4 * (y.span + 1))));
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
            pair.push_back({(row * pitch + tx.shift - x.first) * lanes, ty.index * p.x.taps + tx.index});
          }
        taps += pair.size();
      }
  }

  int64_t factors() const { return ceil_div(channels, lanes) * factor; }           // numbers for all the channels
  int64_t work() const { return pixels * lanes * groups; }                         // outputs of a tile
  int64_t end(int64_t c) const { return std::min(c + lanes * groups, channels); }  // of the channels of a tile
};

// What a weight or a bias holds: of dtype T, or float32, which is rounded to T.
template <class T>
auto parameter(const Tensor& t) {
  const bool float32 = t.scalar_type() == ScalarType::Float;
  return [data = t.const_data_ptr(), float32](int64_t i) {
    return acc_t<T>(float32 ? T(static_cast<const float*>(data)[i]) : static_cast<const T*>(data)[i]);
  };
}

// 64-byte aligned zeros.
template <class A>
class Buffer {
  std::vector<A> memory_;

 public:
  explicit Buffer(int64_t n = 0) : memory_(n + kSlack + 64 / sizeof(A)) {}
  A* data() { return reinterpret_cast<A*>((reinterpret_cast<uintptr_t>(memory_.data()) + 63) / 64 * 64); }
};

// f(constant) for the least power of 2 that a pixel of so many neighbours fits into: those are copied faster.
template <class F>
void with_room(int64_t size, const F& f) {
  if (size == 1) return f(std::integral_constant<int, 1>());
  if (size == 2) return f(std::integral_constant<int, 2>());
  if (size <= 4) return f(std::integral_constant<int, 4>());
  f(std::integral_constant<int, 8>());
}

// Copies tiles of an image into the buffers, one for each register of channels. Whatever lies outside of the image is
// zero from the beginning, or where it moves, when strips differ, made so. B is what the buffers hold: acc_t<T>, or T
// for arithmetic that takes it as it is.
template <class T, class B = acc_t<T>>
class Source {
  using A = acc_t<T>;
  const Plan& plan_;
  const Line &y_, &x_;
  const T *const image_, *const end_;
  const int64_t rows_, part_;  // rows of one phase, pixels of one phase of x
  Buffer<B> buffer_;
  Buffer<A> line_;
  std::vector<std::pair<int64_t, int64_t>> columns_;  // of each phase: those within the image
  std::vector<int64_t> places_;                       // of the image's columns in the buffer, -1 for none

 public:
  const int64_t size;  // of one buffer
  bool clears;         // whether rows outside of the image have to be made zero

  Source(const Plan& plan, const Line& y, const Line& x, int64_t rows, const T* image)
      : plan_(plan),
        y_(y),
        x_(x),
        image_(image),
        end_(image + plan.batch * plan.channels * y.from * x.from),
        rows_(rows),
        part_(int64_t(y.phases.size()) * rows * plan.pitch),
        line_(plan.neighbours ? x.from * plan.lanes : 0),
        places_(x.from + plan.lanes, -1),
        size(int64_t(x.phases.size()) * part_ * plan.lanes),
        clears(plan.strips > 1) {
    buffer_ = Buffer<B>(size * plan.groups);
    for (int64_t phase : x.phases) {
      const int64_t begin = std::clamp<int64_t>(ceil_div(-phase, x.in_phases) - x.first, 0, plan.pitch);
      const int64_t end = std::clamp<int64_t>(ceil_div(x.from - phase, x.in_phases) - x.first, begin, plan.pitch);
      for (int64_t j = begin; j < end; ++j)
        places_[(x.first + j) * x.in_phases + phase] = (int64_t(columns_.size()) * part_ + j) * plan.lanes;
      columns_.push_back({begin, end});
    }
  }

  B* data() { return buffer_.data(); }

  // Where in the buffer a row of a phase begins, and how many columns further a tap looks.
  int64_t place(int64_t j, int64_t phase) const { return (phase * rows_ + j % rows_) * plan_.pitch * plan_.lanes; }
  int64_t column(const Line::Tap& tap) const { return tap.phase * part_ + tap.shift - x_.first; }

  // The image's row, if there is one, that output rows of period q meet first in a phase.
  int64_t row(int64_t q, int64_t phase) const { return (y_.first + q) * y_.in_phases + y_.phases[phase]; }

  // Rows [begin, end) of each phase of the tile whose first row is that of period q and whose first channel is c. Row j
  // takes the place of row j - rows.
  template <class I>
  void read(I isa, int64_t n, int64_t c, int64_t q, int64_t begin, int64_t end) {
    for (int64_t j = begin; j < end; ++j)
      for (size_t py = 0; py < y_.phases.size(); ++py) {
        const int64_t i = row(q + j, py), at = (py * rows_ + j % rows_) * plan_.pitch;
        if (i < 0 || i >= y_.from) {
          clear(c, at);
        } else if (plan_.neighbours) {
          if constexpr (std::is_same_v<B, A>)
            read_row(isa, image_ + ((n * plan_.chunks + c) * y_.from + i) * x_.from * plan_.lanes, at);
        } else if (plan_.last) {
          read_pixels(isa, image_ + (n * y_.from + i) * x_.from * plan_.channels, c, at);
        } else {
          read_planes(isa, n, c, i, at);
        }
      }
  }

 private:
  void clear(int64_t c, int64_t at) {
    if (!clears) return;
    for (int64_t g = 0; c + g * plan_.lanes < plan_.end(c); ++g)
      for (size_t px = 0; px < x_.phases.size(); ++px)
        std::fill_n(data() + g * size + (px * part_ + at) * plan_.lanes, plan_.pitch * plan_.lanes, B(0));
  }

  // A row of pixels, as the image has them.
  template <class I>
  void read_row(I isa, const T* row, int64_t at) {
    const A* line = line_.data();
    if constexpr (std::is_same_v<T, A>)
      line = row;
    else
      widen(isa, row, line_.data(), x_.from * plan_.lanes);
    for (size_t px = 0; px < x_.phases.size(); ++px) {
      const auto [begin, end] = columns_[px];
      const A* const in = line + ((x_.first + begin) * x_.in_phases + x_.phases[px]) * plan_.lanes;
      B* __restrict const out = data() + (px * part_ + at + begin) * plan_.lanes;
      if (x_.in_phases == 1)
        std::memcpy(out, in, (end - begin) * plan_.lanes * sizeof(A));
      else if (x_.in_phases == 2 && plan_.lanes == 1)  // shuffles
        for (int64_t i = 0; i < end - begin; ++i) out[i] = in[2 * i];
      else
        copy_every(in, x_.in_phases * plan_.lanes, out, end - begin);
    }
  }

  // n pixels that are `step` apart. What is written beyond the end of one is overwritten by the next.
  void copy_every(const A* in, int64_t step, B* out, int64_t n) {
    const int64_t lanes = plan_.lanes;
    with_room(lanes, [&](auto room) {
      int64_t i = 0;
      for (; i * lanes + room <= n * lanes; ++i) std::memcpy(out + i * lanes, in + i * step, room * sizeof(A));
      for (; i < n; ++i) std::copy_n(in + i * step, lanes, out + i * lanes);
    });
  }

  // A row of pixels, whose channels lie side by side.
  template <class I>
  void read_pixels(I isa, const T* row, int64_t c, int64_t at) {
    constexpr int64_t kLanes = Vec<I::value, A>::kLanes;
    const int64_t step = x_.in_phases * plan_.channels;
    for (size_t px = 0; px < x_.phases.size(); ++px) {
      const auto [begin, end] = columns_[px];
      const T* from = row + ((x_.first + begin) * x_.in_phases + x_.phases[px]) * plan_.channels + c;
      B* to = data() + (px * part_ + at + begin) * kLanes;
      const int64_t channels = plan_.end(c) - c;
      for (int64_t g = 0; g < channels; g += kGroups * kLanes, from += kGroups * kLanes, to += kGroups * size)
        with_constant<kGroups>(std::min<int64_t>(ceil_div(channels - g, kLanes), kGroups), [&](auto groups) {
          copy_registers<groups>(isa, from, step, to, end - begin, channels - g);
        });
    }
  }

  // kCount registers each of n pixels, `step` apart, of that many channels. They reach into the next pixel, or that of
  // the next row, but not beyond the last image.
  template <int kCount, class I>
  void copy_registers(I isa, const T* from, int64_t step, B* to, int64_t n, int64_t channels) {
    using V = Vec<I::value, A>;
    const int64_t ahead = y_.in_phases * x_.from * plan_.channels, next = size;  // the row that is read next
    const int64_t whole = std::clamp<int64_t>((end_ - from - kCount * V::kLanes + step) / step, 0, n);
    outline(isa, [=](auto) {
      const int64_t in_step = step, out_step = next, far = ahead;  // not of the lambda, which `to` may alias
      const T* in = from;
      for (B *out = to, *const end = to + whole * V::kLanes; out != end; out += V::kLanes, in += in_step)
#pragma GCC unroll 4
        for (int g = 0; g < kCount; ++g) {
          if (g * V::kLanes * sizeof(T) % 64 == 0) __builtin_prefetch(in + g * V::kLanes + far);
          copy_register<V>(in + g * V::kLanes, out + g * out_step);
        }
    });
    for (int64_t i = whole; i < n; ++i) {
      T part[kCount * V::kLanes] = {};
      std::copy_n(from + i * step, std::min<int64_t>(channels, kCount * V::kLanes), part);
      for (int g = 0; g < kCount; ++g) copy_register<V>(part + g * V::kLanes, to + i * V::kLanes + g * next);
    }
  }

  template <class V>
  static void copy_register(const T* from, B* to) {
    if constexpr (!std::is_same_v<B, A>) {  // then it is T
      std::memcpy(to, from, V::kLanes * sizeof(T));
    } else {
      V v;
      v.load(from);
      v.store(to);
    }
  }

  // The same row of as many channels as a register has lanes: turned, so that a pixel's channels lie side by side.
  template <class I>
  void read_planes(I, int64_t n, int64_t c, int64_t i, int64_t at) {
    using V = Vec<I::value, A>;
    const int64_t plane = y_.from * x_.from, count = plan_.end(c) - c;
    const T* const first = image_ + (n * plan_.channels + c) * plane + i * x_.from;
    B* const out = data() + at * V::kLanes;
    for (int64_t x = 0; x < x_.from; x += V::kLanes) {
      Square<V, B> square;
#pragma GCC unroll 16
      for (int l = 0; l < V::kLanes; ++l) {  // what goes beyond the row is not used
        const T* const from = first + std::min<int64_t>(l, count - 1) * plane + x;
        if (end_ - from >= V::kLanes) {
          square.load(l, from);
        } else {
          T part[V::kLanes] = {};
          std::copy(from, end_, part);
          square.load(l, part);
        }
      }
      square.turn();
      const int64_t* const to = places_.data() + x;
#pragma GCC unroll 16
      for (int p = 0; p < V::kLanes; ++p)
        if (to[p] >= 0) square.store(p, out + to[p]);
    }
  }
};

// In depthwise_conv2d_planes.cpp: `to` from `from`, the forward pass or the gradient of the input, if there is a kernel
// for neighbouring pixels of contiguous images.
bool convolve_planes(const DepthwiseConv2d& p, bool backward, const Tensor& from, const Tensor& to);

}  // namespace customops::cpu
