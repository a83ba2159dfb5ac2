// Wgrad from rows in a buffer: products of image and gradient, a register of sums for each tap.
#include "tile_loader.h"
#include "wgrad.h"
#include "wgrad_loops.h"
#include "wgrad_sums.h"

namespace customops::cpu {
namespace {

// Sums the taps of each channel over one part of the tiles.
template <class T>
class WgradKernel {
  using A = acc_t<T>;
  const TilePlan& plan_;
  const AxisTaps y_, x_;
  const int64_t part_tiles_;
  const T* const grad_;
  double* const sums_;
  // Whether a strip is one long row: between the rows of grad there are zeros. So it is for registers of pixels, and
  // for planes that are transposed at once. Other registers of channels go row by row, as in the forward pass.
  const bool whole_strips_;
  const bool loads_all_;  // whether the buffer has room for all rows of a strip
  TileLoader<T> image_loader_, grad_loader_;
  Buffer<A> tap_sums_;                         // [channels of a buffer][tap][element of a step]
  std::vector<std::vector<int64_t>> offsets_;  // of the taps, for each row of the ring
  TileStep next_tile_;                         // from a whole image
  int64_t window_columns_ = 0;                 // of taps, if they are neighbours; else 0

 public:
  // sums: [part][tap][channel]
  WgradKernel(const TilePlan& plan, const T* image, const T* grad, int64_t tiles, double* sums)
      : plan_(plan),
        y_(identity_axis(plan.y.to)),
        x_(identity_axis(plan.x.to)),
        part_tiles_(tiles),
        grad_(grad),
        sums_(sums),
        whole_strips_(plan.vectorizes_pixels || plan.whole_planes),
        loads_all_(whole_strips_ || plan.whole_images),
        image_loader_(plan, plan.y, plan.x, loads_all_ ? plan.rows : plan.y.span + 1, image),
        grad_loader_(plan, y_, x_, whole_strips_ ? plan.strip : 1, grad),
        tap_sums_(plan.tile_blocks * plan.tap_count * plan.register_stride),
        offsets_(loads_all_ ? 1 : plan.y.span + 1) {
    if (!loads_all_) image_loader_.clears_outside = true;  // each row of the ring overwrites another
    for (size_t j = 0; j < offsets_.size(); ++j)
      for (const auto& ty : plan.y.taps[0])
        for (const auto& tx : plan.x.taps[0])
          offsets_[j].push_back(image_loader_.row_offset(j + ty.shift - plan.y.first, ty.phase) +
                                image_loader_.tap_column(tx) * plan.block_channels);
    const auto& across = plan.x.taps[0];
    if (!plan.vectorizes_pixels &&
        image_loader_.tap_column(across.back()) - image_loader_.tap_column(across[0]) + 1 == int64_t(across.size()))
      window_columns_ = across.size();
  }

  template <class I>
  void run(I isa, int64_t item) {
    const int64_t part = item / plan_.channel_tiles,
                  first = item % plan_.channel_tiles * plan_.tile_blocks * plan_.block_channels;
    std::fill_n(tap_sums_.data(), plan_.tile_blocks * plan_.tap_count * plan_.register_stride, A(0));
    for (int64_t tile = part * part_tiles_; tile < std::min((part + 1) * part_tiles_, plan_.batch * plan_.strips);
         ++tile) {
      const int64_t n = tile / plan_.strips, q = tile % plan_.strips * plan_.strip;
      const int64_t rows = std::min(plan_.strip, plan_.y.to - q);
      if (plan_.whole_planes) image_loader_.load_planes(isa, n, first), grad_loader_.load_planes(isa, n, first);
      if (plan_.whole_images) {
        next_tile_ = next_tile(n, part * part_tiles_, std::min((part + 1) * part_tiles_, plan_.batch), first,
                               plan_.tile_blocks * plan_.block_channels, plan_.channels);
        image_loader_.prefetch_distance = next_tile_.of(plan_.y.from * plan_.x.from * plan_.channels);
      }
      const int64_t at_once = plan_.whole_images && in_place(isa, n, rows - 1) ? rows : 1;
      for (int64_t j = 0; j < (whole_strips_ ? 1 : rows); j += at_once) add_rows(isa, n, first, q, j, at_once);
    }
    const A* from = tap_sums_.data();
    for (int64_t c = first; c < plan_.channels_end(first);
         c += plan_.block_channels, from += plan_.tap_count * plan_.register_stride)
      for (int64_t t = 0; t < plan_.tap_count; ++t) {
        double* const to = sums_ + (part * plan_.kernel_taps + plan_.tap_offsets[0][t].tap) * plan_.channels + c;
        const int64_t count = std::min(plan_.block_channels, plan_.channels - c);
        for (int64_t i = t * plan_.register_stride; i < (t + 1) * plan_.register_stride; i += plan_.block_channels)
          for (int64_t l = 0; l < count; ++l) to[l] += from[i + l];
      }
  }

 private:
  // A function of its own for each instruction set: both loaders share it.
  template <class I>
  static void load_rows(I isa, TileLoader<T>& loader, int64_t n, int64_t c, int64_t q, int64_t begin, int64_t end) {
    outline(isa, [=, &loader](auto) { loader.load_rows(isa, n, c, q, begin, end); });
  }

  // A row of grad, if it can be read in place, or null. Registers may read the next row, so the last row cannot.
  template <class I>
  const T* in_place(I, int64_t n, int64_t y) const {
    // In place, grad is widened again for each block of taps, which the oldest machines do slowly.
    if constexpr (!std::is_same_v<T, A> && kOldest<I::value>) return nullptr;
    const bool end = n + 1 == plan_.batch && y + 1 == plan_.y.to && plan_.channels % plan_.block_channels != 0;
    if (!plan_.channels_last || plan_.vectorizes_pixels || end) return nullptr;
    return grad_ + (n * plan_.y.to + y) * plan_.x.to * plan_.channels;
  }

  // Adds the products of rows [j, j + count) of the strip that begins with row q, or of the whole strip.
  template <class I>
  void add_rows(I isa, int64_t n, int64_t first, int64_t q, int64_t j, int64_t count) {
    const int64_t span = plan_.y.span, block = plan_.block_channels;
    const int64_t strip = std::min(plan_.strip, plan_.y.to - q);
    const OutputRows outputs{count, (whole_strips_ ? (strip - 1) * plan_.pitch + plan_.x.to : plan_.x.to) * block,
                             plan_.pitch * block};
    if (j == 0 ? !plan_.whole_planes : !plan_.whole_images)
      load_rows(isa, image_loader_, n, first, q, j == 0 ? 0 : j + span, loads_all_ ? plan_.rows : j + span + 1);
    const int64_t* const offsets = offsets_[j % offsets_.size()].data();
    const A* const image = image_loader_.data() + (plan_.whole_images ? j * outputs.step : 0);
    if (const T* row = in_place(isa, n, q + j)) {
      const int64_t next_row = plan_.x.to * plan_.channels;
      const int64_t ahead = plan_.whole_images ? next_tile_.of(plan_.y.to * next_row) : next_row;
      return multiply(isa, first, GradRow<T>{row + first, block, plan_.channels, ahead}, image, offsets, outputs);
    }
    if (!plan_.whole_planes) load_rows(isa, grad_loader_, n, first, q, j, whole_strips_ ? plan_.strip : j + 1);
    const GradRow<A> grad{grad_loader_.data(), grad_loader_.buffer_size, plan_.register_stride, 0};
    multiply(isa, first, grad, image, offsets, outputs);
  }

  template <class I, class G>
  void multiply(I isa, int64_t first, GradRow<G> grad, const A* image, const int64_t* offsets, OutputRows outputs) {
    A* sums = tap_sums_.data();
    for (int64_t c = first; c < plan_.channels_end(first);
         c += plan_.block_channels, grad.first += grad.register_stride, image += image_loader_.buffer_size) {
      const auto windows = [&](auto columns) {
        add_windows<I, columns>(isa, grad, image, offsets, plan_.y.taps[0].size(), outputs, sums);
        sums += plan_.tap_count * plan_.register_stride;
      };
      if constexpr (!kOldest<I::value>) switch (window_columns_) {
          case 3: windows(std::integral_constant<int, 3>()); continue;
          case 5: windows(std::integral_constant<int, 5>()); continue;
          case 7: windows(std::integral_constant<int, 7>()); continue;
        }
      if (outputs.count > 1) fail("depthwise_conv2d: internal error: several rows without a window; please report it");
      const int64_t at_once = taps_at_once<Vec<I::value, A>>(plan_.register_stride);
      for (int64_t t = 0, blocks = ceil_div(plan_.tap_count, at_once); blocks > 0; --blocks) {
        const int64_t count = ceil_div(plan_.tap_count - t, blocks), step = plan_.register_stride;
        add_products(isa, grad, image, offsets + t, count, outputs.length, step, sums);
        t += count;
        sums += count * step;
      }
    }
  }
};

}  // namespace

void wgrad_rows(const Problem& problem, const Choice& choice, const Tensor& image, const Tensor& grad,
                const Tensor& weight) {
  dispatch(problem.dtype, [&](auto zero) {
    using T = decltype(zero);
    using A = acc_t<T>;
    const TilePlan plan(stacked(problem, choice.stacked), choice.kernel, fwd_axis(problem.y), fwd_axis(problem.x),
                        vector_lanes<A>(), sizeof(A));
    const WgradWork work{plan.batch * plan.strips, plan.channel_tiles, plan.channels, plan.tile_pixels,
                         plan.tile_outputs() * (plan.tap_count + 4)};
    const T *const from = image.const_data_ptr<T>(), *const g = grad.const_data_ptr<T>();
    const auto make = [&](int64_t tiles, double* sums) { return WgradKernel<T>(plan, from, g, tiles, sums); };
    sum_parts<T>(problem, work, make, from, g, weight);
  });
}

}  // namespace customops::cpu
