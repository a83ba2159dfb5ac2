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
        interleaved_row_(kWide ? 0 : plan.x.to * plan.block_channels) {}

  template <class I>
  void run(I isa, int64_t item) {
    const int64_t q = item % plan_.strips * plan_.strip, n = item / plan_.strips / plan_.channel_tiles;
    const int64_t c = item / plan_.strips % plan_.channel_tiles * plan_.tile_blocks * plan_.block_channels;
    loader_.load_rows(isa, n, c, q, 0, plan_.rows);
    for (int64_t r = 0; r < int64_t(plan_.y.taps.size()); ++r) write_tile(isa, n, c, q, r);
  }

 private:
  // Whether rows of outputs are so much shorter than those of the buffer that registers best end with each.
  template <class V>
  static bool computes_by_rows(int64_t row, int64_t buffer_row, bool one_channel) {
    return !(kOwnLoads<V> && one_channel) && 5 * ceil_div(row, V::kLanes) * V::kLanes <= 4 * buffer_row;
  }

  // All output rows of phase ry.
  template <class I>
  void write_tile(I isa, int64_t n, int64_t c, int64_t q, int64_t ry) {
    using V = Vec<I::value, A>;
    const AxisTaps& x = plan_.x;
    const int64_t rows = std::min(plan_.strip, plan_.y.periods(ry) - q), lanes = plan_.block_channels,
                  step = plan_.register_stride;
    const int64_t row = x.to * lanes, buffer_row = plan_.pitch * lanes;
    T* const to = to_ + ((n * plan_.channel_tiles + c) * plan_.y.to + q * plan_.y.out_phases + ry) * row;
    const bool direct = kWide && x.out_phases == 1 && row >= 4 * step;
    for (size_t rx = 0; rx < x.taps.size(); ++rx) {
      const int64_t pair = ry * x.taps.size() + rx;
      const A* const weight = weight_ + (c * plan_.tap_count + plan_.first_taps[pair]) * plan_.weight_copies;
      const bool by_rows = !direct && computes_by_rows<V>(x.periods(rx) * lanes, buffer_row, lanes == 1);
      const int64_t runs = direct ? rows : 1, whole = direct || by_rows ? 0 : (rows - 1) * buffer_row;
      for (int64_t run = 0; run < runs; ++run) {
        const A* const from = loader_.data() + run * buffer_row;
        A* const out = direct ? reinterpret_cast<A*>(to + run * plan_.y.out_phases * row)
                              : result_.data() + rx * plan_.strip * buffer_row;
        const OutputRows<A> outputs{from, out, by_rows ? rows : 1, x.periods(rx) * lanes + whole, buffer_row, direct};
        add_run(isa, outputs, plan_.tap_offsets[pair], weight, bias_ + c * plan_.weight_copies, lanes == 1, step);
      }
    }
    if (direct) return;
    if (x.out_phases == 1) return write_rows(isa, result_.data(), to, rows);
    for (int64_t j = 0; j < rows; ++j)
      interleave(isa, result_.data() + j * buffer_row, to + j * plan_.y.out_phases * row);
  }

  // Rows of outputs that are not direct, all at once, because they may be short.
  template <class I>
  void write_rows(I isa, const A* from, T* to, int64_t rows) {
    using V = Vec<I::value, A>;
    int64_t size = plan_.x.to * plan_.block_channels, pitch = plan_.pitch * plan_.block_channels, count = rows;
    const int64_t step = plan_.y.out_phases * size;
    if (size == pitch && size == step) size *= count, count = 1;  // no padding, and no row between
    outline(isa, [=](auto) {
      const int64_t in_step = pitch, out_step = step, whole = size / V::kLanes * V::kLanes, rest = size - whole;
      const A* in = from;
      for (T *out = to, *const end = to + count * out_step; out != end; out += out_step, in += in_step) {
        V v;
        for (int64_t x = 0; x < whole; x += V::kLanes) v.load(in + x), v.store(out + x);
        if (rest > 0) v.load(in + whole), store_part(v, out + whole, rest);
      }
    });
  }

  // Interleaves the rows of the phases of x into a row of the image, in place unless it has to be narrowed.
  template <class I>
  void interleave(I isa, const A* from, T* to) {
    const AxisTaps& x = plan_.x;
    const int64_t lanes = plan_.block_channels, size = plan_.strip * plan_.pitch * lanes;
    const int64_t phases = x.taps.size(), pairs = lanes == 1 && phases == 2 ? x.periods(1) : 0;
    A* const row = kWide ? reinterpret_cast<A*>(to) : interleaved_row_.data();
    {
      A* __restrict const shuffled = row;
      for (int64_t q = 0; q < pairs; ++q) shuffled[2 * q] = from[q], shuffled[2 * q + 1] = from[size + q];
    }
    with_padded_size(lanes, [&](auto room) {  // the next pixel overwrites what is written beyond a pixel
      const int64_t whole = std::max((x.to * lanes - room) / (phases * lanes), pairs);
      A* out = row + pairs * phases * lanes;
      for (int64_t q = pairs; q < whole; ++q)
        for (int64_t r = 0; r < phases; ++r, out += lanes)
          std::memcpy(out, from + r * size + q * lanes, room * sizeof(A));
      for (int64_t i = whole * phases; i < x.to; ++i, out += lanes)
        std::copy_n(from + i % phases * size + i / phases * lanes, lanes, out);
    });
    if constexpr (!kWide) narrow(isa, row, to, x.to * lanes);
  }
};

}  // namespace

void fwd_tiles(const Problem& problem, Direction direction, const ConvTensors& tensors) {
  run_kernel<TilesKernel, false>(problem, direction, {Kernel::fwd_tiles, false, ""}, tensors);
}

}  // namespace customops::cpu
