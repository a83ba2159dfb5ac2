// depthwise_conv2d and the gradient of its input for channels_last images, whose pixels are read where they are: each
// tensor is read once and the result is written once; sums stay in registers from the first tap to the last.
#include "fwd.h"
#include "fwd_rows_loops.h"

namespace customops::cpu {
namespace {

template <class T, class B>
class PixelsKernel {
  using A = acc_t<T>;
  const Plan& plan_;
  const T* const from_;
  const A *const weight_, *const bias_;
  T* const image_;
  Buffer<T> last_row_;                         // of the tensor, with room behind it for registers wider than pixels
  std::vector<Row<T>> rows_;                   // that meet a row of the output
  std::vector<std::vector<int64_t>> columns_;  // of the taps of each phase

 public:
  PixelsKernel(const Plan& plan, const T* from, const A* weight, const A* bias, T* to)
      : plan_(plan),
        from_(from),
        weight_(weight),
        bias_(bias),
        image_(to),
        rows_(plan.y.most()),
        columns_(plan.x.taps.size()) {
    if (plan.channels < plan.lanes) {
      const int64_t size = plan.x.from * plan.channels;
      last_row_ = Buffer<T>(size);
      std::copy_n(image_row(plan.batch - 1, plan.y.from - 1), size, last_row_.data());
    }
    for (size_t r = 0; r < columns_.size(); ++r)
      for (const auto& tap : plan.x.taps[r]) columns_[r].push_back(plan.x.column(tap));
  }

  template <class I>
  void run(I isa, int64_t item) {
    const int64_t q = item % plan_.strips * plan_.strip, n = item / plan_.strips / plan_.chunks;
    const int64_t c = item / plan_.strips % plan_.chunks * plan_.groups * plan_.lanes;
    const int64_t phases = plan_.y.taps.size(), rows = std::min(plan_.strip, plan_.y.periods() - q);
    for (int64_t j = 0; j < rows; ++j)
      for (int64_t r = 0; r < phases && (q + j) * plan_.y.out_phases + r < plan_.y.to; ++r)
        write_pixels(isa, n, c, q + j, r);
  }

 private:
  // A row of outputs for all the channels of a tile, from pixels where they are: phase ry in period q.
  template <class I>
  void write_pixels(I isa, int64_t n, int64_t c, int64_t q, int64_t ry) {
    using V = Vec<I::value, A>;
    const AxisTaps &x = plan_.x, &y = plan_.y;
    const int64_t pixel = plan_.channels, row = x.from * pixel;
    T* const to = image_ + (n * y.to + q * y.out_phases + ry) * x.to * pixel + c;
    for (int64_t rx = 0; rx < int64_t(x.taps.size()); ++rx) {
      const A* weight = weight_ + plan_.begins[ry * x.taps.size() + rx] * V::kLanes;
      Row<T>* end = rows_.data();
      int64_t last = 0;
      for (const auto& tap : y.taps[ry]) {
        const int64_t i = (q + tap.shift) * y.in_phases + y.phases[tap.phase];
        last = std::max(last, i);
        const bool copied = plan_.channels < plan_.lanes && n + 1 == plan_.batch && i + 1 == y.from;
        if (0 <= i && i < y.from) *end++ = {copied ? last_row_.data() : image_row(n, i), weight};
        weight += x.taps[rx].size() * V::kLanes;
      }
      const int64_t far = std::min<int64_t>(y.in_phases * row, kAheadBytes / sizeof(T));
      const Ahead<T> ahead{image_row(n, last - y.in_phases + 1) + far, y.out_phases == 1 && rx == 0 ? y.in_phases : 0,
                           row};
      add_up_row<true>(isa, plan_, rows_.data(), end, columns_[rx], rx, c, pixel, {0, 0, pixel, 0, x.in_phases, x.from},
                       bias_, to + rx * pixel, x.out_phases * pixel, ahead);
    }
  }

  const T* image_row(int64_t n, int64_t i) const {
    return from_ + (n * plan_.y.from + i) * plan_.x.from * plan_.channels;
  }
};

}  // namespace

void fwd_pixels(const Problem& problem, Direction direction, const Choice& choice, const Operands& operands) {
  run_kernel<PixelsKernel, true>(problem, direction, choice, operands);
}

}  // namespace customops::cpu
