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
#include <vector>

#include "../strided.h"
#include "../vector.h"
#include "axis.h"
#include "choose.h"

namespace customops::cpu {

constexpr int64_t kTileBytes = 16 << 10;   // of a buffer for one channel: half of a usual L1 cache
constexpr int64_t kLanesBytes = 96 << 10;  // of one for several channels, if its size is free; L2 holds that
constexpr int64_t kAheadBytes = 4 << 10;   // from what is read in place to what is prefetched, at most
constexpr int64_t kChannels = 32;          // of a buffered channels_last tile, about; twice as many if they are small
constexpr int kGroups = 4;                 // registers of a pixel that are copied at once
constexpr int64_t kSlack = 64;             // elements behind a buffer: registers are read whole

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
  AxisTaps y, x;
  int64_t batch, channels;
  bool last;                             // channels_last
  bool whole = false;                    // planes are turned at once, not row by row: their rows are short
  bool in_place = false;                 // whose pixels are read where they are, but for the gradient of the weight
  bool neighbours;                       // a register holds neighbouring pixels, not the channels of one
  int64_t lanes, groups, chunks;         // channels side by side in a buffer; buffers of a tile; tiles for all channels
  int64_t step;                          // elements from one register to the next of the same channels
  int64_t factor;                        // numbers of a weight: one for each of those; one for a single channel
  int64_t strip, strips;                 // periods of a tile; tiles for all of them
  int64_t rows, pitch;                   // of one phase in the buffer
  int64_t pixels;                        // of a tile's output
  int64_t taps = 0;                      // in all the terms
  int64_t kernel;                        // taps of a channel's weight
  std::vector<std::vector<Term>> terms;  // of each pair of output phases
  std::vector<int64_t> begins;           // how many terms come before

  Plan(const Problem& problem, Kernel chosen, const AxisTaps& along_y, const AxisTaps& along_x, int64_t vector,
       int64_t element)
      : y(along_y),
        x(along_x),
        batch(problem.batch),
        channels(problem.channels),
        last(problem.channels_last),
        kernel(problem.y.taps * problem.x.taps) {
    const bool fwd = chosen != Kernel::wgrad_rows && chosen != Kernel::wgrad_tiles;
    neighbours = chosen == Kernel::fwd_tiles || chosen == Kernel::wgrad_tiles;
    in_place = chosen == Kernel::fwd_pixels;
    lanes = !neighbours ? vector : last ? channels : 1;
    step = std::lcm(lanes, vector);
    factor = lanes == 1 ? 1 : step;
    int64_t tile = kChannels * (element < 4 ? 2 : 1);
    const int64_t threads = torch::stable::get_num_threads();
    // All channels of a row that is read in place, or fewer where there are too few rows for the threads.
    if (in_place) tile = std::max(tile, batch * y.periods() >= 8 * threads ? channels : channels / (4 * threads));
    chunks = ceil_div(channels, last ? std::max(tile, lanes) : lanes);
    groups = ceil_div(ceil_div(channels, lanes), chunks);
    chunks = ceil_div(channels, groups * lanes);
    pitch = x.periods() + x.span;
    const int64_t phases = y.phases.size(), row = std::max<int64_t>(pitch * x.phases.size() * phases, 1) * lanes;
    const int64_t most = std::max((lanes > 1 ? kLanesBytes : kTileBytes) / (row * element) - y.span, y.span + 1);
    strips = ceil_div(y.periods(), most);
    if (fwd) {
      if (!neighbours) strips = 1;  // its size is that of the kernel
      const int64_t wanted = 4 * threads / std::max<int64_t>(batch * chunks, 1);
      strips = std::max(strips, std::min(wanted, ceil_div(y.periods(), 4 * (y.span + 1))));
    }
    strip = ceil_div(y.periods(), strips);
    strips = ceil_div(y.periods(), strip);
    rows = strip + y.span;
    if (chosen == Kernel::fwd_rows && !last && strips == 1) {
      const auto waste = [&](int64_t high, int64_t wide) {
        return double(ceil_div(wide, lanes) * high) / double(ceil_div(wide * high, lanes));
      };
      const int64_t bytes = (rows * row + y.to * x.to * lanes) * element;
      whole = bytes <= kLanesBytes && waste(y.from, x.from) + waste(y.to, x.to) > 2.5;
    }
    pixels = strip * y.out_phases * x.to;
    for (const auto& down : y.taps)
      for (const auto& across : x.taps) {
        auto& pair = terms.emplace_back();
        begins.push_back(taps);
        for (const auto& ty : down)
          for (const auto& tx : across) {
            const int64_t row = (tx.phase * phases + ty.phase) * rows + ty.shift - y.first;
            pair.push_back({(row * pitch + tx.shift - x.first) * lanes, ty.index * problem.x.taps + tx.index});
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

}  // namespace customops::cpu
