// Loads tiles of an image into buffers.
#pragma once

#include "plan.h"

namespace customops::cpu {

// f(constant) for the least power of 2 from `size` on: the compiler copies a constant number of elements faster.
template <class F>
void with_padded_size(int64_t size, const F& f) {
  if (size == 1) return f(std::integral_constant<int, 1>());
  if (size == 2) return f(std::integral_constant<int, 2>());
  if (size <= 4) return f(std::integral_constant<int, 4>());
  f(std::integral_constant<int, 8>());
}

// Copies tiles of an image into buffers, one buffer for each block of channels. Padding is zero: buffers begin with
// zeros, and rows that a tile has outside of the image are cleared where another tile had pixels there. B is what the
// buffers hold: acc_t<T>, or T for arithmetic that takes it as it is.
template <class T, class B = acc_t<T>>
class TileLoader {
  using A = acc_t<T>;
  enum : int64_t { kNone = -1 };
  enum : int64_t { kPlanesAhead = 256 };  // bytes from what is transposed to what is prefetched
  const TilePlan& plan_;
  const AxisTaps &y_, &x_;
  const T *const image_, *const end_;
  const int64_t rows_, phase_size_;  // rows of a phase of y and x; pixels of a phase of x
  Buffer<B> buffer_;
  Buffer<A> widened_row_;
  std::vector<std::pair<int64_t, int64_t>> inside_;  // of each phase of x: the columns within the image
  std::vector<int64_t> column_offsets_;              // of each column of the image in the buffer, or kNone
  std::vector<int64_t> pixel_offsets_;               // of each pixel of a plane, for whole planes

 public:
  const int64_t buffer_size;  // elements
  bool clears_outside;        // whether rows outside of the image are cleared
  int64_t prefetch_distance;  // in elements of channels_last images: by default to the next row that a tap reads

  TileLoader(const TilePlan& plan, const AxisTaps& y, const AxisTaps& x, int64_t rows, const T* image)
      : plan_(plan),
        y_(y),
        x_(x),
        image_(image),
        end_(image + plan.batch * plan.channels * y.from * x.from),
        rows_(rows),
        phase_size_(int64_t(y.phases.size()) * rows * plan.pitch),
        widened_row_(plan.vectorizes_pixels ? x.from * plan.block_channels : 0),
        column_offsets_(x.from + plan.block_channels, kNone),
        buffer_size(int64_t(x.phases.size()) * phase_size_ * plan.block_channels),
        clears_outside(plan.strips > 1),
        prefetch_distance(y.in_phases * x.from * plan.channels) {
    buffer_ = Buffer<B>(buffer_size * plan.tile_blocks);
    for (int64_t phase : x.phases) {
      const int64_t begin = std::clamp<int64_t>(ceil_div(-phase, x.in_phases) - x.first, 0, plan.pitch);
      const int64_t end = std::clamp<int64_t>(ceil_div(x.from - phase, x.in_phases) - x.first, begin, plan.pitch);
      for (int64_t j = begin; j < end; ++j)
        column_offsets_[(x.first + j) * x.in_phases + phase] =
            (int64_t(inside_.size()) * phase_size_ + j) * plan.block_channels;
      inside_.push_back({begin, end});
    }
  }

  B* data() { return buffer_.data(); }

  // Transposes the planes of a block of channels into its buffer, which has room for all their rows.
  template <class I>
  void load_planes(I isa, int64_t n, int64_t c) {
    if (pixel_offsets_.empty()) set_pixel_offsets();
    transpose_pixels(isa, n, c, 0, y_.from * x_.from, 0, pixel_offsets_.data());
  }

  // Where row j of a phase begins in the buffer, and the columns from there to what a tap reads.
  int64_t row_offset(int64_t j, int64_t phase) const {
    return (phase * rows_ + (j < rows_ ? j : j % rows_)) * plan_.pitch * plan_.block_channels;
  }
  int64_t tap_column(const AxisTaps::Tap& tap) const { return tap.phase * phase_size_ + tap.shift - x_.first; }
  // The columns within the image, of the phase that these taps read; any column, if they read several. Phases may be
  // side by side, so that taps of several look like neighbours.
  std::pair<int64_t, int64_t> inside(const std::vector<AxisTaps::Tap>& taps) const {
    if (taps.empty()) return {0, 0};
    const int64_t phase = taps[0].phase, column = phase * phase_size_;
    if (taps.back().phase != phase) return {INT64_MIN / 2, INT64_MAX / 2};
    return {column + inside_[phase].first, column + inside_[phase].second};
  }

  // The row of the image, perhaps outside of it, that period q of the outputs reads first in a phase.
  int64_t image_row(int64_t q, int64_t phase) const { return (y_.first + q) * y_.in_phases + y_.phases[phase]; }

  // Loads rows [begin, end) of each phase of the tile that begins with period q and channel c. The buffer is a ring:
  // row j overwrites row j - rows. `begin` is 0, or there is one row.
  template <class I>
  void load_rows(I isa, int64_t n, int64_t c, int64_t q, int64_t begin, int64_t end) {
    if constexpr (std::is_same_v<B, A>)
      if (plan_.vectorizes_pixels && x_.in_phases == 1 && x_.phases.size() == 1) {
        for (size_t py = 0; py < y_.phases.size(); ++py) copy_rows(isa, n, c, q, py, begin, end);
        return;
      }
    for (int64_t j = begin; j < end; ++j)
      for (size_t py = 0; py < y_.phases.size(); ++py) {
        const int64_t i = image_row(q + j, py), at = (py * rows_ + j % rows_) * plan_.pitch;
        if (i < 0 || i >= y_.from) {
          clear(c, at);
        } else if (plan_.vectorizes_pixels) {
          if constexpr (std::is_same_v<B, A>) load_row(isa, pixels_row(n, c, i), at);
        } else if (plan_.channels_last) {
          load_pixels_row(isa, image_ + (n * y_.from + i) * x_.from * plan_.channels, c, at);
        } else {
          load_planes_row(isa, n, c, i, at);
        }
      }
  }

 private:
  void clear(int64_t c, int64_t at) {
    if (!clears_outside) return;
    for (int64_t g = 0; c + g * plan_.block_channels < plan_.channels_end(c); ++g)
      for (size_t px = 0; px < x_.phases.size(); ++px)
        std::fill_n(data() + g * buffer_size + (px * phase_size_ + at) * plan_.block_channels,
                    plan_.pitch * plan_.block_channels, B(0));
  }

  const T* pixels_row(int64_t n, int64_t c, int64_t i) const {
    return image_ + ((n * plan_.channel_tiles + c) * y_.from + i) * x_.from * plan_.block_channels;
  }

  // Rows [begin, end) of a phase of y, of pixels in the order of the image: all at once, because rows may be short.
  template <class I>
  void copy_rows(I isa, int64_t n, int64_t c, int64_t q, int64_t py, int64_t begin, int64_t end) {
    using V = Vec<I::value, A>;
    const int64_t row = x_.from * plan_.block_channels, pitch = plan_.pitch * plan_.block_channels;
    const auto next = [&](int64_t i) {  // the first row from row i of the image on, without a division if possible
      const int64_t at = i - y_.phases[py];
      return (y_.in_phases == 1 ? at : ceil_div(at, y_.in_phases)) - y_.first - q;
    };
    const int64_t first = std::clamp(next(0), begin, end), last = std::clamp(next(y_.from), first, end);
    const auto row_at = [&](int64_t j) { return (py * rows_ + j % rows_) * plan_.pitch; };
    for (int64_t j = begin; j < first; ++j) clear(c, row_at(j));
    for (int64_t j = last; j < end; ++j) clear(c, row_at(j));
    if (first == last) return;
    const auto [inside, inside_end] = inside_[0];
    const int64_t step = y_.in_phases * row, skipped = (x_.first + inside + x_.phases[0]) * plan_.block_channels;
    int64_t count = last - first, size = (inside_end - inside) * plan_.block_channels;
    const T* const from = pixels_row(n, c, image_row(q + first, py)) + skipped;
    B* const to = data() + (row_at(first) + inside) * plan_.block_channels;
    if (size == pitch && size == step) size *= count, count = 1;  // no padding, and no row left out
    // Registers may read beyond the ends of rows, but not behind the last image.
    const int64_t read = ceil_div(size, V::kLanes) * V::kLanes;
    const int64_t spare = end_ - from - read;
    const int64_t safe = spare >= (count - 1) * step ? count : std::max<int64_t>(floor_div(spare, step) + 1, 0);
    outline(isa, [=](auto) {
      const int64_t whole = size / V::kLanes * V::kLanes, rest = size - whole, in_step = step, out_step = pitch;
      const T* in = from;
      for (B *out = to, *const out_end = to + safe * out_step; out != out_end; out += out_step, in += in_step) {
        V v;
        for (int64_t x = 0; x < whole; x += V::kLanes) v.load(in + x), v.store(out + x);
        if (rest > 0) v.load(in + whole), store_part(v, out + whole, rest);
      }
    });
    for (int64_t j = safe; j < count; ++j) widen_row<T>(isa, from + j * step, to + j * pitch, size);
  }

  // A row of pixels in the order of the image, of which a stride leaves out some.
  template <class I>
  void load_row(I isa, const T* row, int64_t at) {
    const A* pixels = widened_row_.data();
    if constexpr (std::is_same_v<T, A>)
      pixels = row;
    else
      widen(isa, row, widened_row_.data(), x_.from * plan_.block_channels);
    for (size_t px = 0; px < x_.phases.size(); ++px) {
      const auto [begin, end] = inside_[px];
      const A* const in = pixels + ((x_.first + begin) * x_.in_phases + x_.phases[px]) * plan_.block_channels;
      B* __restrict const out = data() + (px * phase_size_ + at + begin) * plan_.block_channels;
      if (x_.in_phases == 2 && plan_.block_channels == 1)  // shuffles
        for (int64_t i = 0; i < end - begin; ++i) out[i] = in[2 * i];
      else
        copy_every(in, x_.in_phases * plan_.block_channels, out, end - begin);
    }
  }

  // n pixels that are `step` elements apart. A copy may write beyond its pixel; the next pixel overwrites that.
  void copy_every(const A* in, int64_t step, B* out, int64_t n) {
    const int64_t lanes = plan_.block_channels;
    with_padded_size(lanes, [&](auto room) {
      int64_t i = 0;
      for (; i * lanes + room <= n * lanes; ++i) std::memcpy(out + i * lanes, in + i * step, room * sizeof(A));
      for (; i < n; ++i) std::copy_n(in + i * step, lanes, out + i * lanes);
    });
  }

  // A row of channels_last pixels.
  template <class I>
  void load_pixels_row(I isa, const T* row, int64_t c, int64_t at) {
    constexpr int64_t kLanes = Vec<I::value, A>::kLanes;
    const int64_t step = x_.in_phases * plan_.channels;
    for (size_t px = 0; px < x_.phases.size(); ++px) {
      const auto [begin, end] = inside_[px];
      const T* from = row + ((x_.first + begin) * x_.in_phases + x_.phases[px]) * plan_.channels + c;
      B* to = data() + (px * phase_size_ + at + begin) * kLanes;
      const int64_t channels = plan_.channels_end(c) - c;
      for (int64_t g = 0; g < channels;
           g += kBlocksAtOnce * kLanes, from += kBlocksAtOnce * kLanes, to += kBlocksAtOnce * buffer_size)
        with_constant<kBlocksAtOnce>(
            std::min<int64_t>(ceil_div(channels - g, kLanes), kBlocksAtOnce),
            [&](auto groups) { copy_registers<groups>(isa, from, step, to, end - begin, channels - g); });
    }
  }

  // Copies kCount registers of each of n pixels, `step` elements apart. Registers may read the next pixel or the next
  // row, but nothing behind the last image.
  template <int kCount, class I>
  void copy_registers(I isa, const T* from, int64_t step, B* to, int64_t n, int64_t channels) {
    using V = Vec<I::value, A>;
    const int64_t distance = prefetch_distance, next_buffer = buffer_size;
    const int64_t whole = std::clamp<int64_t>((end_ - from - kCount * V::kLanes + step) / step, 0, n);
    outline(isa, [=](auto) {
      const int64_t in_step = step, out_step = next_buffer, ahead = distance;  // copies that `to` cannot alias
      const T* in = from;
      for (B *out = to, *const end = to + whole * V::kLanes; out != end; out += V::kLanes, in += in_step)
#pragma GCC unroll 4
        for (int g = 0; g < kCount; ++g) {
          if (g * V::kLanes * sizeof(T) % 64 == 0) __builtin_prefetch(in + g * V::kLanes + ahead);
          copy_register<V>(in + g * V::kLanes, out + g * out_step);
        }
    });
    for (int64_t i = whole; i < n; ++i) {
      T part[kCount * V::kLanes] = {};
      std::copy_n(from + i * step, std::min<int64_t>(channels, kCount * V::kLanes), part);
      for (int g = 0; g < kCount; ++g) copy_register<V>(part + g * V::kLanes, to + i * V::kLanes + g * next_buffer);
    }
  }

  template <class V>
  static void copy_register(const T* from, B* to) {
    if constexpr (!std::is_same_v<B, A>) {  // B is T
      std::memcpy(to, from, V::kLanes * sizeof(T));
    } else {
      V v;
      v.load(from);
      v.store(to);
    }
  }

  // Row i of the planes of a block of channels, transposed so that a pixel's channels lie side by side.
  template <class I>
  void load_planes_row(I isa, int64_t n, int64_t c, int64_t i, int64_t at) {
    transpose_pixels(isa, n, c, i * x_.from, x_.from, at, column_offsets_.data());
  }

  // Pixels [first, first + pixels) of planes, to `offsets` from `at` on in the buffer; kNone: no tap reads the pixel.
  // Sixteen planes are more than hardware prefetchers follow: without prefetches, images that are not in the cache took
  // up to 1.3 times as long on a Zen 4.
  template <class I>
  void transpose_pixels(I isa, int64_t n, int64_t c, int64_t first, int64_t pixels, int64_t at,
                        const int64_t* offsets) {
    const int64_t plane = y_.from * x_.from, count = plan_.channels_end(c) - c;
    const T *const begin = image_ + (n * plan_.channels + c) * plane + first, *const end = end_;
    B* const out = data() + at * plan_.block_channels;
    outline(isa, [=](auto) {
      using V = Vec<I::value, A>;
      const int64_t size = pixels, last = (count - 1) * plane, *to = offsets;  // copies that stores cannot alias
      B* const buffer = out;
      const T* rows[V::kLanes];
      for (int l = 0; l < V::kLanes; ++l) rows[l] = begin + std::min<int64_t>(l, count - 1) * plane;
      T parts[V::kLanes][V::kLanes];
      for (int64_t x = 0, from = 0; x < size; x += V::kLanes, from += V::kLanes, to += V::kLanes) {
        if (end - begin - last - x < V::kLanes) {  // nothing behind the last image is read
          std::memset(parts, 0, sizeof parts);
          for (int l = 0; l < V::kLanes; ++l) {
            const T* const row = begin + std::min<int64_t>(l, count - 1) * plane + x;
            std::copy_n(row, std::min<int64_t>(end - row, V::kLanes), parts[l]);
            rows[l] = parts[l];
          }
          from = 0;
        }
        TransposeBlock<V, B> block;
#pragma GCC unroll 16
        for (int l = 0; l < V::kLanes; ++l) {  // pixels beyond the row are dropped
          // 16 planes seem to be too many streams for a CPU's own prefetching: 1.1 times the time on AVX-512.
          if (sizeof(V) > 16) __builtin_prefetch(rows[l] + from + kPlanesAhead / sizeof(T));
          block.load(l, rows[l] + from);
        }
        block.transpose();
#pragma GCC unroll 16
        for (int p = 0; p < V::kLanes; ++p)
          if (to[p] >= 0) block.store(p, buffer + to[p]);
      }
    });
  }

  void set_pixel_offsets() {
    pixel_offsets_.assign(y_.from * x_.from + plan_.block_channels, kNone);
    for (size_t py = 0; py < y_.phases.size(); ++py)
      for (int64_t j = 0; j < rows_; ++j) {
        const int64_t i = image_row(j, py), at = row_offset(j, py);
        if (i < 0 || i >= y_.from) continue;
        for (int64_t x = 0; x < x_.from; ++x)
          if (column_offsets_[x] >= 0) pixel_offsets_[i * x_.from + x] = at + column_offsets_[x];
      }
  }
};

}  // namespace customops::cpu
