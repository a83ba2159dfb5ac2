// The gradient of depthwise_conv2d's weight: two images are multiplied, one tap a register. Its sums are the same
// however many threads there are, because the work is cut by its size alone and added up in order.
#include "source.h"
#include "wgrad.h"
#include "wgrad_loops.h"

namespace customops::cpu {
namespace {

constexpr int64_t kParts = 64;        // tasks, about
constexpr int64_t kTilesPerSum = 64;  // in float32; such sums are added in float64

// The gradient of the weight: of each channel, from a part of its tiles.
template <class T>
class WeightGradient {
  using A = acc_t<T>;
  const Plan& plan_;
  const AxisTaps y_, x_;
  const int64_t tiles_;
  const T* const from_;  // grad
  double* const sums_;
  Source<T> image_, grad_;
  Buffer<A> registers_;                        // of sums: [channels of a buffer][tap][element of a step]
  std::vector<std::vector<int64_t>> offsets_;  // of the taps, from each row of the ring
  int64_t columns_ = 0;                        // of taps, if they lie side by side in registers

 public:
  // sums: [part][channel][tap]
  WeightGradient(const Plan& plan, const T* image, const T* grad, int64_t tiles, double* sums)
      : plan_(plan),
        y_(identity_axis(plan.y.to)),
        x_(identity_axis(plan.x.to)),
        tiles_(tiles),
        from_(grad),
        sums_(sums),
        image_(plan, plan.y, plan.x, plan.neighbours ? plan.rows : plan.y.span + 1, image),
        grad_(plan, y_, x_, plan.neighbours ? plan.strip : 1, grad),
        registers_(plan.groups * plan.taps * plan.step),
        offsets_(plan.neighbours ? 1 : plan.y.span + 1) {
    if (!plan.neighbours) image_.clears = true;  // each row takes another's place
    for (size_t j = 0; j < offsets_.size(); ++j)
      for (const auto& ty : plan.y.taps[0])
        for (const auto& tx : plan.x.taps[0])
          offsets_[j].push_back(image_.place(j + ty.shift - plan.y.first, ty.phase) + image_.column(tx) * plan.lanes);
    const auto& across = plan.x.taps[0];
    if (!plan.neighbours && image_.column(across.back()) - image_.column(across[0]) + 1 == int64_t(across.size()))
      columns_ = across.size();
  }

  template <class I>
  void run(I isa, int64_t item) {
    const int64_t part = item / plan_.chunks, first = item % plan_.chunks * plan_.groups * plan_.lanes;
    const int64_t span = plan_.y.span;
    std::fill_n(registers_.data(), plan_.groups * plan_.taps * plan_.step, A(0));
    for (int64_t tile = part * tiles_; tile < std::min((part + 1) * tiles_, plan_.batch * plan_.strips); ++tile) {
      const int64_t n = tile / plan_.strips, q = tile % plan_.strips * plan_.strip;
      const int64_t rows = std::min(plan_.strip, plan_.y.to - q);
      // One long row: between the rows of grad there are zeros. Or row by row, as in the forward pass.
      const bool whole = plan_.neighbours;
      const int64_t length = (whole ? (rows - 1) * plan_.pitch + plan_.x.to : plan_.x.to) * plan_.lanes;
      for (int64_t j = 0; j < (whole ? 1 : rows); ++j) {
        image_.read(isa, n, first, q, j == 0 ? 0 : j + span, whole ? plan_.rows : j + span + 1);
        const int64_t* const offsets = offsets_[j % offsets_.size()].data();
        // The oldest machines widen slowly, and here it would be for each block of taps.
        if constexpr (std::is_same_v<T, A> || !kOldest<I::value>)
          if (const T* row = in_place(n, q + j)) {
            const Registers<T> grad{row + first, plan_.lanes, plan_.channels, plan_.x.to * plan_.channels};
            multiply(isa, first, grad, offsets, length);
            continue;
          }
        grad_.read(isa, n, first, q, j, whole ? plan_.strip : j + 1);
        multiply(isa, first, Registers<A>{grad_.data(), grad_.size, plan_.step, 0}, offsets, length);
      }
    }
    const A* from = registers_.data();
    for (int64_t c = first; c < plan_.end(first); c += plan_.lanes, from += plan_.taps * plan_.step)
      for (int64_t l = 0; l < std::min(plan_.lanes, plan_.channels - c); ++l)
        for (int64_t t = 0; t < plan_.taps; ++t) {
          double sum = 0;
          for (int64_t i = l; i < plan_.step; i += plan_.lanes) sum += from[t * plan_.step + i];
          sums_[(part * plan_.channels + c + l) * plan_.kernel + plan_.terms[0][t].tap] = sum;
        }
  }

 private:
  // A row of grad, if its registers can be read where they are. They reach into the next row: the last one has none.
  const T* in_place(int64_t n, int64_t y) const {
    const bool end = n + 1 == plan_.batch && y + 1 == plan_.y.to && plan_.channels % plan_.lanes != 0;
    if (!plan_.last || plan_.neighbours || end) return nullptr;
    return from_ + (n * plan_.y.to + y) * plan_.x.to * plan_.channels;
  }

  template <class I, class G>
  void multiply(I isa, int64_t first, Registers<G> grad, const int64_t* offsets, int64_t length) {
    const A* image = image_.data();
    A* sums = registers_.data();
    for (int64_t c = first; c < plan_.end(first); c += plan_.lanes, grad.first += grad.next, image += image_.size) {
      const auto windows = [&](auto columns) {
        add_windows<I, columns>(isa, grad, image, offsets, plan_.y.taps[0].size(), length, sums);
        sums += plan_.taps * plan_.step;
      };
      if constexpr (!kOldest<I::value>) switch (columns_) {
          case 3: windows(std::integral_constant<int, 3>()); continue;
          case 5: windows(std::integral_constant<int, 5>()); continue;
          case 7: windows(std::integral_constant<int, 7>()); continue;
        }
      for (int64_t t = 0, blocks = ceil_div(plan_.taps, kProducts); blocks > 0; --blocks) {
        const int64_t count = ceil_div(plan_.taps - t, blocks), step = plan_.step;
        add_products(isa, grad, image, offsets + t, count, length, step, sums);
        t += count;
        sums += count * step;
      }
    }
  }
};

// One tap without any zeros around the images, which make NaN of infinity.
template <class T>
double one_tap(const Problem& problem, const T* image, const T* grad, int64_t c, int64_t tap) {
  const int64_t ky = tap / problem.x.taps, kx = tap % problem.x.taps,
                step = problem.channels_last ? problem.channels : 1;
  const auto row = [&](int64_t n, int64_t y, int64_t height, int64_t width) {
    return problem.channels_last ? (n * height + y) * width * problem.channels + c
                                 : ((n * problem.channels + c) * height + y) * width;
  };
  double sum = 0;
  for (int64_t n = 0; n < problem.batch; ++n)
    for (int64_t oy = 0; oy < problem.y.out; ++oy) {
      const int64_t iy = oy * problem.y.stride - problem.y.pad + ky * problem.y.dilation;
      if (iy < 0 || iy >= problem.y.in) continue;
      const T *const from = image + row(n, iy, problem.y.in, problem.x.in), *const g = grad + row(n, oy, problem.y.out,
                                                                                                  problem.x.out);
      for (int64_t ox = 0; ox < problem.x.out; ++ox) {
        const int64_t ix = ox * problem.x.stride - problem.x.pad + kx * problem.x.dilation;
        if (ix >= 0 && ix < problem.x.in) sum += double(g[ox * step]) * double(from[ix * step]);
      }
    }
  return sum;
}

template <class T>
void add_tiles(const Problem& problem, const Plan& plan, const T* image, const T* grad, const Tensor& weight) {
  using A = acc_t<T>;
  const int64_t tiles = plan.batch * plan.strips;
  const int64_t each = std::clamp<int64_t>(tiles * plan.chunks / kParts, 1, std::min(tiles, kTilesPerSum));
  const int64_t parts = ceil_div(tiles, each), size = plan.channels * plan.kernel;
  std::vector<double> sums(parts * size);
  parallel(parts * plan.chunks, kGrain * 4 / (plan.work() * (plan.taps + 4) * each), [&](int64_t begin, int64_t end) {
    WeightGradient<T> gradient(plan, image, grad, each, sums.data());
    run_simd([&](auto isa) {
      for (int64_t item = begin; item < end; ++item) gradient.run(isa, item);
    });
  });
  void* const out = weight.mutable_data_ptr();
  const bool float32 = weight.scalar_type() == ScalarType::Float;
  parallel(size, kGrain / parts, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      double sum = 0;
      for (int64_t part = 0; part < parts; ++part) sum += sums[part * size + i];
      if (!std::isfinite(sum)) sum = one_tap(problem, image, grad, i / plan.kernel, i % plan.kernel);
      if (float32)
        static_cast<float*>(out)[i] = float(sum);
      else
        static_cast<T*>(out)[i] = T(A(sum));
    }
  });
}

}  // namespace

void wgrad(const Problem& problem, const Choice& choice, const Tensor& image, const Tensor& grad,
           const Tensor& weight) {
  dispatch(problem.dtype, [&](auto zero) {
    using T = decltype(zero);
    using A = acc_t<T>;
    const Plan plan(problem, choice.kernel, fwd_axis(problem.y), fwd_axis(problem.x), vector_lanes<A>(), sizeof(A));
    add_tiles<T>(problem, plan, image.const_data_ptr<T>(), grad.const_data_ptr<T>(), weight);
  });
}

}  // namespace customops::cpu
