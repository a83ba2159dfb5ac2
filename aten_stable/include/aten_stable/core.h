// What every header here needs: the stable ABI's types under the names that ATen gives them, and the checks.
//
// The classes stand in an inline namespace: at::Tensor here must never be linked with at::Tensor of libtorch.
#pragma once

#ifndef TORCH_TARGET_VERSION
#define TORCH_TARGET_VERSION 0x020a000000000000  // nothing is used that torch 2.10 lacks
#endif

#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/accelerator.h>
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
#include <torch/headeronly/util/complex.h>

#include <cmath>
#include <limits>
#include <optional>
#include <ostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

static_assert(TORCH_FEATURE_VERSION == TORCH_TARGET_VERSION,
              "aten_stable: a header of the stable ABI came before, without TORCH_TARGET_VERSION: define it on the "
              "command line, as `python -m aten_stable flags` does");

namespace aten_stable {

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

}  // namespace aten_stable

// The text of torch's own macros; the types are those that torch.ops turns into the same Python exceptions.
#define ATEN_STABLE_THROW_UNLESS(type, cond, ...) \
  if (C10_UNLIKELY_OR_CONST(!(cond)))             \
  throw type(::aten_stable::message("Expected " #cond                                                              \
                                    " to be true, but got false.  (Could this error message be improved?  If so, " \
                                    "please report an enhancement request to PyTorch.)",                           \
                                    ##__VA_ARGS__))
#define TORCH_CHECK(cond, ...) ATEN_STABLE_THROW_UNLESS(std::runtime_error, cond, ##__VA_ARGS__)
#define TORCH_CHECK_INDEX(cond, ...) ATEN_STABLE_THROW_UNLESS(std::out_of_range, cond, ##__VA_ARGS__)
#define TORCH_CHECK_VALUE(cond, ...) ATEN_STABLE_THROW_UNLESS(std::invalid_argument, cond, ##__VA_ARGS__)
#define TORCH_CHECK_TYPE(cond, ...) \
  static_assert(false, "aten_stable: TORCH_CHECK_TYPE is not covered: write TORCH_CHECK or TORCH_CHECK_VALUE")
#define TORCH_CHECK_NOT_IMPLEMENTED(cond, ...) \
  static_assert(false, "aten_stable: TORCH_CHECK_NOT_IMPLEMENTED is not covered: write TORCH_CHECK")
#define TORCH_INTERNAL_ASSERT(cond, ...)                                                               \
  if (C10_UNLIKELY_OR_CONST(!(cond)))                                                                  \
  throw std::runtime_error(::aten_stable::text("\"" #cond "\" INTERNAL ASSERT FAILED at \"", __FILE__, \
                                               "\":", __LINE__, ", please report a bug to PyTorch. ", ##__VA_ARGS__))
#define AT_ASSERT(cond, ...) TORCH_INTERNAL_ASSERT(cond, ##__VA_ARGS__)
#define AT_ASSERTM(cond, ...) TORCH_CHECK(cond, ##__VA_ARGS__)
#define AT_ERROR(...) throw std::runtime_error(::aten_stable::text(__VA_ARGS__))
#define TORCH_WARN(...) \
  aoti_torch_warn(__func__, __FILE__, static_cast<uint32_t>(__LINE__), ::aten_stable::text(__VA_ARGS__).c_str())

namespace c10 {

using std::make_optional;
using std::nullopt;
using std::nullopt_t;
using std::optional;
using std::string_view;

inline namespace aten_stable_0 {

template <class T>
class ArrayRef : public HeaderOnlyArrayRef<T> {
 public:
  using HeaderOnlyArrayRef<T>::HeaderOnlyArrayRef;
  ArrayRef(const HeaderOnlyArrayRef<T>& all) : HeaderOnlyArrayRef<T>(all) {}
  ArrayRef(const std::initializer_list<T>& all) : HeaderOnlyArrayRef<T>(all) {}
  ArrayRef<T> slice(size_t start, size_t count) const { return HeaderOnlyArrayRef<T>::slice(start, count); }
  ArrayRef<T> slice(size_t start) const { return HeaderOnlyArrayRef<T>::slice(start); }
};
using IntArrayRef = ArrayRef<int64_t>;
using OptionalIntArrayRef = std::optional<IntArrayRef>;

template <class T>
std::ostream& operator<<(std::ostream& out, const ArrayRef<T>& all) {
  out << '[';
  for (size_t i = 0; i < all.size(); ++i) out << (i ? ", " : "") << all[i];
  return out << ']';
}

// What Tensor::dtype() gives. It stands for its ScalarType wherever one is asked for.
class TypeMeta {
 public:
  TypeMeta(ScalarType type) : type_(type) {}
  operator ScalarType() const { return type_; }
  ScalarType toScalarType() const { return type_; }

 private:
  ScalarType type_;
};
std::ostream& operator<<(std::ostream&,
                         const TypeMeta&) = delete;  // print scalar_type(): its text is the same anywhere

inline bool isFloatingType(ScalarType t) {
  return t == ScalarType::Double || t == ScalarType::Float || t == ScalarType::Half || t == ScalarType::BFloat16;
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

class Device {
 public:
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
  template <class T, std::enable_if_t<std::is_arithmetic_v<T> && !std::is_same_v<T, bool>, int> = 0>
  Scalar(T value) : floating_(std::is_floating_point_v<T>) {
    if constexpr (std::is_floating_point_v<T>)
      double_ = static_cast<double>(value);
    else
      int_ = static_cast<int64_t>(value);
  }
  Scalar(bool) = delete;  // write 0 or 1
  bool isFloatingPoint() const { return floating_; }
  template <class T>
  T to() const {
    return floating_ ? static_cast<T>(double_) : static_cast<T>(int_);
  }
  double toDouble() const { return to<double>(); }
  int64_t toLong() const { return to<int64_t>(); }

 private:
  bool floating_;
  double double_ = 0;
  int64_t int_ = 0;
};

struct TensorOptions {
  TensorOptions() = default;
  TensorOptions(ScalarType t) : dtype_(t) {}
  TensorOptions(TypeMeta t) : dtype_(t) {}
  TensorOptions(Device d) : device_(d) {}
  TensorOptions(DeviceType d) : device_(Device(d)) {}
  TensorOptions(Layout l) : layout_(l) {}
  TensorOptions(MemoryFormat f) : memory_format_(f) {}
  TensorOptions dtype(ScalarType t) const { return with(&TensorOptions::dtype_, t); }
  template <class T>
  TensorOptions dtype() const {
    return dtype(CppTypeToScalarType<T>::value);
  }
  TensorOptions device(Device d) const { return with(&TensorOptions::device_, d); }
  TensorOptions device(DeviceType type, DeviceIndex index) const { return device(Device(type, index)); }
  TensorOptions layout(Layout l) const { return with(&TensorOptions::layout_, l); }
  TensorOptions memory_format(MemoryFormat f) const { return with(&TensorOptions::memory_format_, f); }
  TensorOptions pinned_memory(bool yes) const { return with(&TensorOptions::pinned_memory_, yes); }
  TensorOptions requires_grad(bool yes) const { return with(&TensorOptions::requires_grad_, yes); }

  std::optional<ScalarType> dtype_;
  std::optional<Device> device_;
  std::optional<Layout> layout_;
  std::optional<bool> pinned_memory_;
  std::optional<bool> requires_grad_;
  std::optional<MemoryFormat> memory_format_;

 private:
  template <class T>
  TensorOptions with(std::optional<T> TensorOptions::* field, T value) const {
    TensorOptions copy = *this;
    copy.*field = value;
    return copy;
  }
};
inline TensorOptions dtype(ScalarType t) { return TensorOptions(t); }
inline TensorOptions device(Device d) { return TensorOptions(d); }

}  // namespace aten_stable_0

constexpr auto kByte = ScalarType::Byte, kUInt8 = ScalarType::Byte, kChar = ScalarType::Char, kInt8 = ScalarType::Char,
               kShort = ScalarType::Short, kInt16 = ScalarType::Short, kInt = ScalarType::Int, kInt32 = ScalarType::Int,
               kLong = ScalarType::Long, kInt64 = ScalarType::Long, kHalf = ScalarType::Half,
               kFloat16 = ScalarType::Half, kBFloat16 = ScalarType::BFloat16, kFloat = ScalarType::Float,
               kFloat32 = ScalarType::Float, kDouble = ScalarType::Double, kFloat64 = ScalarType::Double,
               kBool = ScalarType::Bool, kComplexFloat = ScalarType::ComplexFloat,
               kComplexDouble = ScalarType::ComplexDouble;

}  // namespace c10

namespace at {
using namespace c10;

template <class T>
using opmath_type = std::conditional_t<std::is_same_v<T, c10::Half> || std::is_same_v<T, c10::BFloat16>, float, T>;

// As ATen/AccumulateType.h has it for CPU (cuda = false) and CUDA.
template <class T, bool cuda>
using acc_type = std::conditional_t<
    std::is_same_v<T, bool> || std::is_same_v<T, double>, T,
    std::conditional_t<std::is_integral_v<T>, int64_t,
                       std::conditional_t<std::is_same_v<T, float>, std::conditional_t<cuda, float, double>,
                                          std::conditional_t<std::is_same_v<opmath_type<T>, float>, float, void>>>>;

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
using torch::headeronly::DefaultPtrTraits;
#ifdef __CUDACC__
using torch::headeronly::RestrictPtrTraits;
#endif

template <class F>
void parallel_for(int64_t begin, int64_t end, int64_t grain_size, const F& f) {
  torch::stable::parallel_for(begin, end, grain_size, f);
}
inline int get_num_threads() { return static_cast<int>(torch::stable::get_num_threads()); }

}  // namespace at

namespace torch {
using namespace at;
}  // namespace torch
