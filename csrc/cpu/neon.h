// What differs on ARM: the vector layer for aarch64, whose baseline has NEON: 32 registers of 16 bytes, fused
// multiply-add, and conversion instructions for float16. Included by simd.h.
#pragma once

#include <arm_neon.h>

#include "simd.h"

namespace customops::cpu {

// Every aarch64 CPU has what the compiler's baseline has. There is no name for a lesser one.
inline constexpr Capability kNeon = Capability::baseline;

inline float32x4_t load_four(const Half* p) {
  return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(reinterpret_cast<const uint16_t*>(p))));
}
inline void store_four(Half* p, float32x4_t v) {
  vst1_u16(reinterpret_cast<uint16_t*>(p), vreinterpret_u16_f16(vcvt_f16_f32(v)));
}

inline int64_t widen_vectors(Isa<kNeon>, const Half* in, float* out, int64_t n) {
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) vst1q_f32(out + i, load_four(in + i));
  return i;
}

inline int64_t narrow_vectors(Isa<kNeon>, const float* in, Half* out, int64_t n) {
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) store_four(out + i, vld1q_f32(in + i));
  return i;
}

// Instructions of armv8.6-a: to the nearest, ties to even. A NaN stays one, and keeps its upper bits.
__attribute__((target("arch=armv8.2-a+bf16"), noinline)) inline int64_t narrow_bf16(const float* in, BFloat16* out,
                                                                                    int64_t n) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const bfloat16x8_t low = vcvtq_low_bf16_f32(vld1q_f32(in + i));
    vst1q_bf16(reinterpret_cast<bfloat16_t*>(out + i), vcvtq_high_bf16_f32(low, vld1q_f32(in + i + 4)));
  }
  return i;
}

inline int64_t narrow_vectors(Isa<kNeon>, const float* in, BFloat16* out, int64_t n) {
  return capability() == Capability::neon_bf16 ? narrow_bf16(in, out, n) : 0;
}

template <>
struct Vec<kNeon, float> {
  static constexpr int kLanes = 4;
  float32x4_t v;

  void set(float x) { v = vdupq_n_f32(x); }
  void keep() {
    auto kept = v;
    asm("" : "+w"(kept));
    v = kept;
  }
  void load(const float* p) { v = vld1q_f32(p); }
  void store(float* p) const { vst1q_f32(p, v); }
  void fma(const Vec& a, const Vec& b) { v = vfmaq_f32(v, a.v, b.v); }
  void fma(const Vec& a, const float* p) { v = vfmaq_f32(v, a.v, vld1q_f32(p)); }
  static void zip(const Vec& a, const Vec& b, Vec& lo, Vec& hi) {
    const float32x4_t x = a.v, y = b.v;
    lo.v = vzip1q_f32(x, y);
    hi.v = vzip2q_f32(x, y);
  }
  void load(const Half* p) { v = load_four(p); }
  void store(Half* p) const { store_four(p, v); }
  void load(const BFloat16* p) {
    v = vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(reinterpret_cast<const uint16_t*>(p)), 16));
  }
  // To the nearest, ties to even: the upper half of bits + 0x7fff + the lowest bit that stays.
  void store(BFloat16* p) const {
    const uint32x4_t bits = vreinterpretq_u32_f32(v), odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    const uint16x4_t nearest = vaddhn_u32(vaddq_u32(bits, odd), vdupq_n_u32(0x7fff));
    const uint16x4_t number = vmovn_u32(vceqq_f32(v, v));
    vst1_u16(reinterpret_cast<uint16_t*>(p), vbsl_u16(number, nearest, vdup_n_u16(0x7fc0)));
  }
};

// Loads two neighbours by one instruction, and steps p behind them. The compiler finds neither where it adds an index
// to p.
inline void load_two(Vec<kNeon, float> (&two)[2], const float*& p) {
  const auto& both = *reinterpret_cast<const float (*)[8]>(p);
  asm("ldp %q0, %q1, [%2], #32" : "=w"(two[0].v), "=w"(two[1].v), "+r"(p) : "m"(both));
}

// Loads, and steps p by `step` elements.
inline void load_and_step(Vec<kNeon, float>& v, const float*& p, int64_t step) {
  const auto& one = *reinterpret_cast<const float (*)[4]>(p);
  asm("ld1 {%0.4s}, [%1], %2" : "=w"(v.v), "+r"(p) : "r"(step * sizeof(float)), "m"(one));
}

// Loads three neighbours by one instruction, and steps p behind them. %S0 to %U0: registers that follow each other.
inline void load_three(Vec<kNeon, float> (&three)[3], const float*& p) {
  const auto& all = *reinterpret_cast<const float (*)[12]>(p);
  float32x4x3_t v;
  asm("ld1 {%S0.4s - %U0.4s}, [%1], #48" : "=w"(v), "+r"(p) : "m"(all));
  for (int i = 0; i < 3; ++i) three[i].v = v.val[i];
}

// As for any register, but inlined: a function would take the registers in memory.
__attribute__((always_inline)) inline void transpose(Vec<kNeon, float> (&v)[4]) {
  for (int step = 0; step < 2; ++step) {
    const float32x4_t a = v[0].v, b = v[1].v, c = v[2].v, d = v[3].v;
    v[0].v = vzip1q_f32(a, c), v[1].v = vzip2q_f32(a, c);
    v[2].v = vzip1q_f32(b, d), v[3].v = vzip2q_f32(b, d);
  }
}

template <>
struct Vec<kNeon, double> {
  static constexpr int kLanes = 2;
  float64x2_t v;

  void set(double x) { v = vdupq_n_f64(x); }
  void keep() {
    auto kept = v;
    asm("" : "+w"(kept));
    v = kept;
  }
  void load(const double* p) { v = vld1q_f64(p); }
  void store(double* p) const { vst1q_f64(p, v); }
  void fma(const Vec& a, const Vec& b) { v = vfmaq_f64(v, a.v, b.v); }
  void fma(const Vec& a, const double* p) { v = vfmaq_f64(v, a.v, vld1q_f64(p)); }
  static void zip(const Vec& a, const Vec& b, Vec& lo, Vec& hi) {
    const float64x2_t x = a.v, y = b.v;
    lo.v = vzip1q_f64(x, y);
    hi.v = vzip2q_f64(x, y);
  }
};

}  // namespace customops::cpu
