// Chooses the instruction set, once.
#include "../check.h"
#include "simd.h"

#if CUSTOMOPS_X86_64
#include <cpuid.h>
#elif CUSTOMOPS_NEON && defined(__gnu_linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <string>

namespace customops::cpu {
namespace {

struct Level {
  Capability capability;
  const char* name;
};
#if CUSTOMOPS_NEON
constexpr Level kLevels[] = {{Capability::baseline, "neon"}, {Capability::neon_bf16, "neon_bf16"}};
#define CUSTOMOPS_ALL_NAMES "neon or neon_bf16"
#else
constexpr Level kLevels[] = {{Capability::baseline, "baseline"},
                             {Capability::avx2, "avx2"},
                             {Capability::avx512, "avx512"},
                             {Capability::avx512_bf16, "avx512_bf16"}};
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
#elif CUSTOMOPS_NEON && defined(HWCAP2_BF16)
  return getauxval(AT_HWCAP2) & HWCAP2_BF16 ? Capability::neon_bf16 : Capability::baseline;
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
  for (const Level& level : kLevels)
    if (std::string(requested) == level.name) return std::min(best, level.capability);
  fail("CUSTOMOPS_CPU_CAPABILITY must be " CUSTOMOPS_ALL_NAMES ", got ", requested);
}

std::string cpu_capability() {
  return std::find_if(std::begin(kLevels), std::end(kLevels),
                      [](const Level& level) { return level.capability == capability(); })
      ->name;
}

}  // namespace

Capability capability() {
  static const Capability chosen = choose();
  return chosen;
}

}  // namespace customops::cpu

STABLE_TORCH_LIBRARY_IMPL(customops, CompositeExplicitAutograd, m) {
  m.impl("_cpu_capability", CUSTOMOPS_BOX("cpu_capability", &customops::cpu::cpu_capability));
}
