// New tensors: at::empty, zeros, ones, full and the rest; torch:: has the same names.
#pragma once

#include "ops.h"

namespace at {
inline namespace aten_stable_0 {

inline Tensor with_grad(const Tensor& t, const c10::TensorOptions& o) {
  return o.requires_grad_ ? t.set_requires_grad(*o.requires_grad_) : t;
}
inline Tensor empty(c10::IntArrayRef sizes, const c10::TensorOptions& o = {},
                    std::optional<c10::MemoryFormat> format = std::nullopt) {
  return with_grad(call<op::empty_memory_format>(sizes, o.dtype_, o.layout_, o.device_, o.pinned_memory_,
                                                 format ? format : o.memory_format_),
                   o);
}
inline Tensor empty_strided(c10::IntArrayRef sizes, c10::IntArrayRef strides, const c10::TensorOptions& o = {}) {
  return with_grad(call<op::empty_strided>(sizes, strides, o.dtype_, o.layout_, o.device_, o.pinned_memory_), o);
}
#define X(name)                                                                                   \
  inline Tensor name(c10::IntArrayRef sizes, const c10::TensorOptions& o = {}) {                  \
    return with_grad(call<op::name>(sizes, o.dtype_, o.layout_, o.device_, o.pinned_memory_), o); \
  }
X(zeros)
X(ones)
X(rand) X(randn)
#undef X
#define X(name)                                                                                                     \
  inline Tensor name(const Tensor& self, const c10::TensorOptions& o = {},                                          \
                     std::optional<c10::MemoryFormat> format = std::nullopt) {                                      \
    return with_grad(                                                                                               \
        call<op::name>(self, o.dtype_, o.layout_, o.device_, o.pinned_memory_, format ? format : o.memory_format_), \
        o);                                                                                                         \
  }
    X(empty_like) X(zeros_like) X(ones_like)
#undef X
        inline Tensor full(c10::IntArrayRef sizes, const c10::Scalar& value, c10::TensorOptions o = {}) {
  if (!o.dtype_ && !value.isFloatingPoint()) o.dtype_ = c10::ScalarType::Long;
  const Tensor t = empty(sizes, [&] {
    auto plain = o;
    plain.requires_grad_.reset();
    return plain;
  }());
  t.fill_(value);
  return with_grad(t, o);
}
inline Tensor full_like(const Tensor& self, const c10::Scalar& value, const c10::TensorOptions& o = {}) {
  const Tensor t = empty_like(self, o);
  t.fill_(value);
  return t;
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
ATEN_STABLE_UNCOVERED_FUNCTION(addmm, "write bias + x.mm(weight); the rounding may differ")
ATEN_STABLE_UNCOVERED_FUNCTION(arange, "fill at::empty({n}) in a loop, or take the tensor from Python")
ATEN_STABLE_UNCOVERED_FUNCTION(linspace, "fill at::empty({n}) in a loop, or take the tensor from Python")
ATEN_STABLE_UNCOVERED_FUNCTION(eye, "fill at::zeros in a loop, or take the tensor from Python")
ATEN_STABLE_UNCOVERED_FUNCTION(tensor, "fill at::empty({n}) through data_ptr(), then to() its device")
ATEN_STABLE_UNCOVERED_FUNCTION(from_blob, "the stable ABI has it from torch 2.11 on: at::empty, then copy the memory")
ATEN_STABLE_UNCOVERED_FUNCTION(clamp, "write at::minimum(at::maximum(x, low), high) with tensors")
ATEN_STABLE_UNCOVERED_FUNCTION(pow, "write products, or do it in your kernel")
ATEN_STABLE_UNCOVERED_FUNCTION(norm, "write (x * x).sum().sqrt(); the rounding may differ")
ATEN_STABLE_UNCOVERED_FUNCTION(elu, "write at::where(x > 0, x, x.expm1()); the rounding may differ")
ATEN_STABLE_UNCOVERED_FUNCTION(leaky_relu, "write at::where(x > 0, x, x * slope)")
ATEN_STABLE_UNCOVERED_FUNCTION(conv2d, "call it in Python, around your op")
ATEN_STABLE_UNCOVERED_FUNCTION(einsum, "write matmul and permute")
ATEN_STABLE_UNCOVERED_FUNCTION(topk, "call it in Python, around your op")
ATEN_STABLE_UNCOVERED_FUNCTION(sort, "call it in Python, around your op")
ATEN_STABLE_UNCOVERED_FUNCTION(unique, "call it in Python, around your op")

}  // namespace aten_stable_0
}  // namespace at

namespace torch {

class NoGradGuard {
 public:
  NoGradGuard() : was_(aoti_torch_grad_mode_is_enabled()) { aoti_torch_grad_mode_set_enabled(false); }
  ~NoGradGuard() { aoti_torch_grad_mode_set_enabled(was_); }
  NoGradGuard(const NoGradGuard&) = delete;
  NoGradGuard& operator=(const NoGradGuard&) = delete;

 private:
  bool was_;
};

namespace autograd {
template <class T>
struct Function {
  static_assert(
      ::aten_stable::never<T>,
      "aten_stable: torch::autograd::Function is not covered: bind forward and backward as two functions, and "
      "write a torch.autograd.Function in Python around them");
};
}  // namespace autograd
}  // namespace torch
namespace at {
using torch::NoGradGuard;
}
