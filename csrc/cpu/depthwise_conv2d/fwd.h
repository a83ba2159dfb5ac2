// What the kernels of forward and dgrad share. Both are sums over the taps.
#pragma once

#include "plan.h"

namespace customops::cpu {

// Of forward; of dgrad `from` is the gradient of the output, and `to` that of the input.
struct ConvTensors {
  const Tensor &from, &weight;
  const std::optional<Tensor>& bias;
  const Tensor& to;
};

// Launchers, one in each file of that name. `direction` is fwd or dgrad.
void fwd_planes(const Problem& problem, Direction direction, const ConvTensors& tensors);
void fwd_pixels(const Problem& problem, Direction direction, const Choice& choice, const ConvTensors& tensors);
void fwd_rows(const Problem& problem, Direction direction, const Choice& choice, const ConvTensors& tensors);
void fwd_tiles(const Problem& problem, Direction direction, const ConvTensors& tensors);
void fwd_scale(const Problem& problem, const ConvTensors& tensors);  // dgrad is the same

inline AxisTaps make_axis(const ConvAxis& a, Direction direction, int64_t phases = 1) {
  return direction == Direction::dgrad ? dgrad_axis(a) : fwd_axis(a, phases);
}

// Into how many phases forward splits the outputs of a row, so that the outputs of a phase read neighbouring pixels.
inline int64_t phases_of(const ConvAxis& x) {
  const auto [first, last] = taps_met(x);
  const int64_t phases = x.dilation / std::gcd(x.stride, x.dilation);
  return last - first >= 3 && x.out >= 7 * phases ? phases : 1;
}

// In a loop over a weight: keeps the compiler from making vectors of it, whose code is large and saves little.
inline void keep_scalar(int64_t& i) { asm("" : "+r"(i)); }

// The weight in the order of the kernels: [block of channels][tap][copy].
template <class T>
Buffer<acc_t<T>> pack_weight(const TilePlan& plan, const Tensor& tensor) {
  const auto weight = parameter<T>(tensor);
  const int64_t block = plan.block_channels, own = plan.weight_channels, row = own + block, taps = plan.kernel_taps;
  const bool repeats = own < plan.channels;
  // Of a weight that repeats, because stacked images share it: a row for each tap, of all channels and then of the
  // first ones again, so that any block is one stretch of it.
  Buffer<acc_t<T>> rows(repeats ? taps * row : 0);
  for (int64_t i = 0; repeats && i < row; ++i)
    for (int64_t t = 0; t < taps; keep_scalar(++t))
      rows.data()[t * row + i] = i < own ? weight(i * taps + t) : rows.data()[t * row + i - own];
  Buffer<acc_t<T>> packed(plan.packed_channels() * plan.tap_count);
  auto* to = packed.data();
  for (int64_t c = 0; c < plan.own_channels; c += block) {
    const int64_t first = plan.reads_in_place ? first_channel(c, plan.channels, block) : c;
    const int64_t lanes = std::min(block, plan.channels - first);  // behind them zeros
    const auto* const stretch = rows.data() + first % own;
    for (const auto& terms : plan.tap_offsets)
      for (const auto& term : terms) {
        if (repeats)
          std::copy_n(stretch + term.tap * row, lanes, to);
        else
          for (int64_t i = 0; i < lanes; keep_scalar(++i)) to[i] = weight((first + i) * taps + term.tap);
        to += block;
        for (int64_t i = block; i < plan.weight_copies; keep_scalar(++i), ++to) *to = to[-block];
      }
  }
  return packed;
}

// The bias in the same order, without taps; zeros if there is none.
template <class T>
Buffer<acc_t<T>> pack_bias(const TilePlan& plan, const std::optional<Tensor>& tensor) {
  Buffer<acc_t<T>> packed(plan.packed_channels());
  if (!tensor) return packed;
  const auto bias = parameter<T>(*tensor);
  auto* to = packed.data();
  for (int64_t c = 0; c < plan.own_channels; c += plan.block_channels) {
    for (int64_t i = c; i < c + plan.block_channels; keep_scalar(++i))
      *to++ = i < plan.channels ? bias(i % plan.weight_channels) : 0;
    for (int64_t i = plan.block_channels; i < plan.weight_copies; ++i, ++to) *to = to[-plan.block_channels];
  }
  return packed;
}

// Computes all tiles by KernelClass(plan, from, weight, bias, to), one object a thread.
template <class KernelClass, class T, bool kBf16>
void run_tiles(const Problem& problem, const TilePlan& plan, const ConvTensors& tensors) {
  auto weight = pack_weight<T>(plan, tensors.weight);
  auto bias = pack_bias<T>(plan, tensors.bias);
  const T* const from = tensors.from.template const_data_ptr<T>();
  T* const to = static_cast<T*>(tensors.to.mutable_data_ptr());
  parallel(plan.batch * plan.channel_tiles * plan.strips, kGrain * 4 / (plan.tile_outputs() * (plan.tap_count + 4)),
           [&](int64_t begin, int64_t end) {
             KernelClass kernel(plan, from, weight.data(), bias.data(), to);
             const auto run = [&](auto isa) {
               for (int64_t item = begin; item < end; ++item) kernel.run(isa, item);
             };
             if constexpr (kBf16)
               run_simd_bf16(run);
             else
               run_simd(run);
           });
}

// The same for a problem of dtype T, and of the buffers. kMayBf16: whether the kernel takes buffers of bfloat16.
template <class T, template <class, class B> class KernelClass, bool kMayBf16>
void run_kernel_of(const Problem& problem, Direction direction, const Choice& choice, const ConvTensors& tensors) {
  using A = acc_t<T>;
  const int64_t phases = choice.kernel == Kernel::fwd_tiles ? 1 : phases_of(problem.x);
  const AxisTaps y = make_axis(problem.y, direction), x = make_axis(problem.x, direction, phases);
  if constexpr (kMayBf16 && std::is_same_v<T, BFloat16>)
    if (choice.bf16) {
      const TilePlan plan(problem, choice.kernel, y, x, vector_lanes<A>(), sizeof(T));
      return run_tiles<KernelClass<T, T>, T, true>(problem, plan, tensors);
    }
  const TilePlan plan(problem, choice.kernel, y, x, vector_lanes<A>(), sizeof(A));
  run_tiles<KernelClass<T, A>, T, false>(problem, plan, tensors);
}

template <template <class T, class B> class KernelClass, bool kMayBf16>
void run_kernel(const Problem& problem, Direction direction, const Choice& choice, const ConvTensors& tensors) {
  dispatch(problem.dtype, [&](auto zero) {
    run_kernel_of<decltype(zero), KernelClass, kMayBf16>(problem, direction, choice, tensors);
  });
}

}  // namespace customops::cpu
