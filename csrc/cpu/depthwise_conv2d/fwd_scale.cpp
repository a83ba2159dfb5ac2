// Forward and dgrad of one tap, where each output is a multiple of one pixel: planes of contiguous images, and all
// channels_last images together, are read and written as flat arrays.
#include "fwd.h"

namespace customops::cpu {
namespace {

// Of a plane, or elements of channels_last images, about: so that threads share large ones.
constexpr int64_t kStripPixels = 16 << 10;
constexpr int kScaledAtOnce = 4;          // registers
constexpr int64_t kPeriodRegisters = 16;  // registers after which weights are read again, at least

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

// The same for elements whose weights and biases repeat after `period`, a multiple of a register.
template <class I, class T>
void scale_elements(I isa, const T* from, const acc_t<T>* weights, const acc_t<T>* biases, int64_t period,
                    int64_t length, T* to) {
  outline(isa, [=](auto) {
    using V = Vec<I::value, acc_t<T>>;
    const acc_t<T>*const factors = weights, *const starts = biases;  // copies that `to` cannot alias
    const auto scale = [&](const T* in, int64_t i, T* out) {
      V v, factor, sum;
      v.load(in);
      factor.load(factors + i);
      sum.load(starts + i);
      sum.fma(factor, v);
      sum.store(out);
    };
    const T* in = from;
    T* out = to;
    for (int64_t left = length; left > 0;) {
      const int64_t size = std::min(period, left);
      int64_t i = 0;
      while (i + kScaledAtOnce * V::kLanes <= size)
#pragma GCC unroll 4
        for (int r = 0; r < kScaledAtOnce; ++r, i += V::kLanes) scale(in + i, i, out + i);
      for (; i + V::kLanes <= size; i += V::kLanes) scale(in + i, i, out + i);
      if (i < size) {
        T part[V::kLanes] = {};
        copy_part<V::kLanes>(in + i, part, size - i);
        scale(part, i, part);
        copy_part<V::kLanes>(part, out + i, size - i);
      }
      in += size;
      out += size;
      left -= size;
    }
  });
}

// All channels_last images as one array.
template <class T>
void scale_pixels_last(const Problem& problem, const ConvTensors& tensors) {
  using A = acc_t<T>;
  const int64_t size = problem.batch * problem.y.in * problem.x.in * problem.channels;
  const int64_t once = flat_period(problem.channels, vector_lanes<A>());
  const int64_t period = once * ceil_div(kPeriodRegisters * vector_lanes<A>(), once);
  const int64_t strip = ceil_div(kStripPixels, period) * period;
  Buffer<A> weights(period), biases(period);
  const auto weight = parameter<T>(tensors.weight);
  for (int64_t i = 0; i < period; ++i) weights.data()[i] = weight(i % problem.channels);
  if (tensors.bias) {
    const auto bias = parameter<T>(*tensors.bias);
    for (int64_t i = 0; i < period; ++i) biases.data()[i] = bias(i % problem.channels);
  }
  const T* const from = tensors.from.const_data_ptr<T>();
  T* const to = static_cast<T*>(tensors.to.mutable_data_ptr());
  parallel(ceil_div(size, strip), kGrain * 4 / strip, [&](int64_t begin, int64_t end) {
    const int64_t first = begin * strip, length = std::min(end * strip, size) - first;
    run_simd([&](auto isa) {
      scale_elements(isa, from + first, weights.data(), biases.data(), period, length, to + first);
    });
  });
}

}  // namespace

void fwd_scale(const Problem& problem, const ConvTensors& tensors) {
  dispatch(problem.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (problem.channels_last) return scale_pixels_last<T>(problem, tensors);
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
