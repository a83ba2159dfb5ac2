// ATen's functions and the members of Tensor that call operators.
#pragma once

#include "call.h"

namespace at {
inline namespace aten_stable_0 {

namespace op = aten_stable::op;
using aten_stable::call;
using Sizes = std::vector<int64_t>;

#define X(name)                                                        \
  inline Tensor Tensor::name() const { return call<op::name>(*this); } \
  inline Tensor name(const Tensor& self) { return self.name(); }
ATEN_STABLE_UNARY(X)
#undef X
#define X(name)                                                                                                   \
  inline Tensor Tensor::name() const { return call<op::name>(*this, std::optional<c10::ScalarType>()); }          \
  inline Tensor Tensor::name(c10::ScalarType dtype) const { return call<op::name>(*this, std::optional(dtype)); } \
  inline Tensor name(const Tensor& self) { return self.name(); }
ATEN_STABLE_REDUCE(X)
#undef X
#define X(name)                               \
  inline const Tensor& Tensor::name() const { \
    call<op::name>(*this);                    \
    return *this;                             \
  }                                           \
  inline const Tensor& name(const Tensor& self) { return self.name(); }
ATEN_STABLE_UNARY_IN_PLACE(X)
#undef X
#define X(name) \
  inline Tensor name(const Tensor& self, const Tensor& other) { return self.name(other); }
ATEN_STABLE_BINARY(X)
X(add)
X(sub)
X(mul)
X(div)
#undef X
#define X(name) \
  inline Tensor Tensor::name(const Tensor& other) const { return call<op::name>(*this, other); }
    X(mm) X(bmm) X(matmul) X(mv) X(dot) X(maximum) X(minimum) X(logical_and) X(logical_or) X(expand_as) X(view_as)
        X(masked_select)
#undef X
#define X(name) \
  inline Tensor Tensor::name(const Tensor& other) const { return call<op::name##_Tensor>(*this, other); }
            X(bitwise_and) X(bitwise_or) X(mul) X(div)
#undef X

    // A number as a tensor without dimensions, of the dtype with which it takes part in promotion as the number itself
    // does.
    inline Tensor number(const c10::Scalar& value, const Tensor& beside) {
  using c10::ScalarType;
  const std::optional<ScalarType> none;
  ScalarType dtype = value.isFloatingPoint() ? ScalarType::Double : ScalarType::Long;
  if (value.isFloatingPoint() && c10::isIntegralType(beside.scalar_type(), true))
    dtype = call<op::empty_memory_format>(Sizes{0}, none, std::optional<c10::Layout>(), std::optional<c10::Device>(),
                                          std::optional<bool>(), std::optional<c10::MemoryFormat>())
                .scalar_type();  // torch.get_default_dtype()
  const Tensor t = call<op::empty_memory_format>(
      Sizes{}, std::optional(value.isFloatingPoint() ? ScalarType::Double : ScalarType::Long),
      std::optional<c10::Layout>(), std::optional(c10::Device(c10::DeviceType::CPU)), std::optional<bool>(),
      std::optional<c10::MemoryFormat>());
  if (value.isFloatingPoint())
    *static_cast<double*>(t.data_ptr()) = value.toDouble();
  else
    *static_cast<int64_t*>(t.data_ptr()) = value.toLong();
  return t.to(dtype);
}

// f(self, number): a tensor without dimensions would win over self's dtype if self had none either.
template <class F>
Tensor beside(const Tensor& self, const c10::Scalar& value, const F& f) {
  const Tensor other = number(value, self);
  return self.dim() == 0 ? f(self.unsqueeze(0), other).squeeze(0) : f(self, other);
}

inline Tensor Tensor::add(const Tensor& other) const { return aten_stable::subtract(*this, other, -1); }
inline Tensor Tensor::sub(const Tensor& other) const { return aten_stable::subtract(*this, other, 1); }
inline const Tensor& Tensor::add_(const Tensor& other) const { return aten_stable::assign(*this, add(other)); }
inline const Tensor& Tensor::sub_(const Tensor& other) const { return aten_stable::assign(*this, sub(other)); }
inline const Tensor& Tensor::add_(const c10::Scalar& other) const { return aten_stable::assign(*this, add(other)); }
inline const Tensor& Tensor::sub_(const c10::Scalar& other) const { return aten_stable::assign(*this, sub(other)); }
inline const Tensor& Tensor::mul_(const Tensor& other) const {
  call<op::mul__Tensor>(*this, other);
  return *this;
}
// As ATen does it, the number is the left factor: a 16-bit dtype rounds it, which x.mul(number) does not.
inline const Tensor& Tensor::mul_(const c10::Scalar& other) const {
  return aten_stable::assign(
      *this, beside(*this, other, [](const Tensor& a, const Tensor& b) { return call<op::mul_Tensor>(b, a); }));
}
inline const Tensor& Tensor::div_(const Tensor& other) const {
  call<op::div__Tensor>(*this, other);
  return *this;
}
inline const Tensor& Tensor::div_(const c10::Scalar& other) const {
  beside(*this, other, [](const Tensor& a, const Tensor& b) { return call<op::div__Tensor>(a, b); });
  return *this;
}
#define X(name)                                                                              \
  inline Tensor Tensor::name(const c10::Scalar& other) const {                               \
    return beside(*this, other, [](const Tensor& a, const Tensor& b) { return a.name(b); }); \
  }                                                                                          \
  inline Tensor name(const Tensor& self, const c10::Scalar& other) { return self.name(other); }
X(add)
X(sub)
X(mul) X(div) X(eq) X(ne) X(lt) X(le) X(gt) X(ge)
#undef X
#define X(name, sign)                                                                                     \
  inline Tensor Tensor::name(const Tensor& other) const { return call<op::name##_Tensor>(*this, other); } \
  inline Tensor name(const Tensor& self, const Tensor& other) { return self.name(other); }                \
  inline Tensor operator sign(const Tensor& self, const Tensor& other) { return self.name(other); }       \
  inline Tensor operator sign(const Tensor& self, const c10::Scalar& other) { return self.name(other); }
    ATEN_STABLE_COMPARE(X)
#undef X
#define X(sign, name)                                                                 \
  inline Tensor operator sign(const Tensor& a, const Tensor& b) { return a.name(b); } \
  inline Tensor operator sign(const Tensor& a, const c10::Scalar& b) { return a.name(b); }
        X(+, add) X(-, sub) X(*, mul) X(/, div)
#undef X
            inline Tensor operator+(const c10::Scalar& a, const Tensor& b) {
  return b.add(a);
}
inline Tensor operator*(const c10::Scalar& a, const Tensor& b) { return b.mul(a); }
inline Tensor operator-(const c10::Scalar& a, const Tensor& b);
inline Tensor operator/(const c10::Scalar& a, const Tensor& b);

inline const Tensor& Tensor::copy_(const Tensor& from, bool non_blocking) const {
  call<op::copy_>(*this, from, non_blocking);
  return *this;
}
inline const Tensor& Tensor::fill_(const Tensor& value) const {
  call<op::fill__Tensor>(*this, value);
  return *this;
}
inline const Tensor& Tensor::fill_(const c10::Scalar& value) const {
  constexpr int64_t kExact = int64_t(1) << 53;  // a double holds every integer up to here
  if (!value.isFloatingPoint() && (value.toLong() > kExact || value.toLong() < -kExact))
    return fill_(number(value, *this));
  if (aoti_torch_aten_fill__Scalar(t_.get(), value.toDouble()) != TORCH_SUCCESS) aten_stable::failed("aten::fill_");
  return *this;
}

inline Tensor Tensor::contiguous(c10::MemoryFormat format) const { return call<op::contiguous>(*this, format); }
inline Tensor Tensor::clone(std::optional<c10::MemoryFormat> format) const { return call<op::clone>(*this, format); }
inline Tensor Tensor::to(const c10::TensorOptions& o, bool non_blocking, bool copy,
                         std::optional<c10::MemoryFormat> format) const {
  if (o.requires_grad_) throw std::runtime_error("to(options) expects unset requires_grad flag");
  return call<op::to_dtype_layout>(*this, o.dtype_, o.layout_, o.device_, o.pinned_memory_, non_blocking, copy,
                                   format ? format : o.memory_format_);
}
inline Tensor Tensor::view(c10::IntArrayRef sizes) const { return call<op::view>(*this, sizes); }
inline Tensor Tensor::reshape(c10::IntArrayRef sizes) const { return call<op::reshape>(*this, sizes); }
inline Tensor Tensor::permute(c10::IntArrayRef dims) const { return call<op::permute>(*this, dims); }
inline Tensor Tensor::expand(c10::IntArrayRef sizes, bool implicit) const {
  return call<op::expand>(*this, sizes, implicit);
}
inline Tensor Tensor::repeat(c10::IntArrayRef repeats) const { return call<op::repeat>(*this, repeats); }
inline Tensor Tensor::flip(c10::IntArrayRef dims) const { return call<op::flip>(*this, dims); }
inline Tensor Tensor::flatten(int64_t start, int64_t end) const {
  return call<op::flatten_using_ints>(*this, start, end);
}
inline Tensor Tensor::transpose(int64_t a, int64_t b) const { return call<op::transpose_int>(*this, a, b); }
inline Tensor Tensor::squeeze(int64_t dim) const { return call<op::squeeze_dim>(*this, dim); }
inline Tensor Tensor::squeeze() const { return call<op::squeeze>(*this); }
inline Tensor Tensor::unsqueeze(int64_t dim) const { return call<op::unsqueeze>(*this, dim); }
inline Tensor Tensor::select(int64_t dim, int64_t index) const { return call<op::select_int>(*this, dim, index); }
inline Tensor Tensor::narrow(int64_t dim, int64_t start, int64_t length) const {
  return call<op::narrow>(*this, dim, start, length);
}
inline Tensor Tensor::slice(int64_t dim, std::optional<int64_t> start, std::optional<int64_t> end, int64_t step) const {
  return call<op::slice_Tensor>(*this, dim, start, end, step);
}
inline std::vector<Tensor> Tensor::chunk(int64_t chunks, int64_t dim) const {
  return call<op::chunk, std::vector<Tensor>>(*this, chunks, dim);
}
inline std::vector<Tensor> Tensor::split(int64_t size, int64_t dim) const {
  return call<op::split_Tensor, std::vector<Tensor>>(*this, size, dim);
}
inline std::vector<Tensor> Tensor::unbind(int64_t dim) const {
  return call<op::unbind_int, std::vector<Tensor>>(*this, dim);
}
inline Tensor Tensor::index_select(int64_t dim, const Tensor& index) const {
  return call<op::index_select>(*this, dim, index);
}
inline Tensor Tensor::gather(int64_t dim, const Tensor& index, bool sparse_grad) const {
  return call<op::gather>(*this, dim, index, sparse_grad);
}
inline Tensor Tensor::cumsum(int64_t dim, std::optional<c10::ScalarType> dtype) const {
  return call<op::cumsum>(*this, dim, dtype);
}
inline Tensor Tensor::softmax(int64_t dim, std::optional<c10::ScalarType> dtype) const {
  return call<op::softmax_int>(*this, dim, dtype);
}
inline Tensor Tensor::log_softmax(int64_t dim, std::optional<c10::ScalarType> dtype) const {
  return call<op::log_softmax_int>(*this, dim, dtype);
}
inline Tensor Tensor::sum(c10::IntArrayRef dims, bool keepdim, std::optional<c10::ScalarType> dtype) const {
  return call<op::sum_dim_IntList>(*this, std::optional(dims), keepdim, dtype);
}
inline Tensor Tensor::mean(c10::IntArrayRef dims, bool keepdim, std::optional<c10::ScalarType> dtype) const {
  return call<op::mean_dim>(*this, std::optional(dims), keepdim, dtype);
}
inline std::tuple<Tensor, Tensor> Tensor::max(int64_t dim, bool keepdim) const {
  return call<op::max_dim, std::tuple<Tensor, Tensor>>(*this, dim, keepdim);
}
inline std::tuple<Tensor, Tensor> Tensor::min(int64_t dim, bool keepdim) const {
  return call<op::min_dim, std::tuple<Tensor, Tensor>>(*this, dim, keepdim);
}
inline Tensor Tensor::argmax(std::optional<int64_t> dim, bool keepdim) const {
  return call<op::argmax>(*this, dim, keepdim);
}
inline Tensor Tensor::argmin(std::optional<int64_t> dim, bool keepdim) const {
  return call<op::argmin>(*this, dim, keepdim);
}
inline Tensor Tensor::new_empty(c10::IntArrayRef sizes, const c10::TensorOptions& o) const {
  return call<op::new_empty>(*this, sizes, o.dtype_, o.layout_, o.device_, o.pinned_memory_);
}
inline Tensor Tensor::new_zeros(c10::IntArrayRef sizes, const c10::TensorOptions& o) const {
  return call<op::new_zeros>(*this, sizes, o.dtype_, o.layout_, o.device_, o.pinned_memory_);
}
template <class T>
T Tensor::item() const {
  TORCH_CHECK(numel() == 1, "a Tensor with ", numel(), " elements cannot be converted to Scalar");
  using Wide = std::conditional_t<std::is_floating_point_v<T>, double, int64_t>;
  if constexpr (std::is_integral_v<T>)
    TORCH_CHECK(c10::isIntegralType(scalar_type(), true), "aten_stable: item() of a ", scalar_type(),
                " tensor is not covered for integers: write item<double>()");
  const Tensor host = to(c10::TensorOptions(c10::CppTypeToScalarType<Wide>::value).device(c10::DeviceType::CPU));
  const Wide wide = *host.contiguous().data_ptr<Wide>();
  const T value = static_cast<T>(wide);
  if constexpr (std::is_integral_v<T>)
    TORCH_CHECK(static_cast<Wide>(value) == wide, "value cannot be converted without overflow");
  return value;
}

// Functions that are members too.
#define X(name)                                                                                       \
  template <class... Args>                                                                            \
  auto name(const Tensor& self, Args&&... args) -> decltype(self.name(std::forward<Args>(args)...)) { \
    return self.name(std::forward<Args>(args)...);                                                    \
  }
X(transpose)
X(squeeze)
X(unsqueeze)
X(select) X(narrow) X(slice) X(chunk) X(split) X(unbind) X(index_select) X(gather) X(cumsum) X(softmax) X(log_softmax)
    X(argmax) X(argmin) X(flatten) X(clone)
#undef X
#define X(name) \
  inline Tensor name(const Tensor& self, c10::IntArrayRef list) { return self.name(list); }
        X(reshape) X(permute) X(flip)
#undef X
#define X(name)                                                                       \
  inline Tensor name(const Tensor& self, c10::IntArrayRef dims, bool keepdim = false, \
                     std::optional<c10::ScalarType> dtype = std::nullopt) {           \
    return self.name(dims, keepdim, dtype);                                           \
  }                                                                                   \
  inline Tensor name(const Tensor& self, int64_t dim, bool keepdim = false) { return self.name(dim, keepdim); }
            X(sum) X(mean)
#undef X
#define X(name, of_two)                                                                           \
  inline Tensor name(const Tensor& self, const Tensor& other) { return self.of_two(other); }      \
  inline std::tuple<Tensor, Tensor> name(const Tensor& self, int64_t dim, bool keepdim = false) { \
    return self.name(dim, keepdim);                                                               \
  }
                X(max, maximum) X(min, minimum)
#undef X
                    inline Tensor cat(TensorList tensors, int64_t dim = 0) {
  return call<op::cat>(tensors, dim);
}
inline Tensor stack(TensorList tensors, int64_t dim = 0) { return call<op::stack>(tensors, dim); }
inline Tensor where(const Tensor& condition, const Tensor& self, const Tensor& other) {
  return call<op::where_self>(condition, self, other);
}
inline Tensor outer(const Tensor& self, const Tensor& other) { return call<op::outer>(self, other); }
inline Tensor linear(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias = std::nullopt) {
  return call<op::linear>(x, weight, bias);
}

}  // namespace aten_stable_0
}  // namespace at
