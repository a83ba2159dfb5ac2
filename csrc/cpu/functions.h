// exp and its relatives for float32, written so that the compiler vectorises a loop over them: no branch, no table, no
// call. Within 3 units in the last place over the ranges that are named. float64 goes to the C library.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "../bias_act.h"
#include "../select.h"

#if defined(__gnu_linux__)
// glibc 2.29 gave exp a new version, which would ask for that glibc; the architecture's first one serves them all.
#if defined(__x86_64__)
__asm__(".symver exp, exp@GLIBC_2.2.5");
#elif defined(__aarch64__)
__asm__(".symver exp, exp@GLIBC_2.17");
#endif
#endif

namespace customops::cpu {

struct Functions {
  // exp(x) = 2^n exp(r) with an integer n and |r| <= log(2) / 2.
  struct Reduced {
    int32_t n;
    float tail;  // exp(r) - 1, from its Taylor series: the next term is below 2e-8 of it
  };
  CUSTOMOPS_INLINED static Reduced reduce(float x) {
    constexpr float kShift = 12582912;  // 1.5 * 2^23: adding it leaves the nearest integer in the low bits
    const float shifted = x * 1.44269504f + kShift, n = shifted - kShift;
    int32_t bits;
    std::memcpy(&bits, &shifted, sizeof bits);
    const float r = x - n * 0.693359375f - n * -2.12194440e-4f;  // log(2) in two parts: the first product is exact
    const float series = 0.5f + r * (1 / 6.f + r * (1 / 24.f + r * (1 / 120.f + r * (1 / 720.f + r * (1 / 5040.f)))));
    return {bits - 0x4b400000, r + r * r * series};
  }
  CUSTOMOPS_INLINED static float power_of_two(int32_t n) {
    const uint32_t bits = uint32_t(n + 127) << 23;
    float power;
    std::memcpy(&power, &bits, sizeof power);
    return power;
  }

  // Still infinite at 100. Selected by bits, Swish's slope would be fused otherwise than on x86.
  CUSTOMOPS_INLINED static float exp(float x) { return exp_to_100(x > 100 ? 100 : x); }
  // One factor is a constant: no product with the other leaves the range. Of a NaN, any number.
  CUSTOMOPS_INLINED static float exp(NotAbove0<float> x) {
    const Reduced e = reduce(CUSTOMOPS_AT_LEAST(x.x, -110.f));
    return (1 + e.tail) * power_of_two(e.n + 64) * 0x1p-64f;
  }
  CUSTOMOPS_INLINED static float exp_to_100(float x) {
    x = CUSTOMOPS_SELECT(x < -110, -110.f, x);
    const Reduced e = reduce(x);
    const int32_t half = e.n >> 1;  // in two steps, so that neither factor leaves the range
    return (1 + e.tail) * power_of_two(half) * power_of_two(e.n - half);
  }
  // Up to x = 88, where it stays.
  CUSTOMOPS_INLINED static float expm1(float x) {
    x = CUSTOMOPS_SELECT(x > 88, 88.f, x);
    x = CUSTOMOPS_SELECT(x < -30, -30.f, x);
    const Reduced e = reduce(x);
    const float power = power_of_two(e.n);
    return power * e.tail + (power - 1);
  }
  // 2 artanh(u / (2 + u)), for u from 0 to 1.
  CUSTOMOPS_INLINED static float log1p(float u) {
    const float s = u / (2 + u), q = s * s;
    const float series =
        1 / 3.f + q * (1 / 5.f + q * (1 / 7.f + q * (1 / 9.f + q * (1 / 11.f + q * (1 / 13.f + q / 15)))));
    return 2 * (s + s * q * series);
  }
  CUSTOMOPS_INLINED static float tanh(float x) {
    const float e = expm1(-2 * std::fabs(x)), t = -e / (2 + e);
    return CUSTOMOPS_SELECT(x < 0, -t, t);
  }

  static double exp(double x) { return std::exp(x); }
  static double expm1(double x) { return std::expm1(x); }
  template <class A>
  static A divide(A x, A y) {
    return x / y;
  }
  static double log1p(double x) { return std::log1p(x); }
  static double tanh(double x) { return std::tanh(x); }
};

}  // namespace customops::cpu
