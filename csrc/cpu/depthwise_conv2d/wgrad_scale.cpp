// Wgrad of one tap over contiguous images, where each output is a multiple of one pixel: a product of two flat planes
// for each channel, both read in place.
#include "wgrad.h"
#include "wgrad_sums.h"

namespace customops::cpu {
namespace {

constexpr int kChains = 8;              // registers of sums: enough to hide the latency of a multiply-add
constexpr int64_t kStripPixels = 4096;  // of a plane, about: what is summed in float32

// Sums the products of one channel over one part of the strips.
template <class T>
class WgradScaleKernel {
  using A = acc_t<T>;
  const Problem& problem_;
  const int64_t strip_, strips_;  // pixels; of a plane
  const T *const image_, *const grad_;
  const int64_t part_strips_;
  double* const sums_;
  Buffer<A> chains_;

 public:
  // sums: [part][channel]
  WgradScaleKernel(const Problem& problem, int64_t strip, int64_t strips, const T* image, const T* grad,
                   int64_t part_strips, double* sums)
      : problem_(problem),
        strip_(strip),
        strips_(strips),
        image_(image),
        grad_(grad),
        part_strips_(part_strips),
        sums_(sums),
        chains_(kChains * vector_lanes<A>()) {}

  template <class I>
  void run(I isa, int64_t item) {
    const int64_t part = item / problem_.channels, channel = item % problem_.channels;
    const int64_t pixels = problem_.y.in * problem_.x.in, size = kChains * Vec<I::value, A>::kLanes;
    const int64_t begin = part * part_strips_, end = std::min(begin + part_strips_, problem_.batch * strips_);
    outline(isa, [=](auto) {
      using V = Vec<I::value, A>;
      V sum[kChains];
#pragma GCC unroll 8
      for (V& v : sum) v.set(0);
      int64_t strip = begin % strips_, at = (begin / strips_ * problem_.channels + channel) * pixels;
      for (int64_t i = begin; i < end; ++i) {
        const int64_t first = at + strip * strip_;
        add(image_ + first, grad_ + first, std::min(strip_, pixels - strip * strip_), sum);
        if (++strip == strips_) strip = 0, at += problem_.channels * pixels;
      }
#pragma GCC unroll 8
      for (int i = 0; i < kChains; ++i) sum[i].store(chains_.data() + i * V::kLanes);
    });
    double sum = 0;
    for (int64_t i = 0; i < size; ++i) sum += chains_.data()[i];
    sums_[item] = sum;
  }

 private:
  // Adds the products of `length` pixels.
  template <class V>
  static void add(const T* image, const T* grad, int64_t length, V (&sum)[kChains]) {
    V v, g;
    int64_t at = 0;
    for (; at + kChains * V::kLanes <= length; at += kChains * V::kLanes)
#pragma GCC unroll 8
      for (int i = 0; i < kChains; ++i) {
        v.load(image + at + i * V::kLanes);
        g.load(grad + at + i * V::kLanes);
        sum[i].fma(v, g);
      }
#pragma GCC unroll 8
    for (int i = 0; i < kChains - 1; ++i) {
      if (at + V::kLanes > length) break;
      v.load(image + at);
      g.load(grad + at);
      sum[i].fma(v, g);
      at += V::kLanes;
    }
    if (at == length) return;
    T parts[2][V::kLanes] = {};
    copy_part<V::kLanes>(image + at, parts[0], length - at);
    copy_part<V::kLanes>(grad + at, parts[1], length - at);
    v.load(parts[0]);
    g.load(parts[1]);
    sum[kChains - 1].fma(v, g);
  }
};

}  // namespace

void wgrad_scale(const Problem& problem, const Tensor& image, const Tensor& grad, const Tensor& weight) {
  dispatch(problem.dtype, [&](auto zero) {
    using T = decltype(zero);
    const int64_t pixels = problem.y.in * problem.x.in, most = ceil_div(pixels, kStripPixels);
    const int64_t round = kChains * vector_lanes<acc_t<T>>(), strip = ceil_div(ceil_div(pixels, most), round) * round;
    const int64_t strips = ceil_div(pixels, strip);
    const WgradWork work{problem.batch * strips, problem.channels, problem.channels, std::min(strip, pixels),
                         std::min(strip, pixels) * 5};
    const T *const from = image.const_data_ptr<T>(), *const g = grad.const_data_ptr<T>();
    const auto make = [&](int64_t part_strips, double* sums) {
      return WgradScaleKernel<T>(problem, strip, strips, from, g, part_strips, sums);
    };
    sum_parts<T>(problem, work, make, from, g, weight);
  });
}

}  // namespace customops::cpu
