// What kernels call: atomics, shuffles within a warp, and functions that are overloaded for float and double.
#pragma once

#include "numeric.h"

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

constexpr unsigned kAtenStableWarp = 0xffffffff;
__device__ __forceinline__ unsigned ACTIVE_MASK() { return __activemask(); }
__device__ __forceinline__ void WARP_SYNC(unsigned mask = kAtenStableWarp) { __syncwarp(mask); }
__device__ __forceinline__ unsigned WARP_BALLOT(int predicate, unsigned mask = kAtenStableWarp) {
  return __ballot_sync(mask, predicate);
}
// Half, BFloat16 and complex numbers by their bits.
#define X(name, how, From)                                                                                       \
  template <class T>                                                                                             \
  __device__ __forceinline__ T name(T value, From from, int width = warpSize, unsigned mask = kAtenStableWarp) { \
    if constexpr (at::is_any_complex<T>::value)                                                                  \
      return T(how(mask, value.real_, from, width), how(mask, value.imag_, from, width));                        \
    else if constexpr (std::is_same_v<T, c10::Half> || std::is_same_v<T, c10::BFloat16>)                         \
      return T(static_cast<unsigned short>(how(mask, static_cast<int>(value.x), from, width)), T::from_bits());  \
    else                                                                                                         \
      return how(mask, value, from, width);                                                                      \
  }
X(WARP_SHFL, __shfl_sync, int)
X(WARP_SHFL_XOR, __shfl_xor_sync, int)
X(WARP_SHFL_UP, __shfl_up_sync, unsigned)
X(WARP_SHFL_DOWN, __shfl_down_sync, unsigned)
#undef X
template <class T>
__device__ __forceinline__ T doLdg(const T* at) {
  return __ldg(at);
}

namespace c10::cuda::compat {
#define X(name, of_float, of_double)                                       \
  __device__ __forceinline__ float name(float x) { return ::of_float(x); } \
  __device__ __forceinline__ double name(double x) { return ::of_double(x); }
// clang-format off
X(abs, fabsf, fabs) X(exp, expf, exp) X(ceil, ceilf, ceil) X(floor, floorf, floor) X(log, logf, log)
X(log1p, log1pf, log1p) X(normcdf, normcdff, normcdf) X(rsqrt, rsqrtf, rsqrt) X(sqrt, sqrtf, sqrt) X(tan, tanf, tan)
X(tanh, tanhf, tanh)
// clang-format on
#undef X
#define X(name, of_float, of_double)                                                   \
  __device__ __forceinline__ float name(float x, float y) { return ::of_float(x, y); } \
  __device__ __forceinline__ double name(double x, double y) { return ::of_double(x, y); }
    // clang-format off
X(copysign, copysignf, copysign) X(max, fmaxf, fmax) X(min, fminf, fmin) X(pow, powf, pow)
// clang-format on
#undef X
}  // namespace c10::cuda::compat
#endif
