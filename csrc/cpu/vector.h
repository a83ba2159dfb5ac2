// One register of numbers for each instruction set, for loops whose sums must stay in registers from the first term to
// the last: the compiler's own vectoriser stores them to memory after each term.
//
// The functions carry their instruction set themselves, so that they work within run_simd (simd.h), which inlines them
// into a loop of the same set.
#pragma once

#include <algorithm>

#include "simd.h"

namespace customops::cpu {

// The baseline of the architecture. zip: lo = a0 b0 a1 b1 ..., and hi continues it.
template <Capability c, class A>
struct Vec {
  static constexpr int kLanes = 16 / sizeof(A);
  typedef A Register __attribute__((vector_size(16)));
  Register v;

  void set(A x) { v = Register{} + x; }
  // Keeps the value in a register: the compiler would load an operand in memory for each use.
  void keep() {}
  void load(const A* p) { std::memcpy(&v, p, sizeof v); }
  void store(A* p) const { std::memcpy(p, &v, sizeof v); }
  void fma(const Vec& a, const Vec& b) { v += a.v * b.v; }
  void fma(const Vec& a, const A* p) {
    Vec b;
    b.load(p);
    fma(a, b);
  }
  static void zip(const Vec& a, const Vec& b, Vec& lo, Vec& hi) {
    const Vec x = a, y = b;
    for (int i = 0; i < kLanes; ++i) {
      lo.v[i] = (i % 2 ? y : x).v[i / 2];
      hi.v[i] = (i % 2 ? y : x).v[(i + kLanes) / 2];
    }
  }
  template <class T>
  void load(const T* p) {
    A wide[kLanes];
    widen(Isa<c>(), p, wide, kLanes);
    load(wide);
  }
  template <class T>
  void store(T* p) const {
    A wide[kLanes];
    store(wide);
    narrow(Isa<c>(), wide, p, kLanes);
  }
};

#if CUSTOMOPS_X86_64
template <>
struct Vec<Capability::avx2, float> {
  static constexpr int kLanes = 8;
  __m256 v;

  CUSTOMOPS_AVX2 void set(float x) { v = _mm256_set1_ps(x); }
  CUSTOMOPS_AVX2 void keep() {
    auto kept = v;
    asm("" : "+x"(kept));
    v = kept;
  }
  CUSTOMOPS_AVX2 void load(const float* p) { v = _mm256_loadu_ps(p); }
  CUSTOMOPS_AVX2 void store(float* p) const { _mm256_storeu_ps(p, v); }
  CUSTOMOPS_AVX2 void fma(const Vec& a, const Vec& b) { v = _mm256_fmadd_ps(a.v, b.v, v); }
  CUSTOMOPS_AVX2 void fma(const Vec& a, const float* p) { v = _mm256_fmadd_ps(a.v, _mm256_loadu_ps(p), v); }
  CUSTOMOPS_AVX2 static void zip(const Vec& a, const Vec& b, Vec& lo, Vec& hi) {
    const __m256 x = _mm256_unpacklo_ps(a.v, b.v), y = _mm256_unpackhi_ps(a.v, b.v);
    lo.v = _mm256_permute2f128_ps(x, y, 0x20);
    hi.v = _mm256_permute2f128_ps(x, y, 0x31);
  }
  CUSTOMOPS_AVX2 void load(const Half* p) { v = _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))); }
  CUSTOMOPS_AVX2 void load(const BFloat16* p) {
    const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    v = _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
  }
  CUSTOMOPS_AVX2 void store(Half* p) const {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
  }
  CUSTOMOPS_AVX2 void store(BFloat16* p) const {
    const __m256i bits = _mm256_castps_si256(v),
                  odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i even = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
    const __m256 nan = _mm256_cmp_ps(v, v, _CMP_UNORD_Q);
    const __m256i kept =
        _mm256_blendv_epi8(_mm256_srli_epi32(even, 16), _mm256_set1_epi32(0x7fc0), _mm256_castps_si256(nan));
    const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(kept, kept), 0x08);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_castsi256_si128(packed));
  }
};

template <>
struct Vec<Capability::avx2, double> {
  static constexpr int kLanes = 4;
  __m256d v;

  CUSTOMOPS_AVX2 void set(double x) { v = _mm256_set1_pd(x); }
  CUSTOMOPS_AVX2 void keep() {
    auto kept = v;
    asm("" : "+x"(kept));
    v = kept;
  }
  CUSTOMOPS_AVX2 void load(const double* p) { v = _mm256_loadu_pd(p); }
  CUSTOMOPS_AVX2 void store(double* p) const { _mm256_storeu_pd(p, v); }
  CUSTOMOPS_AVX2 void fma(const Vec& a, const Vec& b) { v = _mm256_fmadd_pd(a.v, b.v, v); }
  CUSTOMOPS_AVX2 void fma(const Vec& a, const double* p) { v = _mm256_fmadd_pd(a.v, _mm256_loadu_pd(p), v); }
  CUSTOMOPS_AVX2 static void zip(const Vec& a, const Vec& b, Vec& lo, Vec& hi) {
    const __m256d x = _mm256_unpacklo_pd(a.v, b.v), y = _mm256_unpackhi_pd(a.v, b.v);
    lo.v = _mm256_permute2f128_pd(x, y, 0x20);
    hi.v = _mm256_permute2f128_pd(x, y, 0x31);
  }
};

template <>
struct Vec<Capability::avx512, float> {
  static constexpr int kLanes = 16;
  __m512 v;

  CUSTOMOPS_AVX512 void set(float x) { v = _mm512_set1_ps(x); }
  CUSTOMOPS_AVX512 void keep() {
    auto kept = v;
    asm("" : "+v"(kept));
    v = kept;
  }
  CUSTOMOPS_AVX512 void load(const float* p) { v = _mm512_loadu_ps(p); }
  CUSTOMOPS_AVX512 void store(float* p) const { _mm512_storeu_ps(p, v); }
  CUSTOMOPS_AVX512 void fma(const Vec& a, const Vec& b) { v = _mm512_fmadd_ps(a.v, b.v, v); }
  CUSTOMOPS_AVX512 void fma(const Vec& a, const float* p) { v = _mm512_fmadd_ps(a.v, _mm512_loadu_ps(p), v); }
  CUSTOMOPS_AVX512 static void zip(const Vec& a, const Vec& b, Vec& lo, Vec& hi) {
    const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const __m512i high = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    const __m512 x = a.v, y = b.v;
    lo.v = _mm512_permutex2var_ps(x, low, y);
    hi.v = _mm512_permutex2var_ps(x, high, y);
  }
  CUSTOMOPS_AVX512 void load(const Half* p) {
    v = _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  // bfloat16 is the upper half of a float32: a permutation moves its words there and back.
  CUSTOMOPS_AVX512 void load(const BFloat16* p) {
    const __m256i words = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    const __m512i places =
        _mm512_cvtepu16_epi32(_mm256_setr_epi16(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
    v = _mm512_castsi512_ps(
        _mm512_maskz_permutexvar_epi16(0xaaaaaaaa, _mm512_slli_epi32(places, 16), _mm512_castsi256_si512(words)));
  }
  CUSTOMOPS_AVX512 void store(Half* p) const {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
  }
  // To the nearest, ties to even. A NaN only loses its lower half; those that arithmetic makes stay NaN.
  CUSTOMOPS_AVX512 void store(BFloat16* p) const {
    const __m512i bits = _mm512_castps_si512(v),
                  places = _mm512_setr_epi32(0x30001, 0x70005, 0xb0009, 0xf000d, 0x130011, 0x170015, 0x1b0019, 0x1f001d,
                                             0, 0, 0, 0, 0, 0, 0, 0);
    const __mmask16 number = _mm512_cmp_ps_mask(v, v, _CMP_ORD_Q);
    const __mmask16 odd = _mm512_mask_test_epi32_mask(number, bits, _mm512_set1_epi32(0x10000));
    __m512i sum = _mm512_mask_add_epi32(bits, number, bits, _mm512_set1_epi32(0x7fff));
    sum = _mm512_mask_sub_epi32(sum, odd, sum, _mm512_set1_epi32(-1));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_castsi512_si256(_mm512_permutexvar_epi16(places, sum)));
  }
};

template <>
struct Vec<Capability::avx512, double> {
  static constexpr int kLanes = 8;
  __m512d v;

  CUSTOMOPS_AVX512 void set(double x) { v = _mm512_set1_pd(x); }
  CUSTOMOPS_AVX512 void keep() {
    auto kept = v;
    asm("" : "+v"(kept));
    v = kept;
  }
  CUSTOMOPS_AVX512 void load(const double* p) { v = _mm512_loadu_pd(p); }
  CUSTOMOPS_AVX512 void store(double* p) const { _mm512_storeu_pd(p, v); }
  CUSTOMOPS_AVX512 void fma(const Vec& a, const Vec& b) { v = _mm512_fmadd_pd(a.v, b.v, v); }
  CUSTOMOPS_AVX512 void fma(const Vec& a, const double* p) { v = _mm512_fmadd_pd(a.v, _mm512_loadu_pd(p), v); }
  CUSTOMOPS_AVX512 static void zip(const Vec& a, const Vec& b, Vec& lo, Vec& hi) {
    const __m512i low = _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11);
    const __m512i high = _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15);
    const __m512d x = a.v, y = b.v;
    lo.v = _mm512_permutex2var_pd(x, low, y);
    hi.v = _mm512_permutex2var_pd(x, high, y);
  }
};

// Instructions of their own for bfloat16. They flush numbers below 2^-126 to zero.
template <>
struct Vec<Capability::avx512_bf16, float> : Vec<Capability::avx512, float> {
  using Base = Vec<Capability::avx512, float>;
  using Base::fma;
  CUSTOMOPS_AVX512_BF16 void store(float* p) const { Base::store(p); }
  CUSTOMOPS_AVX512_BF16 void store(BFloat16* p) const {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), (__m256i)_mm512_cvtneps_pbh(v));
  }

  // Two bfloat16 numbers a lane: one instruction adds both their products with another such pair.
  struct Pair {
    __m512i words;
    CUSTOMOPS_AVX512_BF16 void keep() {}  // comes from a permutation, not from memory
    CUSTOMOPS_AVX512_BF16 void load(const BFloat16* a, const BFloat16* b) {
      // Of one register: on a Zen 4 a little faster than a permutation of two. Not measured elsewhere.
      const __m256i upper = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b));
      const __m512i places = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
      const __m512i upper_places = _mm512_slli_epi32(_mm512_add_epi32(places, _mm512_set1_epi32(16)), 16);
      words = _mm512_permutexvar_epi16(_mm512_or_si512(places, upper_places), _mm512_inserti64x4(half(a), upper, 1));
    }
    // Of float32 numbers that bfloat16 can represent.
    CUSTOMOPS_AVX512_BF16 void load(const float* a, const float* b) {
      words = _mm512_mask_blend_epi16(0xaaaaaaaa, _mm512_srli_epi32(_mm512_loadu_si512(a), 16), _mm512_loadu_si512(b));
    }
    // Indices of the words a0 b0 a1 b1 ..., where a and b are 16 words each of two registers, from word `first` on.
    CUSTOMOPS_AVX512_BF16 static __m512i alternately(short first) {
      const __m512i places = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
      const __m512i b = _mm512_slli_epi32(_mm512_or_si512(places, _mm512_set1_epi32(32)), 16);
      return _mm512_add_epi16(_mm512_or_si512(places, b), _mm512_set1_epi16(first));
    }
    CUSTOMOPS_AVX512_BF16 static __m512i half(const BFloat16* p) {
      return _mm512_castsi256_si512(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
    }
  };
  CUSTOMOPS_AVX512_BF16 void fma(const Pair& a, const Pair& b) {
    v = _mm512_dpbf16_ps(v, (__m512bh)a.words, (__m512bh)b.words);
  }
};
#endif

// Whether loads are instructions of their own, because no other takes an operand in memory. Loops then load neighbours
// by twos or threes, or step their pointers while loading. neon.h has the functions.
template <class V>
constexpr bool kOwnLoads = CUSTOMOPS_NEON && std::is_same_v<V, Vec<Capability::baseline, float>>;
template <class V>
void load_two(V (&two)[2], const float*& p);
template <class V>
void load_three(V (&three)[3], const float*& p);
template <class V>
void load_and_step(V& v, const float*& p, int64_t step);

// The first n of kMax elements, by copies of sizes that the compiler knows.
template <int kMax, class T>
void copy_part(const T* from, T* to, int64_t n) {
  if constexpr (constexpr int kHalf = kMax / 2; kHalf > 0) {
    if (n < kHalf) return copy_part<kHalf>(from, to, n);
    std::memcpy(static_cast<void*>(to), from, kHalf * sizeof(T));
    std::memcpy(static_cast<void*>(to + n - kHalf), from + n - kHalf, kHalf * sizeof(T));
  }
}

// The first n lanes, to elements of another type too.
template <class V, class T>
void store_part(const V& v, T* p, int64_t n) {
  T part[V::kLanes];
  v.store(part);
  copy_part<V::kLanes>(part, p, n);
}

#if CUSTOMOPS_X86_64
CUSTOMOPS_AVX512 inline void store_part(const Vec<Capability::avx512, float>& v, float* p, int64_t n) {
  _mm512_mask_storeu_ps(p, (1u << n) - 1, v.v);
}
CUSTOMOPS_AVX512 inline void store_part(const Vec<Capability::avx512, double>& v, double* p, int64_t n) {
  _mm512_mask_storeu_pd(p, (1u << n) - 1, v.v);
}
// To float16 or bfloat16.
template <Capability c, class T>
CUSTOMOPS_AVX512 inline std::enable_if_t<c >= Capability::avx512 && sizeof(T) == 2> store_part(const Vec<c, float>& v,
                                                                                               T* p, int64_t n) {
  T part[16];
  v.store(part);
  _mm256_mask_storeu_epi16(p, (1u << n) - 1, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(part)));
}
#endif

// Transposes a square of registers: each step interleaves the upper half of the registers with the lower half.
template <class V, int kStep = 1>
void transpose(V (&v)[V::kLanes]) {
  if constexpr (kStep < V::kLanes) {
    V next[V::kLanes];
#pragma GCC unroll 16
    for (int i = 0; i < V::kLanes / 2; ++i) V::zip(v[i], v[i + V::kLanes / 2], next[2 * i], next[2 * i + 1]);
#pragma GCC unroll 16
    for (int i = 0; i < V::kLanes; ++i) v[i] = next[i];
    transpose<V, 2 * kStep>(v);
  }
}

// A square block of elements B, as many rows as a register has lanes, to be transposed. Rows are registers V; where
// buffers hold bfloat16, two rows share a register.
template <class V, class B>
struct TransposeBlock {
  V row[V::kLanes];

  template <class T>
  void load(int i, const T* p) {
    row[i].load(p);
  }
  template <class T>
  void store(int i, T* p) const {
    row[i].store(p);
  }
  template <class T>
  void store_part(int i, T* p, int64_t n) const {
    customops::cpu::store_part(row[i], p, n);
  }
  void transpose() { customops::cpu::transpose(row); }
};

#if CUSTOMOPS_X86_64
template <>
struct TransposeBlock<Vec<Capability::avx512_bf16, float>, BFloat16> {
  __m512i rows[8];  // two each

  CUSTOMOPS_AVX512_BF16 void load(int i, const BFloat16* p) {
    const __m256i row = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    rows[i / 2] = i % 2 ? _mm512_inserti64x4(rows[i / 2], row, 1) : _mm512_castsi256_si512(row);
  }
  CUSTOMOPS_AVX512_BF16 void store(int i, BFloat16* p) const {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), half(i));
  }
  CUSTOMOPS_AVX512_BF16 void store_part(int i, BFloat16* p, int64_t n) const {
    _mm256_mask_storeu_epi16(p, (1u << n) - 1, half(i));
  }
  CUSTOMOPS_AVX512_BF16 __m256i half(int i) const {
    return i % 2 ? _mm512_extracti64x4_epi64(rows[i / 2], 1) : _mm512_castsi512_si256(rows[i / 2]);
  }
  CUSTOMOPS_AVX512_BF16 void transpose() {
    using Pair = Vec<Capability::avx512_bf16, float>::Pair;
    const __m512i first = Pair::alternately(0), second = Pair::alternately(16);
#pragma GCC unroll 4
    for (int step = 0; step < 4; ++step) {
      __m512i next[8];
#pragma GCC unroll 8
      for (int i = 0; i < 8; ++i)
        next[i] = _mm512_permutex2var_epi16(rows[i / 2], i % 2 ? second : first, rows[i / 2 + 4]);
#pragma GCC unroll 8
      for (int i = 0; i < 8; ++i) rows[i] = next[i];
    }
  }
};
#endif

// Lanes of Vec<capability(), A>, outside of run_simd.
template <class A>
int64_t vector_lanes() {
  switch (capability()) {
    case Capability::avx512_bf16:
    case Capability::avx512: return 64 / sizeof(A);
    case Capability::avx2: return 32 / sizeof(A);
    default: return 16 / sizeof(A);
  }
}

// f(constant n), for n from 1 to kMax: each number of registers has code of its own.
template <int kMax, class F>
void with_constant(int64_t n, const F& f) {
  if constexpr (kMax > 1) {
    if (n < kMax) return with_constant<kMax - 1>(n, f);
  }
  f(std::integral_constant<int, kMax>());
}

}  // namespace customops::cpu
