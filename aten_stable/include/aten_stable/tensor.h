// at::Tensor on torch::stable::Tensor. What is a call of an operator is declared here and defined in ops.h.
#pragma once

#include "core.h"

// A member that does not exist here: an error with words, once somebody calls it.
#define ATEN_STABLE_UNCOVERED(name, instead)                                                                 \
  template <class... Args>                                                                                   \
  at::Tensor name(Args&&...) const {                                                                         \
    static_assert(::aten_stable::never<Args...>, "aten_stable: Tensor::" #name " is not covered: " instead); \
    return {};                                                                                               \
  }

#define ATEN_STABLE_UNARY(X)                                                                                      \
  X(abs)                                                                                                          \
  X(neg)                                                                                                          \
  X(exp) X(log) X(sqrt) X(rsqrt) X(sigmoid) X(tanh) X(relu) X(sin) X(cos) X(floor) X(ceil) X(round) X(sign)       \
      X(reciprocal) X(erf) X(log1p) X(expm1) X(silu) X(isnan) X(logical_not) X(bitwise_not) X(detach) X(t) X(max) \
          X(min) X(all) X(any) X(nonzero)
#define ATEN_STABLE_REDUCE(X) X(sum) X(mean) X(prod)
#define ATEN_STABLE_UNARY_IN_PLACE(X) X(zero_) X(exp_) X(log_) X(sqrt_) X(sigmoid_) X(tanh_) X(relu_) X(neg_) X(abs_)
#define ATEN_STABLE_BINARY(X)                                                                                         \
  X(mm)                                                                                                               \
  X(bmm)                                                                                                              \
  X(matmul) X(mv) X(dot) X(maximum) X(minimum) X(logical_and) X(logical_or) X(bitwise_and) X(bitwise_or) X(expand_as) \
      X(view_as) X(masked_select)
#define ATEN_STABLE_COMPARE(X) X(eq, ==) X(ne, !=) X(lt, <) X(le, <=) X(gt, >) X(ge, >=)

namespace at {
inline namespace aten_stable_0 {

// What the deprecated Tensor::type() gives.
struct DeprecatedTypeProperties {
  c10::ScalarType type_;
  c10::Device device_;
  c10::ScalarType scalarType() const { return type_; }
  bool is_cuda() const { return device_.is_cuda(); }
  operator c10::ScalarType() const { return type_; }
};

class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(torch::stable::Tensor t) : t_(std::move(t)) {}
  Tensor(const Tensor&) = default;
  Tensor(Tensor&&) = default;
  // As in ATen, assigning to a temporary (x[0] = y) writes elements, and assigning to a variable does not.
  Tensor& operator=(const Tensor& other) & = default;
  Tensor& operator=(Tensor&& other) & = default;
  Tensor& operator=(const Tensor& other) && { return copy_(other), *this; }
  Tensor& operator=(Tensor&& other) && { return copy_(other), *this; }
  Tensor& operator=(const c10::Scalar& value) && { return fill_(value), *this; }
  const torch::stable::Tensor& stable() const { return t_; }

  int64_t dim() const { return t_.dim(); }
  int64_t ndimension() const { return dim(); }
  int64_t numel() const { return t_.numel(); }
  int64_t size(int64_t d) const { return t_.size(wrap(d)); }
  int64_t stride(int64_t d) const { return t_.stride(wrap(d)); }
  c10::IntArrayRef sizes() const { return t_.sizes(); }
  c10::IntArrayRef strides() const { return t_.strides(); }
  int64_t storage_offset() const { return t_.storage_offset(); }
  size_t element_size() const { return t_.element_size(); }
  int64_t itemsize() const { return static_cast<int64_t>(element_size()); }
  size_t nbytes() const { return element_size() * static_cast<size_t>(numel()); }
  bool defined() const { return t_.defined(); }
  bool is_contiguous() const { return t_.is_contiguous(); }
  bool is_contiguous(c10::MemoryFormat) const = delete;  // not covered: compare strides()
  bool is_cuda() const { return t_.is_cuda(); }
  bool is_cpu() const { return t_.is_cpu(); }
  bool is_floating_point() const { return c10::isFloatingType(scalar_type()); }
  bool is_complex() const { return c10::isComplexType(scalar_type()); }
  bool is_same_size(const Tensor& other) const { return sizes() == other.sizes(); }
  ATEN_STABLE_UNCOVERED(requires_grad, "ask x.requires_grad in Python")
  const Tensor& set_requires_grad(bool yes) const { return t_.set_requires_grad(yes), *this; }
  c10::ScalarType scalar_type() const { return t_.scalar_type(); }
  c10::TypeMeta dtype() const { return scalar_type(); }
  c10::Device device() const { return t_.device(); }
  c10::DeviceIndex get_device() const { return t_.get_device(); }
  c10::Layout layout() const { return t_.layout(); }
  c10::TensorOptions options() const { return c10::TensorOptions(dtype()).device(device()).layout(layout()); }
  DeprecatedTypeProperties type() const { return {scalar_type(), device()}; }

  void* data_ptr() const { return t_.mutable_data_ptr(); }
  const void* const_data_ptr() const { return t_.const_data_ptr(); }
  void* mutable_data_ptr() const { return t_.mutable_data_ptr(); }
  template <class T>
  T* data_ptr() const {
    if constexpr (std::is_const_v<T>)
      return t_.const_data_ptr<std::remove_const_t<T>>();
    else
      return t_.mutable_data_ptr<T>();
  }
  template <class T>
  T* mutable_data_ptr() const {
    return t_.mutable_data_ptr<T>();
  }
  template <class T>
  const T* const_data_ptr() const {
    return t_.const_data_ptr<std::remove_const_t<T>>();
  }
  template <class T>
  T* data() const {
    return data_ptr<T>();
  }
  template <class T, size_t N>
  TensorAccessor<T, N> accessor() const& {
    check_accessor<N>("TensorAccessor");
    return {data_ptr<T>(), t_.sizes().data(), t_.strides().data()};
  }
  template <class T, size_t N, template <class> class Traits = DefaultPtrTraits, class index_t = int64_t>
  GenericPackedTensorAccessor<T, N, Traits, index_t> generic_packed_accessor() const& {
    check_accessor<N>("GenericPackedTensorAccessor");
    return {data_ptr<T>(), t_.sizes().data(), t_.strides().data()};
  }
  template <class T, size_t N, template <class> class Traits = DefaultPtrTraits>
  PackedTensorAccessor32<T, N, Traits> packed_accessor32() const& {
    TORCH_CHECK(numel() <= std::numeric_limits<int32_t>::max(),
                "numel needs to be smaller than int32_t max; otherwise, please use packed_accessor64");
    return generic_packed_accessor<T, N, Traits, int32_t>();
  }
  template <class T, size_t N, template <class> class Traits = DefaultPtrTraits>
  PackedTensorAccessor64<T, N, Traits> packed_accessor64() const& {
    return generic_packed_accessor<T, N, Traits, int64_t>();
  }
  template <class T, size_t N, template <class> class Traits = DefaultPtrTraits, class index_t = int64_t>
  GenericPackedTensorAccessor<T, N, Traits, index_t> packed_accessor() const& {
    return generic_packed_accessor<T, N, Traits, index_t>();
  }
  template <class T>
  T item() const;

#define X(name) Tensor name() const;
  ATEN_STABLE_UNARY(X)
#undef X
#define X(name)        \
  Tensor name() const; \
  Tensor name(c10::ScalarType dtype) const;
  ATEN_STABLE_REDUCE(X)
  Tensor log_softmax(int64_t dim, std::optional<c10::ScalarType> dtype = std::nullopt) const;
  Tensor softmax(int64_t dim, std::optional<c10::ScalarType> dtype = std::nullopt) const;
#undef X
#define X(name) const Tensor& name() const;
  ATEN_STABLE_UNARY_IN_PLACE(X)
#undef X
#define X(name) Tensor name(const Tensor& other) const;
  ATEN_STABLE_BINARY(X)
#undef X
#define X(name, op)                       \
  Tensor name(const Tensor& other) const; \
  Tensor name(const c10::Scalar& other) const;
  ATEN_STABLE_COMPARE(X)
#undef X
#define X(name)                                     \
  Tensor name(const Tensor& other) const;           \
  Tensor name(const c10::Scalar& other) const;      \
  const Tensor& name##_(const Tensor& other) const; \
  const Tensor& name##_(const c10::Scalar& other) const;
  X(add)
  X(sub)
  X(mul) X(div)
#undef X
#define X(op, name)                                                            \
  const Tensor& operator op(const Tensor& other) const { return name(other); } \
  const Tensor& operator op(const c10::Scalar& other) const { return name(other); }
      X(+=, add_) X(-=, sub_) X(*=, mul_) X(/=, div_)
#undef X
          Tensor operator-() const {
    return neg();
  }
  Tensor operator[](int64_t index) const { return select(0, index); }
  const Tensor& fill_(const c10::Scalar& value) const;
  const Tensor& fill_(const Tensor& value) const;
  const Tensor& copy_(const Tensor& from, bool non_blocking = false) const;

  Tensor contiguous(c10::MemoryFormat format = c10::MemoryFormat::Contiguous) const;
  Tensor clone(std::optional<c10::MemoryFormat> format = std::nullopt) const;
  Tensor to(const c10::TensorOptions& options, bool non_blocking = false, bool copy = false,
            std::optional<c10::MemoryFormat> format = std::nullopt) const;
  Tensor to(c10::Device device, c10::ScalarType dtype, bool non_blocking = false, bool copy = false) const {
    return to(c10::TensorOptions(device).dtype(dtype), non_blocking, copy);
  }
  Tensor to(const Tensor& like, bool non_blocking = false, bool copy = false) const {
    return to(like.device(), like.scalar_type(), non_blocking, copy);
  }
  Tensor type_as(const Tensor& like) const { return to(like); }
  Tensor cpu() const { return to(c10::Device(c10::DeviceType::CPU)); }
  Tensor cuda() const { return to(c10::Device(c10::DeviceType::CUDA)); }
  Tensor toType(c10::ScalarType dtype) const { return to(dtype); }
  Tensor view(c10::IntArrayRef sizes) const;
  Tensor reshape(c10::IntArrayRef sizes) const;
  Tensor permute(c10::IntArrayRef dims) const;
  Tensor expand(c10::IntArrayRef sizes, bool implicit = false) const;
  Tensor repeat(c10::IntArrayRef repeats) const;
  Tensor flip(c10::IntArrayRef dims) const;
  Tensor flatten(int64_t start_dim = 0, int64_t end_dim = -1) const;
  Tensor transpose(int64_t dim0, int64_t dim1) const;
  Tensor squeeze(int64_t dim) const;
  Tensor squeeze() const;
  Tensor unsqueeze(int64_t dim) const;
  Tensor select(int64_t dim, int64_t index) const;
  Tensor narrow(int64_t dim, int64_t start, int64_t length) const;
  Tensor slice(int64_t dim = 0, std::optional<int64_t> start = std::nullopt, std::optional<int64_t> end = std::nullopt,
               int64_t step = 1) const;
  std::vector<Tensor> chunk(int64_t chunks, int64_t dim = 0) const;
  std::vector<Tensor> split(int64_t size, int64_t dim = 0) const;
  std::vector<Tensor> unbind(int64_t dim = 0) const;
  Tensor index_select(int64_t dim, const Tensor& index) const;
  Tensor gather(int64_t dim, const Tensor& index, bool sparse_grad = false) const;
  Tensor cumsum(int64_t dim, std::optional<c10::ScalarType> dtype = std::nullopt) const;
  Tensor sum(c10::IntArrayRef dims, bool keepdim = false, std::optional<c10::ScalarType> dtype = std::nullopt) const;
  Tensor sum(int64_t dim, bool keepdim = false) const { return sum(c10::IntArrayRef(&dim, 1), keepdim); }
  Tensor mean(c10::IntArrayRef dims, bool keepdim = false, std::optional<c10::ScalarType> dtype = std::nullopt) const;
  Tensor mean(int64_t dim, bool keepdim = false) const { return mean(c10::IntArrayRef(&dim, 1), keepdim); }
  std::tuple<Tensor, Tensor> max(int64_t dim, bool keepdim = false) const;
  std::tuple<Tensor, Tensor> min(int64_t dim, bool keepdim = false) const;
  Tensor argmax(std::optional<int64_t> dim = std::nullopt, bool keepdim = false) const;
  Tensor argmin(std::optional<int64_t> dim = std::nullopt, bool keepdim = false) const;
  Tensor new_empty(c10::IntArrayRef sizes, const c10::TensorOptions& options = {}) const;
  Tensor new_zeros(c10::IntArrayRef sizes, const c10::TensorOptions& options = {}) const;

  ATEN_STABLE_UNCOVERED(addmm, "write bias + x.mm(weight); the rounding may differ")
  ATEN_STABLE_UNCOVERED(addmm_, "write y.copy_(y + x.mm(weight)); the rounding may differ")
  ATEN_STABLE_UNCOVERED(addcmul_, "write y += a * b * value; the rounding may differ")
  ATEN_STABLE_UNCOVERED(clamp, "compare with tensors: x.maximum(low).minimum(high)")
  ATEN_STABLE_UNCOVERED(clamp_, "write x.copy_(x.maximum(low).minimum(high))")
  ATEN_STABLE_UNCOVERED(pow, "write products, or do it in your kernel")
  ATEN_STABLE_UNCOVERED(norm, "write (x * x).sum().sqrt(); the rounding may differ")
  ATEN_STABLE_UNCOVERED(masked_fill, "write at::where(mask, value, x) with a tensor for the value")
  ATEN_STABLE_UNCOVERED(masked_fill_, "write x.copy_(at::where(mask, value, x)) with a tensor for the value")
  ATEN_STABLE_UNCOVERED(index, "write index_select, select, slice or masked_select")
  ATEN_STABLE_UNCOVERED(index_put_, "write select or slice, then copy_ or fill_")
  ATEN_STABLE_UNCOVERED(index_add_, "add in your kernel")
  ATEN_STABLE_UNCOVERED(backward, "call backward() in Python")
  ATEN_STABLE_UNCOVERED(grad, "read x.grad in Python")
  ATEN_STABLE_UNCOVERED(storage, "use data_ptr(), storage_offset() and strides()")
  ATEN_STABLE_UNCOVERED(unsafeGetTensorImpl, "the stable ABI has no TensorImpl: use the members of Tensor")
  ATEN_STABLE_UNCOVERED(resize_, "make a new tensor with at::empty and copy_ into it")
  ATEN_STABLE_UNCOVERED(set_, "return the new tensor")

 private:
  int64_t wrap(int64_t d) const {
    const int64_t n = dim(), last = n > 0 ? n : 1;
    TORCH_CHECK_INDEX(d >= -last && d < last, "Dimension out of range (expected to be in range of [", -last, ", ",
                      last - 1, "], but got ", d, ")");
    return d < 0 ? d + n : d;
  }
  template <size_t N>
  void check_accessor(const char* name) const {
    static_assert(N > 0, "accessor is used for indexing tensor, for scalars use *data_ptr<T>()");
    TORCH_CHECK(dim() == N, name, " expected ", N, " dims but tensor has ", dim());
  }
  torch::stable::Tensor t_;
};

std::ostream& operator<<(std::ostream&, const Tensor&) = delete;  // not covered: print in Python

using TensorList = c10::ArrayRef<Tensor>;

}  // namespace aten_stable_0
}  // namespace at
