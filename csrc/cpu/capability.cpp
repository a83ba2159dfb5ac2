// Chooses the instruction set once, and holds the float16 conversions that need instructions by name.
#include "simd.h"

#include "../check.h"

#include <torch/csrc/stable/library.h>

#include <cstdlib>
#include <string>

namespace customops::cpu {
namespace {

constexpr const char* kNames[] = {"baseline", "avx2", "avx512"};

Capability detect() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("f16c"))
    return Capability::baseline;
  bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return avx512 ? Capability::avx512 : Capability::avx2;
#else
  return Capability::baseline;
#endif
}

Capability choose() {
  Capability best = detect();
  const char* wanted = std::getenv("CUSTOMOPS_CPU_CAPABILITY");
  if (wanted == nullptr || *wanted == '\0') return best;
  for (int level = 0; level < 3; ++level)
    if (std::string(wanted) == kNames[level]) return std::min(best, Capability(level));
  fail("CUSTOMOPS_CPU_CAPABILITY must be baseline, avx2 or avx512, got ", wanted);
}

#if defined(__x86_64__)
CUSTOMOPS_AVX2 int64_t widen_f16c(const Half* in, float* out, int64_t n) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i))));
  return i;
}

CUSTOMOPS_AVX2 int64_t narrow_f16c(const float* in, Half* out, int64_t n) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT));
  return i;
}
#else
int64_t widen_f16c(const Half*, float*, int64_t) { return 0; }
int64_t narrow_f16c(const float*, Half*, int64_t) { return 0; }
#endif

std::string cpu_capability() { return kNames[int(capability())]; }

}  // namespace

Capability capability() {
  static const Capability chosen = choose();
  return chosen;
}

void widen(const Half* in, float* out, int64_t n) {
  int64_t i = capability() == Capability::baseline ? 0 : widen_f16c(in, out, n);
  for (; i < n; ++i) out[i] = in[i];
}

void narrow(const float* in, Half* out, int64_t n) {
  int64_t i = capability() == Capability::baseline ? 0 : narrow_f16c(in, out, n);
  for (; i < n; ++i) out[i] = in[i];
}

}  // namespace customops::cpu

STABLE_TORCH_LIBRARY_IMPL(customops, CompositeExplicitAutograd, m) {
  m.impl("_cpu_capability", TORCH_BOX(&customops::cpu::cpu_capability));
}
