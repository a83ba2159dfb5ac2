// What every header here needs: the stable ABI's types under the names that ATen gives them, and the checks.
//
// The classes stand in an inline namespace: at::Tensor here must never be linked with at::Tensor of libtorch.
#pragma once

#ifndef TORCH_TARGET_VERSION
#define TORCH_TARGET_VERSION 0x020a000000000000  // nothing is used that torch 2.10 lacks
#endif

#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/device.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/DeviceType.h>
#include <torch/headeronly/core/Layout.h>
#include <torch/headeronly/core/MemoryFormat.h>
#include <torch/headeronly/core/ScalarType.h>
#include <torch/headeronly/core/TensorAccessor.h>
#include <torch/headeronly/macros/Macros.h>
#include <torch/headeronly/util/BFloat16.h>
#include <torch/headeronly/util/Half.h>

// What ATen's headers bring along, sources use without asking for it.
#include <math.h>  // and with it ::isinf, ::sqrt and the rest

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iostream>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <ostream>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include "complex.h"
#include "version.h"

static_assert(TORCH_FEATURE_VERSION == TORCH_TARGET_VERSION,
              "aten_stable: a header of the stable ABI came before, without TORCH_TARGET_VERSION: define it on the "
              "command line, as `python -m aten_stable flags` does");

// A name that is not here: the compiler says the words where it is used.
#if defined(__clang__) || (defined(__GNUC__) && __GNUC__ >= 12 && !defined(__CUDACC__))
#define ATEN_STABLE_NO(words) __attribute__((unavailable("aten_stable: " words)))
#else
#define ATEN_STABLE_NO(words) [[deprecated("aten_stable: " words)]]
#endif

namespace c10 {
inline namespace ATEN_STABLE_VERSION {
// What TORCH_CHECK and its like throw, and calls of ATen that fail. Those of particular types leave the library as what
// torch and Python know (module.h, python.h).
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  const char* what_without_backtrace() const noexcept { return what(); }
  std::string msg() const { return what(); }
};
#define X(name)         \
  struct name : Error { \
    using Error::Error; \
  };
// clang-format off
X(IndexError) X(ValueError) X(TypeError) X(NotImplementedError)
// clang-format on
#undef X
}  // namespace ATEN_STABLE_VERSION
}  // namespace c10

namespace aten_stable {
inline namespace ATEN_STABLE_VERSION {

template <class...>
inline constexpr bool never = false;

inline std::string text() { return {}; }
template <class... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream out;
  (void)(out << ... << parts);
  return out.str();
}

template <class... Parts>
std::string message(const char* otherwise, const Parts&... parts) {
  return sizeof...(parts) == 0 ? otherwise : text(parts...);
}

// Collects words, and throws them at the statement's end.
class Failure {
 public:
  Failure() = default;
  Failure(const Failure&) = delete;
  [[noreturn]] ~Failure() noexcept(false) { throw c10::Error(words_.str()); }
  template <class T>
  Failure& operator<<(const T& value) {
    words_ << value;
    return *this;
  }

 private:
  std::ostringstream words_;
};

}  // namespace ATEN_STABLE_VERSION
}  // namespace aten_stable

// The text of torch's own macros, which need no semicolon; the types are those that torch.ops turns into the same
// Python exceptions.
#define ATEN_STABLE_THROW_UNLESS(type, cond, ...)                                                                      \
  if (C10_UNLIKELY_OR_CONST(!(cond))) {                                                                                \
    throw type(::aten_stable::message("Expected " #cond                                                              \
                                      " to be true, but got false.  (Could this error message be improved?  If so, " \
                                      "please report an enhancement request to PyTorch.)",                           \
                                      ##__VA_ARGS__)); \
  }
#define TORCH_CHECK(cond, ...) ATEN_STABLE_THROW_UNLESS(c10::Error, cond, ##__VA_ARGS__)
#define TORCH_CHECK_WITH(type, cond, ...) ATEN_STABLE_THROW_UNLESS(c10::type, cond, ##__VA_ARGS__)
#define TORCH_CHECK_INDEX(cond, ...) TORCH_CHECK_WITH(IndexError, cond, ##__VA_ARGS__)
#define TORCH_CHECK_VALUE(cond, ...) TORCH_CHECK_WITH(ValueError, cond, ##__VA_ARGS__)
#define TORCH_CHECK_TYPE(cond, ...) TORCH_CHECK_WITH(TypeError, cond, ##__VA_ARGS__)
#define TORCH_CHECK_NOT_IMPLEMENTED(cond, ...) TORCH_CHECK_WITH(NotImplementedError, cond, ##__VA_ARGS__)
#define TORCH_CHECK_LINALG(cond, ...) \
  static_assert(false, "aten_stable: TORCH_CHECK_LINALG is not covered: write TORCH_CHECK, which raises RuntimeError")
#define C10_THROW_ERROR(type, words) throw c10::type(words)
#define TORCH_INTERNAL_ASSERT(cond, ...)                                                                   \
  if (C10_UNLIKELY_OR_CONST(!(cond))) {                                                                    \
    throw c10::Error(::aten_stable::text(#cond " INTERNAL ASSERT FAILED at \"", __FILE__, "\":", __LINE__, \
                                         ", please report a bug to PyTorch. ", ##__VA_ARGS__));            \
  }
#define AT_ASSERT(cond, ...) TORCH_INTERNAL_ASSERT(cond, ##__VA_ARGS__)
#define AT_ASSERTM(cond, ...) TORCH_INTERNAL_ASSERT(cond, ##__VA_ARGS__)
#define AT_CHECK(cond, ...) TORCH_CHECK(cond, ##__VA_ARGS__)
#define AT_ERROR(...) throw c10::Error(::aten_stable::text(__VA_ARGS__))
#define TORCH_CHECK_OP(a, b, op) \
  switch (0)                     \
  case 0:                        \
  default:                       \
    if ((a)op(b)) {              \
    } else                       \
      ::aten_stable::Failure() << "Check failed: " #a " " #op " " #b " (" << (a) << " vs. " << (b) << "). "
#define TORCH_CHECK_EQ(a, b) TORCH_CHECK_OP(a, b, ==)
#define TORCH_CHECK_NE(a, b) TORCH_CHECK_OP(a, b, !=)
#define TORCH_CHECK_LE(a, b) TORCH_CHECK_OP(a, b, <=)
#define TORCH_CHECK_LT(a, b) TORCH_CHECK_OP(a, b, <)
#define TORCH_CHECK_GE(a, b) TORCH_CHECK_OP(a, b, >=)
#define TORCH_CHECK_GT(a, b) TORCH_CHECK_OP(a, b, >)
#define TORCH_CHECK_ARG(cond, at, ...) TORCH_CHECK(cond, "invalid argument ", at, ": ", __VA_ARGS__)
#ifdef NDEBUG
#define TORCH_INTERNAL_ASSERT_DEBUG_ONLY(cond, ...) \
  do {                                              \
  } while (false && static_cast<bool>(cond))
#else
#define TORCH_INTERNAL_ASSERT_DEBUG_ONLY(cond, ...) TORCH_INTERNAL_ASSERT(cond, ##__VA_ARGS__)
#endif
#define TORCH_WARN_ONCE(...)                        \
  do {                                              \
    [[maybe_unused]] static const bool once = [&] { \
      TORCH_WARN(__VA_ARGS__);                      \
      return true;                                  \
    }();                                            \
  } while (false)
#define TORCH_WARN(...) \
  aoti_torch_warn(__func__, __FILE__, static_cast<uint32_t>(__LINE__), ::aten_stable::text(__VA_ARGS__).c_str())

namespace c10 {

using std::make_optional;
using std::nullopt;
using std::nullopt_t;
using std::optional;
using std::string_view;

inline namespace ATEN_STABLE_VERSION {

template <class T>
class ArrayRef : public HeaderOnlyArrayRef<T> {
 public:
  using HeaderOnlyArrayRef<T>::HeaderOnlyArrayRef;
  ArrayRef(const HeaderOnlyArrayRef<T>& all) : HeaderOnlyArrayRef<T>(all) {}
  ArrayRef(const std::initializer_list<T>& all) : HeaderOnlyArrayRef<T>(all) {}
  ArrayRef<T> slice(size_t start, size_t count) const { return HeaderOnlyArrayRef<T>::slice(start, count); }
  ArrayRef<T> slice(size_t start) const { return HeaderOnlyArrayRef<T>::slice(start); }
  // torch's own class has these from some version after 2.11 on.
  friend bool operator==(const ArrayRef& a, const ArrayRef& b) { return a.equals(b); }
  friend bool operator!=(const ArrayRef& a, const ArrayRef& b) { return !a.equals(b); }
};
using IntArrayRef = ArrayRef<int64_t>;
using IntList = IntArrayRef;  // its name of 2018
// A function sees the sizes of the call: torch raises where they are symbols.
using SymInt = int64_t;
using SymIntArrayRef = IntArrayRef;
inline IntArrayRef asIntArrayRefSlow(SymIntArrayRef sizes, const char* = "", int64_t = 0) { return sizes; }
#define C10_AS_INTARRAYREF_SLOW(sizes) (sizes)

template <class T>
std::ostream& operator<<(std::ostream& out, const ArrayRef<T>& all) {
  out << '[';
  for (size_t i = 0; i < all.size(); ++i) out << (i ? ", " : "") << all[i];
  return out << ']';
}

// In bytes.
inline size_t elementSize(ScalarType type) {
  switch (type) {
#define X(T, name) \
  case ScalarType::name: return sizeof(T);
    AT_FORALL_SCALAR_TYPES_WITH_COMPLEX_AND_QINTS(X)
#undef X
    default: throw std::runtime_error(::aten_stable::text("elementSize: no size is known of ", toString(type)));
  }
}

// What Tensor::dtype() gives. It stands for its ScalarType wherever one is asked for.
class TypeMeta {
 public:
  TypeMeta(ScalarType type) : type_(type) {}
  operator ScalarType() const { return type_; }
  ScalarType toScalarType() const { return type_; }
  template <class T>
  static TypeMeta Make() {
    return CppTypeToScalarType<T>::value;
  }
  std::string name() const { return toString(type_); }
  size_t itemsize() const { return elementSize(type_); }

 private:
  ScalarType type_;
};
// The text that ATen gives: the C++ type.
inline std::ostream& operator<<(std::ostream& out, const TypeMeta& type) {
  switch (type.toScalarType()) {
    case ScalarType::Byte: return out << "unsigned char";
    case ScalarType::Char: return out << "signed char";
    case ScalarType::Short: return out << "short int";
    case ScalarType::Int: return out << "int";
    case ScalarType::Long: return out << "long int";
    case ScalarType::Float: return out << "float";
    case ScalarType::Double: return out << "double";
    case ScalarType::Bool: return out << "bool";
    case ScalarType::Half: return out << "c10::Half";
    case ScalarType::BFloat16: return out << "c10::BFloat16";
    default: return out << toString(type.toScalarType());
  }
}

inline bool isFloatingType(ScalarType t) {
  return t == ScalarType::Double || t == ScalarType::Float || t == ScalarType::Half || t == ScalarType::BFloat16 ||
         t == ScalarType::Float8_e4m3fn || t == ScalarType::Float8_e5m2 || t == ScalarType::Float8_e4m3fnuz ||
         t == ScalarType::Float8_e5m2fnuz || t == ScalarType::Float8_e8m0fnu;
}
inline bool isComplexType(ScalarType t) {
  return t == ScalarType::ComplexFloat || t == ScalarType::ComplexDouble || t == ScalarType::ComplexHalf;
}
inline bool isIntegralType(ScalarType t, bool with_bool) {
  switch (t) {
    case ScalarType::Byte:
    case ScalarType::Char:
    case ScalarType::Short:
    case ScalarType::Int:
    case ScalarType::Long:
    case ScalarType::UInt16:
    case ScalarType::UInt32:
    case ScalarType::UInt64: return true;
    case ScalarType::Bool: return with_bool;
    default: return false;
  }
}

using DeviceIndex = int8_t;

// As ATen writes it: CUDA or cuda.
inline std::string DeviceTypeName(DeviceType type, bool lower_case = false) {
  std::string name;
  switch (type) {
#define X(enumerator, text) \
  case DeviceType::enumerator: name = #text; break;
    // clang-format off
X(CPU, CPU) X(CUDA, CUDA) X(MKLDNN, MKLDNN) X(OPENGL, OPENGL) X(OPENCL, OPENCL) X(IDEEP, IDEEP) X(HIP, HIP) X(FPGA, FPGA)
X(MAIA, MAIA) X(XLA, XLA) X(Vulkan, VULKAN) X(Metal, METAL) X(XPU, XPU) X(MPS, MPS) X(Meta, META) X(HPU, HPU) X(VE, VE)
X(Lazy, LAZY) X(IPU, IPU) X(MTIA, MTIA) X(PrivateUse1, PRIVATEUSEONE)
    // clang-format on
#undef X
                default : throw std::runtime_error("aten_stable: a type of device without a name");
  }
  if (lower_case)
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  return name;
}
inline std::ostream& operator<<(std::ostream& out, DeviceType type) { return out << DeviceTypeName(type, true); }

class Device {
 public:
  using Type = DeviceType;
  Device(DeviceType type, DeviceIndex index = -1) : type_(type), index_(index) {}
  Device(const std::string& name) : Device(torch::stable::Device(name)) {}
  Device(const char* name) : Device(std::string(name)) {}
  Device(const torch::stable::Device& d) : type_(d.type()), index_(static_cast<DeviceIndex>(d.index())) {}
  torch::stable::Device stable() const { return {type_, index_}; }
  DeviceType type() const { return type_; }
  DeviceIndex index() const { return index_; }
  bool has_index() const { return index_ != -1; }
  bool is_cuda() const { return type_ == DeviceType::CUDA; }
  bool is_cpu() const { return type_ == DeviceType::CPU; }
  bool is_meta() const { return type_ == DeviceType::Meta; }
  void set_index(DeviceIndex index) { index_ = index; }
  bool operator==(const Device& other) const { return type_ == other.type_ && index_ == other.index_; }
  bool operator!=(const Device& other) const { return !(*this == other); }
  std::string str() const {
    const char* name = is_cuda() ? "cuda" : is_cpu() ? "cpu" : type_ == DeviceType::Meta ? "meta" : nullptr;
    if (name == nullptr) throw std::runtime_error("aten_stable: only cpu, cuda and meta devices have a text here");
    return has_index() ? std::string(name) + ":" + std::to_string(index_) : name;
  }

 private:
  DeviceType type_;
  DeviceIndex index_;
};
inline std::ostream& operator<<(std::ostream& out, const Device& device) { return out << device.str(); }

class Scalar {
 public:
  Scalar() : Scalar(int64_t(0)) {}
  template <class T, std::enable_if_t<std::is_arithmetic_v<T> || std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>,
                                      int> = 0>
  Scalar(T value) {
    if constexpr (std::is_same_v<T, bool> || std::is_integral_v<T>) {
      kind_ = std::is_same_v<T, bool> ? kBoolean : kInteger;
      int_ = static_cast<int64_t>(value);
    } else {
      double_ = static_cast<double>(value);
    }
  }
  template <class T>
  Scalar(complex<T> value) : kind_(kComplex), double_(value.real()), imaginary_(value.imag()) {}
  bool isFloatingPoint() const { return kind_ == kFloating; }
  bool isComplex() const { return kind_ == kComplex; }
  bool isBoolean() const { return kind_ == kBoolean; }
  bool isIntegral(bool with_bool = false) const { return kind_ == kInteger || (with_bool && isBoolean()); }
  ScalarType type() const {
    return isFloatingPoint() ? ScalarType::Double
           : isComplex()     ? ScalarType::ComplexDouble
           : isBoolean()     ? ScalarType::Bool
                             : ScalarType::Long;
  }
  template <class T>
  T to() const {
    if (isComplex() && imaginary_ != 0)
      throw std::runtime_error("value cannot be converted to a real type without losing its imaginary part");
    return isIntegral(true) ? static_cast<T>(int_) : static_cast<T>(double_);
  }
  double toDouble() const { return to<double>(); }
  complex<double> toComplexDouble() const { return {isIntegral(true) ? to<double>() : double_, imaginary_}; }
  float toFloat() const { return to<float>(); }
  int64_t toLong() const { return to<int64_t>(); }
  int toInt() const { return to<int>(); }
  bool toBool() const { return to<bool>(); }
  Scalar operator-() const {
    Scalar copy = *this;
    copy.kind_ = isBoolean() ? kInteger : kind_;
    copy.int_ = -int_, copy.double_ = -double_, copy.imaginary_ = -imaginary_;
    return copy;
  }
  // How a number crosses the dispatcher: its kind, and the bits of its parts (_face.py reads it).
  std::vector<int64_t> words() const {
    const auto bits = [](double value) {
      int64_t all = 0;
      std::memcpy(&all, &value, sizeof all);
      return all;
    };
    if (isIntegral(true)) return {kind_, int_, 0};
    return {kind_, bits(double_), bits(imaginary_)};
  }
  static Scalar of(const std::vector<int64_t>& words) {
    Scalar number;
    if (words.size() != 3 || words[0] < kFloating || words[0] > kComplex)
      throw std::runtime_error("aten_stable: a number is expected");
    number.kind_ = static_cast<Kind>(words[0]);
    if (number.isIntegral(true)) {
      number.int_ = words[1];
    } else {
      std::memcpy(&number.double_, &words[1], sizeof number.double_);
      std::memcpy(&number.imaginary_, &words[2], sizeof number.imaginary_);
    }
    return number;
  }

 private:
  enum Kind { kFloating, kInteger, kBoolean, kComplex } kind_ = kFloating;
  double double_ = 0, imaginary_ = 0;
  int64_t int_ = 0;
};
inline std::ostream& operator<<(std::ostream& out, const Scalar& s) {
  return s.isIntegral(true) ? out << s.toLong() : out << s.toDouble();
}

// Where ATen takes `int[]?`: nothing, a list, or one number.
class OptionalIntArrayRef {
 public:
  OptionalIntArrayRef() = default;
  OptionalIntArrayRef(std::nullopt_t) {}
  OptionalIntArrayRef(int64_t one) : one_(one), kind_(kOne) {}
  OptionalIntArrayRef(IntArrayRef list) : list_(list), kind_(kList) {}
  OptionalIntArrayRef(const std::initializer_list<int64_t>& list) : OptionalIntArrayRef(IntArrayRef(list)) {}
  OptionalIntArrayRef(const std::vector<int64_t>& list) : OptionalIntArrayRef(IntArrayRef(list)) {}
  template <class T>
  OptionalIntArrayRef(const std::optional<T>& list) {
    if (list) *this = OptionalIntArrayRef(IntArrayRef(*list));
  }
  bool has_value() const { return kind_ != kNone; }
  explicit operator bool() const { return has_value(); }
  IntArrayRef value() const {
    if (!has_value()) throw std::bad_optional_access();
    return kind_ == kOne ? IntArrayRef(&one_, 1) : list_;
  }
  IntArrayRef operator*() const { return value(); }
  IntArrayRef value_or(IntArrayRef other) const { return has_value() ? value() : other; }

 private:
  int64_t one_ = 0;
  IntArrayRef list_;
  enum Kind { kNone, kOne, kList } kind_ = kNone;
};

template <class T>
class List : public std::vector<T> {
 public:
  using std::vector<T>::vector;
  List(const std::vector<T>& all) : std::vector<T>(all) {}
  const T& get(size_t i) const { return this->at(i); }
  std::vector<T> vec() const { return *this; }
};

// As in c10, a copy is the same dictionary, and entries keep their order. It stays in this library (wire.h).
template <class K, class V>
class Dict {
 public:
  class Entry {
   public:
    Entry(K key, V value) : key_(std::move(key)), value_(std::move(value)) {}
    const K& key() const { return key_; }
    const V& value() const { return value_; }
    template <class T>
    void setValue(T&& value) const {
      value_ = std::forward<T>(value);
    }

   private:
    K key_;
    mutable V value_;
  };
  using iterator = typename std::vector<Entry>::const_iterator;
  using key_type = K;
  using mapped_type = V;

  iterator begin() const { return all_->entries.begin(); }
  iterator end() const { return all_->entries.end(); }
  size_t size() const { return all_->entries.size(); }
  bool empty() const { return size() == 0; }
  iterator find(const K& key) const {
    const auto found = all_->places.find(key);
    return found == all_->places.end() ? end() : begin() + static_cast<std::ptrdiff_t>(found->second);
  }
  bool contains(const K& key) const { return all_->places.count(key) != 0; }
  const V& at(const K& key) const {
    const auto found = find(key);
    if (found == end()) throw std::out_of_range("Argument passed to at() was not in the map.");
    return found->value();
  }
  template <class Key, class Value>
  std::pair<iterator, bool> insert(Key&& key, Value&& value) const {
    const auto found = find(key);
    if (found != end()) return {found, false};
    all_->places.emplace(key, size());
    all_->entries.emplace_back(std::forward<Key>(key), std::forward<Value>(value));
    return {end() - 1, true};
  }
  template <class Key, class Value>
  std::pair<iterator, bool> insert_or_assign(Key&& key, Value&& value) const {
    const auto found = find(key);
    if (found == end()) return insert(std::forward<Key>(key), std::forward<Value>(value));
    found->setValue(std::forward<Value>(value));
    return {found, false};
  }
  size_t erase(const K& key) const {
    const auto found = find(key);
    if (found == end()) return 0;
    all_->entries.erase(found);
    all_->places.clear();
    for (size_t i = 0; i < size(); ++i) all_->places.emplace(all_->entries[i].key(), i);
    return 1;
  }
  void clear() const { all_->entries.clear(), all_->places.clear(); }
  void reserve(size_t count) const { all_->entries.reserve(count); }
  Dict copy() const {
    Dict other;
    *other.all_ = *all_;
    return other;
  }
  bool is(const Dict& other) const { return all_ == other.all_; }

 private:
  struct All {
    std::vector<Entry> entries;
    std::unordered_map<K, size_t> places;
  };
  std::shared_ptr<All> all_ = std::make_shared<All>();
};
class ATEN_STABLE_NO("c10::Storage is not covered: use data_ptr(), storage_offset() and strides()") Storage;

// A random generator of Python's, by the address of its object; 0 is torch's own of the device where it is used. The
// stable ABI of torch 2.10 passes none: a call with one goes to Python, as one with a number does.
class Generator {
 public:
  Generator() = default;
  explicit Generator(int64_t address, DeviceIndex device = -1);  // python.h: it keeps the object
  bool defined() const { return defined_; }
  int64_t address() const { return address_; }
  Generator borrowed() const;  // the same, which somebody else holds
  DeviceIndex device_index() const { return device_; }
  uint64_t current_seed() const;
  uint64_t seed() const;
  void set_current_seed(uint64_t seed) const;

 private:
  bool defined_ = false;
  int64_t address_ = 0;
  DeviceIndex device_ = -1;  // of torch's own
  std::shared_ptr<void> kept_;
};

inline Generator Generator::borrowed() const {
  Generator other = *this;
  other.kept_.reset();
  return other;
}

struct TensorOptions {
  TensorOptions() = default;
  TensorOptions(ScalarType t) : dtype_(t) {}
  TensorOptions(TypeMeta t) : dtype_(t) {}
  TensorOptions(Device d) : device_(d) {}
  TensorOptions(const char* d) : device_(Device(d)) {}
  TensorOptions(const std::string& d) : device_(Device(d)) {}
  TensorOptions(DeviceType d) : device_(Device(d)) {}
  TensorOptions(Layout l) : layout_(l) {}
  TensorOptions(MemoryFormat f) : memory_format_(f) {}
  TensorOptions dtype(ScalarType t) const { return with(&TensorOptions::dtype_, std::optional(t)); }
  template <class T>
  TensorOptions dtype() const {
    return dtype(CppTypeToScalarType<T>::value);
  }
  TensorOptions device(Device d) const { return with(&TensorOptions::device_, std::optional(d)); }
  TensorOptions device(DeviceType type, DeviceIndex index) const { return device(Device(type, index)); }
  TensorOptions layout(Layout l) const { return with(&TensorOptions::layout_, std::optional(l)); }
  TensorOptions memory_format(MemoryFormat f) const { return with(&TensorOptions::memory_format_, std::optional(f)); }
  TensorOptions pinned_memory(bool yes) const { return with(&TensorOptions::pinned_memory_, std::optional(yes)); }
  TensorOptions requires_grad(bool yes) const { return with(&TensorOptions::requires_grad_, std::optional(yes)); }

  TypeMeta dtype() const { return dtype_.value_or(ScalarType::Float); }
  Device device() const { return device_.value_or(Device(DeviceType::CPU)); }
  Layout layout() const { return layout_.value_or(Layout::Strided); }
  bool requires_grad() const { return requires_grad_.value_or(false); }
  bool pinned_memory() const { return pinned_memory_.value_or(false); }
  bool has_dtype() const { return dtype_.has_value(); }
  bool has_device() const { return device_.has_value(); }
  template <class T, std::enable_if_t<std::is_same_v<T, std::optional<ScalarType>>, int> = 0>
  TensorOptions dtype(const T& t) const {
    return with(&TensorOptions::dtype_, t);
  }
  template <class T, std::enable_if_t<std::is_same_v<T, std::optional<Device>>, int> = 0>
  TensorOptions device(const T& d) const {
    return with(&TensorOptions::device_, d);
  }
  TensorOptions device_index(DeviceIndex index) const { return device(Device(DeviceType::CUDA, index)); }

  std::optional<ScalarType> dtype_;
  std::optional<Device> device_;
  std::optional<Layout> layout_;
  std::optional<bool> pinned_memory_;
  std::optional<bool> requires_grad_;
  std::optional<MemoryFormat> memory_format_;

 private:
  template <class T>
  TensorOptions with(std::optional<T> TensorOptions::* field, std::optional<T> value) const {
    TensorOptions copy = *this;
    copy.*field = value;
    return copy;
  }
};
inline TensorOptions dtype(ScalarType t) { return TensorOptions(t); }
// The deprecated types of ATen's: at::CPU(at::kByte).
inline TensorOptions CPU(ScalarType t) { return TensorOptions(t).device(DeviceType::CPU); }
inline TensorOptions CUDA(ScalarType t) { return TensorOptions(t).device(DeviceType::CUDA); }
inline TensorOptions device(Device d) { return TensorOptions(d); }
inline TensorOptions layout(Layout l) { return TensorOptions(l); }
inline TensorOptions memory_format(MemoryFormat f) { return TensorOptions(f); }
inline TensorOptions requires_grad(bool yes = true) { return TensorOptions().requires_grad(yes); }
inline TensorOptions pinned_memory(bool yes) { return TensorOptions().pinned_memory(yes); }

}  // namespace ATEN_STABLE_VERSION

inline ScalarType typeMetaToScalarType(TypeMeta type) { return type.toScalarType(); }
inline TypeMeta scalarTypeToTypeMeta(ScalarType type) { return type; }

constexpr auto kByte = ScalarType::Byte, kUInt8 = ScalarType::Byte, kChar = ScalarType::Char, kInt8 = ScalarType::Char,
               kShort = ScalarType::Short, kInt16 = ScalarType::Short, kInt = ScalarType::Int, kInt32 = ScalarType::Int,
               kLong = ScalarType::Long, kInt64 = ScalarType::Long, kHalf = ScalarType::Half,
               kFloat16 = ScalarType::Half, kBFloat16 = ScalarType::BFloat16, kFloat = ScalarType::Float,
               kFloat32 = ScalarType::Float, kDouble = ScalarType::Double, kFloat64 = ScalarType::Double,
               kBool = ScalarType::Bool, kComplexHalf = ScalarType::ComplexHalf,
               kComplexFloat = ScalarType::ComplexFloat, kComplexDouble = ScalarType::ComplexDouble,
               kUInt16 = ScalarType::UInt16, kUInt32 = ScalarType::UInt32, kUInt64 = ScalarType::UInt64,
               kFloat8_e4m3fn = ScalarType::Float8_e4m3fn, kFloat8_e5m2 = ScalarType::Float8_e5m2,
               kFloat8_e4m3fnuz = ScalarType::Float8_e4m3fnuz, kFloat8_e5m2fnuz = ScalarType::Float8_e5m2fnuz,
               kFloat8_e8m0fnu = ScalarType::Float8_e8m0fnu;

}  // namespace c10

namespace at {
using namespace c10;

template <class T>
struct Opmath {
  static constexpr bool short_float = sizeof(T) <= 2 && !std::is_integral_v<T>;  // Half, BFloat16, Float8
  using type = std::conditional_t<short_float, float, T>;
};
template <>
struct Opmath<c10::complex<c10::Half>> {
  using type = c10::complex<float>;
};
template <class T>
using opmath_type = typename Opmath<T>::type;

// As ATen/AccumulateType.h has it for CPU (cuda = false) and CUDA.
template <class T, bool cuda>
struct AccumulateType {
  using Wide = std::conditional_t<std::is_same_v<T, float> && !cuda, double, opmath_type<T>>;
  using type = std::conditional_t<std::is_integral_v<T> && !std::is_same_v<T, bool>, int64_t, Wide>;
};
template <class T, bool cuda>
struct AccumulateType<c10::complex<T>, cuda> {
  using type = c10::complex<typename AccumulateType<T, cuda>::type>;
};
template <class T, bool cuda>
using acc_type = typename AccumulateType<T, cuda>::type;

template <class T, size_t N, template <class> class Traits = torch::headeronly::DefaultPtrTraits,
          class index_t = int64_t>
using TensorAccessor = torch::headeronly::HeaderOnlyTensorAccessor<T, N, Traits, index_t>;
template <class T, size_t N, template <class> class Traits = torch::headeronly::DefaultPtrTraits,
          class index_t = int64_t>
using GenericPackedTensorAccessor = torch::headeronly::HeaderOnlyGenericPackedTensorAccessor<T, N, Traits, index_t>;
template <class T, size_t N, template <class> class Traits = torch::headeronly::DefaultPtrTraits>
using PackedTensorAccessor32 = GenericPackedTensorAccessor<T, N, Traits, int32_t>;
template <class T, size_t N, template <class> class Traits = torch::headeronly::DefaultPtrTraits>
using PackedTensorAccessor64 = GenericPackedTensorAccessor<T, N, Traits, int64_t>;
template <class T, size_t N, template <class> class Traits = torch::headeronly::DefaultPtrTraits,
          class index_t = int64_t>
using PackedTensorAccessor = GenericPackedTensorAccessor<T, N, Traits, index_t>;  // its name of 2018
using torch::headeronly::DefaultPtrTraits;
#ifdef __CUDACC__
using torch::headeronly::RestrictPtrTraits;
#endif

inline namespace ATEN_STABLE_VERSION {
inline bool& is_part_of_loop() {
  static thread_local bool yes = false;
  return yes;
}
inline bool in_parallel_region() { return is_part_of_loop(); }
// f is given all at once where torch takes one thread: then no other code runs beside it.
template <class F>
void parallel_for(int64_t begin, int64_t end, int64_t grain_size, const F& f) {
  struct Part {
    explicit Part(bool yes) : before(is_part_of_loop()) { is_part_of_loop() = before || yes; }
    ~Part() { is_part_of_loop() = before; }
    const bool before;
  };
  torch::stable::parallel_for(begin, end, grain_size, [&](int64_t from, int64_t to) {
    const Part part(to - from < end - begin);
    f(from, to);
  });
}
namespace internal {
constexpr int64_t GRAIN_SIZE = 32768;
}
inline int get_num_threads() { return static_cast<int>(torch::stable::get_num_threads()); }
inline int get_thread_num() {
  uint32_t number = 0;
  TORCH_ERROR_CODE_CHECK(torch_get_thread_idx(&number));
  return static_cast<int>(number);
}
inline void init_num_threads() {}  // torch has done it
// As ATen: each thread's part starts from `identity`, and the parts are joined in the order of the threads.
template <class T, class F, class Join>
T parallel_reduce(int64_t begin, int64_t end, int64_t grain_size, T identity, const F& f, const Join& join) {
  if (begin >= end) return identity;
  const int threads = get_num_threads();
  if (end - begin <= grain_size || in_parallel_region() || threads == 1) return f(begin, end, identity);
  struct Part {  // of its own, so that bools are no bits of one word
    T value;
  };
  std::vector<Part> parts(static_cast<size_t>(threads), Part{identity});
  parallel_for(begin, end, grain_size, [&](int64_t from, int64_t to) {
    parts[static_cast<size_t>(get_thread_num())].value = f(from, to, identity);
  });
  T all = identity;
  for (const Part& part : parts) all = join(all, part.value);
  return all;
}
}  // namespace ATEN_STABLE_VERSION

}  // namespace at

namespace torch {
using namespace at;
using Dtype = at::ScalarType;
constexpr auto kU8 = at::kByte, kU16 = at::kUInt16, kU32 = at::kUInt32, kU64 = at::kUInt64, kI8 = at::kChar,
               kI16 = at::kShort, kI32 = at::kInt, kI64 = at::kLong, kF16 = at::kHalf, kF32 = at::kFloat,
               kF64 = at::kDouble;
}  // namespace torch

template <>
struct std::hash<c10::Device> {
  size_t operator()(const c10::Device& device) const noexcept {
    return static_cast<size_t>(device.type()) << 8 | static_cast<unsigned char>(device.index());
  }
};
