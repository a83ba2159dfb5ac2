// depthwise_conv2d and the gradient of its input where a register holds channels, of rows in a buffer: for contiguous
// images, which are turned on the way there, and for large windows over channels_last ones. Each tensor is read once,
// but for the rows that neighbouring strips share, and the result is written once.
#include "fwd.h"
#include "fwd_rows_loops.h"
#include "source.h"

namespace customops::cpu {
namespace {

// B is what buffers hold.
template <class T, class B>
class RowsKernel {
  using A = acc_t<T>;
  const Plan& plan_;
  const A *const weight_, *const bias_;
  T* const image_;
  Source<T, B> source_;
  Buffer<B> result_;
  std::vector<Row<B>> rows_;                   // that meet a row of the output
  std::vector<std::vector<int64_t>> columns_;  // of the taps of each phase

 public:
  RowsKernel(const Plan& plan, const T* from, const A* weight, const A* bias, T* to)
      : plan_(plan),
        weight_(weight),
        bias_(bias),
        image_(to),
        source_(plan, plan.y, plan.x, plan.whole ? plan.rows : plan.y.span + 1, from),
        result_(plan.lanes * ((plan.whole ? plan.y.to : 1) * plan.x.to + plan.lanes)),
        rows_(plan.y.most()),
        columns_(plan.x.taps.size()) {
    source_.clears = false;  // rows outside of the image are left out
    for (size_t r = 0; r < columns_.size(); ++r)
      for (const auto& tap : plan.x.taps[r]) columns_[r].push_back(source_.column(tap));
  }

  template <class I>
  void run(I isa, int64_t item) {
    const int64_t q = item % plan_.strips * plan_.strip, n = item / plan_.strips / plan_.chunks;
    const int64_t c = item / plan_.strips % plan_.chunks * plan_.groups * plan_.lanes;
    const int64_t phases = plan_.y.taps.size(), rows = std::min(plan_.strip, plan_.y.periods() - q);
    if (plan_.whole) source_.read_whole_planes(isa, n, c);
    for (int64_t j = 0; j < rows; ++j) {  // what is read is used while it is in the L1 cache
      if (!plan_.whole) source_.read(isa, n, c, q, j == 0 ? 0 : j + plan_.y.span, j + plan_.y.span + 1);
      for (int64_t r = 0; r < phases && (q + j) * plan_.y.out_phases + r < plan_.y.to; ++r)
        write_row(isa, n, c, q + j, q, r);
    }
    if (plan_.whole) write_planes<Vec<I::value, A>>(n, c, 0, plan_.y.to * plan_.x.to, plan_.y.to * plan_.x.to);
  }

 private:
  // A row of outputs for all the channels of a tile, from the buffer: phase ry in period q of a tile that begins with
  // period q0.
  template <class I>
  void write_row(I isa, int64_t n, int64_t c, int64_t q, int64_t q0, int64_t ry) {
    using V = Vec<I::value, A>;
    const AxisTaps &x = plan_.x, &y = plan_.y;
    const int64_t oy = q * y.out_phases + ry, pixel = plan_.channels;
    for (int64_t rx = 0; rx < int64_t(x.taps.size()); ++rx) {
      const A* weight = weight_ + plan_.begins[ry * x.taps.size() + rx] * V::kLanes;
      Row<B>* end = rows_.data();
      for (const auto& tap : y.taps[ry]) {
        const int64_t i = source_.row(q + tap.shift - y.first, tap.phase);
        if (0 <= i && i < y.from)
          *end++ = {source_.data() + source_.place(q - q0 + tap.shift - y.first, tap.phase), weight};
        weight += x.taps[rx].size() * V::kLanes;
      }
      const Place place{0, 0, V::kLanes, 0, 1, 0};
      if (plan_.last)
        add_up_row<false>(isa, plan_, rows_.data(), end, columns_[rx], rx, c, source_.size, place, bias_,
                          image_ + ((n * y.to + oy) * x.to + rx) * pixel + c, x.out_phases * pixel);
      else
        add_up_row<false>(isa, plan_, rows_.data(), end, columns_[rx], rx, c, source_.size, place, bias_,
                          result_.data() + ((plan_.whole ? oy * x.to : 0) + rx) * V::kLanes, x.out_phases * V::kLanes);
    }
    if (plan_.last || plan_.whole) return;
    const int64_t tile = plan_.strip * y.out_phases, end = std::min((oy / tile + 1) * tile, y.to);
    write_planes<V>(n, c, oy * x.to, x.to, end * x.to);
  }

  // What result_ holds, `count` pixels from `first` on, goes to the planes of its channels. What a register has beyond
  // them is overwritten by the next row, and not written from pixel `end` on, where another tile begins.
  template <class V>
  void write_planes(int64_t n, int64_t c, int64_t first, int64_t count, int64_t end) {
    const int64_t plane = plan_.y.to * plan_.x.to, channels = std::min<int64_t>(V::kLanes, plan_.channels - c);
    T* const to = image_ + (n * plan_.channels + c) * plane;
    for (int64_t x = 0; x < count; x += V::kLanes) {
      Square<V, B> square;
#pragma GCC unroll 16
      for (int p = 0; p < V::kLanes; ++p) square.load(p, result_.data() + (x + p) * V::kLanes);
      square.turn();
      const int64_t at = first + x;
      if (at + V::kLanes <= end && channels == V::kLanes) {
#pragma GCC unroll 16
        for (int l = 0; l < V::kLanes; ++l) square.store(l, to + l * plane + at);
      } else {
        T rest[V::kLanes][V::kLanes];
#pragma GCC unroll 16
        for (int l = 0; l < V::kLanes; ++l) square.store(l, rest[l]);
        const int64_t left = std::min<int64_t>(V::kLanes, count - x);
        for (int l = 0; l < channels; ++l) copy_part<V::kLanes>(rest[l], to + l * plane + at, left);
      }
    }
  }
};

}  // namespace

void fwd_rows(const Problem& problem, Direction direction, const Choice& choice, const Operands& operands) {
  run_kernel<RowsKernel, true>(problem, direction, choice, operands);
}

}  // namespace customops::cpu
