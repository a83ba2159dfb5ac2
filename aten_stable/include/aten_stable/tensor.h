// at::Tensor on torch::stable::Tensor. What is a call of an operator is declared here and defined in ops.h.
#pragma once

#include "core.h"

namespace c10 {
inline namespace ATEN_STABLE_VERSION {
template <class T>
class MaybeOwned;
}
}  // namespace c10

// A member that does not exist here: an error with words, once somebody calls it.
#define ATEN_STABLE_UNCOVERED(name, instead)                                                                 \
  template <class... Args>                                                                                   \
  at::Tensor name(Args&&...) const {                                                                         \
    static_assert(::aten_stable::never<Args...>, "aten_stable: Tensor::" #name " is not covered: " instead); \
    return {};                                                                                               \
  }

namespace at {
inline namespace ATEN_STABLE_VERSION {
class Tensor;
const Tensor& with_grad(const Tensor& t, const c10::TensorOptions& o);
}  // namespace ATEN_STABLE_VERSION
namespace Reduction {
enum Reduction { None, Mean, Sum, END };
}
}  // namespace at

// A call of ATen's operator: result type, name, overload, and the schema that is relied upon, which is kept in the
// library for those who load it. call.h defines it.
#define ATEN_STABLE_OPERATOR(R, name, overload, text, ...) \
  ::aten_stable::call<R>(                                  \
      ::aten_stable::Op{"aten::" name, ATEN_STABLE_OPERATORS name, overload, "aten_stable:op:" text}, ##__VA_ARGS__)
#define ATEN_STABLE_BRIDGE(R, name, ...) \
  ::aten_stable::call<R>(                \
      ::aten_stable::Op{ATEN_STABLE_OPERATORS name, ATEN_STABLE_OPERATORS name, "", ATEN_STABLE_OPERATORS name}, ##__VA_ARGS__)
#define ATEN_STABLE_TENSORS(...) std::tuple<__VA_ARGS__>
// Templates, so that only what is used is compiled.
#define ATEN_STABLE_LAZY template <class = void>

namespace aten_stable {
inline namespace ATEN_STABLE_VERSION {
struct Op {
  const char *name, *bridge, *overload, *schema;
};
template <class R, class... Args>
R call(const Op& op, const Args&... args);
}  // namespace ATEN_STABLE_VERSION
}  // namespace aten_stable

namespace at {
inline namespace ATEN_STABLE_VERSION {
namespace indexing {
struct TensorIndex;
}

enum class Backend { CPU, CUDA, Meta };

// What the deprecated Tensor::type() gives.
struct DeprecatedTypeProperties {
  c10::ScalarType type_;
  c10::Device device_;
  c10::ScalarType scalarType() const { return type_; }
  bool is_cuda() const { return device_.is_cuda(); }
  c10::DeviceType device_type() const { return device_.type(); }
  Backend backend() const { return is_cuda() ? Backend::CUDA : device_.is_meta() ? Backend::Meta : Backend::CPU; }
  c10::TensorOptions options() const { return c10::TensorOptions(type_).device(device_); }
  DeprecatedTypeProperties toScalarType(c10::ScalarType type) const { return {type, device_}; }
  DeprecatedTypeProperties cpu() const { return {type_, c10::DeviceType::CPU}; }
  DeprecatedTypeProperties cuda() const { return {type_, c10::DeviceType::CUDA}; }
  operator c10::ScalarType() const { return type_; }
  operator c10::TensorOptions() const { return options(); }
};

class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(torch::stable::Tensor t) : stable_(std::move(t)) {}
  Tensor(const Tensor&) = default;
  Tensor(Tensor&&) = default;
  // As in ATen, assigning to a temporary (x[0] = y) writes elements, and assigning to a variable does not.
  Tensor& operator=(const Tensor& other) & = default;
  Tensor& operator=(Tensor&& other) & = default;
  Tensor& operator=(const Tensor& other) && { return copy_(other), *this; }
  Tensor& operator=(Tensor&& other) && { return copy_(other), *this; }
  Tensor& operator=(const c10::Scalar& value) && { return fill_(value), *this; }
  const torch::stable::Tensor& stable() const { return stable_; }

  int64_t dim() const { return stable_.dim(); }
  int64_t ndimension() const { return dim(); }
  int64_t numel() const { return stable_.numel(); }
  int64_t size(int64_t d) const { return stable_.size(wrap(d)); }
  int64_t stride(int64_t d) const { return stable_.stride(wrap(d)); }
  c10::IntArrayRef sizes() const { return stable_.sizes(); }
  c10::IntArrayRef strides() const { return stable_.strides(); }
  int64_t storage_offset() const { return stable_.storage_offset(); }
  size_t element_size() const { return stable_.element_size(); }
  int64_t itemsize() const { return static_cast<int64_t>(element_size()); }
  size_t nbytes() const { return element_size() * static_cast<size_t>(numel()); }
  bool defined() const { return stable_.defined(); }
  bool is_contiguous() const { return stable_.is_contiguous(); }
  bool is_contiguous(c10::MemoryFormat format) const {
    return format == c10::MemoryFormat::Contiguous ? is_contiguous() : dense_in(format, false);
  }
  c10::MemoryFormat suggest_memory_format() const {
    for (const auto format : {c10::MemoryFormat::ChannelsLast, c10::MemoryFormat::ChannelsLast3d})
      if (dense_in(format, true)) return format;
    return c10::MemoryFormat::Contiguous;
  }
  void reset() { stable_ = torch::stable::Tensor(); }
  bool is_sparse() const { return layout() == c10::Layout::Sparse; }
  bool is_quantized() const { return false; }  // the stable ABI has no quantized dtypes
  bool is_meta() const { return device().is_meta(); }
  bool is_mkldnn() const { return false; }
  bool has_storage() const { return defined(); }
  bool is_cuda() const { return stable_.is_cuda(); }
  bool is_cpu() const { return stable_.is_cpu(); }
  bool is_floating_point() const { return c10::isFloatingType(scalar_type()); }
  bool is_complex() const { return c10::isComplexType(scalar_type()); }
  bool is_same_size(const Tensor& other) const { return sizes() == other.sizes(); }
  const Tensor& set_requires_grad(bool yes) const { return stable_.set_requires_grad(yes), *this; }
  c10::ScalarType scalar_type() const { return stable_.scalar_type(); }
  c10::TypeMeta dtype() const { return scalar_type(); }
  c10::Device device() const { return stable_.device(); }
  c10::DeviceIndex get_device() const { return stable_.get_device(); }
  c10::Layout layout() const {
    int32_t layout = 0;  // stable_.layout() is newer than torch 2.10
    TORCH_ERROR_CODE_CHECK(aoti_torch_get_layout(stable_.get(), &layout));
    return torch::stable::detail::to<c10::Layout>(torch::stable::detail::from(layout));
  }
  // In some order of its dimensions, are all elements beside each other?
  bool is_non_overlapping_and_dense() const {
    std::vector<std::pair<int64_t, int64_t>> dims;
    for (int64_t d = 0; d < dim(); ++d)
      if (size(d) != 1) dims.emplace_back(stride(d), size(d));
    if (numel() == 0) return true;
    std::sort(dims.begin(), dims.end());
    int64_t expected = 1;
    for (const auto& [step, count] : dims) {
      if (step != expected) return false;
      expected *= count;
    }
    return true;
  }
  c10::MaybeOwned<Tensor> expect_contiguous(c10::MemoryFormat format = c10::MemoryFormat::Contiguous) const;
  c10::TensorOptions options() const { return c10::TensorOptions(dtype()).device(device()).layout(layout()); }
  DeprecatedTypeProperties type() const { return {scalar_type(), device()}; }

  void* data_ptr() const { return stable_.mutable_data_ptr(); }
  const void* const_data_ptr() const { return stable_.const_data_ptr(); }
  void* mutable_data_ptr() const { return stable_.mutable_data_ptr(); }
  template <class T>
  T* data_ptr() const {
    if constexpr (std::is_const_v<T>)
      return stable_.const_data_ptr<std::remove_const_t<T>>();
    else
      return stable_.mutable_data_ptr<T>();
  }
  template <class T>
  T* mutable_data_ptr() const {
    return stable_.mutable_data_ptr<T>();
  }
  template <class T>
  const T* const_data_ptr() const {
    return stable_.const_data_ptr<std::remove_const_t<T>>();
  }
  template <class T>
  T* data() const {
    return data_ptr<T>();
  }
  template <class T, size_t N>
  TensorAccessor<T, N> accessor() const& {
    check_accessor<N>("TensorAccessor");
    return {data_ptr<T>(), stable_.sizes().data(), stable_.strides().data()};
  }
  template <class T, size_t N, template <class> class Traits = DefaultPtrTraits, class index_t = int64_t>
  GenericPackedTensorAccessor<T, N, Traits, index_t> generic_packed_accessor() const& {
    check_accessor<N>("GenericPackedTensorAccessor");
    return {data_ptr<T>(), stable_.sizes().data(), stable_.strides().data()};
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
  // As in ATen: they refer to sizes and strides that the tensor holds.
  template <class T, size_t N>
  TensorAccessor<T, N> accessor() && = delete;
  template <class T, size_t N, template <class> class Traits = DefaultPtrTraits, class index_t = int64_t>
  GenericPackedTensorAccessor<T, N, Traits, index_t> generic_packed_accessor() && = delete;
  template <class T, size_t N, template <class> class Traits = DefaultPtrTraits>
  PackedTensorAccessor32<T, N, Traits> packed_accessor32() && = delete;
  template <class T, size_t N, template <class> class Traits = DefaultPtrTraits>
  PackedTensorAccessor64<T, N, Traits> packed_accessor64() && = delete;
  template <class T, size_t N, template <class> class Traits = DefaultPtrTraits, class index_t = int64_t>
  GenericPackedTensorAccessor<T, N, Traits, index_t> packed_accessor() && = delete;
  template <class T>
  T item() const;

  c10::Scalar item() const;

// The four operations and comparisons: with numbers, too, and without a detour through Python where there is a way.
#define X(name)                                \
  Tensor name(const Tensor& other) const;      \
  Tensor name(const c10::Scalar& other) const; \
  Tensor& name##_(const Tensor& other) const;  \
  Tensor& name##_(const c10::Scalar& other) const;
  // clang-format off
X(add) X(sub) X(mul) X(div)
// clang-format on
#undef X
#define X(name)                                                          \
  Tensor name(const Tensor& other, const c10::Scalar& alpha) const;      \
  Tensor name(const c10::Scalar& other, const c10::Scalar& alpha) const; \
  Tensor& name##_(const Tensor& other, const c10::Scalar& alpha) const;  \
  Tensor& name##_(const c10::Scalar& other, const c10::Scalar& alpha) const;
      // clang-format off
X(add) X(sub)
// clang-format on
#undef X
          Tensor& div_(const Tensor& other, std::optional<std::string_view> rounding_mode) const;
  Tensor& div_(const c10::Scalar& other, std::optional<std::string_view> rounding_mode) const;
  Tensor div(const Tensor& other, std::optional<std::string_view> rounding_mode) const;
  Tensor div(const c10::Scalar& other, std::optional<std::string_view> rounding_mode) const;
#define X(name)                           \
  Tensor name(const Tensor& other) const; \
  Tensor name(const c10::Scalar& other) const;
  // clang-format off
X(eq) X(ne) X(lt) X(le) X(gt) X(ge)
// clang-format on
#undef X
#define X(op, name)                                                      \
  Tensor& operator op(const Tensor& other) const { return name(other); } \
  Tensor& operator op(const c10::Scalar& other) const { return name(other); }
      // clang-format off
X(+=, add_) X(-=, sub_) X(*=, mul_) X(/=, div_) X(&=, bitwise_and_) X(|=, bitwise_or_) X(^=, bitwise_xor_)
// clang-format on
#undef X
          Tensor operator-() const {
    return neg();
  }
  Tensor operator~() const { return bitwise_not(); }
  Tensor operator[](int64_t index) const { return select(0, index); }
  Tensor operator[](const Tensor& index) const { return select(0, index.item<int64_t>()); }
  Tensor operator[](const c10::Scalar& index) const { return select(0, index.toLong()); }
  Tensor& fill_(const c10::Scalar& value) const;
  Tensor& fill_(const Tensor& value) const;
  Tensor& copy_(const Tensor& from, bool non_blocking = false) const;
  Tensor contiguous(c10::MemoryFormat format = c10::MemoryFormat::Contiguous) const;
  Tensor to(const c10::TensorOptions& options = {}, bool non_blocking = false, bool copy = false,
            std::optional<c10::MemoryFormat> format = std::nullopt) const;
  Tensor to(c10::ScalarType dtype, bool non_blocking = false, bool copy = false,
            std::optional<c10::MemoryFormat> format = std::nullopt) const {
    return to(c10::TensorOptions(dtype), non_blocking, copy, format);
  }
  Tensor to(const DeprecatedTypeProperties& type, bool non_blocking = false, bool copy = false) const {
    return to(type.options(), non_blocking, copy);
  }
  Tensor to(c10::TypeMeta dtype, bool non_blocking = false, bool copy = false) const {
    return to(dtype.toScalarType(), non_blocking, copy);
  }
  Tensor to(c10::Device device, c10::ScalarType dtype, bool non_blocking = false, bool copy = false,
            std::optional<c10::MemoryFormat> format = std::nullopt) const {
    return to(c10::TensorOptions(device).dtype(dtype), non_blocking, copy, format);
  }
  Tensor to(const Tensor& like, bool non_blocking = false, bool copy = false) const {
    return to(like.device(), like.scalar_type(), non_blocking, copy);
  }
  Tensor type_as(const Tensor& like) const { return to(like); }
  Tensor cpu() const { return to(c10::Device(c10::DeviceType::CPU)); }
  Tensor cuda() const { return to(c10::Device(c10::DeviceType::CUDA)); }
  Tensor toType(c10::ScalarType dtype) const { return to(dtype); }
  Tensor data() const { return detach(); }
  Tensor variable_data() const { return detach(); }
  Tensor index(c10::ArrayRef<indexing::TensorIndex> indices) const;
  Tensor index(std::initializer_list<indexing::TensorIndex> indices) const;
  Tensor index(const c10::List<std::optional<Tensor>>& indices) const;
#define X(T)                                                                              \
  Tensor& index_put_(c10::ArrayRef<indexing::TensorIndex> indices, const T& value) const; \
  Tensor& index_put_(std::initializer_list<indexing::TensorIndex> indices, const T& value) const;
  // clang-format off
X(Tensor) X(c10::Scalar)
// clang-format on
#undef X
      Tensor& index_put_(const c10::List<std::optional<Tensor>>& indices, const Tensor& values,
                         bool accumulate = false) const;
  bool requires_grad() const;
  bool is_leaf() const;
  Tensor& requires_grad_(bool yes = true) const;
  Tensor grad() const;
  void backward(const std::optional<Tensor>& gradient = std::nullopt, std::optional<bool> retain_graph = std::nullopt,
                bool create_graph = false) const;

#include "generated_methods.h"
  // As ATen has it: without these, a number would be taken for `bool unbiased`.
  Tensor std(int dim) const { return std(c10::OptionalIntArrayRef(int64_t(dim))); }
  Tensor var(int dim) const { return var(c10::OptionalIntArrayRef(int64_t(dim))); }

  // Of a stream of CUDA's.
  template <class Stream>
  void record_stream(const Stream& stream) const {
    ATEN_STABLE_BRIDGE(void, "record_stream", *this, static_cast<int64_t>(reinterpret_cast<intptr_t>(stream.stream())),
                       int64_t(stream.device_index()));
  }

  std::string toString() const {
    TORCH_CHECK(is_cpu() || is_cuda(), "aten_stable: Tensor::toString is for CPU and CUDA tensors");
    return std::string(is_cpu() ? "CPU" : "CUDA") + c10::toString(scalar_type()) + "Type";
  }
  // Of the same Tensor of torch's, not only of its memory.
  bool is_same(const Tensor& other) const {
    static const bool known = handles_are_tensors();
    TORCH_CHECK(known, "aten_stable: Tensor::is_same: this torch has other handles of tensors: take a newer build");
    const auto implementation = [](const Tensor& t) { return first_word(t.stable()); };
    return defined() && other.defined() ? implementation(*this) == implementation(other) : defined() == other.defined();
  }
  // Sizes that torch knows at the time of the call: of a tensor with symbolic ones it raises.
  c10::SymInt sym_size(int64_t d) const { return size(d); }
  c10::SymInt sym_stride(int64_t d) const { return stride(d); }
  c10::SymInt sym_numel() const { return numel(); }
  c10::SymInt sym_storage_offset() const { return storage_offset(); }
  c10::SymIntArrayRef sym_sizes() const { return sizes(); }
  c10::SymIntArrayRef sym_strides() const { return strides(); }
  Tensor new_empty_symint(c10::SymIntArrayRef sizes, const c10::TensorOptions& o = {}) const {
    return new_empty(sizes, o);
  }
  Tensor new_zeros_symint(c10::SymIntArrayRef sizes, const c10::TensorOptions& o = {}) const {
    return new_zeros(sizes, o);
  }
  Tensor view_symint(c10::SymIntArrayRef sizes) const { return view(sizes); }
  Tensor reshape_symint(c10::SymIntArrayRef sizes) const { return reshape(sizes); }
  Tensor expand_symint(c10::SymIntArrayRef sizes) const { return expand(sizes); }

  ATEN_STABLE_UNCOVERED(storage, "use data_ptr(), storage_offset() and strides()")
  ATEN_STABLE_UNCOVERED(unsafeGetTensorImpl, "the stable ABI has no TensorImpl: use the members of Tensor")
  ATEN_STABLE_UNCOVERED(set_data, "return the new tensor")
  ATEN_STABLE_UNCOVERED(retain_grad, "call x.retain_grad() in Python")
  ATEN_STABLE_UNCOVERED(set_, "return the new tensor")
  ATEN_STABLE_UNCOVERED(getIntrusivePtr, "the stable ABI has no TensorImpl: use the members of Tensor")
  ATEN_STABLE_UNCOVERED(register_hook, "register it in Python, on the result")
  ATEN_STABLE_UNCOVERED(grad_fn, "look at it in Python")
  ATEN_STABLE_UNCOVERED(mutable_grad, "write to .grad in Python, or into grad() in place")
  ATEN_STABLE_UNCOVERED(indices, "sparse tensors are not covered: take indices and values as two tensors")
  ATEN_STABLE_UNCOVERED(values, "sparse tensors are not covered: take indices and values as two tensors")
  ATEN_STABLE_UNCOVERED(to_sparse, "sparse tensors are not covered: take indices and values as two tensors")
  ATEN_STABLE_UNCOVERED(coalesce, "sparse tensors are not covered: take indices and values as two tensors")
  ATEN_STABLE_UNCOVERED(print, "print it in Python")
  ATEN_STABLE_UNCOVERED(cholesky, "write at::linalg_cholesky(x, upper)")
  ATEN_STABLE_UNCOVERED(qr, "write at::linalg_qr(x)")

 private:
  // Torch's handle of a tensor points to its at::Tensor, which holds one pointer to what all its copies share.
  static const void* first_word(const torch::stable::Tensor& t) { return *reinterpret_cast<void* const*>(t.get()); }
  // As far as two handles of one tensor and one of another can tell.
  static bool handles_are_tensors() {
    const int64_t none = 0, one = 1;
    const auto made = [&] {
      AtenTensorHandle handle = nullptr;
      TORCH_ERROR_CODE_CHECK(aoti_torch_empty_strided(1, &none, &one, aoti_torch_dtype_float32(),
                                                      aoti_torch_device_type_cpu(), 0, &handle));
      return torch::stable::Tensor(handle);
    };
    const auto a = made(), b = made();
    AtenTensorHandle again = nullptr;
    TORCH_ERROR_CODE_CHECK(aoti_torch_new_tensor_handle(a.get(), &again));
    const torch::stable::Tensor same(again);
    return first_word(same) == first_word(a) && first_word(a) != first_word(b);
  }
  // Are the strides those of channels last: exactly (like = false), or in their order alone?
  bool dense_in(c10::MemoryFormat format, bool like) const {
    const int64_t n = format == c10::MemoryFormat::ChannelsLast ? 4 : 5;
    if (dim() != n || format == c10::MemoryFormat::Preserve) return false;
    if (like && stride(1) == 0) return false;
    int64_t expected = like ? 0 : 1;
    for (int64_t i = 0; i < n; ++i) {
      const int64_t d = i == 0 ? 1 : i == n - 1 ? 0 : n - i;  // C, W, H, (D,) N
      if (!like) {
        if (size(d) != 1 && stride(d) != expected) return false;
        expected *= size(d) != 1 ? size(d) : 1;
        continue;
      }
      if (size(d) == 0 || stride(d) < expected || (d == 0 && expected == stride(1))) return false;
      expected = stride(d) * (size(d) > 1 ? size(d) : 1);
    }
    return true;
  }
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
  torch::stable::Tensor stable_;
};

template <class T, std::enable_if_t<std::is_same_v<T, Tensor>, int> = 0>
std::ostream& operator<<(std::ostream& out, const T&) {
  static_assert(::aten_stable::never<T>,
                "aten_stable: operator<< of a Tensor is not covered: print its sizes(), or print it in Python");
  return out;
}

using TensorList = c10::ArrayRef<Tensor>;
using ITensorListRef = TensorList;

}  // namespace ATEN_STABLE_VERSION
}  // namespace at
