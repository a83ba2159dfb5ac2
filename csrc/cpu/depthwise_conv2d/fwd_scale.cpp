// Forward and dgrad of one tap over contiguous images, where each output is a multiple of one pixel: planes are read
// and written as flat arrays.
#include "fwd.h"

namespace customops::cpu {
namespace {

constexpr int64_t kStripPixels = 16 << 10;  // of a plane, at most: so that threads share large planes
constexpr int kScaledAtOnce = 4;            // registers

// Writes bias + weight * pixel for `length` pixels, which fill a register at least.
template <class I, class T>
void scale_pixels(I isa, const T* from, acc_t<T> weight, acc_t<T> bias, int64_t length, T* to) {
  outline(isa, [=](auto) {
    using V = Vec<I::value, acc_t<T>>;
    V factor, start;
    factor.set(weight);
    start.set(bias);
    const auto scale = [&](int64_t at) {
      V v, sum = start;
      v.load(from + at);
      sum.fma(factor, v);
      sum.store(to + at);
    };
    int64_t at = 0;
    for (; at + kScaledAtOnce * V::kLanes <= length; at += kScaledAtOnce * V::kLanes)
#pragma GCC unroll 4
      for (int i = 0; i < kScaledAtOnce; ++i) scale(at + i * V::kLanes);
    for (; at + V::kLanes <= length; at += V::kLanes) scale(at);
    if (at < length) scale(length - V::kLanes);  // some of them again
  });
}

}  // namespace

void fwd_scale(const Problem& problem, const ConvTensors& tensors) {
  dispatch(problem.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto weight = parameter<T>(tensors.weight);
    const T* const from = tensors.from.const_data_ptr<T>();
    T* const to = static_cast<T*>(tensors.to.mutable_data_ptr());
    const int64_t pixels = problem.y.in * problem.x.in;
    // The last strip of a plane is the longest, so that all fill registers.
    const int64_t strips = std::max<int64_t>(pixels / kStripPixels, 1), strip = pixels / strips;
    parallel(problem.batch * problem.channels * strips, kGrain * 4 / strip, [&](int64_t begin, int64_t end) {
      run_simd([&](auto isa) {
        for (int64_t item = begin; item < end; ++item) {
          const int64_t plane = item / strips, first = item % strips * strip, channel = plane % problem.channels;
          const int64_t length = item % strips + 1 == strips ? pixels - first : strip, at = plane * pixels + first;
          const acc_t<T> bias = tensors.bias ? parameter<T>(*tensors.bias)(channel) : acc_t<T>(0);
          scale_pixels(isa, from + at, weight(channel), bias, length, to + at);
        }
      });
    });
  });
}

}  // namespace customops::cpu
