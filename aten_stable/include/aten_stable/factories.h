// New tensors: at::empty, zeros, ones, full and the rest; torch:: has the same names.
#pragma once

#include "containers.h"
#include "fft.h"
#include "functional.h"
#include "special.h"
#include "util.h"

namespace at {
inline namespace ATEN_STABLE_VERSION {

// Without the dispatcher's look-up by name, where the C shim of torch has a function. Else the templates of these
// names.
inline bool is_plain(const c10::TensorOptions& o, std::optional<c10::MemoryFormat> format = std::nullopt) {
  const auto contiguous = c10::MemoryFormat::Contiguous;
  return o.dtype_ && o.layout() == c10::Layout::Strided && !o.pinned_memory() &&
         (o.device().is_cpu() || o.device().has_index()) && format.value_or(contiguous) == contiguous &&
         o.memory_format_.value_or(contiguous) == contiguous;
}
inline int32_t shim(c10::ScalarType type) {
  return torch::stable::detail::to<int32_t>(torch::stable::detail::from(type));
}
inline Tensor empty(c10::IntArrayRef sizes, const c10::TensorOptions& o = {},
                    std::optional<c10::MemoryFormat> format = std::nullopt) {
  if (!is_plain(o, format)) return empty<>(sizes, o, format);
  c10::SmallVector<int64_t, 5> strides(sizes.size());
  for (size_t i = sizes.size(), step = 1; i-- > 0; step *= std::max<int64_t>(sizes[i], 1))
    strides[i] = static_cast<int64_t>(step);
  AtenTensorHandle handle = nullptr;
  if (aoti_torch_empty_strided(static_cast<int64_t>(sizes.size()), sizes.data(), strides.data(), shim(*o.dtype_),
                               static_cast<int32_t>(o.device().type()), o.device().index(), &handle) != TORCH_SUCCESS)
    aten_stable::failed("aten::empty_strided");
  return with_grad(Tensor(torch::stable::Tensor(handle)), o);
}
inline Tensor zeros(c10::IntArrayRef sizes, const c10::TensorOptions& o = {}) {
  if (!is_plain(o)) return zeros<>(sizes, o);
  static const Tensor& any = *new Tensor(empty({0}, c10::TensorOptions(c10::kByte)));
  int32_t dtype = shim(*o.dtype_), device = static_cast<int32_t>(o.device().type());
  AtenTensorHandle handle = nullptr;
  if (aoti_torch_aten_new_zeros(any.stable().get(), sizes.data(), static_cast<int64_t>(sizes.size()), &dtype, nullptr,
                                &device, o.device().index(), nullptr, &handle) != TORCH_SUCCESS)
    aten_stable::failed("aten::new_zeros");
  return with_grad(Tensor(torch::stable::Tensor(handle)), o);
}

inline Tensor empty_symint(c10::SymIntArrayRef sizes, const c10::TensorOptions& o = {},
                           std::optional<c10::MemoryFormat> format = std::nullopt) {
  return empty(sizes, o, format);
}
inline Tensor zeros_symint(c10::SymIntArrayRef sizes, const c10::TensorOptions& o = {}) { return zeros(sizes, o); }
// The reverse of an expansion.
inline Tensor sum_to(Tensor t, c10::IntArrayRef shape) {
  if (shape.empty()) return t.sum();
  const auto leading = t.dim() - static_cast<int64_t>(shape.size());
  std::vector<int64_t> dims;
  for (int64_t d = 0; d < t.dim(); ++d)
    if (d < leading || (shape[static_cast<size_t>(d - leading)] == 1 && t.size(d) != 1)) dims.push_back(d);
  if (!dims.empty()) t = t.sum(dims, true);
  return leading > 0 ? t.view(shape) : t;
}

inline Tensor full(c10::IntArrayRef sizes, const c10::Scalar& value, c10::TensorOptions o) {
  if (!o.dtype_ && !value.isFloatingPoint()) o.dtype_ = value.type();
  const auto grad = o.requires_grad_;
  o.requires_grad_.reset();
  const Tensor t = empty(sizes, o);
  t.fill_(value);
  return grad ? t.set_requires_grad(*grad) : t;
}
inline Tensor full_like(const Tensor& self, const c10::Scalar& value, const c10::TensorOptions& o = {},
                        std::optional<c10::MemoryFormat> format = std::nullopt) {
  const Tensor t = empty_like(self, o, format);
  t.fill_(value);
  return t;
}
inline Tensor scalar_tensor(const c10::Scalar& value, const c10::TensorOptions& o = {}) {
  return full({}, value, o.has_dtype() ? o : o.dtype(c10::ScalarType::Float));
}

template <class T>
Tensor from_values(const T* values, c10::IntArrayRef sizes, const c10::TensorOptions& o) {
  // As torch::tensor has it: floating values get the default dtype, integers Long.
  const auto stored = c10::CppTypeToScalarType<T>::value;
  const Tensor host = empty(sizes, c10::TensorOptions(stored).device(c10::DeviceType::CPU));
  std::copy(values, values + host.numel(), host.data_ptr<T>());
  const auto natural = std::is_floating_point_v<T>                     ? empty({0}).scalar_type()
                       : std::is_integral_v<T> && stored != c10::kBool ? c10::kLong
                                                                       : stored;
  auto target = c10::TensorOptions(o.has_dtype() ? o.dtype() : c10::TypeMeta(natural));
  if (o.has_device()) target = target.device(o.device());
  return with_grad(host.to(target), o);
}
template <class T>
Tensor tensor(const std::vector<T>& values, const c10::TensorOptions& o = {}) {
  return from_values(values.data(), {static_cast<int64_t>(values.size())}, o);
}
template <class T>
Tensor tensor(c10::ArrayRef<T> values, const c10::TensorOptions& o = {}) {
  return from_values(values.data(), {static_cast<int64_t>(values.size())}, o);
}
template <class T>
Tensor tensor(std::initializer_list<T> values, const c10::TensorOptions& o = {}) {
  return from_values(values.begin(), {static_cast<int64_t>(values.size())}, o);
}
// Rows of numbers.
template <class T>
Tensor tensor(std::initializer_list<std::initializer_list<T>> rows, const c10::TensorOptions& o = {}) {
  const size_t columns = rows.size() == 0 ? 0 : rows.begin()->size();
  std::vector<T> all;
  for (const auto& row : rows) {
    TORCH_CHECK(row.size() == columns, "Expected all sub-lists to have sizes: ", columns,
                ", but got sub-list with sizes: ", row.size());
    all.insert(all.end(), row.begin(), row.end());
  }
  return from_values(all.data(), {static_cast<int64_t>(rows.size()), static_cast<int64_t>(columns)}, o);
}
template <class T, std::enable_if_t<std::is_arithmetic_v<T>, int> = 0>
Tensor tensor(T value, const c10::TensorOptions& o = {}) {
  return from_values(&value, {}, o);
}

inline Tensor from_blob(void* data, c10::IntArrayRef sizes, c10::IntArrayRef strides,
                        const c10::TensorOptions& o = {}) {
  const c10::Device device = o.device();
  AtenTensorHandle handle = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_create_tensor_from_blob(
      data, static_cast<int64_t>(sizes.size()), sizes.data(), strides.data(), 0,
      torch::stable::detail::to<int32_t>(torch::stable::detail::from(o.dtype().toScalarType())),
      static_cast<int32_t>(device.type()), device.has_index() ? device.index() : 0, &handle));
  return with_grad(Tensor(torch::stable::Tensor(handle)), o);
}
inline Tensor from_blob(void* data, c10::IntArrayRef sizes, const c10::TensorOptions& o = {}) {
  return from_blob(data, sizes, contiguous_strides(sizes), o);
}

// Somebody else's memory, which `deleter` takes back with the last tensor that shares it: Python keeps it so long.
template <class Deleter, std::enable_if_t<std::is_invocable_v<Deleter, void*>, int> = 0>
Tensor from_blob(void* data, c10::IntArrayRef sizes, c10::IntArrayRef strides, const Deleter& deleter,
                 const c10::TensorOptions& o = {}) {
  using Kept = std::function<void(void*)>;
  TORCH_CHECK(o.device().is_cpu(), "aten_stable: from_blob with a deleter is covered for the CPU: make the tensor by ",
              "at::empty and write into its data_ptr()");
  const auto release = +[](void* kept, void* address) {
    const std::unique_ptr<Kept> own(static_cast<Kept*>(kept));
    (*own)(address);
  };
  int64_t count = 1;
  for (size_t d = 0; d < sizes.size() && count > 0; ++d)
    count = sizes[d] == 0 ? 0 : count + (sizes[d] - 1) * strides[d];
  const auto dtype = o.dtype().toScalarType();
  const auto bytes = count * static_cast<int64_t>(c10::elementSize(dtype));
  auto kept = std::make_unique<Kept>(deleter);
  const Tensor memory = ATEN_STABLE_BRIDGE(Tensor, "blob", reinterpret_cast<int64_t>(data), bytes,
                                           reinterpret_cast<int64_t>(release), reinterpret_cast<int64_t>(kept.get()));
  kept.release();  // its Python object has it
  return with_grad(memory.view(dtype).as_strided(sizes, strides), o);
}
template <class Deleter, std::enable_if_t<std::is_invocable_v<Deleter, void*>, int> = 0>
Tensor from_blob(void* data, c10::IntArrayRef sizes, const Deleter& deleter, const c10::TensorOptions& o = {}) {
  return from_blob(data, sizes, contiguous_strides(sizes), deleter, o);
}

// As ATen does it: the number becomes a tensor like b first.
inline Tensor operator-(const c10::Scalar& a, const Tensor& b) {
  const Tensor t = full_like(b, a);
  return t.sub_(b);
}
inline Tensor operator/(const c10::Scalar& a, const Tensor& b) {
  const Tensor t = full_like(b, a);
  return t.div_(b);
}

#define ATEN_STABLE_UNCOVERED_FUNCTION(name, instead)                                                \
  template <class... Args>                                                                           \
  Tensor name(Args&&...) {                                                                           \
    static_assert(::aten_stable::never<Args...>, "aten_stable: " #name " is not covered: " instead); \
    return {};                                                                                       \
  }
ATEN_STABLE_UNCOVERED_FUNCTION(stft, "call it in Python, around your op")
ATEN_STABLE_UNCOVERED_FUNCTION(istft, "call it in Python, around your op")
ATEN_STABLE_UNCOVERED_FUNCTION(_int_mm, "call torch._int_mm in Python, or at::mm on tensors of float")
ATEN_STABLE_UNCOVERED_FUNCTION(_scaled_mm, "call torch._scaled_mm in Python, around your op")
ATEN_STABLE_UNCOVERED_FUNCTION(sparse_coo_tensor, "return indices and values, and make the tensor in Python")
// Until torch 2.15 dropped them.
ATEN_STABLE_UNCOVERED_FUNCTION(cholesky, "write at::linalg_cholesky(x, upper)")
ATEN_STABLE_UNCOVERED_FUNCTION(cholesky_out, "write at::linalg_cholesky_out(out, x, upper)")
ATEN_STABLE_UNCOVERED_FUNCTION(qr, "write at::linalg_qr(x), or at::linalg_qr(x, \"complete\") for some = false")
ATEN_STABLE_UNCOVERED_FUNCTION(qr_out, "write at::linalg_qr_out(Q, R, x)")

inline Tensor std(const Tensor& t, int dim) { return t.std(dim); }
inline Tensor var(const Tensor& t, int dim) { return t.var(dim); }
inline std::tuple<Tensor, Tensor> std_mean(const Tensor& t, int dim) {
  return std_mean(t, c10::OptionalIntArrayRef(int64_t(dim)));
}
inline std::tuple<Tensor, Tensor> var_mean(const Tensor& t, int dim) {
  return var_mean(t, c10::OptionalIntArrayRef(int64_t(dim)));
}
inline c10::ScalarType promote_types(c10::ScalarType a, c10::ScalarType b) {
  return ATEN_STABLE_OPERATOR(c10::ScalarType, "promote_types", "",
                              "promote_types(ScalarType type1, ScalarType type2) -> ScalarType", a, b);
}
inline int64_t numel(const Tensor& t) { return t.numel(); }
inline int64_t size(const Tensor& t, int64_t dim) { return t.size(dim); }
inline int64_t stride(const Tensor& t, int64_t dim) { return t.stride(dim); }
inline bool is_floating_point(const Tensor& t) { return t.is_floating_point(); }
inline bool is_complex(const Tensor& t) { return t.is_complex(); }
inline bool is_same_size(const Tensor& a, const Tensor& b) { return a.is_same_size(b); }
inline Tensor& fill_(Tensor& t, const c10::Scalar& value) { return t.fill_(value); }
inline Tensor& copy_(Tensor& t, const Tensor& from, bool non_blocking = false) { return t.copy_(from, non_blocking); }

}  // namespace ATEN_STABLE_VERSION
}  // namespace at

namespace c10 {
inline ScalarType promoteTypes(ScalarType a, ScalarType b) { return at::promote_types(a, b); }
}  // namespace c10

namespace at {
inline bool hasCUDA() { return globalContext().hasCUDA(); }
}  // namespace at

namespace torch::utils {
using at::flatten_dense_tensors;
using at::unflatten_dense_tensors;
}  // namespace torch::utils

// CUDA as sources without device code ask for it.
namespace at::cuda {
inline namespace ATEN_STABLE_VERSION {
inline size_t device_count() { return static_cast<size_t>(ATEN_STABLE_BRIDGE(int64_t, "gpus")); }
inline bool is_available() { return device_count() > 0; }
}  // namespace ATEN_STABLE_VERSION
}  // namespace at::cuda
