// One register of numbers for each instruction set, for the loops whose sums have to stay in registers from the first
// term to the last: the compiler's own vectoriser brings them back to memory after each.
//
// The functions carry their instruction set themselves, so that they work within run_simd (simd.h), which inlines them
// into a loop of the same set.
#pragma once

#include <algorithm>

#include "simd.h"

namespace customops::cpu {

// Without vector instructions, or with those of the baseline: as many lanes as an SSE register has.
template <Capability c, class A>
struct Vec {
  static constexpr int kLanes = 16 / sizeof(A);
  typedef A Register __attribute__((vector_size(16)));
  Register v;

  void set(A x) { v = Register{} + x; }
  void load(const A* p) { std::memcpy(&v, p, sizeof v); }
  void store(A* p) const { std::memcpy(p, &v, sizeof v); }
  void store(A* p, int64_t n) const { std::memcpy(p, &v, n * sizeof(A)); }
  void fma(const Vec& a, const Vec& b) { v += a.v * b.v; }
  void fma(const Vec& a, const A* p) {
    Vec b;
    b.load(p);
    fma(a, b);
  }
};

#if defined(__x86_64__)
template <>
struct Vec<Capability::avx2, float> {
  static constexpr int kLanes = 8;
  __m256 v;

  CUSTOMOPS_AVX2 void set(float x) { v = _mm256_set1_ps(x); }
  CUSTOMOPS_AVX2 void load(const float* p) { v = _mm256_loadu_ps(p); }
  CUSTOMOPS_AVX2 void store(float* p) const { _mm256_storeu_ps(p, v); }
  CUSTOMOPS_AVX2 void store(float* p, int64_t n) const { std::memcpy(p, &v, n * sizeof(float)); }
  CUSTOMOPS_AVX2 void fma(const Vec& a, const Vec& b) { v = _mm256_fmadd_ps(a.v, b.v, v); }
  CUSTOMOPS_AVX2 void fma(const Vec& a, const float* p) { v = _mm256_fmadd_ps(a.v, _mm256_loadu_ps(p), v); }
};

template <>
struct Vec<Capability::avx2, double> {
  static constexpr int kLanes = 4;
  __m256d v;

  CUSTOMOPS_AVX2 void set(double x) { v = _mm256_set1_pd(x); }
  CUSTOMOPS_AVX2 void load(const double* p) { v = _mm256_loadu_pd(p); }
  CUSTOMOPS_AVX2 void store(double* p) const { _mm256_storeu_pd(p, v); }
  CUSTOMOPS_AVX2 void store(double* p, int64_t n) const { std::memcpy(p, &v, n * sizeof(double)); }
  CUSTOMOPS_AVX2 void fma(const Vec& a, const Vec& b) { v = _mm256_fmadd_pd(a.v, b.v, v); }
  CUSTOMOPS_AVX2 void fma(const Vec& a, const double* p) { v = _mm256_fmadd_pd(a.v, _mm256_loadu_pd(p), v); }
};

template <>
struct Vec<Capability::avx512, float> {
  static constexpr int kLanes = 16;
  __m512 v;

  CUSTOMOPS_AVX512 void set(float x) { v = _mm512_set1_ps(x); }
  CUSTOMOPS_AVX512 void load(const float* p) { v = _mm512_loadu_ps(p); }
  CUSTOMOPS_AVX512 void store(float* p) const { _mm512_storeu_ps(p, v); }
  CUSTOMOPS_AVX512 void store(float* p, int64_t n) const { _mm512_mask_storeu_ps(p, __mmask16((1u << n) - 1), v); }
  CUSTOMOPS_AVX512 void fma(const Vec& a, const Vec& b) { v = _mm512_fmadd_ps(a.v, b.v, v); }
  CUSTOMOPS_AVX512 void fma(const Vec& a, const float* p) { v = _mm512_fmadd_ps(a.v, _mm512_loadu_ps(p), v); }
};

template <>
struct Vec<Capability::avx512, double> {
  static constexpr int kLanes = 8;
  __m512d v;

  CUSTOMOPS_AVX512 void set(double x) { v = _mm512_set1_pd(x); }
  CUSTOMOPS_AVX512 void load(const double* p) { v = _mm512_loadu_pd(p); }
  CUSTOMOPS_AVX512 void store(double* p) const { _mm512_storeu_pd(p, v); }
  CUSTOMOPS_AVX512 void store(double* p, int64_t n) const { _mm512_mask_storeu_pd(p, __mmask8((1u << n) - 1), v); }
  CUSTOMOPS_AVX512 void fma(const Vec& a, const Vec& b) { v = _mm512_fmadd_pd(a.v, b.v, v); }
  CUSTOMOPS_AVX512 void fma(const Vec& a, const double* p) { v = _mm512_fmadd_pd(a.v, _mm512_loadu_pd(p), v); }
};
#endif

// Lanes of Vec<capability(), A>, outside of run_simd.
template <class A>
int64_t vector_lanes() {
  switch (capability()) {
    case Capability::avx512: return 64 / sizeof(A);
    case Capability::avx2: return 32 / sizeof(A);
    default: return 16 / sizeof(A);
  }
}

// f(constant) for the number n, from 1 to kMost: a block of n registers is code of its own.
template <int kMost, class F>
void with_constant(int64_t n, const F& f) {
  if constexpr (kMost > 1) {
    if (n < kMost) return with_constant<kMost - 1>(n, f);
  }
  f(std::integral_constant<int, kMost>());
}

}  // namespace customops::cpu
