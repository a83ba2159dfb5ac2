// c10::IValue: what AutogradContext::saved_data holds. It stays in this library and never crosses the dispatcher.
#pragma once

#include <variant>

#include "tensor.h"

namespace c10 {
inline namespace ATEN_STABLE_VERSION {

class IValue {
  using Value = std::variant<std::monostate, at::Tensor, bool, int64_t, double, std::string, Device, complex<double>,
                             std::vector<int64_t>, std::vector<double>, std::vector<bool>, std::vector<std::string>,
                             std::vector<at::Tensor>, std::vector<std::optional<at::Tensor>>>;

 public:
  IValue() = default;
  IValue(nullopt_t) {}
  IValue(at::Tensor t) : value_(std::move(t)) {}
  template <class T, std::enable_if_t<std::is_arithmetic_v<T>, int> = 0>
  IValue(T number) {
    if constexpr (std::is_same_v<T, bool>)
      value_ = number;
    else if constexpr (std::is_integral_v<T>)
      value_ = static_cast<int64_t>(number);
    else
      value_ = static_cast<double>(number);
  }
  IValue(const Scalar& s) {
    if (s.isFloatingPoint())
      value_ = s.toDouble();
    else if (s.isComplex())
      throw std::runtime_error("aten_stable: a complex Scalar in an IValue is not covered: save its two parts");
    else if (s.isBoolean())
      value_ = s.toBool();
    else
      value_ = s.toLong();
  }
  IValue(const char* text) : value_(std::string(text)) {}
  IValue(std::string text) : value_(std::move(text)) {}
  IValue(Device device) : value_(device) {}
  IValue(ScalarType type) : value_(static_cast<int64_t>(type)) {}
  IValue(TypeMeta type) : IValue(type.toScalarType()) {}
  IValue(Layout layout) : value_(static_cast<int64_t>(layout)) {}
  IValue(MemoryFormat format) : value_(static_cast<int64_t>(format)) {}
  template <class T>
  IValue(std::vector<T> list) {
    assign(list);
  }
  template <class T>
  IValue(ArrayRef<T> list) {
    assign(list);
  }
  template <class T, size_t N>
  IValue(const std::array<T, N>& list) {
    assign(list);
  }
  template <class T>
  IValue(const std::optional<T>& value) {
    if (value) *this = IValue(*value);
  }

  bool isNone() const { return is<std::monostate>(); }
  bool isTensor() const { return is<at::Tensor>(); }
  bool isBool() const { return is<bool>(); }
  bool isInt() const { return is<int64_t>(); }
  bool isDouble() const { return is<double>(); }
  bool isString() const { return is<std::string>(); }
  bool isDevice() const { return is<Device>(); }
  bool isIntList() const { return is<std::vector<int64_t>>(); }
  bool isDoubleList() const { return is<std::vector<double>>(); }
  bool isBoolList() const { return is<std::vector<bool>>(); }
  bool isTensorList() const { return is<std::vector<at::Tensor>>(); }
  bool isScalar() const { return isInt() || isDouble() || isBool(); }

  const at::Tensor& toTensor() const { return get<at::Tensor>("Tensor"); }
  bool toBool() const { return get<bool>("Bool"); }
  int64_t toInt() const { return get<int64_t>("Int"); }
  int64_t toSymInt() const { return toInt(); }
  double toDouble() const { return get<double>("Double"); }
  const std::string& toStringRef() const { return get<std::string>("String"); }
  std::string_view toStringView() const { return toStringRef(); }
  Device toDevice() const { return get<Device>("Device"); }
  ScalarType toScalarType() const { return static_cast<ScalarType>(toInt()); }
  Layout toLayout() const { return static_cast<Layout>(toInt()); }
  MemoryFormat toMemoryFormat() const { return static_cast<MemoryFormat>(toInt()); }
  Scalar toScalar() const { return isInt() ? Scalar(toInt()) : isBool() ? Scalar(toBool()) : Scalar(toDouble()); }
  std::vector<int64_t> toIntVector() const { return get<std::vector<int64_t>>("IntList"); }
  std::vector<int64_t> toDimVector() const { return toIntVector(); }
  std::vector<double> toDoubleVector() const { return get<std::vector<double>>("DoubleList"); }
  std::vector<at::Tensor> toTensorVector() const { return get<std::vector<at::Tensor>>("TensorList"); }
  List<int64_t> toIntList() const { return toIntVector(); }
  List<double> toDoubleList() const { return toDoubleVector(); }
  List<bool> toBoolList() const { return get<std::vector<bool>>("BoolList"); }
  List<at::Tensor> toTensorList() const { return toTensorVector(); }
  std::vector<std::optional<at::Tensor>> toOptionalTensorVector() const {
    return get<std::vector<std::optional<at::Tensor>>>("OptionalTensorList");
  }

  template <class T>
  T to() const {
    if constexpr (std::is_same_v<T, bool>)
      return toBool();
    else if constexpr (std::is_integral_v<T>)
      return static_cast<T>(toInt());
    else if constexpr (std::is_floating_point_v<T>)
      return static_cast<T>(toDouble());
    else if constexpr (std::is_enum_v<T>)
      return static_cast<T>(toInt());
    else if constexpr (std::is_same_v<T, Scalar>)
      return toScalar();
    else
      return get<T>("another type");
  }
  template <class T>
  std::optional<T> toOptional() const {
    return isNone() ? std::nullopt : std::optional<T>(to<T>());
  }

 private:
  template <class T>
  bool is() const {
    return std::holds_alternative<T>(value_);
  }
  template <class T>
  const T& get(const char* name) const {
    if (!is<T>()) throw std::runtime_error(::aten_stable::text("IValue: expected ", name, ", and it holds another"));
    return *std::get_if<T>(&value_);
  }
  template <class L>
  void assign(const L& list) {
    using T = std::decay_t<decltype(*list.begin())>;
    using E = std::conditional_t<
        std::is_same_v<typename std::iterator_traits<decltype(list.begin())>::value_type, bool>, bool,
        std::conditional_t<std::is_integral_v<T>, int64_t, std::conditional_t<std::is_floating_point_v<T>, double, T>>>;
    value_ = std::vector<E>(list.begin(), list.end());
  }
  Value value_;
};

}  // namespace ATEN_STABLE_VERSION
}  // namespace c10
