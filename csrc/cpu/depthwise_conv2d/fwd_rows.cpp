// Forward and dgrad from rows in a buffer, where a register holds channels: for contiguous images, which are transposed
// on the way into the buffer, and for large windows over channels_last images. Each tensor is read once, except for the
// rows that neighbouring strips share, and the result is written once.
#include "fwd.h"
#include "fwd_rows_loops.h"
#include "tile_loader.h"

namespace customops::cpu {
namespace {

// B is what buffers hold.
template <class T, class B>
class RowsKernel {
  using A = acc_t<T>;
  const TilePlan& plan_;
  const A* const weight_;
  T* const to_;
  TileLoader<T, B> loader_;
  Buffer<B> result_;
  std::vector<InputRow<B>> rows_;              // under the windows of a row of outputs or, of whole planes, of all rows
  std::vector<InputRow<B>*> row_ends_;         // of whole planes: for each row of outputs, for each phase
  std::vector<std::vector<int64_t>> columns_;  // of the taps of each phase
  std::vector<OutputRow<B>> outputs_;          // of each phase

 public:
  RowsKernel(const TilePlan& plan, const T* from, const A* weight, const A* bias, T* to)
      : plan_(plan),
        weight_(weight),
        to_(to),
        loader_(plan, plan.y, plan.x, plan.whole_planes ? plan.rows : plan.y.span + 1, from),
        result_(plan.block_channels * ((plan.whole_planes ? plan.y.to : 1) * plan.x.to + plan.block_channels)),
        rows_(plan.y.max_taps() * (plan.whole_planes ? plan.y.to * plan.x.taps.size() : 1)),
        columns_(plan.x.taps.size()) {
    loader_.clears_outside = false;  // rows outside of the image are left out
    const int64_t step = plan.x.out_phases * (plan.channels_last ? plan.channels : plan.block_channels);
    for (size_t r = 0; r < columns_.size(); ++r) {
      for (const auto& tap : plan.x.taps[r]) columns_[r].push_back(loader_.tap_column(tap));
      const auto [inside, inside_end] = loader_.inside(plan.x.taps[r]);
      const BlockPosition position{0, 0, plan.block_channels, 0, 1, 0, inside, inside_end};
      outputs_.emplace_back(plan, rows_.data(), columns_[r], r, loader_.buffer_size, position, bias, step);
    }
    if (!plan.whole_planes) return;
    const int64_t phases = plan.y.out_phases;
    InputRow<B>* end = rows_.data();
    for (int64_t oy = 0; oy < plan.y.to; ++oy)  // the same in all planes
      for (size_t rx = 0; rx < plan.x.taps.size(); ++rx)
        row_ends_.push_back(end = find_rows(oy / phases, oy / phases, oy % phases, rx, end));
  }

  template <class I>
  void run(I isa, int64_t item) {
    const int64_t q = item % plan_.strips * plan_.strip, n = item / plan_.strips / plan_.channel_tiles;
    const int64_t c = item / plan_.strips % plan_.channel_tiles * plan_.tile_blocks * plan_.block_channels;
    for (OutputRow<B>& outputs : outputs_) {
      outputs.channel = plan_.channels_last ? c : c % plan_.own_channels;
      outputs.channels_end = plan_.channels_end(outputs.channel);
    }
    if (plan_.whole_planes) return run_planes(isa, n, c);
    const int64_t phases = plan_.y.taps.size(), rows = std::min(plan_.strip, plan_.y.periods() - q);
    for (int64_t j = 0; j < rows; ++j) {  // rows are used while they are in the L1 cache
      loader_.load_rows(isa, n, c, q, j == 0 ? 0 : j + plan_.y.span, j + plan_.y.span + 1);
      for (int64_t r = 0; r < phases && (q + j) * plan_.y.out_phases + r < plan_.y.to; ++r)
        write_row(isa, n, c, q + j, j, r);
    }
  }

 private:
  // Lists the rows in the buffer under the windows of phases ry and rx in period q, the j-th of a tile. Returns their
  // end. Never inline, because all instruction sets share it.
  [[gnu::noinline]] InputRow<B>* find_rows(int64_t q, int64_t j, int64_t ry, int64_t rx, InputRow<B>* end) {
    const AxisTaps &x = plan_.x, &y = plan_.y;
    const A* weight = weight_ + plan_.first_taps[ry * x.taps.size() + rx] * plan_.block_channels;
    for (const auto& tap : y.taps[ry]) {
      const int64_t i = loader_.image_row(q + tap.shift - y.first, tap.phase);
      if (0 <= i && i < y.from)
        *end++ = {loader_.data() + loader_.row_offset(j + tap.shift - y.first, tap.phase), weight};
      weight += x.taps[rx].size() * plan_.block_channels;
    }
    return end;
  }

  // All the outputs of a register of channels.
  template <class I>
  void run_planes(I isa, int64_t n, int64_t c) {
    const int64_t outputs_of_row = plan_.x.to, phases = plan_.x.taps.size(), rows = plan_.y.to;
    loader_.load_planes(isa, n, c);
    const InputRow<B>* begin = rows_.data();
    for (int64_t oy = 0, window = 0; oy < rows; ++oy)
      for (int64_t rx = 0; rx < phases; ++rx, ++window) {
        outputs_[rx].rows = begin;
        outputs_[rx].rows_end = begin = row_ends_[window];
        add_up<false>(isa, outputs_[rx], result_.data() + (oy * outputs_of_row + rx) * plan_.block_channels);
      }
    write_planes(isa, n, c, 0, rows * outputs_of_row, rows * outputs_of_row);
  }

  // Phase ry in period q of the rows of outputs, the j-th of a tile, for all the channels of it.
  template <class I>
  void write_row(I isa, int64_t n, int64_t c, int64_t q, int64_t j, int64_t ry) {
    using V = Vec<I::value, A>;
    const AxisTaps &x = plan_.x, &y = plan_.y;
    const int64_t oy = q * y.out_phases + ry, pixel = plan_.channels;
    for (int64_t rx = 0; rx < int64_t(x.taps.size()); ++rx) {
      OutputRow<B>& outputs = outputs_[rx];
      outputs.rows_end = find_rows(q, j, ry, rx, rows_.data());
      if (plan_.channels_last)
        add_up<false>(isa, outputs, to_ + ((n * y.to + oy) * x.to + rx) * pixel + c);
      else  // one register of channels
        add_up<false>(isa, outputs, result_.data() + rx * V::kLanes);
    }
    if (plan_.channels_last) return;
    const int64_t tile = plan_.strip * y.out_phases, end = std::min((oy / tile + 1) * tile, y.to);
    write_planes(isa, n, c, oy * x.to, x.to, end * x.to);
  }

  // Transposes result_, `count` pixels from `first` on, into the planes of its channels. Registers may write beyond
  // these pixels, which the next row overwrites, but not from pixel `end` on, where another tile begins.
  template <class I>
  void write_planes(I isa, int64_t n, int64_t c, int64_t first, int64_t count, int64_t end) {
    using V = Vec<I::value, A>;
    const int64_t plane = plan_.y.to * plan_.x.to, channels = std::min<int64_t>(V::kLanes, plan_.channels - c);
    T* const to = to_ + (n * plan_.channels + c) * plane;
    const B* const result = result_.data();
    outline(isa, [=](auto) { transpose_result<V>(result, to, plane, channels, first, count, end); });
  }

  template <class V>
  static void transpose_result(const B* result, T* to, int64_t plane, int64_t channels, int64_t first, int64_t count,
                               int64_t end) {
    for (int64_t x = 0; x < count; x += V::kLanes) {
      TransposeBlock<V, B> block;
#pragma GCC unroll 16
      for (int p = 0; p < V::kLanes; ++p) block.load(p, result + (x + p) * V::kLanes);
      block.transpose();
      const int64_t at = first + x;
      if (at + V::kLanes <= end && channels == V::kLanes) {
#pragma GCC unroll 16
        for (int l = 0; l < V::kLanes; ++l) block.store(l, to + l * plane + at);
        continue;
      }
      const int64_t left = std::min<int64_t>(V::kLanes, count - x);
      if constexpr (V::kLanes * sizeof(A) == 64) {  // a store of a part is one instruction
#pragma GCC unroll 16
        for (int l = 0; l < V::kLanes; ++l)
          if (l < channels) block.store_part(l, to + l * plane + at, left);
      } else {
        T part[V::kLanes][V::kLanes];
#pragma GCC unroll 16
        for (int l = 0; l < V::kLanes; ++l) block.store(l, part[l]);
        for (int l = 0; l < channels; ++l) copy_part<V::kLanes>(part[l], to + l * plane + at, left);
      }
    }
  }
};

}  // namespace

void fwd_rows(const Problem& problem, Direction direction, const Choice& choice, const ConvTensors& tensors) {
  run_kernel<RowsKernel, true>(stacked(problem, choice.stacked), direction, choice, tensors);
}

}  // namespace customops::cpu
