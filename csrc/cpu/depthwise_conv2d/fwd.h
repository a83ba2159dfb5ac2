// What the kernels of the forward pass and of the gradient of the input share: both are sums over the taps.
#pragma once

#include "plan.h"

namespace customops::cpu {

// `to` is computed from `from`.
struct Operands {
  const Tensor &from, &weight;
  const std::optional<Tensor>& bias;
  const Tensor& to;
};

// Launchers, one in each file of that name. `direction` is fwd or dgrad.
void fwd_planes(const Problem& problem, Direction direction, const Operands& operands);
void fwd_pixels(const Problem& problem, Direction direction, const Choice& choice, const Operands& operands);
void fwd_rows(const Problem& problem, Direction direction, const Choice& choice, const Operands& operands);
void fwd_tiles(const Problem& problem, Direction direction, const Operands& operands);

inline AxisTaps make_axis(const ConvAxis& a, Direction direction, int64_t phases = 1) {
  return direction == Direction::dgrad ? dgrad_axis(a) : fwd_axis(a, phases);
}

// Into how many phases the forward pass splits the outputs of a row, so that those of a phase, which are computed
// together, meet pixels side by side.
inline int64_t phases_of(const ConvAxis& x) {
  const auto [first, last] = taps_met(x);
  const int64_t phases = x.dilation / std::gcd(x.stride, x.dilation);
  return last - first >= 3 && x.out >= 7 * phases ? phases : 1;
}

// The weight as kernels take it: [channels of a buffer][term, if any][number of a factor].
template <class T>
Buffer<acc_t<T>> order_weight(const Plan& plan, const Tensor& tensor, int64_t taps) {
  const auto weight = parameter<T>(tensor);
  Buffer<acc_t<T>> ordered(plan.factors() * plan.taps);
  auto* to = ordered.data();
  for (int64_t c = 0; c < plan.channels; c += plan.lanes) {
    const int64_t first = plan.in_place ? first_channel(c, plan.channels, plan.lanes) : c;
    for (const auto& terms : plan.terms)
      for (const auto& term : terms) {
        for (int64_t i = first; i < first + plan.lanes; ++i)
          *to++ = i < plan.channels ? weight(i * taps + term.tap) : 0;
        for (int64_t i = plan.lanes; i < plan.factor; ++i, ++to) *to = to[-plan.lanes];
      }
  }
  return ordered;
}

// The same of the bias; zeros if there is none.
template <class T>
Buffer<acc_t<T>> order_bias(const Plan& plan, const std::optional<Tensor>& tensor) {
  Buffer<acc_t<T>> ordered(plan.factors());
  if (!tensor) return ordered;
  const auto bias = parameter<T>(*tensor);
  auto* to = ordered.data();
  for (int64_t c = 0; c < plan.channels; c += plan.lanes) {
    for (int64_t i = c; i < c + plan.lanes; ++i) *to++ = i < plan.channels ? bias(i) : 0;
    for (int64_t i = plan.lanes; i < plan.factor; ++i, ++to) *to = to[-plan.lanes];
  }
  return ordered;
}

// Runs KernelClass(plan, from, weight, bias, to), an object for each thread, over all tiles.
template <class KernelClass, class T, bool kBf16>
void run_tiles(const Problem& problem, const Plan& plan, const Operands& operands) {
  auto weight = order_weight<T>(plan, operands.weight, problem.y.taps * problem.x.taps);
  auto bias = order_bias<T>(plan, operands.bias);
  const T* const from = operands.from.template const_data_ptr<T>();
  T* const to = static_cast<T*>(operands.to.mutable_data_ptr());
  parallel(plan.batch * plan.chunks * plan.strips, kGrain * 4 / (plan.work() * (plan.taps + 4)),
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

// The same for the dtype of the problem and for what the buffers hold. kMayBf16: whether there is such a kernel.
template <template <class T, class B> class KernelClass, bool kMayBf16>
void run_kernel(const Problem& problem, Direction direction, const Choice& choice, const Operands& operands) {
  const int64_t phases = choice.kernel == Kernel::fwd_tiles ? 1 : phases_of(problem.x);
  const AxisTaps y = make_axis(problem.y, direction), x = make_axis(problem.x, direction, phases);
  dispatch(problem.dtype, [&](auto zero) {
    using T = decltype(zero);
    using A = acc_t<T>;
    if constexpr (kMayBf16 && std::is_same_v<T, BFloat16>)
      if (choice.bf16) {
        const Plan plan(problem, choice.kernel, y, x, vector_lanes<A>(), sizeof(T));
        return run_tiles<KernelClass<T, T>, T, true>(problem, plan, operands);
      }
    const Plan plan(problem, choice.kernel, y, x, vector_lanes<A>(), sizeof(A));
    run_tiles<KernelClass<T, A>, T, false>(problem, plan, operands);
  });
}

}  // namespace customops::cpu
