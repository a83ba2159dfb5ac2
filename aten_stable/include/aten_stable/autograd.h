// torch::autograd::Function, by a torch.autograd.Function of Python's that calls back into this library (node.h);
// guards of dispatch keys; the Dispatcher, as far as kernels for Autograd keys call on to the other kernels with it.
#pragma once

#include "keys.h"
#include "node.h"

namespace at {
inline namespace ATEN_STABLE_VERSION {

// Dispatch keys are left out in Python: the stable ABI has no such guard. The kinds are names of torch._C.
class DispatchGuard {
 public:
  DispatchGuard(const char* kind, const std::string& key) { ATEN_STABLE_BRIDGE(void, "enter", std::string(kind), key); }
  ~DispatchGuard() { ATEN_STABLE_BRIDGE(void, "leave", int64_t(1)); }
  DispatchGuard(const DispatchGuard&) = delete;
  DispatchGuard& operator=(const DispatchGuard&) = delete;
};
struct AutoDispatchBelowAutograd : DispatchGuard {
  AutoDispatchBelowAutograd() : DispatchGuard("_AutoDispatchBelowAutograd", "") {}
};
struct AutoDispatchBelowADInplaceOrView : DispatchGuard {
  AutoDispatchBelowADInplaceOrView() : DispatchGuard("_AutoDispatchBelowADInplaceOrView", "") {}
};
struct AutoNonVariableTypeMode : AutoDispatchBelowAutograd {
  explicit AutoNonVariableTypeMode(bool enabled = true) {
    TORCH_CHECK(enabled, "AutoNonVariableTypeMode(false) is not covered: leave the guard out");
  }
};

namespace autocast {
// As torch casts under autocast; a weight is cast each time.
inline Tensor cached_cast(c10::ScalarType to, const Tensor& t, c10::DeviceType device = c10::DeviceType::CUDA) {
  const bool eligible =
      t.defined() && t.device().type() == device && t.is_floating_point() && t.scalar_type() != c10::ScalarType::Double;
  return eligible && t.scalar_type() != to ? t.to(to) : t;
}
inline std::optional<Tensor> cached_cast(c10::ScalarType to, const std::optional<Tensor>& t,
                                         c10::DeviceType device = c10::DeviceType::CUDA) {
  return t ? std::optional(cached_cast(to, *t, device)) : std::nullopt;
}
}  // namespace autocast

}  // namespace ATEN_STABLE_VERSION
}  // namespace at

namespace c10 {
inline namespace ATEN_STABLE_VERSION {

// As in c10, where Autocast is CUDA's.
constexpr DispatchKey autocast_dispatch_keyset = DispatchKey::AutocastCUDA;

template <class F>
class TypedOperatorHandle;
template <class R, class... A>
class TypedOperatorHandle<R(A...)> {
 public:
  TypedOperatorHandle(std::string name, std::string overload)
      : name_(std::move(name)), overload_(std::move(overload)) {}
  R call(A... arguments) const {
    static_assert(
        !(::aten_stable::is_number<::aten_stable::Bare<A>> || ...),
        "aten_stable: a call of an operator with a Scalar by the Dispatcher is not covered: call the function "
        "at:: of its name, or take a double");
    const ::aten_stable::Op op{name_.c_str(), name_.c_str(), overload_.c_str(), name_.c_str()};
    if ((::aten_stable::is_given(arguments) || ...))
      throw std::runtime_error("aten_stable: a call of an operator with a Generator by the Dispatcher is not covered");
    using Result = ::aten_stable::Bare<R>;
    if constexpr (std::is_void_v<R>)
      ::aten_stable::call<void>(op, static_cast<const ::aten_stable::Bare<A>&>(arguments)...);
    else if constexpr (std::is_reference_v<R>)
      static_assert(::aten_stable::never<R>,
                    "aten_stable: an operator that returns a reference is not covered: call it "
                    "as one that returns a Tensor");
    else
      return ::aten_stable::call<Result>(op, static_cast<const ::aten_stable::Bare<A>&>(arguments)...);
  }
  R operator()(A... arguments) const { return call(std::forward<A>(arguments)...); }

 private:
  std::string name_, overload_;
};
template <class F>
class TypedOperatorHandle<F*> : public TypedOperatorHandle<F> {
  using TypedOperatorHandle<F>::TypedOperatorHandle;
};

class OperatorHandle {
 public:
  OperatorHandle(std::string name, std::string overload) : name_(std::move(name)), overload_(std::move(overload)) {}
  template <class F>
  TypedOperatorHandle<std::remove_pointer_t<F>> typed() const {
    return {name_, overload_};
  }

 private:
  std::string name_, overload_;
};

class Dispatcher {
 public:
  static Dispatcher& singleton() {
    static Dispatcher one;
    return one;
  }
  OperatorHandle findSchemaOrThrow(const char* name, const char* overload) const { return {name, overload}; }
};

}  // namespace ATEN_STABLE_VERSION
namespace impl {
inline namespace ATEN_STABLE_VERSION {
struct ExcludeDispatchKeyGuard : at::DispatchGuard {
  explicit ExcludeDispatchKeyGuard(DispatchKey key)
      : DispatchGuard("_ExcludeDispatchKeyGuard", key == DispatchKey::Autocast ? "AutocastCUDA" : toString(key)) {}
};
}  // namespace ATEN_STABLE_VERSION
}  // namespace impl
}  // namespace c10

namespace torch {
using c10::Dispatcher;
using c10::DispatchKey;
namespace autograd {
inline namespace ATEN_STABLE_VERSION {

template <class T>
struct Function {
  template <class X = T, class... Args>
  static auto apply(Args&&... args)
      -> std::enable_if_t<std::is_same_v<X, T>, decltype(X::forward(nullptr, std::declval<Args>()...))> {
    using Result = decltype(X::forward(nullptr, std::declval<Args>()...));
    static_assert(std::is_same_v<Result, Variable> || std::is_same_v<Result, variable_list>,
                  "aten_stable: torch::autograd::Function: forward must return a Tensor or a variable_list");
    const auto node = std::make_shared<::aten_stable::Node>();
    variable_list inputs;
    (node->add(inputs, args), ...);
    node->backward = [](AutogradContext* context, variable_list gradients) -> variable_list {
      return T::backward(context, std::move(gradients));
    };
    node->forward = [&]() -> variable_list { return {X::forward(&node->context, std::forward<Args>(args)...)}; };
    node->grad_enabled = GradMode::is_enabled();
    variable_list outputs = ::aten_stable::python.apply != nullptr ? ::aten_stable::apply_in_python(node, inputs)
                                                                   : dispatched(node, inputs);
    if constexpr (std::is_same_v<Result, Variable>)
      return outputs.at(0);
    else
      return outputs;
  }

 private:
  static variable_list dispatched(const std::shared_ptr<::aten_stable::Node>& node, const variable_list& inputs) {
    const int64_t number = ::aten_stable::nodes().add(node);
    variable_list outputs;
    try {
      outputs = ::aten_stable::tensors(ATEN_STABLE_BRIDGE(::aten_stable::Maybe, "function",
                                                          ::aten_stable::Functions<std::void_t<T>>::ns, number,
                                                          ::aten_stable::maybe(inputs), node->grad_enabled));
    } catch (...) {
      ::aten_stable::nodes().remove(number);
      throw;
    }
    node->forward = nullptr;
    if (node->error) std::rethrow_exception(node->error);
    return outputs;
  }
};

inline variable_list grad(const variable_list& outputs, const variable_list& inputs,
                          const variable_list& grad_outputs = {}, std::optional<bool> retain_graph = std::nullopt,
                          bool create_graph = false, bool allow_unused = false) {
  return ::aten_stable::tensors(ATEN_STABLE_BRIDGE(::aten_stable::Maybe, "gradients", outputs, inputs,
                                                   ::aten_stable::maybe(grad_outputs),
                                                   retain_graph.value_or(create_graph), create_graph, allow_unused));
}

inline Variable make_variable(const at::Tensor& data, bool requires_grad = false, bool = true) {
  return data.defined() ? data.detach().set_requires_grad(requires_grad) : Variable();
}
inline bool any_variable_requires_grad(const variable_list& variables) {
  return std::any_of(variables.begin(), variables.end(),
                     [](const Variable& v) { return v.defined() && v.requires_grad(); });
}

}  // namespace ATEN_STABLE_VERSION
}  // namespace autograd
using at::AutoGradMode;
using at::GradMode;
using at::NoGradGuard;
}  // namespace torch
