// How tiles of an image get into a buffer.
#pragma once

#include "plan.h"

namespace customops::cpu {

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
  const AxisTaps &y_, &x_;
  const T *const image_, *const end_;
  const int64_t rows_, part_;  // rows of one phase, pixels of one phase of x
  Buffer<B> buffer_;
  Buffer<A> line_;
  std::vector<std::pair<int64_t, int64_t>> columns_;  // of each phase: those within the image
  std::vector<int64_t> places_;                       // of the image's columns in the buffer, -1 for none
  std::vector<int64_t> plane_places_;                 // the same of all pixels of a plane, where it is read at once

 public:
  const int64_t size;  // of one buffer
  bool clears;         // whether rows outside of the image have to be made zero

  Source(const Plan& plan, const AxisTaps& y, const AxisTaps& x, int64_t rows, const T* image)
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

  // All rows of as many planes as a register has lanes, into a buffer that has room for them: a plane is a long row.
  template <class I>
  void read_whole_planes(I isa, int64_t n, int64_t c) {
    if (plane_places_.empty()) place_planes();
    turn_pixels<Vec<I::value, A>>(n, c, 0, y_.from * x_.from, 0, plane_places_.data());
  }

  // Where in the buffer a row of a phase begins, and how many columns further a tap looks.
  int64_t place(int64_t j, int64_t phase) const { return (phase * rows_ + j % rows_) * plan_.pitch * plan_.lanes; }
  int64_t column(const AxisTaps::Tap& tap) const { return tap.phase * part_ + tap.shift - x_.first; }

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
    turn_pixels<Vec<I::value, A>>(n, c, i * x_.from, x_.from, at, places_.data());
  }

  // Pixels [first, first + count) of planes, to `places` in the buffer, from `at` on; -1 for those that no tap meets.
  template <class V>
  void turn_pixels(int64_t n, int64_t c, int64_t first, int64_t pixels, int64_t at, const int64_t* places) {
    const int64_t plane = y_.from * x_.from, count = plan_.end(c) - c;
    const T* const begin = image_ + (n * plan_.channels + c) * plane + first;
    B* const out = data() + at * V::kLanes;
    for (int64_t x = 0; x < pixels; x += V::kLanes) {
      Square<V, B> square;
#pragma GCC unroll 16
      for (int l = 0; l < V::kLanes; ++l) {  // what goes beyond the row is not used
        const T* const from = begin + std::min<int64_t>(l, count - 1) * plane + x;
        if (end_ - from >= V::kLanes) {
          square.load(l, from);
        } else {
          T part[V::kLanes] = {};
          std::copy(from, end_, part);
          square.load(l, part);
        }
      }
      square.turn();
      const int64_t* const to = places + x;
#pragma GCC unroll 16
      for (int p = 0; p < V::kLanes; ++p)
        if (to[p] >= 0) square.store(p, out + to[p]);
    }
  }

  void place_planes() {
    plane_places_.assign(y_.from * x_.from + plan_.lanes, -1);
    for (size_t py = 0; py < y_.phases.size(); ++py)
      for (int64_t j = 0; j < rows_; ++j) {
        const int64_t i = row(j, py), at = place(j, py);
        if (i < 0 || i >= y_.from) continue;
        for (int64_t x = 0; x < x_.from; ++x)
          if (places_[x] >= 0) plane_places_[i * x_.from + x] = at + places_[x];
      }
  }
};

}  // namespace customops::cpu
