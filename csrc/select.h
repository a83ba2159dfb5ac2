// CUSTOMOPS_SELECT(x < y, a, b): a or b of one type, as the compiler keeps it short in vectorised loops.
//
// GCC turns x < y ? a : b round, and needs six instructions of NEON for "not less", which must not trap. There, bits
// are selected by a mask, which becomes a comparison and a selection; and functions are inlined that it would call,
// because a call keeps a loop from vectorising. Elsewhere it is the plain expression.
#pragma once

#if defined(__aarch64__) && !defined(__CUDACC__)
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace customops {

template <class A>
inline A select_bits(bool yes, A a, A b) {
  using Bits = std::conditional_t<sizeof(A) == 4, uint32_t, uint64_t>;
  Bits x, y;
  std::memcpy(&x, &a, sizeof x);
  std::memcpy(&y, &b, sizeof y);
  const Bits bits = y ^ ((x ^ y) & -Bits(yes));
  std::memcpy(&a, &bits, sizeof a);
  return a;
}

}  // namespace customops

#define CUSTOMOPS_SELECT(yes, a, b) ::customops::select_bits((yes), (a), (b))
#define CUSTOMOPS_AT_LEAST(x, least) std::fmax((x), (least))
#define CUSTOMOPS_INLINED __attribute__((always_inline))
#else
#define CUSTOMOPS_SELECT(yes, a, b) ((yes) ? (a) : (b))
#define CUSTOMOPS_AT_LEAST(x, least) ((x) < (least) ? (least) : (x))
#define CUSTOMOPS_INLINED
#endif
