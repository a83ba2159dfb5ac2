// What kernels are made of: vectors of 16 bytes, conversions, division by a fixed number, sizes of grids.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>
#include <utility>

#include "../dtype.h"

namespace customops::cuda {

constexpr int kThreads = 256;
constexpr int kAccess = 16;  // bytes

template <class T, int n>
struct alignas(sizeof(T) * n) Vector {
  T at[n];
};

// What the compiler reads and writes in one access whatever becomes of the parts; those of a Vector it splits and joins
// again, and nvcc 12.4 does that in an order that differs from run to run.
template <int bytes>
using Bits =
    std::conditional_t<bytes == 16, uint4,
                       std::conditional_t<bytes == 8, uint2, std::conditional_t<bytes == 4, uint32_t, uint16_t>>>;

// Conversions on the bits: through torch's own types, arrays of them end up in local memory.
template <class T>
__device__ acc_t<T> widen(T x) {
  if constexpr (std::is_same_v<T, c10::BFloat16>)
    return __uint_as_float(uint32_t(x.x) << 16);
  else if constexpr (std::is_same_v<T, c10::Half>)
    return __half2float(__ushort_as_half(x.x));
  else
    return x;
}

// Element i of a vector. bfloat16 is the upper half of a float32: what is the upper half of a word already is only
// masked.
template <class T, int n>
__device__ acc_t<T> widen(const Vector<T, n>& vector, int i) {
  if constexpr (std::is_same_v<T, c10::BFloat16> && n % 2 == 0) {
    uint32_t pair;
    memcpy(&pair, &vector.at[i / 2 * 2], sizeof pair);
    return __uint_as_float(i % 2 ? pair & 0xffff0000u : pair << 16);
  } else {
    return widen(vector.at[i]);
  }
}

template <class T>
__device__ T narrow(acc_t<T> x) {
  if constexpr (std::is_same_v<T, c10::BFloat16>)
    return T(__bfloat16_as_ushort(__float2bfloat16_rn(x)), T::from_bits());
  else if constexpr (std::is_same_v<T, c10::Half>)
    return T(__half_as_ushort(__float2half_rn(x)), T::from_bits());
  else
    return x;
}

template <class Op, int n, class T, size_t kInputs, size_t... k>
__device__ Vector<T, n> apply(const Op& op, const Vector<T, n> (&x)[kInputs], std::index_sequence<k...>) {
  Vector<T, n> y;
#pragma unroll
  for (int v = 0; v < n; ++v) y.at[v] = narrow<T>(op(widen(x[k].at[v])...));
  return y;
}

// Division by a fixed divisor as a multiplication and a shift, for numerators below 2^31
// (Granlund and Montgomery 1994, https://doi.org/10.1145/178243.178249). 64-bit indices are divided in the plain way.
template <class Index>
struct Divider {
  Index divisor = 1;
  uint32_t multiplier = 0, shift = 0;

  Divider() = default;
  explicit Divider(int64_t d) : divisor(Index(d)) {
    if constexpr (sizeof(Index) == 4) {
      while ((uint64_t(1) << shift) < uint64_t(d)) ++shift;
      multiplier = uint32_t(((uint64_t(1) << 32) * ((uint64_t(1) << shift) - d)) / d + 1);
    }
  }
  // Replaces n by n / divisor; returns n % divisor.
  __device__ Index divmod(Index& n) const {
    const Index whole = n;
    if constexpr (sizeof(Index) == 4)
      n = (__umulhi(n, multiplier) + n) >> shift;
    else
      n /= divisor;
    return whole - n * divisor;
  }
};

template <class T, size_t kInputs>
struct Pointers {
  const T* in[kInputs];
  T* out;
};

inline unsigned blocks(int64_t work, int64_t per_block) { return unsigned((work + per_block - 1) / per_block); }

template <class T>
bool aligned(const T* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) % kAccess == 0;
}

}  // namespace customops::cuda
