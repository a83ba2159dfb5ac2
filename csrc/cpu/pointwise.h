// out[i] = op(in0[i], in1[i], ...) for any strides and the four floating dtypes.
//
// Memory: each input is read once, the output is written once. Work goes in blocks that stay in the L1 cache: strided
// or narrow inputs are gathered and widened into a block, op runs over plain arrays (which the compiler vectorises),
// and a narrow result is rounded on its way out. Contiguous float32 and float64 skip the copies.
#pragma once

#include "../allocate.h"
#include "../dispatch.h"
#include "simd.h"
#include "strided.h"

namespace customops::cpu {

constexpr int64_t kBlock = 512;  // 2 kB of float32 for each operand

template <class I, class T>
const acc_t<T>* widened(I isa, const T* in, int64_t n, acc_t<T>* buffer) {
  if constexpr (std::is_same_v<T, acc_t<T>>)
    return in;
  else
    return widen(isa, in, buffer, n), buffer;
}

template <class I, class T, size_t kInputs, class Op, size_t... k>
void pointwise_blocks(I isa, const Walk<kInputs>& walk, const std::array<const T*, kInputs>& in, T* out, int64_t begin,
                      int64_t end, const Op& op, std::index_sequence<k...>) {
  constexpr bool kWide = std::is_same_v<T, acc_t<T>>;
  alignas(64) T gathered[kInputs][kBlock];
  alignas(64) acc_t<T> wide[kInputs][kBlock], result[kBlock];
  for (; begin < end; begin += kBlock) {
    const int64_t n = std::min(kBlock, end - begin);
    const acc_t<T>* x[kInputs] = {widened(isa, read(walk, k, in[k], begin, n, gathered[k]), n, wide[k])...};
    acc_t<T>* __restrict y;
    if constexpr (kWide)
      y = out + begin;
    else
      y = result;
    for (int64_t i = 0; i < n; ++i) y[i] = op(x[k][i]...);
    if constexpr (!kWide) narrow(isa, y, out + begin, n);
  }
}

// Allocates like the first input, which fixes dtype and layout, and runs op in acc_t of that dtype.
template <class... Inputs, class Op>
Tensor pointwise(const Op& op, const Inputs&... inputs) {
  constexpr size_t kInputs = sizeof...(Inputs);
  const std::array<const Tensor*, kInputs> tensors{&inputs...};
  Tensor out = new_like(*tensors[0]);
  const int64_t n = out.numel();
  if (n == 0) return out;
  const Walk<kInputs> walk(out.sizes(), out.strides(), tensors);
  dispatch(tensors[0]->scalar_type(), [&](auto zero) {
    using T = decltype(zero);
    const std::array<const T*, kInputs> in{inputs.template const_data_ptr<T>()...};
    T* const to = out.template mutable_data_ptr<T>();
    parallel(n, kGrain, [&](int64_t begin, int64_t end) {
      run_simd(
          [&](auto isa) { pointwise_blocks(isa, walk, in, to, begin, end, op, std::make_index_sequence<kInputs>()); });
    });
  });
  return out;
}

}  // namespace customops::cpu
