// Calls of ATen's operators through the dispatcher. schemas.def is the table of them.
#pragma once

#include <array>

#include "wire.h"

// In torch since 2.13; null before.
extern "C" __attribute__((weak)) const char* torch_exception_get_what_without_backtrace();

namespace aten_stable {

namespace op {
#define X(id, operator_name, overload_name, text)          \
  struct id {                                              \
    static constexpr const char* name = operator_name;     \
    static constexpr const char* overload = overload_name; \
    static constexpr const char* schema = text;            \
  };
#include "schemas.def"
#undef X
}  // namespace op

// Arguments of a schema: what stands between commas in its first parentheses, but for the star.
constexpr size_t arguments(const char* schema) {
  size_t count = 0;
  int depth = 0;
  bool inside = false;
  for (; *schema != '\0'; ++schema) {
    const char c = *schema;
    if (c == '(' && depth++ == 0) continue;
    if (c == ')' && --depth == 0) return count + (inside ? 1 : 0);
    if (depth == 1 && c == ',') {
      count += inside ? 1 : 0;
      inside = false;
    } else if (depth >= 1 && c != ' ' && c != '*') {
      inside = true;
    }
  }
  return count;
}

[[noreturn]] inline void failed(const char* name) {
  if (&torch_exception_get_what_without_backtrace != nullptr)
    throw std::runtime_error(torch_exception_get_what_without_backtrace());
  throw std::runtime_error(text(name, " failed; torch has printed why to stderr (from 2.13 on, it is said here)"));
}

template <class... R, size_t... I>
std::tuple<R...> take_tuple(StableIValue* stack, std::tuple<R...>*, std::index_sequence<I...>) {
  return {take<R>(stack[I])...};
}

template <class T>
inline constexpr bool is_tuple = false;
template <class... R>
inline constexpr bool is_tuple<std::tuple<R...>> = true;

template <class Op, class R = at::Tensor, class... Args>
R call(const Args&... args) {
  static_assert(arguments(Op::schema) == sizeof...(Args), "aten_stable: this call does not fit schemas.def");
  std::array<StableIValue, sizeof...(Args) + 2> stack{give(args)...};
  if (torch_call_dispatcher(Op::name, Op::overload, stack.data(), TORCH_ABI_VERSION) != TORCH_SUCCESS) failed(Op::name);
  if constexpr (is_tuple<R>)
    return take_tuple(stack.data(), static_cast<R*>(nullptr), std::make_index_sequence<std::tuple_size_v<R>>());
  else
    return take<R>(stack[0]);
}

// self - alpha * other. The dispatcher of 2.10 takes no Scalar, but the C shim of this one operator does.
inline at::Tensor subtract(const at::Tensor& self, const at::Tensor& other, double alpha) {
  if (c10::isIntegralType(self.scalar_type(), true) && c10::isIntegralType(other.scalar_type(), true))
    throw std::runtime_error(
        "aten_stable: sums and differences of integer tensors are not covered: convert to a "
        "floating dtype with to(), or compute them in your kernel");
  AtenTensorHandle result = nullptr;
  if (aoti_torch_aten_subtract_Tensor(self.stable().get(), other.stable().get(), alpha, &result) != TORCH_SUCCESS)
    failed("aten::sub");
  return at::Tensor(torch::stable::Tensor(result));
}

inline const at::Tensor& assign(const at::Tensor& self, const at::Tensor& result) {
  if (c10::isIntegralType(self.scalar_type(), true) && !c10::isIntegralType(result.scalar_type(), true))
    throw std::runtime_error(text("result type ", c10::toString(result.scalar_type()),
                                  " can't be cast to the desired output type ", c10::toString(self.scalar_type())));
  return self.copy_(result);
}

}  // namespace aten_stable
