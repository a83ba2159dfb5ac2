// Shuffles within a warp, and functions that are overloaded for float and double. Sources that do not include this may
// have functions of these names.
#pragma once

#include "cuda.h"

#ifdef __CUDACC__
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
