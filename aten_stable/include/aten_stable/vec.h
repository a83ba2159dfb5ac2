// at::vec: arrays of 32 bytes whose operations are loops over the elements, as ATen's own are where a source is not
// built for one instruction set. Compilers make vectors of the loops.
#pragma once

#include "numeric.h"
#include "util.h"

namespace at::vec {
inline namespace ATEN_STABLE_VERSION {

template <class T>
constexpr bool is_reduced_floating_point_v = std::is_same_v<T, c10::Half> || std::is_same_v<T, c10::BFloat16>;

template <class T>
class Vectorized {
 public:
  using value_type = T;
  using size_type = int;
  static constexpr size_type kSize = 32 / sizeof(T);
  static constexpr size_type size() { return kSize; }

  Vectorized() = default;
  Vectorized(T value) { std::fill_n(values_, kSize, value); }
  template <class... Values, std::enable_if_t<sizeof...(Values) == kSize && (kSize > 1), int> = 0>
  Vectorized(Values... values) : values_{static_cast<T>(values)...} {}

  static Vectorized loadu(const void* from) { return loadu(from, kSize); }
  static Vectorized loadu(const void* from, int64_t count) {
    Vectorized v;
    std::memcpy(v.values_, from, static_cast<size_t>(count) * sizeof(T));
    return v;
  }
  void store(void* to, int64_t count = kSize) const {
    std::memcpy(to, values_, static_cast<size_t>(count) * sizeof(T));
  }
  template <class Step>
  static Vectorized arange(T base = 0, Step step = 1) {
    Vectorized v;
    for (int i = 0; i < kSize; ++i) v.values_[i] = base + static_cast<T>(i) * static_cast<T>(step);
    return v;
  }
  // Of b the first `count` elements.
  static Vectorized set(const Vectorized& a, const Vectorized& b, int64_t count = kSize) {
    Vectorized v = a;
    std::copy_n(b.values_, count, v.values_);
    return v;
  }
  template <int64_t mask>
  static Vectorized blend(const Vectorized& a, const Vectorized& b) {
    Vectorized v = a;
    for (int i = 0; i < kSize; ++i)
      if (mask >> i & 1) v.values_[i] = b.values_[i];
    return v;
  }
  // b where the mask has bits, as comparisons give it.
  static Vectorized blendv(const Vectorized& a, const Vectorized& b, const Vectorized& mask) {
    Vectorized v = a;
    for (int i = 0; i < kSize; ++i)
      if (mask.bits(i)[0] & 1) v.values_[i] = b.values_[i];
    return v;
  }

  operator const T*() const { return values_; }
  operator T*() { return values_; }
  const unsigned char* bits(int i) const { return reinterpret_cast<const unsigned char*>(values_ + i); }
  int zero_mask() const {
    int mask = 0;
    for (int i = 0; i < kSize; ++i) mask |= (values_[i] == static_cast<T>(0)) << i;
    return mask;
  }

  template <class F>
  Vectorized map(const F& f) const {
    Vectorized v;
    for (int i = 0; i < kSize; ++i) v.values_[i] = static_cast<T>(f(values_[i]));
    return v;
  }
  template <class F>
  Vectorized map(const Vectorized& other, const F& f) const {
    Vectorized v;
    for (int i = 0; i < kSize; ++i) v.values_[i] = static_cast<T>(f(values_[i], other.values_[i]));
    return v;
  }
  // All bits of an element, or none.
  template <class F>
  Vectorized mask(const Vectorized& other, const F& f) const {
    Vectorized v;
    for (int i = 0; i < kSize; ++i)
      std::memset(static_cast<void*>(v.values_ + i), f(values_[i], other.values_[i]) ? 0xff : 0, sizeof(T));
    return v;
  }
  Vectorized isnan() const {
    return mask(*this, [](T a, T) { return at::_isnan(a); });
  }
  bool has_inf_nan() const {
    return std::any_of(values_, values_ + kSize, [](T a) { return at::_isnan(a) || at::_isinf(a); });
  }
  Vectorized neg() const {
    return map([](T a) { return -a; });
  }
  Vectorized abs() const {
    return map([](T a) { return a < static_cast<T>(0) ? static_cast<T>(-a) : a; }).without_sign_of_zero();
  }
  Vectorized reciprocal() const {
    return map([](T a) { return static_cast<T>(1) / a; });
  }
  Vectorized rsqrt() const {
    return map([](T a) { return static_cast<T>(1) / std::sqrt(a); });
  }
  Vectorized round() const {
    return map([](T a) { return std::nearbyint(a); });
  }
  Vectorized frac() const { return *this - trunc(); }
  Vectorized exp_u20() const { return exp(); }
  Vectorized fexp_u20() const { return exp(); }
#define X(name)                                   \
  Vectorized name() const {                       \
    return map([](T a) { return std::name(a); }); \
  }
  // clang-format off
X(exp) X(expm1) X(exp2) X(log) X(log2) X(log10) X(log1p) X(sqrt) X(sin) X(cos) X(tan) X(sinh) X(cosh) X(tanh) X(asin)
X(acos) X(atan) X(asinh) X(acosh) X(atanh) X(floor) X(ceil) X(trunc) X(erf) X(erfc) X(lgamma)
  // clang-format on
#undef X
#define X(name)                                                  \
  Vectorized name(const Vectorized& other) const {               \
    return map(other, [](T a, T b) { return std::name(a, b); }); \
  }
      // clang-format off
X(pow) X(fmod) X(atan2) X(hypot) X(nextafter) X(copysign)
  // clang-format on
#undef X
#define X(op, name)                                                 \
  Vectorized operator op(const Vectorized& b) const {               \
    return mask(b, [](T x, T y) { return x op y; });                \
  }                                                                 \
  Vectorized name(const Vectorized& b) const {                      \
    return map(b, [](T x, T y) { return static_cast<T>(x op y); }); \
  }
      // clang-format off
X(==, eq) X(!=, ne) X(<, lt) X(<=, le) X(>, gt) X(>=, ge)
  // clang-format on
#undef X
#define X(op)                                                               \
  friend Vectorized operator op(const Vectorized& a, const Vectorized& b) { \
    return a.map(b, [](T x, T y) { return x op y; });                       \
  }                                                                         \
  friend Vectorized& operator op## = (Vectorized & a, const Vectorized& b) { return a = a op b; }
      // clang-format off
X(+) X(-) X(*) X(/)
  // clang-format on
#undef X
#define X(op)                                                                           \
  friend Vectorized operator op(const Vectorized& a, const Vectorized& b) {             \
    Vectorized v;                                                                       \
    auto* to = reinterpret_cast<unsigned char*>(v.values_);                             \
    for (size_t i = 0; i < sizeof v.values_; ++i) to[i] = a.bits(0)[i] op b.bits(0)[i]; \
    return v;                                                                           \
  }
      // clang-format off
X(&) X(|) X(^)
  // clang-format on
#undef X
          Vectorized operator~() const {
    Vectorized ones;
    std::memset(static_cast<void*>(ones.values_), 0xff, sizeof values_);
    return *this ^ ones;
  }
  // What goes through an array of indices.
  template <class... Args>
  static Vectorized gather(Args&&...) {
    static_assert(::aten_stable::never<Args...>,
                  "aten_stable: Vectorized::gather is not covered: loop over the indices");
    return {};
  }

 private:
  Vectorized without_sign_of_zero() const {
    if constexpr (std::is_floating_point_v<T>)
      return map([](T a) { return std::fabs(a); });
    else
      return *this;
  }
  alignas(16) T values_[kSize] = {};
};

#define X(name, op)                                                                                   \
  template <class T>                                                                                  \
  Vectorized<T> name(const Vectorized<T>& a, const Vectorized<T>& b) {                                \
    return a.map(b, [](T x, T y) { return at::_isnan(x) ? x : at::_isnan(y) ? y : x op y ? x : y; }); \
  }
// clang-format off
X(maximum, >) X(minimum, <)
// clang-format on
#undef X
    template <class T>
    Vectorized<T> clamp_min(const Vectorized<T>& a, const Vectorized<T>& least) {
  return a.map(least, [](T x, T low) { return x < low ? low : x; });
}
template <class T>
Vectorized<T> clamp_max(const Vectorized<T>& a, const Vectorized<T>& most) {
  return a.map(most, [](T x, T high) { return x > high ? high : x; });
}
template <class T>
Vectorized<T> clamp(const Vectorized<T>& a, const Vectorized<T>& least, const Vectorized<T>& most) {
  return clamp_max(clamp_min(a, least), most);
}
template <class T>
Vectorized<T> fmadd(const Vectorized<T>& a, const Vectorized<T>& b, const Vectorized<T>& c) {
  return a * b + c;
}
template <class T>
Vectorized<T> fmsub(const Vectorized<T>& a, const Vectorized<T>& b, const Vectorized<T>& c) {
  return a * b - c;
}
template <class T>
Vectorized<T> operator-(const Vectorized<T>& a) {
  return a.neg();
}

// 16-bit elements as two vectors of float, and back.
template <class T>
std::tuple<Vectorized<float>, Vectorized<float>> convert_to_float(const Vectorized<T>& a) {
  constexpr int half = Vectorized<float>::size();
  Vectorized<float> low, high;
  for (int i = 0; i < half; ++i) low[i] = static_cast<float>(a[i]), high[i] = static_cast<float>(a[half + i]);
  return {low, high};
}
template <class T>
Vectorized<T> convert_from_float(const Vectorized<float>& low, const Vectorized<float>& high) {
  constexpr int half = Vectorized<float>::size();
  Vectorized<T> all;
  for (int i = 0; i < half; ++i) all[i] = static_cast<T>(low[i]), all[half + i] = static_cast<T>(high[i]);
  return all;
}
#define X(type, name)                                                                                 \
  inline auto convert_##name##_float(const Vectorized<type>& a) { return convert_to_float<type>(a); } \
  inline auto convert_float_##name(const Vectorized<float>& low, const Vectorized<float>& high) {     \
    return convert_from_float<type>(low, high);                                                       \
  }
// clang-format off
X(c10::BFloat16, bfloat16) X(c10::Half, half)
// clang-format on
#undef X

    template <class T>
    constexpr void check_width() {
  static_assert(!is_reduced_floating_point_v<T>,
                "aten_stable: at::vec's functions of arrays are not covered for Half and BFloat16: load vectors, and "
                "use convert_to_float and convert_from_float");
}

// f on as many vectors as there are inputs, the last of them partly filled.
template <class T, class F, class... In>
void map_all(const F& f, T* out, int64_t size, const In*... in) {
  check_width<T>();
  constexpr int64_t step = Vectorized<T>::size();
  for (int64_t at = 0; at < size; at += step) {
    const int64_t count = std::min(step, size - at);
    f(Vectorized<T>::loadu(in + at, count)...).store(out + at, count);
  }
}
template <class T, class F>
void map(const F& f, T* out, const T* in, int64_t size) {
  map_all(f, out, size, in);
}
template <class T, class F>
void map2(const F& f, T* out, const T* a, const T* b, int64_t size) {
  map_all(f, out, size, a, b);
}
template <class T, class F>
void map3(const F& f, T* out, const T* a, const T* b, const T* c, int64_t size) {
  map_all(f, out, size, a, b, c);
}
template <class T, class F>
void map4(const F& f, T* out, const T* a, const T* b, const T* c, const T* d, int64_t size) {
  map_all(f, out, size, a, b, c, d);
}

// The first `count` lanes, joined from the first on.
template <class T, class F>
T vec_reduce_all(const F& f, Vectorized<T> all, int64_t count = Vectorized<T>::size()) {
  for (int i = 1; i < std::min<int64_t>(count, Vectorized<T>::size()); ++i) {
    Vectorized<T> next(static_cast<T>(0));
    next[0] = all[i];
    Vectorized<T> joined = f(all, next);
    all[0] = joined[0];
  }
  return all[0];
}
// As ATen: lanes run along the array, and are joined in the end.
template <class T, class Map, class F, class... In>
T map_reduce(const Map& map, const F& f, int64_t size, const In*... in) {
  check_width<T>();
  constexpr int64_t step = Vectorized<T>::size();
  Vectorized<T> all = map(Vectorized<T>::loadu(in, std::min(step, size))...);
  for (int64_t at = step; at < size; at += step) {
    const int64_t count = std::min(step, size - at);
    Vectorized<T> next = map(Vectorized<T>::loadu(in + at, count)...);
    all = Vectorized<T>::set(all, f(all, next), count);
  }
  return vec_reduce_all<T>(f, all, size);
}
template <class T, class F>
T reduce_all(const F& f, const T* in, int64_t size) {
  return map_reduce<T>([](const Vectorized<T>& a) { return a; }, f, size, in);
}
template <class T, class Map, class F>
T map_reduce_all(const Map& map, const F& f, const T* in, int64_t size) {
  return map_reduce<T>(map, f, size, in);
}
template <class T, class Map, class F>
T map2_reduce_all(const Map& map, const F& f, const T* a, const T* b, int64_t size) {
  return map_reduce<T>(map, f, size, a, b);
}
template <class T, class Map, class F>
T map3_reduce_all(const Map& map, const F& f, const T* a, const T* b, const T* c, int64_t size) {
  return map_reduce<T>(map, f, size, a, b, c);
}

}  // namespace ATEN_STABLE_VERSION
}  // namespace at::vec
