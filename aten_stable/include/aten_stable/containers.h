// Smaller pieces of c10's: hash maps, guards that run at a scope's end, loops that are unrolled.
#pragma once

#include "util.h"

// C++'s own containers with the same members: the order of elements is another, and references stay valid for longer.
namespace ska {
inline namespace ATEN_STABLE_VERSION {
template <class K, class V, class Hash = std::hash<K>, class Equal = std::equal_to<K>>
class flat_hash_map : public std::unordered_map<K, V, Hash, Equal> {
 public:
  using std::unordered_map<K, V, Hash, Equal>::unordered_map;
};
template <class K, class Hash = std::hash<K>, class Equal = std::equal_to<K>>
class flat_hash_set : public std::unordered_set<K, Hash, Equal> {
 public:
  using std::unordered_set<K, Hash, Equal>::unordered_set;
};
}  // namespace ATEN_STABLE_VERSION
}  // namespace ska

namespace c10 {
inline namespace ATEN_STABLE_VERSION {
template <class F>
class scope_exit {
 public:
  explicit scope_exit(F f) : f_(std::move(f)) {}
  scope_exit(scope_exit&& other) noexcept : f_(std::move(other.f_)), armed_(std::exchange(other.armed_, false)) {}
  scope_exit(const scope_exit&) = delete;
  ~scope_exit() {
    if (armed_) f_();
  }
  void release() { armed_ = false; }

 private:
  F f_;
  bool armed_ = true;
};
template <class F>
scope_exit<std::decay_t<F>> make_scope_exit(F&& f) {
  return scope_exit<std::decay_t<F>>(std::forward<F>(f));
}

using std::call_once;
using std::once_flag;

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded<std::decay_t<F>...> overloaded(F&&... f) {
  return {std::forward<F>(f)...};
}

// A function that somebody else keeps.
template <class F>
class function_ref;
template <class R, class... Args>
class function_ref<R(Args...)> {
 public:
  template <class F, std::enable_if_t<!std::is_same_v<std::decay_t<F>, function_ref>, int> = 0>
  function_ref(F&& f) : f_(std::ref(f)) {}
  R operator()(Args... args) const { return f_(std::forward<Args>(args)...); }

 private:
  std::function<R(Args...)> f_;
};

// (number, element) of each element.
template <class C>
class Enumerated {
 public:
  template <class I>
  struct iterator {
    using iterator_category = std::input_iterator_tag;
    using difference_type = std::ptrdiff_t;
    using value_type = std::pair<size_t, decltype(*std::declval<I>())>;
    using pointer = value_type*;
    using reference = value_type;
    size_t number;
    I at;
    value_type operator*() const { return {number, *at}; }
    iterator& operator++() { return ++number, ++at, *this; }
    bool operator!=(const iterator& other) const { return at != other.at; }
  };
  using Iterator = iterator<decltype(std::begin(std::declval<C&>()))>;
  explicit Enumerated(C&& all) : all_(std::forward<C>(all)) {}
  Iterator begin() { return {0, std::begin(all_)}; }
  Iterator end() { return {0, std::end(all_)}; }

 private:
  C all_;  // a reference, or what was given away
};
template <class C>
Enumerated<C> enumerate(C&& all) {
  return Enumerated<C>(std::forward<C>(all));
}

template <class C>
std::ptrdiff_t ssize(const C& c) {
  return static_cast<std::ptrdiff_t>(c.size());
}
inline DimVector contiguous_strides(IntArrayRef sizes) {
  DimVector strides(sizes.size());
  int64_t step = 1;
  for (size_t d = sizes.size(); d-- > 0; step *= std::max<int64_t>(sizes[d], 1)) strides[d] = step;
  return strides;
}

template <int n>
struct ForcedUnroll {
  template <class F, class... Args>
  C10_HOST_DEVICE void operator()(const F& f, Args... args) const {
    if constexpr (n > 1) ForcedUnroll<n - 1>{}(f, args...);
    f(std::integral_constant<int, n - 1>{}, args...);
  }
};

template <class To, class From>
C10_HOST_DEVICE To convert(From from) {
  return static_cast<To>(from);
}
template <class A, class B>
C10_HOST_DEVICE auto copysign(const A& a, const B& b) {
  if constexpr (std::is_arithmetic_v<A> && std::is_arithmetic_v<B>)
    return std::copysign(a, b);
  else
    return static_cast<A>(std::copysign(static_cast<float>(a), static_cast<float>(b)));
}
}  // namespace ATEN_STABLE_VERSION
}  // namespace c10

// The place of an element, dimension by dimension, for loops over a part of all elements.
namespace at::native {
inline namespace ATEN_STABLE_VERSION {
template <class T>
T data_index_init(T offset) {
  return offset;
}
template <class T, class... Rest>
T data_index_init(T offset, T& x, const T& size, Rest&&... rest) {
  offset = data_index_init(offset, std::forward<Rest>(rest)...);
  x = offset % size;
  return offset / size;
}
inline bool data_index_step() { return true; }
template <class T, class... Rest>
bool data_index_step(T& x, const T& size, Rest&&... rest) {
  if (!data_index_step(std::forward<Rest>(rest)...)) return false;
  x = x + 1 == size ? 0 : x + 1;
  return x == 0;
}
}  // namespace ATEN_STABLE_VERSION
}  // namespace at::native
