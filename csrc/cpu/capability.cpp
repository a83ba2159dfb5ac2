// Chooses the instruction set, once.
#include <torch/csrc/stable/library.h>

#include "../check.h"
#include "simd.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <algorithm>
#include <cstdlib>
#include <string>

namespace customops::cpu {
namespace {

constexpr const char* kNames[] = {"baseline", "avx2", "avx512"};

Capability detect() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  unsigned eax, ebx, ecx = 0, edx;
  __get_cpuid(1, &eax, &ebx, &ecx, &edx);  // GCC 10's __builtin_cpu_supports does not know f16c
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !(ecx & bit_F16C))
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

std::string cpu_capability() { return kNames[int(capability())]; }

}  // namespace

Capability capability() {
  static const Capability chosen = choose();
  return chosen;
}

}  // namespace customops::cpu

STABLE_TORCH_LIBRARY_IMPL(customops, CompositeExplicitAutograd, m) {
  m.impl("_cpu_capability", TORCH_BOX(&customops::cpu::cpu_capability));
}
