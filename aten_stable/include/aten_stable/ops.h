// The members of Tensor that are not generated, and ATen's functions of the same names.
#pragma once

#include "call.h"
#include "indexing.h"

namespace at {
inline namespace ATEN_STABLE_VERSION {

using aten_stable::call;

inline const Tensor& with_grad(const Tensor& t, const c10::TensorOptions& o) {
  return o.requires_grad_ ? t.set_requires_grad(*o.requires_grad_) : t;
}

inline Tensor Tensor::contiguous(c10::MemoryFormat format) const {
  if (is_contiguous(format)) return *this;
  return ATEN_STABLE_OPERATOR(
      Tensor, "contiguous", "",
      "contiguous(Tensor(a) self, *, MemoryFormat memory_format=contiguous_format) -> Tensor(a)", *this, format);
}
inline Tensor Tensor::to(const c10::TensorOptions& o, bool non_blocking, bool copy,
                         std::optional<c10::MemoryFormat> format) const {
  if (o.requires_grad_) throw std::runtime_error("to(options) expects unset requires_grad flag");
  return ATEN_STABLE_OPERATOR(
      Tensor, "to", "dtype_layout",
      "to.dtype_layout(Tensor(a) self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
      "bool? pin_memory=None, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> "
      "Tensor(a)",
      *this, o.dtype_, o.layout_, o.device_, o.pinned_memory_, non_blocking, copy, format ? format : o.memory_format_);
}
inline Tensor& Tensor::copy_(const Tensor& from, bool non_blocking) const {
  ATEN_STABLE_OPERATOR(Tensor, "copy_", "", "copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)",
                       *this, from, non_blocking);
  return const_cast<Tensor&>(*this);
}
inline Tensor& Tensor::fill_(const Tensor& value) const {
  ATEN_STABLE_OPERATOR(Tensor, "fill_", "Tensor", "fill_.Tensor(Tensor(a!) self, Tensor value) -> Tensor(a!)", *this,
                       value);
  return const_cast<Tensor&>(*this);
}
inline Tensor& Tensor::fill_(const c10::Scalar& value) const {
  constexpr int64_t kExact = int64_t(1) << 53;  // a double holds every integer up to here
  if (value.isComplex() || (value.isIntegral() && (value.toLong() > kExact || value.toLong() < -kExact)))
    ATEN_STABLE_OPERATOR(Tensor, "fill_", "Scalar", "fill_.Scalar(Tensor(a!) self, Scalar value) -> Tensor(a!)", *this,
                         value);
  else if (aoti_torch_aten_fill__Scalar(stable_.get(), value.toDouble()) != TORCH_SUCCESS)
    aten_stable::failed("aten_stable:op:fill_.Scalar(Tensor(a!) self, Scalar value) -> Tensor(a!)");
  return const_cast<Tensor&>(*this);
}

// A number as a tensor without dimensions, of the dtype with which it takes part in promotion as the number itself
// does.
inline Tensor number(const c10::Scalar& value, const Tensor& beside) {
  using c10::ScalarType;
  const auto empty = [](c10::IntArrayRef sizes, std::optional<ScalarType> dtype) {
    return ATEN_STABLE_OPERATOR(
        Tensor, "empty", "memory_format",
        "empty.memory_format(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, "
        "Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
        sizes, dtype, std::optional<c10::Layout>(), std::optional(c10::Device(c10::DeviceType::CPU)),
        std::optional<bool>(), std::optional<c10::MemoryFormat>());
  };
  ScalarType dtype = value.type();
  if (value.isFloatingPoint() && c10::isIntegralType(beside.scalar_type(), true))
    dtype = empty({0}, std::nullopt).scalar_type();  // torch.get_default_dtype()
  // Not by writing to an empty tensor: who traces the operators would not see the number.
  AtenTensorHandle handle = nullptr;
  TORCH_ERROR_CODE_CHECK(value.isFloatingPoint() ? aoti_torch_scalar_to_tensor_float64(value.toDouble(), &handle)
                         : value.isBoolean()     ? aoti_torch_scalar_to_tensor_bool(value.toBool(), &handle)
                                                 : aoti_torch_scalar_to_tensor_int64(value.toLong(), &handle));
  const Tensor t{torch::stable::Tensor(handle)};
  return dtype == value.type() ? t : t.to(dtype);
}

// f(self, number): a tensor without dimensions would win over self's dtype if self had none either.
template <class F>
Tensor beside(const Tensor& self, const c10::Scalar& value, const F& f) {
  const Tensor other = number(value, self);
  return self.dim() == 0 ? f(self.unsqueeze(0), other).squeeze(0) : f(self, other);
}

// Numbers take the way of tensors without dimensions, quicker than the bridge, but for complex ones.
#define X(name)                                                                                                       \
  inline Tensor Tensor::name(const Tensor& other) const {                                                             \
    return ATEN_STABLE_OPERATOR(Tensor, #name, "Tensor", #name ".Tensor(Tensor self, Tensor other) -> Tensor", *this, \
                                other);                                                                               \
  }                                                                                                                   \
  inline Tensor Tensor::name(const c10::Scalar& other) const {                                                        \
    if (other.isComplex())                                                                                            \
      return ATEN_STABLE_OPERATOR(Tensor, #name, "Scalar", #name ".Scalar(Tensor self, Scalar other) -> Tensor",      \
                                  *this, other);                                                                      \
    return beside(*this, other, [](const Tensor& a, const Tensor& b) { return a.name(b); });                          \
  }                                                                                                                   \
  inline Tensor name(const Tensor& self, const Tensor& other) { return self.name(other); }                            \
  inline Tensor name(const Tensor& self, const c10::Scalar& other) { return self.name(other); }
// clang-format off
X(mul) X(div) X(eq) X(ne) X(lt) X(le)
X(gt) X(ge)
// clang-format on
#undef X
#define X(name, sign)                                                                                                 \
  inline Tensor Tensor::name(const Tensor& other, const c10::Scalar& alpha) const {                                   \
    if (scalar_type() == c10::kBool || other.scalar_type() == c10::kBool)                                             \
      return ATEN_STABLE_OPERATOR(Tensor, #name, "Tensor",                                                            \
                                  #name ".Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", *this,     \
                                  other, alpha);                                                                      \
    return aten_stable::subtract(*this, other, sign alpha);                                                           \
  }                                                                                                                   \
  inline Tensor Tensor::name(const Tensor& other) const { return name(other, 1); }                                    \
  inline Tensor Tensor::name(const c10::Scalar& other, const c10::Scalar& alpha) const {                              \
    return ATEN_STABLE_OPERATOR(Tensor, #name, "Scalar",                                                              \
                                #name ".Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor", *this, other,   \
                                alpha);                                                                               \
  }                                                                                                                   \
  inline Tensor Tensor::name(const c10::Scalar& other) const {                                                        \
    if (other.isComplex() || other.isBoolean() || c10::isIntegralType(scalar_type(), true))                           \
      return name(other, c10::Scalar(1));                                                                             \
    return beside(*this, other, [](const Tensor& a, const Tensor& b) { return a.name(b); });                          \
  }                                                                                                                   \
  inline Tensor& Tensor::name##_(const Tensor& other, const c10::Scalar& alpha) const {                               \
    ATEN_STABLE_OPERATOR(Tensor, #name "_", "Tensor",                                                                 \
                         #name "_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)", *this,     \
                         other, alpha);                                                                               \
    return const_cast<Tensor&>(*this);                                                                                \
  }                                                                                                                   \
  inline Tensor& Tensor::name##_(const c10::Scalar& other, const c10::Scalar& alpha) const {                          \
    ATEN_STABLE_OPERATOR(Tensor, #name "_", "Scalar",                                                                 \
                         #name "_.Scalar(Tensor(a!) self, Scalar other, Scalar alpha=1) -> Tensor(a!)", *this, other, \
                         alpha);                                                                                      \
    return const_cast<Tensor&>(*this);                                                                                \
  }                                                                                                                   \
  inline Tensor& Tensor::name##_(const Tensor& other) const {                                                         \
    if (!is_floating_point()) return name##_(other, c10::Scalar(1));                                                  \
    return aten_stable::assign(*this, name(other));                                                                   \
  }                                                                                                                   \
  inline Tensor& Tensor::name##_(const c10::Scalar& other) const {                                                    \
    if (!is_floating_point()) return name##_(other, c10::Scalar(1));                                                  \
    return aten_stable::assign(*this, name(other));                                                                   \
  }                                                                                                                   \
  inline Tensor name(const Tensor& self, const Tensor& other, const c10::Scalar& alpha = 1) {                         \
    return self.name(other, alpha);                                                                                   \
  }                                                                                                                   \
  inline Tensor name(const Tensor& self, const c10::Scalar& other) { return self.name(other); }                       \
  inline Tensor name(const Tensor& self, const c10::Scalar& other, const c10::Scalar& alpha) {                        \
    return self.name(other, alpha);                                                                                   \
  }                                                                                                                   \
  ATEN_STABLE_LAZY Tensor& name##_out(Tensor& out, const Tensor& self, const Tensor& other,                           \
                                      const c10::Scalar& alpha = 1) {                                                 \
    ATEN_STABLE_OPERATOR(Tensor, #name, "out",                                                                        \
                         #name ".out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)",    \
                         self, other, alpha, out);                                                                    \
    return out;                                                                                                       \
  }
    // clang-format off
X(add, -) X(sub, )
// clang-format on
#undef X
    // As ATen does it, the number is the left factor: a 16-bit dtype rounds it, which x.mul(number) does not.
    inline Tensor& mul_number(const Tensor& self, const c10::Scalar& other) {
  return aten_stable::assign(self, beside(self, other, [](const Tensor& a, const Tensor& b) { return b.mul(a); }));
}
inline Tensor& div_number(const Tensor& self, const c10::Scalar& other) {
  beside(self, other, [](const Tensor& a, const Tensor& b) { return a.div_(b); });
  return const_cast<Tensor&>(self);
}
#define X(name)                                                                                                       \
  inline Tensor& Tensor::name##_(const Tensor& other) const {                                                         \
    ATEN_STABLE_OPERATOR(Tensor, #name "_", "Tensor", #name "_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)",  \
                         *this, other);                                                                               \
    return const_cast<Tensor&>(*this);                                                                                \
  }                                                                                                                   \
  inline Tensor& Tensor::name##_(const c10::Scalar& other) const {                                                    \
    if (is_floating_point() && !other.isComplex()) return name##_number(*this, other);                                \
    ATEN_STABLE_OPERATOR(Tensor, #name "_", "Scalar", #name "_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)",  \
                         *this, other);                                                                               \
    return const_cast<Tensor&>(*this);                                                                                \
  }                                                                                                                   \
  ATEN_STABLE_LAZY Tensor& name##_out(Tensor& out, const Tensor& self, const Tensor& other) {                         \
    ATEN_STABLE_OPERATOR(Tensor, #name, "out",                                                                        \
                         #name ".out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)", self, other, out); \
    return out;                                                                                                       \
  }
// clang-format off
X(mul) X(div)
// clang-format on
#undef X
    inline Tensor Tensor::div(const Tensor& other, std::optional<std::string_view> rounding_mode) const {
  return ATEN_STABLE_OPERATOR(Tensor, "div", "Tensor_mode",
                              "div.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor", *this,
                              other, rounding_mode);
}
inline Tensor Tensor::div(const c10::Scalar& other, std::optional<std::string_view> rounding_mode) const {
  return ATEN_STABLE_OPERATOR(Tensor, "div", "Scalar_mode",
                              "div.Scalar_mode(Tensor self, Scalar other, *, str? rounding_mode) -> Tensor", *this,
                              other, rounding_mode);
}
inline Tensor& Tensor::div_(const Tensor& other, std::optional<std::string_view> rounding_mode) const {
  ATEN_STABLE_OPERATOR(Tensor, "div_", "Tensor_mode",
                       "div_.Tensor_mode(Tensor(a!) self, Tensor other, *, str? rounding_mode) -> Tensor(a!)", *this,
                       other, rounding_mode);
  return const_cast<Tensor&>(*this);
}
inline Tensor& Tensor::div_(const c10::Scalar& other, std::optional<std::string_view> rounding_mode) const {
  ATEN_STABLE_OPERATOR(Tensor, "div_", "Scalar_mode",
                       "div_.Scalar_mode(Tensor(a!) self, Scalar other, *, str? rounding_mode) -> Tensor(a!)", *this,
                       other, rounding_mode);
  return const_cast<Tensor&>(*this);
}
template <class Other>
Tensor div(const Tensor& self, const Other& other, std::optional<std::string_view> rounding_mode) {
  return self.div(other, rounding_mode);
}

#define X(sign, name)                                                                 \
  inline Tensor operator sign(const Tensor& a, const Tensor& b) { return a.name(b); } \
  inline Tensor operator sign(const Tensor& a, const c10::Scalar& b) { return a.name(b); }
// clang-format off
X(+, add) X(-, sub) X(*, mul) X(/, div) X(==, eq) X(!=, ne)
X(<, lt) X(<=, le) X(>, gt) X(>=, ge) X(%, remainder) X(&, bitwise_and)
X(|, bitwise_or) X(^, bitwise_xor)
// clang-format on
#undef X
#define X(sign, name) \
  inline Tensor operator sign(const c10::Scalar& a, const Tensor& b) { return b.name(a); }
    // clang-format off
X(+, add) X(*, mul) X(==, eq) X(!=, ne) X(<, gt) X(<=, ge)
X(>, lt) X(>=, le)
// clang-format on
#undef X
        inline Tensor operator!(const Tensor& a) {
  return a.logical_not();
}

template <class T>
T Tensor::item() const {
  TORCH_CHECK(numel() == 1, "a Tensor with ", numel(), " elements cannot be converted to Scalar");
  using Wide = std::conditional_t<std::is_integral_v<T>, int64_t, double>;
  const Tensor host =
      to(c10::TensorOptions(c10::isIntegralType(scalar_type(), true) ? c10::ScalarType::Long : c10::ScalarType::Double)
             .device(c10::DeviceType::CPU));
  const auto convert = [](auto value) {
    const T result = static_cast<T>(static_cast<Wide>(value));
    if constexpr (std::is_integral_v<T>)
      TORCH_CHECK(static_cast<Wide>(result) == static_cast<Wide>(value), "value cannot be converted without overflow");
    return result;
  };
  if (host.scalar_type() == c10::ScalarType::Long) return convert(*host.data_ptr<int64_t>());
  return convert(*host.data_ptr<double>());
}
inline c10::Scalar Tensor::item() const {
  if (scalar_type() == c10::ScalarType::Bool) return item<int64_t>() != 0;
  if (c10::isIntegralType(scalar_type(), true)) return item<int64_t>();
  TORCH_CHECK(!is_complex(), "aten_stable: item() of a complex tensor is not covered: use at::real and at::imag");
  return item<double>();
}

inline bool Tensor::requires_grad() const { return ATEN_STABLE_BRIDGE(bool, "requires_grad", *this); }
inline bool Tensor::is_leaf() const { return ATEN_STABLE_BRIDGE(bool, "is_leaf", *this); }
inline Tensor& Tensor::requires_grad_(bool yes) const {
  set_requires_grad(yes);
  return const_cast<Tensor&>(*this);
}
inline Tensor Tensor::grad() const { return ATEN_STABLE_BRIDGE(Tensor, "grad", *this); }
inline void Tensor::backward(const std::optional<Tensor>& gradient, std::optional<bool> retain_graph,
                             bool create_graph) const {
  ATEN_STABLE_BRIDGE(Tensor, "backward", *this, gradient, retain_graph.value_or(create_graph), create_graph);
}
inline Tensor Tensor::index(const c10::List<std::optional<Tensor>>& indices) const {
  return ATEN_STABLE_OPERATOR(Tensor, "index", "Tensor", "index.Tensor(Tensor self, Tensor?[] indices) -> Tensor",
                              *this, indices);
}
inline Tensor& Tensor::index_put_(const c10::List<std::optional<Tensor>>& indices, const Tensor& values,
                                  bool accumulate) const {
  ATEN_STABLE_OPERATOR(
      Tensor, "index_put_", "",
      "index_put_(Tensor(a!) self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor(a!)", *this,
      indices, values, accumulate);
  return const_cast<Tensor&>(*this);
}
inline Tensor index(const Tensor& self, const c10::List<std::optional<Tensor>>& indices) { return self.index(indices); }
inline Tensor index_put(const Tensor& self, const c10::List<std::optional<Tensor>>& indices, const Tensor& values,
                        bool accumulate = false) {
  return self.clone().index_put_(indices, values, accumulate);
}
inline Tensor& index_put_(Tensor& self, const c10::List<std::optional<Tensor>>& indices, const Tensor& values,
                          bool accumulate = false) {
  return self.index_put_(indices, values, accumulate);
}
inline c10::ScalarType result_type(const Tensor& a, const Tensor& b) {
  return ATEN_STABLE_OPERATOR(c10::ScalarType, "result_type", "Tensor",
                              "result_type.Tensor(Tensor tensor, Tensor other) -> ScalarType", a, b);
}

Tensor full(c10::IntArrayRef sizes, const c10::Scalar& value, c10::TensorOptions o = {});

#include "generated_functions.h"

// x.index({...}) with numbers, slices, None, ... and tensors: views first, then one gather of what is left.
struct Indexed {
  Tensor view;
  c10::List<std::optional<Tensor>> tensors;
};
inline Indexed apply(const Tensor& self, c10::ArrayRef<indexing::TensorIndex> indices) {
  using Kind = indexing::TensorIndex::Kind;
  int64_t takes = 0;
  for (const auto& i : indices)
    takes += i.kind == Kind::kTensor && (i.tensor.scalar_type() == c10::kBool || i.tensor.scalar_type() == c10::kByte)
                 ? i.tensor.dim()
                 : i.kind != Kind::kNone && i.kind != Kind::kEllipsis && i.kind != Kind::kBool;
  TORCH_CHECK_INDEX(takes <= self.dim(), "too many indices for tensor of dimension ", self.dim());
  Indexed result{self, {}};
  int64_t dim = 0;
  const auto at_dim = [&](const Tensor& t) {
    while (static_cast<int64_t>(result.tensors.size()) < dim) result.tensors.push_back(std::nullopt);
    result.tensors.push_back(t);
  };
  for (const auto& i : indices) {
    if (i.kind == Kind::kInteger) {
      result.view = result.view.select(dim, i.integer);
    } else if (i.kind == Kind::kSlice) {
      result.view = result.view.slice(dim++, i.slice.start_, i.slice.stop_, i.slice.step_);
    } else if (i.kind == Kind::kNone) {
      result.view = result.view.unsqueeze(dim++);
    } else if (i.kind == Kind::kEllipsis) {
      dim += self.dim() - takes;
    } else if (i.kind == Kind::kBool) {
      result.view = result.view.unsqueeze(dim);
      at_dim(full({1}, i.integer, c10::TensorOptions(c10::kBool).device(self.device())));
      ++dim;
    } else {
      const bool mask = i.tensor.scalar_type() == c10::kBool || i.tensor.scalar_type() == c10::kByte;
      if (!mask) {
        at_dim(i.tensor);
        ++dim;
      } else {  // as many tensors of indices as the mask has dimensions
        for (const Tensor& t : i.tensor.nonzero().unbind(1)) at_dim(t), ++dim;
      }
    }
  }
  return result;
}
inline Tensor Tensor::index(c10::ArrayRef<indexing::TensorIndex> indices) const {
  const Indexed found = apply(*this, indices);
  return found.tensors.empty() ? found.view.alias() : found.view.index(found.tensors);
}
inline Tensor Tensor::index(std::initializer_list<indexing::TensorIndex> indices) const {
  return index(c10::ArrayRef<indexing::TensorIndex>(indices));
}
inline Tensor& Tensor::index_put_(c10::ArrayRef<indexing::TensorIndex> indices, const Tensor& value) const {
  const Indexed found = apply(*this, indices);
  if (found.tensors.empty())
    found.view.copy_(value);
  else
    found.view.index_put_(found.tensors, value.to(scalar_type()));
  return const_cast<Tensor&>(*this);
}
inline Tensor& Tensor::index_put_(c10::ArrayRef<indexing::TensorIndex> indices, const c10::Scalar& value) const {
  const Indexed found = apply(*this, indices);
  if (found.tensors.empty())
    found.view.fill_(value);
  else
    found.view.index_put_(found.tensors, full({}, value, options()));
  return const_cast<Tensor&>(*this);
}
inline Tensor& Tensor::index_put_(std::initializer_list<indexing::TensorIndex> indices, const Tensor& value) const {
  return index_put_(c10::ArrayRef<indexing::TensorIndex>(indices), value);
}
inline Tensor& Tensor::index_put_(std::initializer_list<indexing::TensorIndex> indices,
                                  const c10::Scalar& value) const {
  return index_put_(c10::ArrayRef<indexing::TensorIndex>(indices), value);
}

}  // namespace ATEN_STABLE_VERSION
}  // namespace at
