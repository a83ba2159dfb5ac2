// Chooses the instruction set, once.
#include "../check.h"
#include "simd.h"

#if CUSTOMOPS_X86_64
#include <cpuid.h>
#endif

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <string>

namespace customops::cpu {
namespace {

#if CUSTOMOPS_NEON
constexpr const char* kNames[] = {"neon"};
#define CUSTOMOPS_ALL_NAMES "neon"
#else
constexpr const char* kNames[] = {"baseline", "avx2", "avx512", "avx512_bf16"};
#define CUSTOMOPS_ALL_NAMES "baseline, avx2, avx512 or avx512_bf16"
#endif

Capability detect() {
#if CUSTOMOPS_X86_64
  __builtin_cpu_init();
  unsigned eax, ebx, ecx = 0, edx;
  __get_cpuid(1, &eax, &ebx, &ecx, &edx);  // GCC 10's __builtin_cpu_supports does not know f16c
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !(ecx & bit_F16C))
    return Capability::baseline;
  bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (!avx512) return Capability::avx2;
  const bool bf16 =
      __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) && (eax & 1 << 5);  // AVX512_BF16, by Intel's manual
  return bf16 ? Capability::avx512_bf16 : Capability::avx512;
#else
  return Capability::baseline;
#endif
}

// The one to use, of what the machine has. Intel's instructions for bfloat16 were slower than those for float32
// (Emerald Rapids: up to 1.7 times in depthwise_conv2d), AMD's faster (Zen 5: 1.3 times).
Capability fastest(Capability best) {
#if CUSTOMOPS_X86_64
  if (best == Capability::avx512_bf16 && __builtin_cpu_is("intel")) return Capability::avx512;
#endif
  return best;
}

Capability choose() {
  const Capability best = detect();
  const char* requested = std::getenv("CUSTOMOPS_CPU_CAPABILITY");
  if (requested == nullptr || *requested == '\0') return fastest(best);
  for (int level = 0; level < int(std::size(kNames)); ++level)
    if (std::string(requested) == kNames[level]) return std::min(best, Capability(level));
  fail("CUSTOMOPS_CPU_CAPABILITY must be " CUSTOMOPS_ALL_NAMES ", got ", requested);
}

std::string cpu_capability() { return kNames[int(capability())]; }

}  // namespace

Capability capability() {
  static const Capability chosen = choose();
  return chosen;
}

}  // namespace customops::cpu

STABLE_TORCH_LIBRARY_IMPL(customops, CompositeExplicitAutograd, m) {
  m.impl("_cpu_capability", CUSTOMOPS_BOX("cpu_capability", &customops::cpu::cpu_capability));
}
