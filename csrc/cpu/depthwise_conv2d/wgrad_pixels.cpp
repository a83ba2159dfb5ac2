// Wgrad for channels_last images, read in place: products of image and gradient, a register of sums for each tap.
#include <numeric>

#include "wgrad.h"
#include "wgrad_pairs_loops.h"
#include "wgrad_pixels_loops.h"
#include "wgrad_sums.h"

namespace customops::cpu {
namespace {

constexpr int64_t kTilePixels = 1536;   // outputs of a tile, at most, or a row of them: what is summed in float32
constexpr int64_t kFewestTileRows = 4;  // of an image that is split
constexpr int64_t kFewestTileChannels = 64;
constexpr int64_t kFewPixels = 72;           // under a row of windows
constexpr int64_t kFewSetsPeriod = 512;      // bytes: pixels at multiples of it share few sets of the L1 cache
constexpr int64_t kSmallBytes = 512 << 10;   // of all images: they stay in the L2 cache
constexpr int64_t kChunkBytes = 32 << 10;    // of what a row of taps reads at once
constexpr int64_t kFewestChunk = 8;          // outputs
constexpr int64_t kManyRows = 4;             // within kPrefetchBytes
constexpr int64_t kRowTile = 192;            // channels of a tile where rows are treated as pixels, about
constexpr int64_t kRowChunk = 32;            // the same: outputs
constexpr int64_t kRowSumsBytes = 32 << 10;  // of the sums of far images whose rows are tiles, at most
constexpr int64_t kLongOutputs = 3;  // outputs for each tap of a row, from which on all its taps are summed at once

// Whether tiles have few channels: so few of all the channels under a row of windows that these stay in the L1 cache
// until the next row of outputs.
bool splits_channels(const Problem& problem, int64_t bytes) {
  const int64_t pixel = problem.channels * bytes, pixels = problem.x.in * std::min(problem.y.taps, problem.y.in);
  const int64_t fitting = pixel % kFewSetsPeriod == 0 ? kTileBytes * 3 / 4 - 1 : kTileBytes;
  return problem.y.taps > 1 && pixels <= kFewPixels && pixels * pixel > fitting &&
         problem.batch * problem.y.in * problem.x.in * pixel > kSmallBytes;
}

// The code for sums of several rows of outputs: what rows_at_once may ask for.
template <class T, int kColumns>
constexpr bool kSumsSeveral = !CUSTOMOPS_NEON && (kColumns == 2 || kColumns == 3 || kColumns == 5) &&
                              (std::is_same_v<T, float> || std::is_same_v<T, BFloat16>);

// How the work is cut into tiles. Depends on sizes alone.
struct PixelTiles {
  int64_t strip, strips;            // rows of outputs of a tile; tiles of an image
  int64_t channels, channel_tiles;  // of a tile; tiles for all channels
  int64_t chunk;                    // outputs of a row that all channels are summed for
  int64_t at_once;                  // rows of outputs that are summed before the next channels

  PixelTiles(const Problem& problem, bool by_pairs, int64_t lanes, int64_t bytes, int64_t sum_bytes) {
    const int64_t split = std::min(ceil_div(kFewestTiles, problem.batch), ceil_div(problem.y.out, kFewestTileRows));
    strips = std::max(split, ceil_div(problem.y.out, std::max<int64_t>(kTilePixels / problem.x.out, 1)));
    strip = ceil_div(problem.y.out, strips);
    if (by_pairs) strip += strip % 2;
    strips = ceil_div(problem.y.out, strip);
    channel_tiles =
        std::clamp<int64_t>(problem.channels / kFewestTileChannels, 1, ceil_div(kFewestTiles, problem.batch * strips));
    at_once = std::min(rows_at_once(problem, by_pairs), strip);
    if (at_once > 1) {
      const int64_t row_bytes = (problem.y.stride * problem.x.in + problem.x.out) * bytes;  // of one channel
      const int64_t most = std::max(kSeveralRowsBytes / (row_bytes * at_once) / lanes * lanes, lanes);
      // Where no more than a pair of rows fits, pixels come from beyond the L1 cache, best in the order of memory.
      const bool far = by_pairs && at_once == 2 && problem.y.out > 2;
      if (!far && problem.channels * bytes >= 2 * kSeveralRowsPixel)
        channel_tiles = std::max(channel_tiles, ceil_div(problem.channels, most));
    } else if (splits_channels(problem, bytes)) {
      const bool many = problem.batch * problem.channels * problem.y.in * problem.x.in > kManyElements;
      channel_tiles = std::max(channel_tiles, ceil_div(problem.channels, (many ? 2 : 1) * kFewestTileChannels));
    } else if (problem.stacked > 1) {
      const bool whole = problem.batch * problem.channels * problem.x.in > kManyElements &&
                         problem.channels * problem.x.taps * sum_bytes <= kRowSumsBytes;
      // Each tile has sums of its own for all channels of the weight.
      const int64_t tile = std::max(kRowTile, problem.channels / problem.stacked);
      if (!whole) channel_tiles = std::max(channel_tiles, ceil_div(problem.channels, tile));
    }
    channels = ceil_div(ceil_div(problem.channels, channel_tiles), lanes) * lanes;
    channel_tiles = ceil_div(problem.channels, channels);
    const int64_t pixel = problem.channels * bytes * problem.x.stride * std::min(problem.y.taps, problem.y.in);
    chunk = at_once > 1 || by_pairs ? problem.x.out
            : problem.stacked > 1   ? kRowChunk
                                    : std::max(kChunkBytes / pixel, kFewestChunk);
  }
};

// Sums the taps of each channel over one part of the tiles. kByPairs: by add_windows_by_pairs.
template <class T, bool kByPairs>
class WgradPixelsKernel {
  using A = acc_t<T>;
  const Problem& problem_;
  const PixelTiles& tiles_;
  const T *const image_, *const grad_;
  const int64_t part_tiles_;
  double* const sums_;
  const int64_t lanes_;                       // channels at a time
  Buffer<A> tap_sums_;                        // [register of channels][tap][lane]
  Buffer<double> folded_;                     // of stacked pixels: [tap][channel of the weight, and a register more]
  std::vector<const T*> rows_;                // of the image, for each row of outputs, for each row of taps
  Buffer<T> zeros_;                           // a row that is not there, where several are summed at once
  const bool reads_next_pixel_;               // whether registers are wider than pixels
  Buffer<T> last_image_row_, last_grad_row_;  // copies of these, if so: nothing lies behind them
  std::vector<std::pair<int64_t, int64_t>> taps_;  // of each row of outputs: the rows of taps within the image
  WindowRows<T> window_{};
  TileStep next_tile_;
  int64_t first_output_ = 0, outputs_end_ = -1;  // those that window_ was set for
  const int64_t rows_between_;  // of outputs, until those whose pixels are prefetched: several, if they are short
  const int64_t seen_taps_;     // rows of taps whose pixels the rows of outputs before have read

 public:
  WgradPixelsKernel(const Problem& problem, const PixelTiles& tiles, const T* image, const T* grad, int64_t part_tiles,
                    double* sums)
      : problem_(problem),
        tiles_(tiles),
        image_(image),
        grad_(grad),
        part_tiles_(part_tiles),
        sums_(sums),
        lanes_(kByPairs ? kPairChannels : vector_lanes<A>()),
        tap_sums_(tiles.channels * problem.y.taps * problem.x.taps),
        folded_(problem.stacked > 1 ? problem.x.taps * (problem.channels / problem.stacked + vector_lanes<A>()) : 0),
        rows_(tiles.at_once * problem.y.taps),
        zeros_(tiles.at_once > 1 || kByPairs ? std::max(problem.x.in, problem.x.out) * problem.channels : 0),
        reads_next_pixel_(problem.channels < lanes_),
        last_image_row_(with_room(image, problem.y.in, problem.x.in)),
        last_grad_row_(with_room(grad, problem.y.out, problem.x.out)),
        rows_between_(kPrefetchBytes / (problem.y.stride * problem.x.in * problem.channels * int64_t(sizeof(T)))),
        seen_taps_(
            std::max<int64_t>(problem.y.taps - problem.y.stride / std::gcd(problem.y.stride, problem.y.dilation), 0)) {
    const ConvAxis &y = problem.y, &x = problem.x;
    window_.channels = problem.channels, window_.grad_step = x.out * problem.channels;
    window_.stride = x.stride, window_.dilation = x.dilation, window_.width = x.in;
    window_.row_sums = x.taps * lanes_, window_.register_sums = y.taps * window_.row_sums;
    window_.outputs = x.out, window_.zeros = zeros_.data();
    for (int64_t oy = 0; oy < y.out; ++oy) {
      const int64_t at = oy * y.stride - y.pad, begin = std::clamp<int64_t>(ceil_div(-at, y.dilation), 0, y.taps);
      taps_.push_back({begin, std::clamp<int64_t>(ceil_div(y.in - at, y.dilation), begin, y.taps)});
    }
  }

  template <class I>
  void run(I isa, int64_t item) {
    constexpr int64_t kLanes = kByPairs ? kPairChannels : Vec<I::value, A>::kLanes;
    const int64_t part = item / tiles_.channel_tiles, first = item % tiles_.channel_tiles * tiles_.channels;
    const int64_t taps = problem_.y.taps * problem_.x.taps, end = std::min(first + tiles_.channels, problem_.channels);
    std::fill_n(tap_sums_.data(), tiles_.channels * taps, A(0));
    for (int64_t tile = part * part_tiles_; tile < std::min((part + 1) * part_tiles_, problem_.batch * tiles_.strips);
         ++tile) {
      const int64_t n = tile / tiles_.strips, q = tile % tiles_.strips * tiles_.strip;
      const int64_t rows_end = std::min(q + tiles_.strip, problem_.y.out);
      if (problem_.y.out == 1)  // tiles are images
        next_tile_ = next_tile(n, part * part_tiles_, std::min((part + 1) * part_tiles_, problem_.batch), first,
                               tiles_.channels, problem_.channels);
      const bool copied = reads_next_pixel_ && n + 1 == problem_.batch && rows_end == problem_.y.out;
      for (int64_t oy = q, count; oy < rows_end; oy += count) {
        count = std::min(tiles_.at_once, rows_end - oy);
        if (copied && count > 1 && oy + count == rows_end) --count;  // the last one is elsewhere
        add_rows(isa, n, oy, count, first, end);
      }
    }
    if (problem_.stacked > 1) return add_stacked<kLanes>(item, first, end);
    const A* from = tap_sums_.data();
    for (int64_t c = first; c < end; c += kLanes, from += taps * kLanes) {
      const int64_t channel = first_channel(c, problem_.channels, kLanes);
      const int64_t seen = c - channel, count = std::min(kLanes, end - channel);
      for (int64_t t = 0; t < taps; ++t) {
        double* const to = sums_ + (part * taps + t) * problem_.channels + channel;
        const A* sums = from + t * kLanes;
        alignas(64) float sorted[kPairChannels];
        if constexpr (kByPairs) sort_pair_sums(sums, sorted), sums = sorted;
        for (int64_t l = seen; l < count; ++l) to[l] = sums[l];
      }
    }
  }

 private:
  // Adds up the sums of stacked channels [first, end) that share a weight. Each item has sums of its own.
  template <int64_t kLanes>
  void add_stacked(int64_t item, int64_t first, int64_t end) {
    const int64_t own = problem_.channels / problem_.stacked, taps = problem_.x.taps, step = own + kLanes;
    std::fill_n(folded_.data(), taps * step, 0);
    const A* from = tap_sums_.data();
    for (int64_t c = first; c < end; c += kLanes, from += taps * kLanes) {
      const int64_t channel = first_channel(c, problem_.channels, kLanes), seen = c - channel;
      for (int64_t t = 0; t < taps; ++t) {
        double* const to = folded_.data() + t * step + c % own;
        if (seen == 0)  // a loop of constant length
          for (int64_t l = 0; l < kLanes; ++l) to[l] += from[t * kLanes + l];
        else
          for (int64_t l = seen; l < kLanes; ++l) to[l - seen] += from[t * kLanes + l];
      }
    }
    double* const to = sums_ + item * taps * own;
    for (int64_t i = 0; i < step; ++i)
      for (int64_t t = 0, channel = i % own; t < taps; ++t) to[t * own + channel] += folded_.data()[t * step + i];
  }

  // A copy of the last row of a tensor of `height` rows an image.
  Buffer<T> with_room(const T* from, int64_t height, int64_t width) const {
    if (!reads_next_pixel_) return {};
    Buffer<T> copy(width * problem_.channels);
    std::copy_n(from + (problem_.batch * height - 1) * width * problem_.channels, width * problem_.channels,
                copy.data());
    return copy;
  }

  const T* image_row(int64_t n, int64_t oy, int64_t tap) {
    const ConvAxis& y = problem_.y;
    const int64_t row = n * y.in + oy * y.stride - y.pad + tap * y.dilation;
    if (reads_next_pixel_ && row == problem_.batch * y.in - 1) return last_image_row_.data();
    return image_ + row * problem_.x.in * problem_.channels;
  }
  const T* grad_row(int64_t n, int64_t oy) {
    const int64_t row = n * problem_.y.out + oy;
    if (reads_next_pixel_ && row == problem_.batch * problem_.y.out - 1) return last_grad_row_.data();
    return grad_ + row * problem_.x.out * problem_.channels;
  }

  // Adds the products of rows [oy, oy + count) of grad, for channels [first, last).
  template <class I>
  void add_rows(I isa, int64_t n, int64_t oy, int64_t count, int64_t first, int64_t last) {
    const ConvAxis& x = problem_.x;
    const auto [tap, taps_end] = set_rows(n, oy, count);
    // Of few columns at a time, more outputs have all taps within the image.
    const bool many = problem_.y.taps == 1 && x.out > kLongOutputs * x.taps;
    for (int64_t i = 0; i < x.out; i += tiles_.chunk)
      for (int64_t k = 0; k < x.taps;) {
        const int64_t left = x.taps - k, blocks = ceil_div(left, many ? kMaxColumnsOfRow : kMaxColumns),
                      columns = blocks == 1 ? left : ceil_div(left, blocks);
        set_window(n, oy, count, tap, taps_end, i, k, columns, first, last);
        if constexpr (kByPairs)
          add_windows_by_pairs(isa, window_);
        else if constexpr (!kOldest<I::value>)
          with_constant<kMaxColumnsOfRow>(columns, [&](auto constant) {
            constexpr int kColumns = constant;
            if constexpr (kSumsSeveral<T, kColumns>)
              if (tiles_.at_once > 1) return add_windows_in_place<I, kColumns, true>(isa, window_, taps_end - tap);
            add_windows_in_place<I, kColumns, false>(isa, window_, taps_end - tap);
          });
        k += columns;
      }
  }

  // Sets rows_ for rows [oy, oy + count) of outputs. Returns the rows of taps: those within the image or, where several
  // rows are summed at once, all. Rows outside of the image are then zeros. Never inline, because all instruction sets
  // share it.
  [[gnu::noinline]] std::pair<int64_t, int64_t> set_rows(int64_t n, int64_t oy, int64_t count) {
    const ConvAxis& y = problem_.y;
    const std::pair<int64_t, int64_t> taps =
        tiles_.at_once > 1 || kByPairs ? std::pair<int64_t, int64_t>(0, y.taps) : taps_[oy];
    const T** row = rows_.data();
    for (int64_t end = oy + count; oy < end; ++oy)
      for (int64_t r = taps.first; r < taps.second; ++r)
        *row++ = taps_[oy].first <= r && r < taps_[oy].second ? image_row(n, oy, r) : zeros_.data();
    return taps;
  }

  // Sets window_ for rows [oy, oy + count) of outputs from output i on, for rows [tap, taps_end) and columns
  // [k, k + columns) of taps, and for channels [first, last). Never inline, as set_rows.
  [[gnu::noinline]] void set_window(int64_t n, int64_t oy, int64_t count, int64_t tap, int64_t taps_end, int64_t i,
                                    int64_t k, int64_t columns, int64_t first, int64_t last) {
    const ConvAxis &y = problem_.y, &x = problem_.x;
    const int64_t end = std::min(i + tiles_.chunk, x.out), column = k * x.dilation - x.pad,
                  last_column = column + (columns - 1) * x.dilation;
    window_.count = count;
    window_.grad = grad_row(n, oy);
    window_.image = rows_.data(), window_.image_step = taps_end - tap;
    window_.first = first, window_.last = last;
    if (window_.column != column || first_output_ != i || outputs_end_ != end) {  // divisions take time
      window_.column = column;
      first_output_ = i, outputs_end_ = end;
      window_.begin = std::clamp(ceil_div(-last_column, x.stride), i, end);
      window_.inner = std::clamp(ceil_div(-column, x.stride), window_.begin, end);
      window_.end = std::clamp(floor_div(x.in - 1 - column, x.stride) + 1, window_.inner, end);
      window_.outer = std::clamp(floor_div(x.in - 1 - last_column, x.stride) + 1, window_.inner, window_.end);
    }
    window_.sums = tap_sums_.data() + (tap * x.taps + k) * lanes_;
    window_.ahead.rows = window_.ahead.grad_count = 0;
    if (k == 0 && (tiles_.at_once > 1 || kByPairs))
      set_several_ahead(n, oy + count, first, last);
    else if (k == 0)
      set_rows_ahead(n, oy, i, end, first, last);
  }

  // What to prefetch while several rows of outputs are summed, the last of them before row oy: as many again.
  void set_several_ahead(int64_t n, int64_t oy, int64_t first, int64_t last) {
    const ConvAxis &y = problem_.y, &x = problem_.x;
    const int64_t pixel = problem_.channels, line = 64 / sizeof(T);
    const bool new_image = oy >= y.out, linear = last - first == pixel;
    const int64_t next = new_image ? 0 : oy, image = n + new_image;
    // Pixels of one register are read in the order of memory, which processors see: that was faster.
    if (image == problem_.batch || pixel <= lanes_) return;
    const int64_t pixels = std::min(tiles_.at_once * y.stride, y.in) * x.in, outputs = tiles_.at_once * x.out;
    RowsAhead<T>& ahead = window_.ahead;
    ahead.image = image_ + (image * y.in + std::clamp<int64_t>(next * y.stride - y.pad, 0, y.in - 1)) * x.in * pixel;
    ahead.grad = grad_ + (image * y.out + next) * x.out * pixel;
    ahead.rows = 1;
    ahead.far = (pixels + outputs) * (last - first) * int64_t(sizeof(T)) > kTileBytes / 2;
    if (linear) {
      ahead.image_register = pixels * lanes_, ahead.grad_register = outputs * lanes_;
      ahead.image_count = ceil_div(ahead.image_register, line), ahead.grad_count = ceil_div(ahead.grad_register, line);
      ahead.image_step = ahead.grad_step = line;
    } else {
      ahead.image += first, ahead.grad += first;
      ahead.image_register = ahead.grad_register = lanes_;
      ahead.image_count = pixels, ahead.grad_count = outputs;
      ahead.image_step = ahead.grad_step = pixel;
    }
  }

  // What to prefetch while outputs [i, end) of row oy are summed.
  void set_rows_ahead(int64_t n, int64_t oy, int64_t i, int64_t end, int64_t first, int64_t last) {
    const ConvAxis &y = problem_.y, &x = problem_.x;
    const int64_t pixel = problem_.channels, line = 64 / sizeof(T);
    int64_t outputs = end - i;
    const bool some_columns = x.taps == 1 && x.stride > 1 && pixel >= 2 * line;
    const bool linear = last - first == pixel && !some_columns, new_image = oy + 1 == y.out;
    RowsAhead<T>& ahead = window_.ahead;
    if (rows_between_ >= kManyRows) {  // at a distance that costs no more than this to compute
      const bool met = rows_[0] != nullptr;
      if (i > 0 || !met) return;
      ahead.image = rows_[0] + kPrefetchBytes / sizeof(T);
      ahead.rows = 1;
      ahead.image_register = y.stride * x.in * lanes_;
      ahead.image_count = ceil_div(ahead.image_register, line), ahead.image_step = line;
      return;
    }
    if (y.in == 1 && y.out == 1) {  // the next outputs of the same row, or the first of the next tile
      const TileStep step = end < x.out ? TileStep{} : next_tile_;
      const int64_t at = end < x.out ? end : 0, column = std::max<int64_t>(at * x.stride - x.pad, 0);
      ahead.image = image_ + (n * x.in + column) * pixel + step.of(x.in * pixel);
      ahead.grad = grad_ + (n * x.out + at) * pixel + step.of(x.out * pixel);
      ahead.rows = 1;
      outputs = std::min(tiles_.chunk, x.out - at);
    } else if (!new_image || n + 1 < problem_.batch) {
      const auto [inside, taps_end] = taps_[new_image ? 0 : oy + 1];
      const int64_t tap = new_image ? inside : std::max(inside, seen_taps_);
      const int64_t at = new_image ? -y.pad : (oy + 1) * y.stride - y.pad, row = (n + new_image) * y.in + at;
      const int64_t column = i * x.stride - (linear ? 0 : x.pad);
      ahead.image = image_ + ((row + tap * y.dilation + rows_between_ * y.stride) * x.in + column) * pixel;
      ahead.grad = grad_ + ((n * y.out + oy + 1 + rows_between_) * x.out + i) * pixel;
      ahead.rows = taps_end - tap;
    } else {
      return;
    }
    ahead.row_step = y.dilation * x.in * pixel;
    ahead.far = linear && ahead.rows * x.in * pixel * int64_t(sizeof(T)) > kTileBytes;
    if (linear) {
      ahead.image_register = (ahead.grad_register = outputs * lanes_) * x.stride;
      ahead.image_count = ceil_div(ahead.image_register, line), ahead.grad_count = ceil_div(ahead.grad_register, line);
      ahead.image_step = ahead.grad_step = line;
    } else {
      ahead.image += first, ahead.grad += first;
      ahead.image_register = ahead.grad_register = lanes_;
      ahead.image_count = some_columns ? outputs : outputs * x.stride, ahead.grad_count = outputs;
      ahead.image_step = some_columns ? x.stride * pixel : pixel, ahead.grad_step = pixel;
    }
  }
};

template <class T, bool kByPairs>
void run_pixels(const Problem& problem, const Choice& choice, const Tensor& image, const Tensor& grad,
                const Tensor& weight) {
  using A = acc_t<T>;
  const Problem pixels = stacked(problem, choice.stacked);
  const PixelTiles tiles(pixels, kByPairs, kByPairs ? kPairChannels : vector_lanes<A>(), sizeof(T), sizeof(A));
  const int64_t outputs = tiles.strip * pixels.x.out;
  const WgradWork work{pixels.batch * tiles.strips,
                       tiles.channel_tiles,
                       problem.channels,
                       outputs,
                       outputs * tiles.channels * (problem.y.taps * problem.x.taps + 4),
                       choice.stacked > 1 ? tiles.channel_tiles : 1};
  const T *const from = image.const_data_ptr<T>(), *const g = grad.const_data_ptr<T>();
  const auto make = [&](int64_t part_tiles, double* sums) {
    return WgradPixelsKernel<T, kByPairs>(pixels, tiles, from, g, part_tiles, sums);
  };
  sum_parts<T, kByPairs>(problem, work, make, from, g, weight);
}

}  // namespace

void wgrad_pixels(const Problem& problem, const Choice& choice, const Tensor& image, const Tensor& grad,
                  const Tensor& weight) {
  if (choice.bf16) return run_pixels<BFloat16, true>(problem, choice, image, grad, weight);
  dispatch(problem.dtype, [&](auto zero) { run_pixels<decltype(zero), false>(problem, choice, image, grad, weight); });
}

}  // namespace customops::cpu
