// Forward and dgrad for few channels: a register holds neighbouring pixels, of one channel or of all, also across the
// ends of rows. Each tensor is read once, except for the rows that neighbouring strips share, and the result is written
// once.
#include "fwd.h"
#include "fwd_tiles_loops.h"
#include "tile_loader.h"

namespace customops::cpu {
namespace {

template <class T, class A>
class TilesKernel {
  static constexpr bool kWide = std::is_same_v<T, A>;
  const TilePlan& plan_;
  const A *const weight_, *const bias_;
  T* const to_;
  TileLoader<T> loader_;
  Buffer<A> result_, interleaved_row_;

 public:
  TilesKernel(const TilePlan& plan, const T* from, const A* weight, const A* bias, T* to)
      : plan_(plan),
        weight_(weight),
        bias_(bias),
        to_(to),
        loader_(plan, plan.y, plan.x, plan.rows, from),
        result_(plan.block_channels * plan.strip * plan.pitch * int64_t(plan.x.taps.size())),
        interleaved_row_(plan.x.periods() * int64_t(plan.x.taps.size()) * plan.block_channels) {}  // whole periods

  template <class I>
  void run(I isa, int64_t item) {
    const int64_t q = item % plan_.strips * plan_.strip, n = item / plan_.strips / plan_.channel_tiles;
    const int64_t c = item / plan_.strips % plan_.channel_tiles * plan_.tile_blocks * plan_.block_channels;
    loader_.load_rows(isa, n, c, q, 0, plan_.rows);
    for (int64_t r = 0; r < int64_t(plan_.y.taps.size()); ++r) write_tile(isa, n, c, q, r);
  }

 private:
  // All output rows of phase ry.
  template <class I>
  void write_tile(I isa, int64_t n, int64_t c, int64_t q, int64_t ry) {
    const AxisTaps& x = plan_.x;
    const int64_t rows = std::min(plan_.strip, plan_.y.periods(ry) - q), lanes = plan_.block_channels,
                  step = plan_.register_stride;
    const int64_t row = x.to * lanes, buffer_row = plan_.pitch * lanes;
    T* const to = to_ + ((n * plan_.channel_tiles + c) * plan_.y.to + q * plan_.y.out_phases + ry) * row;
    const bool direct = kWide && x.out_phases == 1 && row >= 4 * step;
    for (size_t rx = 0; rx < x.taps.size(); ++rx) {
      const int64_t pair = ry * x.taps.size() + rx;
      const A* const weight = weight_ + (c * plan_.tap_count + plan_.first_taps[pair]) * plan_.weight_copies;
      const int64_t runs = direct ? rows : 1, length = x.periods(rx) * lanes + (direct ? 0 : (rows - 1) * buffer_row);
      for (int64_t run = 0; run < runs; ++run) {
        const A* const from = loader_.data() + run * buffer_row;
        A* const out = direct ? reinterpret_cast<A*>(to + run * plan_.y.out_phases * row)
                              : result_.data() + rx * plan_.strip * buffer_row;
        add_run(isa, from, plan_.tap_offsets[pair], weight, bias_ + c * plan_.weight_copies, lanes == 1, step, length,
                direct, out);
      }
    }
    if (!direct)
      for (int64_t j = 0; j < rows; ++j)
        interleave(isa, result_.data() + j * buffer_row, to + j * plan_.y.out_phases * row);
  }

  // Interleaves the rows of the phases of x into a row of the image.
  template <class I>
  void interleave(I isa, const A* from, T* to) {
    const AxisTaps& x = plan_.x;
    const int64_t lanes = plan_.block_channels;
    if (x.out_phases > 1) {
      const int64_t size = plan_.strip * plan_.pitch * lanes;
      const int64_t pairs = lanes == 1 && x.taps.size() == 2 ? x.periods(1) : 0;
      A* __restrict const row = interleaved_row_.data();
      for (int64_t q = 0; q < pairs; ++q) row[2 * q] = from[q], row[2 * q + 1] = from[size + q];  // shuffles
      with_padded_size(lanes, [&](auto room) {  // the next pixel overwrites what is written beyond a pixel
        A* to = row + pairs * x.out_phases;
        for (int64_t q = pairs; q < x.periods(); ++q)
          for (int64_t r = 0; r < int64_t(x.taps.size()); ++r, to += lanes)
            std::memcpy(to, from + r * size + q * lanes, room * sizeof(A));
      });
      from = row;
    }
    if constexpr (kWide)
      std::memcpy(to, from, x.to * lanes * sizeof(T));
    else
      narrow(isa, from, to, x.to * lanes);
  }
};

}  // namespace

void fwd_tiles(const Problem& problem, Direction direction, const ConvTensors& tensors) {
  run_kernel<TilesKernel, false>(problem, direction, {Kernel::fwd_tiles, false, ""}, tensors);
}

}  // namespace customops::cpu
