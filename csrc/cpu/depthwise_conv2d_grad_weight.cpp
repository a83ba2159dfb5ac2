// The gradient of depthwise_conv2d's weight: two images are multiplied, one tap a register. Its sums are the same
// however many threads there are, because the work is cut by its size alone and added up in order.
#include <torch/csrc/stable/library.h>

#include "depthwise_conv2d_tiles.h"

namespace customops::cpu {
namespace {

constexpr int kProducts = 9;          // taps at a time that lie anyhow: each has a pointer
constexpr int64_t kParts = 64;        // tasks, about
constexpr int64_t kTilesPerSum = 64;  // in float32; such sums are added in float64

// to[o] = from[o]
Line copy_line(int64_t n) {
  Line line(n, n, 1, 1);
  line.add(0, 0, 0, 0);
  return line;
}

// Registers of a row of grad: elements from one to the next of a pixel, to the next pixel, and to the row after it.
template <class T>
struct Registers {
  const T* first;
  int64_t next, step, ahead;
};

// Registers of sums, one for each tap: sums += grad * buffer, over registers `step` apart in a row of that length.
template <Capability c, int kCount, class T, class A>
void add_products(Registers<T> grad, const A* buffer, const int64_t* offsets, int64_t length, int64_t step, A* sums) {
  using V = Vec<c, A>;
  V sum[kCount];
  const A* from[kCount];
#pragma GCC unroll 16
  for (int i = 0; i < kCount; ++i) sum[i].set(0), from[i] = buffer + offsets[i];
  for (int64_t at = 0; at < length; at += step, grad.first += grad.step) {
    V g;
    __builtin_prefetch(grad.first + grad.ahead);
    g.load(grad.first);
#pragma GCC unroll 16
    for (int i = 0; i < kCount; ++i) sum[i].fma(g, from[i] + at);
  }
  V one;
  one.set(1);
#pragma GCC unroll 16
  for (int i = 0; i < kCount; ++i, sums += step) {
    sum[i].fma(one, sums);
    sum[i].store(sums);
  }
}

// The same for `count` taps, and for the registers between as well. In a function of its own for each instruction set,
// which dtypes share.
template <class I, class T, class A>
void add_products(I isa, Registers<T> grad, const A* buffer, const int64_t* offsets, int64_t count, int64_t length,
                  int64_t step, A* sums) {
  constexpr int64_t kLanes = Vec<I::value, A>::kLanes;
  with_constant<kProducts>(count, [&](auto constant) {
    constexpr int kCount = constant;
    outline(isa, [=](auto) {
      if (step == kLanes) return add_products<I::value, kCount>(grad, buffer, offsets, length, kLanes, sums);
      for (int64_t r = 0; r < step; r += kLanes) {
        const Registers<T> part{grad.first + r, 0, grad.step, 0};
        add_products<I::value, kCount>(part, buffer + r, offsets, length - r, step, sums + r);
      }
    });
  });
}

// The same for kRows rows of kColumns taps that lie side by side: more taps at a time, because only the rows need a
// pointer each.
template <Capability c, int kRows, int kColumns, class T, class A>
void add_window(Registers<T> grad, const A* buffer, const int64_t* offsets, int64_t length, A* sums) {
  using V = Vec<c, A>;
  V sum[kRows * kColumns];
  const A* from[kRows];
#pragma GCC unroll 32
  for (V& v : sum) v.set(0);
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) from[r] = buffer + offsets[r * kColumns];
  for (int64_t at = 0; at < length; at += V::kLanes, grad.first += grad.step) {
    V g;
    __builtin_prefetch(grad.first + grad.ahead);
    g.load(grad.first);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 8
      for (int k = 0; k < kColumns; ++k) sum[r * kColumns + k].fma(g, from[r] + at + k * V::kLanes);
  }
  V one;
  one.set(1);
#pragma GCC unroll 32
  for (V& v : sum) {
    v.fma(one, sums);
    v.store(sums);
    sums += V::kLanes;
  }
}

// The same for a window of that many rows: as many at a time as there are registers for, and as squares have.
template <class I, int kColumns, class T, class A>
void add_windows(I isa, Registers<T> grad, const A* buffer, const int64_t* offsets, int64_t rows, int64_t length,
                 A* sums) {
  constexpr int kMost = std::min((I::value >= Capability::avx512 ? 28 : 14) / kColumns, kColumns);
  for (int64_t blocks = ceil_div(rows, kMost); blocks > 0; --blocks) {
    const int64_t count = ceil_div(rows, blocks);
    with_constant<kMost>(count, [&](auto constant) {
      constexpr int kRows = constant;
      outline(isa, [=](auto) { add_window<I::value, kRows, kColumns>(grad, buffer, offsets, length, sums); });
    });
    rows -= count;
    offsets += count * kColumns;
    sums += count * kColumns * Vec<I::value, A>::kLanes;
  }
}

// The gradient of the weight: of each channel, from a part of its tiles.
template <class T>
class Correlation {
  using A = acc_t<T>;
  const Plan& plan_;
  const Line y_, x_;
  const int64_t tiles_;
  const T* const from_;  // grad
  double* const sums_;
  Source<T> image_, grad_;
  Buffer<A> registers_;                        // of sums: [channels of a buffer][tap][element of a step]
  std::vector<std::vector<int64_t>> offsets_;  // of the taps, from each row of the ring
  int64_t columns_ = 0;                        // of taps, if they lie side by side in registers

 public:
  // sums: [part][channel][tap]
  Correlation(const Plan& plan, const T* image, const T* grad, int64_t tiles, double* sums)
      : plan_(plan),
        y_(copy_line(plan.y.to)),
        x_(copy_line(plan.x.to)),
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
          sums_[(part * plan_.channels + c + l) * plan_.taps + plan_.terms[0][t].tap] = sum;
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
double one_tap(const DepthwiseConv2d& p, const T* image, const T* grad, int64_t c, int64_t tap) {
  const int64_t ky = tap / p.x.taps, kx = tap % p.x.taps, step = p.channels_last ? p.channels : 1;
  const auto row = [&](int64_t n, int64_t y, int64_t height, int64_t width) {
    return p.channels_last ? (n * height + y) * width * p.channels + c : ((n * p.channels + c) * height + y) * width;
  };
  double sum = 0;
  for (int64_t n = 0; n < p.batch; ++n)
    for (int64_t oy = 0; oy < p.y.out; ++oy) {
      const int64_t iy = oy * p.y.stride - p.y.pad + ky * p.y.dilation;
      if (iy < 0 || iy >= p.y.in) continue;
      const T *const from = image + row(n, iy, p.y.in, p.x.in), *const g = grad + row(n, oy, p.y.out, p.x.out);
      for (int64_t ox = 0; ox < p.x.out; ++ox) {
        const int64_t ix = ox * p.x.stride - p.x.pad + kx * p.x.dilation;
        if (ix >= 0 && ix < p.x.in) sum += double(g[ox * step]) * double(from[ix * step]);
      }
    }
  return sum;
}

void correlate(const DepthwiseConv2d& p) {
  dispatch(p.in.scalar_type(), [&](auto zero) {
    using T = decltype(zero);
    using A = acc_t<T>;
    const Plan plan(p, forward_line(p.y), forward_line(p.x), vector_lanes<A>(), sizeof(A), false);
    const int64_t tiles = plan.batch * plan.strips;
    const int64_t each = std::clamp<int64_t>(tiles * plan.chunks / kParts, 1, std::min(tiles, kTilesPerSum));
    const int64_t parts = ceil_div(tiles, each), size = plan.channels * plan.taps;
    std::vector<double> sums(parts * size);
    const T *const image = p.in.const_data_ptr<T>(), *const grad = p.out.const_data_ptr<T>();
    void* const out = p.weight.mutable_data_ptr();
    const bool float32 = p.weight.scalar_type() == ScalarType::Float;
    parallel(parts * plan.chunks, kGrain * 4 / (plan.work() * (plan.taps + 4) * each), [&](int64_t begin, int64_t end) {
      Correlation<T> correlation(plan, image, grad, each, sums.data());
      run_simd([&](auto isa) {
        for (int64_t item = begin; item < end; ++item) correlation.run(isa, item);
      });
    });
    parallel(size, kGrain / parts, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        double sum = 0;
        for (int64_t part = 0; part < parts; ++part) sum += sums[part * size + i];
        if (!std::isfinite(sum)) sum = one_tap(p, image, grad, i / plan.taps, i % plan.taps);
        if (float32)
          static_cast<float*>(out)[i] = float(sum);
        else
          static_cast<T*>(out)[i] = T(A(sum));
      }
    });
  });
}

}  // namespace

Tensor depthwise_conv2d_grad_weight(const Tensor& grad, const Tensor& x, int64_t kernel_h, int64_t kernel_w,
                                    int64_t stride_h, int64_t stride_w, int64_t pad_top, int64_t pad_left,
                                    int64_t dilation_h, int64_t dilation_w, bool float32) {
  const DepthwiseConv2d p = prepare_depthwise_conv2d_grad_weight(grad, x, kernel_h, kernel_w, stride_h, stride_w,
                                                                 pad_top, pad_left, dilation_h, dilation_w, float32);
  if (p.in.numel() > 0)
    correlate(p);
  else if (p.weight.numel() > 0)
    torch::stable::zero_(const_cast<Tensor&>(p.weight));
  return p.weight;
}

}  // namespace customops::cpu

STABLE_TORCH_LIBRARY_IMPL(customops, CPU, m) {
  m.impl("_depthwise_conv2d_grad_weight", TORCH_BOX(&customops::cpu::depthwise_conv2d_grad_weight));
}
