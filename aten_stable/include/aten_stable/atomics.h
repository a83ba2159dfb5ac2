// Atomics for kernels. Sources that do not include this may have functions of these names.
#pragma once

#include "cuda.h"

#ifdef __CUDACC__
// Replaces *to by change(*to) where a GPU has no instruction for it: the word that holds it is exchanged until no other
// thread was in between.
template <class T, class Change>
__device__ __forceinline__ T aten_stable_atomic(T* to, const Change& change) {
  using Word = std::conditional_t<sizeof(T) == 8, unsigned long long, unsigned>;
  using Bits =
      std::conditional_t<sizeof(T) == 1, unsigned char, std::conditional_t<sizeof(T) == 2, unsigned short, Word>>;
  constexpr Word ones = static_cast<Bits>(~Bits(0));
  const size_t byte = reinterpret_cast<size_t>(to) % sizeof(Word), shift = byte * 8;
  auto* const word = reinterpret_cast<Word*>(reinterpret_cast<char*>(to) - byte);
  Word seen = *word, assumed;
  T old;
  do {
    assumed = seen;
    Bits bits = static_cast<Bits>(assumed >> shift);
    memcpy(&old, &bits, sizeof old);
    const T changed = change(old);
    memcpy(&bits, &changed, sizeof bits);
    seen = atomicCAS(word, assumed, (assumed & ~(ones << shift)) | (static_cast<Word>(bits) << shift));
  } while (assumed != seen);
  return old;
}

template <class T>
__device__ __forceinline__ T gpuAtomicAdd(T* to, T value) {
  if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_same_v<T, int>) {
    return atomicAdd(to, value);
  } else {
    static_assert(std::is_integral_v<T> && !std::is_same_v<T, bool>,
                  "aten_stable: gpuAtomicAdd is covered for floating, complex and integer types: accumulate in one");
    return aten_stable_atomic(to, [value](T old) { return static_cast<T>(old + value); });
  }
}
__device__ __forceinline__ int64_t gpuAtomicAdd(int64_t* to, int64_t value) {
  return static_cast<int64_t>(
      atomicAdd(reinterpret_cast<unsigned long long*>(to), static_cast<unsigned long long>(value)));
}
__device__ __forceinline__ c10::Half gpuAtomicAdd(c10::Half* to, c10::Half value) {
#if __CUDA_ARCH__ >= 700
  return atomicAdd(reinterpret_cast<__half*>(to), static_cast<__half>(value));
#else
  return aten_stable_atomic(to, [value](c10::Half old) { return old + value; });
#endif
}
__device__ __forceinline__ c10::BFloat16 gpuAtomicAdd(c10::BFloat16* to, c10::BFloat16 value) {
#if __CUDA_ARCH__ >= 800
  return atomicAdd(reinterpret_cast<__nv_bfloat16*>(to), static_cast<__nv_bfloat16>(value));
#else
  return aten_stable_atomic(to, [value](c10::BFloat16 old) { return old + value; });
#endif
}
// Each part by itself.
template <class T>
__device__ __forceinline__ void gpuAtomicAdd(c10::complex<T>* to, c10::complex<T> value) {
  gpuAtomicAdd(&to->real_, value.real_);
  gpuAtomicAdd(&to->imag_, value.imag_);
}
__device__ __forceinline__ int64_t atomicAdd(int64_t* to, int64_t value) { return gpuAtomicAdd(to, value); }
__device__ __forceinline__ c10::Half atomicAdd(c10::Half* to, c10::Half value) { return gpuAtomicAdd(to, value); }
__device__ __forceinline__ c10::BFloat16 atomicAdd(c10::BFloat16* to, c10::BFloat16 value) {
  return gpuAtomicAdd(to, value);
}
template <class T>
__device__ __forceinline__ void gpuAtomicAddNoReturn(T* to, T value) {
  gpuAtomicAdd(to, value);
}
// As ATen's: of a number and of one that is none, the latter.
template <class T>
__device__ __forceinline__ bool aten_stable_keeps(T old, T value, bool larger) {
  if constexpr (std::is_arithmetic_v<T>)
    return at::_isnan(old) || (!at::_isnan(value) && (larger ? old >= value : old <= value));
  else
    return aten_stable_keeps(static_cast<float>(old), static_cast<float>(value), larger);
}
template <class T>
__device__ __forceinline__ T gpuAtomicMax(T* to, T value) {
  return aten_stable_atomic(to, [value](T old) { return aten_stable_keeps(old, value, true) ? old : value; });
}
template <class T>
__device__ __forceinline__ T gpuAtomicMin(T* to, T value) {
  return aten_stable_atomic(to, [value](T old) { return aten_stable_keeps(old, value, false) ? old : value; });
}
template <class T>
__device__ __forceinline__ T gpuAtomicMul(T* to, T value) {
  return aten_stable_atomic(to, [value](T old) { return static_cast<T>(old * value); });
}
namespace at::native {
template <class T, class Index>
__device__ __forceinline__ void fastAtomicAdd(T* to, Index index, const Index, T value, bool) {
  gpuAtomicAdd(to + index, value);
}
}  // namespace at::native
#endif
