// depthwise_conv2d and the gradient of its input where a register holds neighbouring pixels, across the ends of rows
// too: of one channel, or of all if those are few. Each tensor is read once, but for the rows that neighbouring strips
// share, and the result is written once.
#include "fwd.h"
#include "fwd_tiles_loops.h"
#include "source.h"

namespace customops::cpu {
namespace {

template <class T, class A>
class TilesKernel {
  static constexpr bool kWide = std::is_same_v<T, A>;
  const Plan& plan_;
  const A *const weight_, *const bias_;
  T* const image_;
  Source<T> source_;
  Buffer<A> result_, line_;

 public:
  TilesKernel(const Plan& plan, const T* from, const A* weight, const A* bias, T* to)
      : plan_(plan),
        weight_(weight),
        bias_(bias),
        image_(to),
        source_(plan, plan.y, plan.x, plan.rows, from),
        result_(plan.lanes * plan.strip * plan.pitch * int64_t(plan.x.taps.size())),
        line_(plan.x.periods() * int64_t(plan.x.taps.size()) * plan.lanes) {}  // whole periods

  template <class I>
  void run(I isa, int64_t item) {
    const int64_t q = item % plan_.strips * plan_.strip, n = item / plan_.strips / plan_.chunks;
    const int64_t c = item / plan_.strips % plan_.chunks * plan_.groups * plan_.lanes;
    source_.read(isa, n, c, q, 0, plan_.rows);
    for (int64_t r = 0; r < int64_t(plan_.y.taps.size()); ++r) write_tile(isa, n, c, q, r);
  }

 private:
  // All output rows of phase ry. A register holds neighbours in a row, or beyond its end those in the next.
  template <class I>
  void write_tile(I isa, int64_t n, int64_t c, int64_t q, int64_t ry) {
    const AxisTaps& x = plan_.x;
    const int64_t rows = std::min(plan_.strip, plan_.y.periods(ry) - q), lanes = plan_.lanes, step = plan_.step;
    const int64_t row = x.to * lanes, buffer_row = plan_.pitch * lanes;
    T* const to = image_ + ((n * plan_.chunks + c) * plan_.y.to + q * plan_.y.out_phases + ry) * row;
    const bool direct = kWide && x.out_phases == 1 && row >= 4 * step;
    for (size_t rx = 0; rx < x.taps.size(); ++rx) {
      const int64_t pair = ry * x.taps.size() + rx;
      const A* const weight = weight_ + (c * plan_.taps + plan_.begins[pair]) * plan_.factor;
      const int64_t runs = direct ? rows : 1, length = x.periods(rx) * lanes + (direct ? 0 : (rows - 1) * buffer_row);
      for (int64_t run = 0; run < runs; ++run) {
        const A* const from = source_.data() + run * buffer_row;
        A* const out = direct ? reinterpret_cast<A*>(to + run * plan_.y.out_phases * row)
                              : result_.data() + rx * plan_.strip * buffer_row;
        add_run(isa, from, plan_.terms[pair], weight, bias_ + c * plan_.factor, lanes == 1, step, length, direct, out);
      }
    }
    if (!direct)
      for (int64_t j = 0; j < rows; ++j) weave(isa, result_.data() + j * buffer_row, to + j * plan_.y.out_phases * row);
  }

  // A row of each phase makes a row of the image.
  template <class I>
  void weave(I isa, const A* from, T* to) {
    const AxisTaps& x = plan_.x;
    const int64_t lanes = plan_.lanes;
    if (x.out_phases > 1) {
      const int64_t size = plan_.strip * plan_.pitch * lanes;
      const int64_t pairs = lanes == 1 && x.taps.size() == 2 ? x.periods(1) : 0;
      A* __restrict const line = line_.data();
      for (int64_t q = 0; q < pairs; ++q) line[2 * q] = from[q], line[2 * q + 1] = from[size + q];  // shuffles
      with_room(lanes, [&](auto room) {  // what is written beyond the end of a pixel is overwritten by the next
        A* to = line + pairs * x.out_phases;
        for (int64_t q = pairs; q < x.periods(); ++q)
          for (int64_t r = 0; r < int64_t(x.taps.size()); ++r, to += lanes)
            std::memcpy(to, from + r * size + q * lanes, room * sizeof(A));
      });
      from = line;
    }
    if constexpr (kWide)
      std::memcpy(to, from, x.to * lanes * sizeof(T));
    else
      narrow(isa, from, to, x.to * lanes);
  }
};

}  // namespace

void fwd_tiles(const Problem& problem, Direction direction, const Operands& operands) {
  run_kernel<TilesKernel, false>(problem, direction, {Kernel::fwd_tiles, false, ""}, operands);
}

}  // namespace customops::cpu
