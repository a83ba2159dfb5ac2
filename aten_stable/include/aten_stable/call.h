// Calls of ATen's operators through the dispatcher.
#pragma once

#include <array>

#include "wire.h"

// In torch since 2.13; null before.
extern "C" __attribute__((weak)) const char* torch_exception_get_what_without_backtrace();

namespace aten_stable {
inline namespace ATEN_STABLE_VERSION {

// `op` is a schema after "aten_stable:op:", or the name of an operator of ours.
[[noreturn]] inline void failed(std::string_view op) {
  constexpr std::string_view kSchema = "aten_stable:op:", kOurs = ATEN_STABLE_OPERATORS;
  if (op.substr(0, kSchema.size()) == kSchema) op.remove_prefix(kSchema.size());
  const std::string why = &torch_exception_get_what_without_backtrace != nullptr
                              ? torch_exception_get_what_without_backtrace()
                              : text(op, " failed; torch has printed why to stderr (from 2.13 on, it is said here)");
  if (op.substr(0, kOurs.size()) == kOurs && why.find("Could not find schema") != std::string::npos)
    throw c10::Error(text(why, " The Python file beside the library defines it: import that"));
  throw c10::Error(why);
}

template <class... R, size_t... I>
std::tuple<R...> take_tuple(StableIValue* stack, std::tuple<R...>*, std::index_sequence<I...>) {
  return {take<R>(stack[I])...};
}

template <class T>
inline constexpr bool is_tuple = false;
template <class... R>
inline constexpr bool is_tuple<std::tuple<R...>> = true;

template <class T>
inline constexpr bool is_number = false;
template <>
inline constexpr bool is_number<c10::Scalar> = true;
template <>
inline constexpr bool is_number<std::optional<c10::Scalar>> = true;
template <>
inline constexpr bool is_number<c10::ArrayRef<c10::Scalar>> = true;

// A generator other than torch's own?
template <class T>
bool is_given(const T& value) {
  if constexpr (std::is_same_v<T, std::optional<at::Generator>>)
    return value && value->address() != 0;
  else
    return false;
}

template <class T>
StableIValue give_argument(const T& value) {
  if constexpr (std::is_same_v<T, std::optional<at::Generator>>)
    return give(is_given(value) ? std::optional(value->address()) : std::nullopt);
  else
    return give(value);
}

// What has numbers or a generator goes to an operator of ours by the same name, which takes them as integers;
// _face.py has it.
template <class R, class... Args>
R call(const Op& op, const Args&... args) {
  const bool bridge = (is_number<Args> || ...) || (is_given(args) || ...);
  std::array<StableIValue, sizeof...(Args) + 4> stack{give_argument(args)...};
  if (torch_call_dispatcher(bridge ? op.bridge : op.name, op.overload, stack.data(), TORCH_ABI_VERSION) !=
      TORCH_SUCCESS)
    failed(op.schema);
  if constexpr (is_tuple<R>)
    return take_tuple(stack.data(), static_cast<R*>(nullptr), std::make_index_sequence<std::tuple_size_v<R>>());
  else if constexpr (!std::is_void_v<R>)
    return take<R>(stack[0]);
}

// self - alpha * other. The dispatcher takes no Scalar, but the C shim of this one operator does: as a double, so that
// integers take the bridge.
inline at::Tensor subtract(const at::Tensor& self, const at::Tensor& other, const c10::Scalar& alpha) {
  if (alpha.isComplex() ||
      (c10::isIntegralType(self.scalar_type(), true) && c10::isIntegralType(other.scalar_type(), true)))
    return ATEN_STABLE_OPERATOR(at::Tensor, "sub", "Tensor",
                                "sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", self, other,
                                alpha);
  AtenTensorHandle result = nullptr;
  if (aoti_torch_aten_subtract_Tensor(self.stable().get(), other.stable().get(), alpha.toDouble(), &result) !=
      TORCH_SUCCESS)
    failed("aten::sub");
  return at::Tensor(torch::stable::Tensor(result));
}

inline at::Tensor& assign(const at::Tensor& self, const at::Tensor& result) {
  if (c10::isIntegralType(self.scalar_type(), true) && !c10::isIntegralType(result.scalar_type(), true))
    throw std::runtime_error(text("result type ", c10::toString(result.scalar_type()),
                                  " can't be cast to the desired output type ", c10::toString(self.scalar_type())));
  return self.copy_(result);
}

}  // namespace ATEN_STABLE_VERSION
}  // namespace aten_stable
