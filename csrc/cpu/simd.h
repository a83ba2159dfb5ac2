// One wheel for every x86-64 CPU: loops are compiled three times inside one library (baseline, AVX2, AVX-512), some of
// those over bfloat16 a fourth time, and the version to run is chosen once, from what the machine has. The rest of the
// library keeps the x86-64 baseline. On aarch64 the baseline has NEON, and loops are compiled once (neon.h).
#pragma once

#include <cstdint>
#include <cstring>

// With CUSTOMOPS_ONLY_BASELINE, a fifth of the time to compile: for the gate (.ci/run).
#if defined(__x86_64__) && !defined(CUSTOMOPS_ONLY_BASELINE)
#define CUSTOMOPS_X86_64 1
#else
#define CUSTOMOPS_X86_64 0
#endif

#if defined(__aarch64__)
#define CUSTOMOPS_NEON 1
#else
#define CUSTOMOPS_NEON 0
#endif

#if CUSTOMOPS_X86_64
#include <immintrin.h>
#define CUSTOMOPS_AVX2 __attribute__((target("avx2,fma,f16c")))
#define CUSTOMOPS_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")))
#define CUSTOMOPS_AVX512_BF16 __attribute__((target("avx512bf16,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")))
#endif

#include "../dispatch.h"

namespace customops::cpu {

using c10::BFloat16;
using c10::Half;

// neon_bf16: loops are those of the baseline, and call what converts to bfloat16 by instructions (neon.h).
enum class Capability { baseline, neon_bf16, avx2, avx512, avx512_bf16 };

// The fastest on this machine, or the one that the environment variable CUSTOMOPS_CPU_CAPABILITY names, or the best
// below it that the machine has. Read once. Defined in capability.cpp.
Capability capability();

template <Capability c>
using Isa = std::integral_constant<Capability, c>;

// A register of numbers of type A (vector.h).
template <Capability c, class A>
struct Vec;

// How many vector registers the instruction set has.
template <Capability c>
constexpr int kVectorRegisters = c >= Capability::avx512 || CUSTOMOPS_NEON ? 32 : 16;

// Before a loop that the compiler vectorises: two registers a turn on ARM, where an operand in memory is an instruction
// of its own, and one instruction loads two neighbours. A macro: x86's code has to stay without any such pragma.
#if CUSTOMOPS_NEON
#define CUSTOMOPS_TWO_A_TURN _Pragma("GCC unroll 2")
#else
#define CUSTOMOPS_TWO_A_TURN
#endif

// Whether c is only the fallback for machines older than some ten years. Loops then have fewer specialised versions:
// these take long to compile, and hardly any machine runs them. With CUSTOMOPS_EVERY_LOOP it has them, too: for
// `docker/sanitize_cpu.py --quick`.
#if defined(__x86_64__) && !defined(CUSTOMOPS_EVERY_LOOP)
template <Capability c>
constexpr bool kOldest = c == Capability::baseline;
#else
template <Capability c>
constexpr bool kOldest = false;
#endif

// Runs f(isa) compiled for the machine. `flatten` inlines f and all it calls into a function of the wider instruction
// set, where the compiler vectorises its loops for that set; it cannot inline the other way round, so no AVX
// instruction leaks into code that a baseline machine runs.
#if CUSTOMOPS_X86_64
template <class F>
CUSTOMOPS_AVX2 __attribute__((flatten, noinline)) void run_avx2(const F& f) {
  f(Isa<Capability::avx2>());
}
template <class F>
CUSTOMOPS_AVX512 __attribute__((flatten, noinline)) void run_avx512(const F& f) {
  f(Isa<Capability::avx512>());
}
template <class F>
CUSTOMOPS_AVX512_BF16 __attribute__((flatten, noinline)) void run_avx512_bf16(const F& f) {
  f(Isa<Capability::avx512_bf16>());
}
#endif
#if defined(__FMA__) && !defined(__clang__)
// Compiled with -march=native. Without this, GCC would fuse multiplications with additions here, and loops for every
// machine would round differently from the wheel's.
#define CUSTOMOPS_BASELINE __attribute__((flatten, optimize("fp-contract=off")))
#else
#define CUSTOMOPS_BASELINE
#endif
template <class F>
CUSTOMOPS_BASELINE __attribute__((noinline)) void run_baseline(const F& f) {
  f(Isa<Capability::baseline>());
}

template <class F>
void run_simd(const F& f) {
#if CUSTOMOPS_X86_64
  switch (capability()) {
    case Capability::avx512_bf16:
    case Capability::avx512: return run_avx512(f);
    case Capability::avx2: return run_avx2(f);
    case Capability::neon_bf16:
    case Capability::baseline: break;
  }
#endif
  run_baseline(f);
}

// For loops that multiply bfloat16 by bfloat16, where capability() says that there are instructions for it.
template <class F>
void run_simd_bf16([[maybe_unused]] const F& f) {
#if CUSTOMOPS_X86_64
  run_avx512_bf16(f);
#endif
}

// Runs f(isa) in a function of its own for the instruction set of the caller, so that the values that f keeps in
// registers do not compete with those of the code around it.
template <Capability c, class F>
void outline(Isa<c>, const F& f) {
#if CUSTOMOPS_X86_64
  if constexpr (c == Capability::avx512_bf16)
    return run_avx512_bf16(f);
  else if constexpr (c == Capability::avx512)
    return run_avx512(f);
  else if constexpr (c == Capability::avx2)
    return run_avx2(f);
  else
#endif
    run_baseline(f);
}

// float16 has conversion instructions, which the compiler does not find by itself; on ARM bfloat16, too. These
// functions convert as much of n as they have instructions for, and return its length.
template <Capability c>
int64_t widen_vectors(Isa<c>, const Half*, float*, int64_t) {
  return 0;
}
template <Capability c>
int64_t narrow_vectors(Isa<c>, const float*, Half*, int64_t) {
  return 0;
}
template <Capability c>
int64_t narrow_vectors(Isa<c>, const float*, BFloat16*, int64_t) {
  return 0;
}

#if CUSTOMOPS_X86_64
CUSTOMOPS_AVX2 inline int64_t widen_vectors(Isa<Capability::avx2>, const Half* in, float* out, int64_t n) {
  int64_t i = 0;
  for (const int64_t whole = n & -8; i < whole; i += 8)
    _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i))));
  for (; i < n; ++i) out[i] = _cvtsh_ss(in[i].x);
  return n;
}

CUSTOMOPS_AVX2 inline int64_t narrow_vectors(Isa<Capability::avx2>, const float* in, Half* out, int64_t n) {
  int64_t i = 0;
  for (const int64_t whole = n & -8; i < whole; i += 8)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT));
  for (; i < n; ++i) out[i].x = _cvtss_sh(in[i], _MM_FROUND_TO_NEAREST_INT);
  return n;
}

CUSTOMOPS_AVX512 inline int64_t widen_vectors(Isa<Capability::avx512>, const Half* in, float* out, int64_t n) {
  int64_t i = 0;
  for (const int64_t whole = n & -16; i < whole; i += 16)
    _mm512_storeu_ps(out + i, _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(in + i))));
  const __mmask16 rest = (1u << (n - i)) - 1;
  if (rest) _mm512_mask_storeu_ps(out + i, rest, _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(rest, in + i)));
  return n;
}

CUSTOMOPS_AVX512 inline int64_t narrow_vectors(Isa<Capability::avx512>, const float* in, Half* out, int64_t n) {
  int64_t i = 0;
  for (const int64_t whole = n & -16; i < whole; i += 16)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i),
                        _mm512_cvtps_ph(_mm512_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT));
  const __mmask16 rest = (1u << (n - i)) - 1;
  if (rest)
    _mm256_mask_storeu_epi16(out + i, rest,
                             _mm512_cvtps_ph(_mm512_maskz_loadu_ps(rest, in + i), _MM_FROUND_TO_NEAREST_INT));
  return n;
}
#endif

}  // namespace customops::cpu

#if CUSTOMOPS_NEON
#include "neon.h"
#endif

namespace customops::cpu {

// n elements from T to acc_t<T> and back, rounding to nearest, ties to even.
template <class I>
void widen(I isa, const Half* __restrict in, float* __restrict out, int64_t n) {
  for (int64_t i = widen_vectors(isa, in, out, n); i < n; ++i) out[i] = in[i];
}

template <class I>
void narrow(I isa, const float* __restrict in, Half* __restrict out, int64_t n) {
  for (int64_t i = narrow_vectors(isa, in, out, n); i < n; ++i) out[i] = in[i];
}

// bfloat16 is the upper half of a float32: integer arithmetic, which the compiler does vectorise.
template <class I>
void widen(I, const BFloat16* __restrict in, float* __restrict out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    uint32_t bits = uint32_t(in[i].x) << 16;
    std::memcpy(&out[i], &bits, sizeof bits);
  }
}

template <class I>
void narrow(I isa, const float* __restrict in, BFloat16* __restrict out, int64_t n) {
  for (int64_t i = narrow_vectors(isa, in, out, n); i < n; ++i) {
    uint32_t bits;
    std::memcpy(&bits, &in[i], sizeof bits);
    uint32_t nearest_even = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    bool nan = (bits & 0x7fffffff) > 0x7f800000;
    out[i].x = uint16_t(nan ? 0x7fc0 : nearest_even);
  }
}

}  // namespace customops::cpu
