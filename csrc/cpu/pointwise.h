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

template <class T, class I, size_t kInputs, class Op, size_t... k>
void pointwise_blocks(I isa, const Walk<kInputs>& walk, const std::array<const void*, kInputs>& in, void* out,
                      int64_t begin, int64_t end, const Op& op, std::index_sequence<k...>) {
  using A = acc_t<T>;
  alignas(64) T gathered[kInputs][kBlock];
  alignas(64) A wide[kInputs][kBlock], result[kBlock];
  // As parameters, pointers need no check for overlap.
  const auto loop = [&](int64_t n, A* __restrict y, auto... x) {
    for (int64_t i = 0; i < n; ++i) y[i] = op(x[i]...);
  };
  for (; begin < end; begin += kBlock) {
    const int64_t n = std::min(kBlock, end - begin);
    const A* x[kInputs] = {
        widened(isa, read(walk, k, static_cast<const T*>(in[k]), begin, n, gathered[k]), n, wide[k])...};
    T* const y = static_cast<T*>(out) + begin;
    if constexpr (std::is_same_v<T, A>)
      loop(n, y, x[k]...);
    else
      loop(n, result, x[k]...), narrow(isa, result, y, n);
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
  const ScalarType dtype = tensors[0]->scalar_type();
  const std::array<const void*, kInputs> in{inputs.const_data_ptr()...};
  void* const to = out.mutable_data_ptr();
  parallel(n, kGrain, [&](int64_t begin, int64_t end) {
    dispatch(dtype, [&](auto zero) {
      run_simd([&](auto isa) {
        pointwise_blocks<decltype(zero)>(isa, walk, in, to, begin, end, op, std::make_index_sequence<kInputs>());
      });
    });
  });
  return out;
}

}  // namespace customops::cpu
