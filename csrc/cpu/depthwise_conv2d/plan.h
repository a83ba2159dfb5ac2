// How the CPU kernels of depthwise_conv2d cut images into tiles, and how a tile lies in its buffers.
//
// A tile is a strip of rows of some channels. Its rows are copied into a small ring of buffer rows. On the way they are
// widened to the type of the arithmetic (unless the arithmetic takes them as they are), padded with zeros, and split by
// phase: for a stride of s, a phase has every s-th row and column. Each tap is then a row and an offset, whatever the
// stride, dilation and padding are, and neighbouring outputs read neighbouring pixels.
//
// There are two ways to fill a register:
// - With channels: a pixel's channels lie side by side. Contiguous images are transposed for that, and the results are
//   transposed back.
// - With pixels (vectorizes_pixels), where a pixel has at most half as many channels as a register has lanes, or, for
//   some gradients of the weight on ARM, as many. The pixels have one channel (contiguous images) or all channels
//   (channels_last); weights repeat in the same order. A tile is then one long row: registers continue across the ends
//   of rows, and what they compute there is dropped.
#pragma once

#include <cstring>
#include <numeric>
#include <vector>

#include "../strided.h"
#include "../vector.h"
#include "axis.h"
#include "choose.h"

namespace customops::cpu {

constexpr int64_t kTileBytes = 16 << 10;      // of a buffer for one channel: half of a usual L1 cache
constexpr int64_t kBufferBytes = 96 << 10;    // of a buffer for several channels, if its size is free; fits into L2
constexpr int64_t kWholeImageBytes = 768;     // of one channel in a buffer that holds images whole, at most
constexpr int64_t kShortRowsBytes = 1 << 10;  // the same where rows are short and buffers float32, of 16-bit images too
constexpr int64_t kShortRows = 14;  // outputs of a short row, at most: to start on it costs as much as its sums
constexpr int64_t kWholeTileBytes = 24 << 10;  // of all channels in such a buffer and the sums of their taps, about
constexpr int64_t kWideTileBytes = 80 << 10;   // the same: wide tiles read far memory by longer pieces
constexpr int64_t kManyElements = 3 << 19;     // of all images: they are far, beyond the L2 cache
constexpr int64_t kPrefetchBytes = 4 << 10;    // from what is read in place to what is prefetched, at least
constexpr int64_t kPrefetchPixels = 8;         // the same, of outputs: where pixels have many channels
constexpr int64_t kTileChannels = 32;          // of a buffered channels_last tile, about; twice as many 16-bit ones
constexpr int64_t kFewestTiles = 16;           // of wgrad, whatever the number of threads
constexpr int64_t kMaxTileChannels = 8;        // of the images that fwd_tiles computes, at most
constexpr int kBlocksAtOnce = 4;               // registers of a pixel that are copied at once
constexpr int64_t kSlack = 64;                 // elements behind a buffer: registers are read whole

// The first channel of the register for channels from c on, if images are read in place. The last register of a pixel
// ends with the pixel's last channel, so it repeats channels of the register before.
inline int64_t first_channel(int64_t c, int64_t channels, int64_t lanes) {
  return std::clamp<int64_t>(channels - lanes, 0, c);
}

// How many taps of a row, from tap `begin` on, fwd_rows adds for all rows before it goes on (with_taps and add_phases
// in fwd_rows_loops.h). fwd_tiles has the same order, so that a result does not depend on how many images a call has.
inline int64_t run_of_taps(const std::vector<AxisTaps::Tap>& taps, int64_t begin) {
  const int64_t all = taps.size();
  const auto next_to = [&](int64_t i) {  // tap i - 1
    return taps[i].phase == taps[i - 1].phase && taps[i].shift == taps[i - 1].shift + 1;
  };
  int64_t neighbours = 1;
  while (begin + neighbours < all && next_to(begin + neighbours)) ++neighbours;
  const bool side_by_side = taps[0].phase == taps[all - 1].phase && taps[all - 1].shift - taps[0].shift == all - 1;
  if (side_by_side && all >= 7) return begin == 0 ? all / 7 * 7 : begin % 7 == 0 && all - begin >= 4 ? 4 : all - begin;
  if (all < 4 || (side_by_side && all == 5) || (kOldest<Capability::baseline> && capability() == Capability::baseline))
    return all - begin;
  return neighbours < 3 ? neighbours : neighbours % 3 == 1 ? 4 : 3;
}

// A tile's buffer is [phase of x][phase of y][row][column][channel of a block].
struct TilePlan {
  struct TapOffset {
    int64_t offset, tap;  // elements into the buffer; index into the kernel
  };
  AxisTaps y, x;
  int64_t batch, channels;
  int64_t weight_channels;  // those of the weight, which stacked images share
  int64_t own_channels;     // those with packed weights of their own: all in place, else until weights repeat
  bool channels_last;
  bool whole_planes = false;    // planes are transposed at once, not row by row: their rows are short
  bool whole_images = false;    // small channels_last images are loaded at once, and all their rows are summed at once
  bool reads_in_place = false;  // images are not copied into buffers
  bool vectorizes_pixels;       // registers hold neighbouring pixels, not the channels of one
  int64_t block_channels;       // side by side in a buffer; each block of channels has a buffer
  int64_t tile_blocks;          // blocks of channels of a tile
  int64_t channel_tiles;        // tiles for all channels
  int64_t register_stride;      // elements from one register to the next with the same channels
  int64_t weight_copies;        // elements of a packed weight: register_stride, or 1 for a single channel
  int64_t strip, strips;        // periods of a tile; tiles for all periods
  int64_t rows, pitch;          // of one phase in the buffer
  int64_t tile_pixels;          // outputs of a tile and channel
  int64_t tap_count = 0;        // of all the pairs of phases
  int64_t kernel_taps;          // of a channel's weight
  std::vector<std::vector<TapOffset>> tap_offsets;  // of each pair of output phases
  std::vector<int64_t> first_taps;                  // of each pair: how many taps the pairs before it have

  TilePlan(const Problem& problem, Kernel kernel, const AxisTaps& along_y, const AxisTaps& along_x,
           int64_t register_lanes, int64_t element_bytes)
      : y(along_y),
        x(along_x),
        batch(problem.batch),
        channels(problem.channels),
        weight_channels(problem.channels / problem.stacked),
        channels_last(problem.channels_last),
        kernel_taps(problem.y.taps * problem.x.taps) {
    const bool fwd = kernel != Kernel::wgrad_rows && kernel != Kernel::wgrad_tiles;
    vectorizes_pixels = kernel == Kernel::fwd_tiles || kernel == Kernel::wgrad_tiles;
    reads_in_place = kernel == Kernel::fwd_pixels;
    block_channels = !vectorizes_pixels ? register_lanes : channels_last ? channels : 1;
    register_stride = std::lcm(block_channels, register_lanes);
    weight_copies = block_channels == 1 ? 1 : register_stride;
    own_channels = weight_channels < channels && !reads_in_place ? std::lcm(weight_channels, block_channels) : channels;
    own_channels = std::min(own_channels, channels);
    int64_t tile = kTileChannels * (element_bytes < 4 ? 2 : 1);
    const int64_t threads = torch::stable::get_num_threads();
    // All channels of a row that is read in place, which is then one stretch of memory, or fewer where there are too
    // few rows for the threads.
    const bool whole_rows = threads == 1 || batch * y.periods() >= 8 * threads;
    if (reads_in_place) tile = std::max(tile, whole_rows ? channels : channels / (4 * threads));
    // Pixels that share cache lines are read whole, if that leaves work for the threads and rings that fit the L1
    // cache.
    if (kernel == Kernel::wgrad_rows && channels_last && x.phases.size() == 1 && channels % kTileChannels != 0) {
      const int64_t ring = (y.span + 1) * y.phases.size() * (x.periods() + x.span) * element_bytes;
      tile = std::max(tile, std::min(kTileBytes / ring, channels * batch / kFewestTiles));
    }
    if (kernel == Kernel::wgrad_rows && channels_last && has_window() && y.to > 1) {
      const int64_t pixels = (y.periods() + y.span) * y.phases.size() * (x.periods() + x.span);
      const int64_t bytes = (pixels + y.taps[0].size() * x.taps[0].size()) * element_bytes;
      const int64_t most = element_bytes == 4 && x.to <= kShortRows ? kShortRowsBytes : kWholeImageBytes;
      whole_images = pixels * element_bytes <= (batch > 1 ? most : most * 2 / 3);
      if (whole_images) tile = whole_tile(bytes) / block_channels * block_channels;
    }
    channel_tiles = ceil_div(channels, channels_last ? std::max(tile, block_channels) : block_channels);
    tile_blocks = ceil_div(ceil_div(channels, block_channels), channel_tiles);
    channel_tiles = ceil_div(channels, tile_blocks * block_channels);

    pitch = x.periods() + x.span;
    const int64_t phases = y.phases.size(),
                  buffer_row = std::max<int64_t>(pitch * x.phases.size() * phases, 1) * block_channels;
    const int64_t max_strip =
        std::max((block_channels > 1 ? kBufferBytes : kTileBytes) / (buffer_row * element_bytes) - y.span, y.span + 1);
    strips = ceil_div(y.periods(), max_strip);
    if (fwd) {
      if (!vectorizes_pixels) strips = 1;  // the buffer is a ring as high as the kernel
      const int64_t useful_strips = 4 * threads / std::max<int64_t>(batch * channel_tiles, 1);
      strips = std::max(strips, std::min(useful_strips, ceil_div(y.periods(), 4 * (y.span + 1))));
    }
    strip = ceil_div(y.periods(), strips);
    strips = ceil_div(y.periods(), strip);
    rows = strip + y.span;
    whole_planes = transposes_whole_planes(kernel, rows * buffer_row * element_bytes, element_bytes);
    tile_pixels = strip * y.out_phases * x.to;

    for (const auto& down : y.taps)
      for (const auto& across : x.taps) list_taps(down, across, kernel == Kernel::fwd_tiles, problem.x.taps);
  }

  // Lists the taps of a pair of phases, in runs (see run_of_taps) or row by row.
  void list_taps(const std::vector<AxisTaps::Tap>& down, const std::vector<AxisTaps::Tap>& across, bool in_runs,
                 int64_t kernel_width) {
    auto& pair = tap_offsets.emplace_back();
    first_taps.push_back(tap_count);
    for (size_t begin = 0, end; begin < across.size(); begin = end) {
      end = in_runs ? begin + run_of_taps(across, begin) : across.size();
      for (const auto& ty : down)
        for (size_t i = begin; i < end; ++i) {
          const auto& tx = across[i];
          const int64_t row = (tx.phase * int64_t(y.phases.size()) + ty.phase) * rows + ty.shift - y.first;
          pair.push_back({(row * pitch + tx.shift - x.first) * block_channels, ty.index * kernel_width + tx.index});
        }
    }
    tap_count += pair.size();
  }

  // How many channels to take of whole images, about. bytes: of each, in the buffer and for the sums of its taps.
  int64_t whole_tile(int64_t bytes) const {
    const bool many = batch * channels * y.from * x.from > kManyElements;
    const int64_t least = (channels % kTileChannels == 0 ? 1 : 2) * kTileChannels,
                  most = (many ? 4 : 2) * kTileChannels;
    return std::clamp((many ? kWideTileBytes : kWholeTileBytes) / bytes, least, most);
  }

  // Whether wgrad_rows has loops for the taps of a row: so many neighbours. The oldest machines have none.
  bool has_window() const {
    const auto& taps = x.taps[0];
    const int64_t columns = taps.size();
    const bool oldest = kOldest<Capability::baseline> && capability() == Capability::baseline;
    return !oldest && x.phases.size() == 1 && taps.back().shift - taps[0].shift + 1 == columns &&
           (columns == 3 || columns == 5 || columns == 7);
  }

  // Whether planes are transposed at once, which wastes no registers at the ends of their rows. image_bytes: of the
  // buffer for what is read.
  bool transposes_whole_planes(Kernel kernel, int64_t image_bytes, int64_t element_bytes) const {
    const bool wgrad = kernel == Kernel::wgrad_rows;
    if ((kernel != Kernel::fwd_rows && !wgrad) || channels_last || strips > 1) return false;
    const auto waste = [&](int64_t high, int64_t wide) {  // of registers, row by row, to those of whole planes
      return double(ceil_div(wide, block_channels) * high) / double(ceil_div(wide * high, block_channels));
    };
    const int64_t bytes = image_bytes + y.to * x.to * block_channels * element_bytes;
    const double wasted = waste(y.from, x.from) + waste(y.to, x.to);
    // Wgrad then has one long row, which pays unless a stride leaves out rows.
    if (wgrad && int64_t(y.phases.size()) == y.in_phases) return bytes <= 2 * kBufferBytes;
    return bytes <= kBufferBytes && wasted > (wgrad ? 2.5 : 2.05);
  }

  int64_t packed_channels() const { return ceil_div(own_channels, block_channels) * weight_copies; }
  int64_t tile_outputs() const { return tile_pixels * block_channels * tile_blocks; }
  // The end of the channels of the tile that begins with channel c.
  int64_t channels_end(int64_t c) const { return std::min(c + block_channels * tile_blocks, channels); }
};

// element(i) of a weight or a bias of dtype T, or of float32, which is rounded to T.
template <class T>
auto parameter(const Tensor& t) {
  const bool float32 = t.scalar_type() == ScalarType::Float;
  return [data = t.const_data_ptr(), float32](int64_t i) {
    return acc_t<T>(float32 ? T(static_cast<const float*>(data)[i]) : static_cast<const T*>(data)[i]);
  };
}

// Copies n elements in the type of the arithmetic.
template <class T, class I>
void widen_row(I isa, const T* from, acc_t<T>* to, int64_t n) {
  if constexpr (std::is_same_v<T, acc_t<T>>)
    std::copy_n(from, n, to);
  else
    widen(isa, from, to, n);
}

// 64-byte aligned zeros.
template <class A>
class Buffer {
  std::vector<A> memory_;

 public:
  explicit Buffer(int64_t n = 0) : memory_(n + kSlack + 64 / sizeof(A)) {}
  A* data() { return reinterpret_cast<A*>((reinterpret_cast<uintptr_t>(memory_.data()) + 63) / 64 * 64); }
};

}  // namespace customops::cpu
