// torch::autograd::Function, by a torch.autograd.Function of Python's that calls back into this library; grad modes;
// guards of dispatch keys; the Dispatcher, as far as kernels for Autograd keys call on to the other kernels with it.
//
// apply() keeps its arguments in a Node and calls aten_stable::function, which the module in front of the library
// defines (_face.py). What that calls back is registered here: forward, backward and release, in a namespace of this
// library's own, by the number of the Node. So hooks, saved tensors, versions and double backward are torch's own.
#pragma once

#include "ivalue.h"
#include "module.h"

namespace at {
inline namespace aten_stable_0 {

class AutoGradMode {
 public:
  explicit AutoGradMode(bool enabled) : was_(aoti_torch_grad_mode_is_enabled()) {
    aoti_torch_grad_mode_set_enabled(enabled);
  }
  ~AutoGradMode() { aoti_torch_grad_mode_set_enabled(was_); }
  AutoGradMode(const AutoGradMode&) = delete;
  AutoGradMode& operator=(const AutoGradMode&) = delete;

 private:
  bool was_;
};
struct NoGradGuard : AutoGradMode {
  NoGradGuard() : AutoGradMode(false) {}
};
struct GradMode {
  static bool is_enabled() { return aoti_torch_grad_mode_is_enabled(); }
  static void set_enabled(bool enabled) { aoti_torch_grad_mode_set_enabled(enabled); }
};

// Dispatch keys are left out in Python: the stable ABI has no such guard. The kinds are names of torch._C.
class DispatchGuard {
 public:
  DispatchGuard(const char* kind, const std::string& key) { BRIDGE(void, "enter", std::string(kind), key); }
  ~DispatchGuard() { BRIDGE(void, "leave", int64_t(1)); }
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

}  // namespace aten_stable_0
}  // namespace at

namespace c10 {
inline namespace aten_stable_0 {

// clang-format off
#define ATEN_STABLE_KEYS(X) \
  X(CPU) X(CUDA) X(Meta) X(XPU) X(MPS) X(PrivateUse1) X(SparseCPU) X(SparseCUDA) X(QuantizedCPU) X(QuantizedCUDA) \
  X(ADInplaceOrView) X(Autograd) X(AutogradOther) X(AutogradCPU) X(AutogradCUDA) X(AutogradMeta) X(AutogradXPU) \
  X(AutogradMPS) X(AutogradPrivateUse1) X(Autocast) X(AutocastCPU) X(AutocastCUDA) X(AutocastXPU) X(AutocastMPS) \
  X(BackendSelect) X(CompositeExplicitAutograd) X(CompositeImplicitAutograd)
// clang-format on
enum class DispatchKey : uint16_t {
#define X(key) key,
  ATEN_STABLE_KEYS(X)
#undef X
};
inline const char* toString(DispatchKey key) {
  static constexpr const char* names[] = {
#define X(key) #key,
      ATEN_STABLE_KEYS(X)
#undef X
  };
  return names[static_cast<size_t>(key)];
}
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

}  // namespace aten_stable_0
namespace impl {
inline namespace aten_stable_0 {
struct ExcludeDispatchKeyGuard : at::DispatchGuard {
  explicit ExcludeDispatchKeyGuard(DispatchKey key)
      : DispatchGuard("_ExcludeDispatchKeyGuard", key == DispatchKey::Autocast ? "AutocastCUDA" : toString(key)) {}
};
}  // namespace aten_stable_0
}  // namespace impl
}  // namespace c10

namespace torch {
using c10::Dispatcher;
using c10::DispatchKey;
namespace autograd {
inline namespace aten_stable_0 {
using Variable = at::Tensor;
using variable_list = std::vector<Variable>;
using tensor_list = variable_list;
using at::AutoGradMode;
using at::GradMode;
using at::NoGradGuard;

class AutogradContext;
}  // namespace aten_stable_0
}  // namespace autograd
}  // namespace torch

namespace aten_stable __attribute__((visibility("hidden"))) {
  struct Node;
}

namespace torch {
namespace autograd {
inline namespace aten_stable_0 {

class AutogradContext {
 public:
  std::unordered_map<std::string, c10::IValue> saved_data;
  void save_for_backward(variable_list to_save) { saved_ = std::move(to_save); }
  void mark_dirty(const variable_list& inputs) { dirty_ = inputs; }
  void mark_non_differentiable(const variable_list& outputs) { constant_ = outputs; }
  void set_materialize_grads(bool value) { materialize_ = value; }
  variable_list get_saved_variables() const { return saved_; }
  // Of the arguments that are Tensors, the i-th.
  bool needs_input_grad(size_t i) const { return needs_.at(i); }

 private:
  friend struct ::aten_stable::Node;
  variable_list saved_, dirty_, constant_;
  std::vector<bool> needs_;
  bool materialize_ = true;
};

}  // namespace aten_stable_0
}  // namespace autograd
}  // namespace torch

namespace aten_stable __attribute__((visibility("hidden"))) {

  using Maybe = std::vector<std::optional<at::Tensor>>;  // Tensor?[]: a tensor that is not defined crosses as nothing
  inline Maybe maybe(const std::vector<at::Tensor>& list) {
    Maybe all;
    for (const at::Tensor& t : list) all.push_back(t.defined() ? std::optional(t) : std::nullopt);
    return all;
  }
  inline std::vector<at::Tensor> tensors(const Maybe& list) {
    std::vector<at::Tensor> all;
    for (const auto& t : list) all.push_back(t.value_or(at::Tensor()));
    return all;
  }

  // One call of Function::apply, kept until Python drops its context.
  struct Node {
    using List = std::vector<at::Tensor>;
    using Forward = std::tuple<bool, Maybe, Maybe, Maybe, Maybe, bool>;

    torch::autograd::AutogradContext context;
    std::function<List()> forward;  // while apply() runs
    List (*backward)(torch::autograd::AutogradContext*, List) = nullptr;
    std::vector<bool> is_tensor;  // argument by argument; a list of tensors counts as so many
    std::exception_ptr error;
    std::mutex mutex;

    template <class A>
    void add(List& inputs, const A& argument) {
      if constexpr (std::is_same_v<A, at::Tensor>) {
        is_tensor.push_back(true);
        inputs.push_back(argument);
      } else if constexpr (std::is_same_v<A, std::optional<at::Tensor>>) {
        is_tensor.push_back(argument.has_value() && argument->defined());
        if (is_tensor.back()) inputs.push_back(*argument);
      } else if constexpr (std::is_same_v<A, at::TensorList>) {
        for (const at::Tensor& t : argument) add(inputs, t);
      } else {
        is_tensor.push_back(false);
      }
    }

    Forward run_forward(std::vector<bool> needs) {
      context.needs_ = std::move(needs);
      try {
        const List outputs = forward();
        Forward result{true,
                       maybe(outputs),
                       maybe(context.saved_),
                       maybe(context.dirty_),
                       maybe(context.constant_),
                       context.materialize_};
        context.saved_.clear(), context.dirty_.clear(), context.constant_.clear();  // torch keeps them
        return result;
      } catch (...) {  // apply() throws it again, as it was
        error = std::current_exception();
        return {false, {}, {}, {}, {}, true};
      }
    }

    Maybe run_backward(const Maybe& gradients, const Maybe& saved, std::vector<bool> needs) {
      const std::lock_guard<std::mutex> lock(mutex);
      context.saved_ = tensors(saved);
      context.needs_ = std::move(needs);
      List all;
      try {
        all = backward(&context, tensors(gradients));
      } catch (...) {
        context.saved_.clear();
        throw;
      }
      context.saved_.clear();
      while (all.size() > is_tensor.size() && !all.back().defined()) all.pop_back();
      TORCH_CHECK(all.size() == is_tensor.size(), "function returned an incorrect number of gradients (expected ",
                  is_tensor.size(), ", got ", all.size(), ")");
      List results;
      for (size_t i = 0; i < all.size(); ++i) {
        TORCH_CHECK(is_tensor[i] || !all[i].defined(),
                    "function returned a gradient different that is defined at position ", i + 1,
                    ", std the corresponding forward input was not a Variable");
        if (is_tensor[i]) results.push_back(all[i]);
      }
      return maybe(results);
    }
  };

  class Nodes {
   public:
    int64_t add(std::shared_ptr<Node> node) {
      const std::lock_guard<std::mutex> lock(mutex_);
      all_[++last_] = std::move(node);
      return last_;
    }
    std::shared_ptr<Node> at(int64_t number) {
      const std::lock_guard<std::mutex> lock(mutex_);
      return all_.at(number);
    }
    void remove(int64_t number) {
      std::shared_ptr<Node> node;  // dies after the lock: its tensors may drop other nodes
      const std::lock_guard<std::mutex> lock(mutex_);
      const auto found = all_.find(number);
      if (found == all_.end()) return;
      node = std::move(found->second);
      all_.erase(found);
    }
    size_t size() {
      const std::lock_guard<std::mutex> lock(mutex_);
      return all_.size();
    }

   private:
    std::mutex mutex_;
    std::unordered_map<int64_t, std::shared_ptr<Node>> all_;
    int64_t last_ = 0;
  };
  inline Nodes& nodes() {
    static Nodes& all = *new Nodes;  // Python drops contexts until the very end
    return all;
  }

  // The operators that Python calls back, in a namespace that no other library of the process has.
  inline const std::string& register_functions() {
    static const std::string& ns = *new std::string(text("aten_stable_functions_", static_cast<const void*>(&nodes())));
    auto& library = keep(StableLibrary::Kind::FRAGMENT, ns.c_str(), nullptr);
    auto& kernels = keep(StableLibrary::Kind::IMPL, ns.c_str(), "CompositeImplicitAutograd");
    const auto add = [&](const char* name, auto function) {
      library.def(schema<decltype(function)>(name, {}).c_str());
      kernels.impl(name, box(kernel(function)));
    };
    add("forward",
        [](int64_t node, std::vector<bool> needs) { return nodes().at(node)->run_forward(std::move(needs)); });
    add("backward", [](int64_t node, Maybe gradients, Maybe saved, std::vector<bool> needs) {
      return nodes().at(node)->run_backward(gradients, saved, std::move(needs));
    });
    add("release", [](int64_t node) { nodes().remove(node); });
    add("alive", [] { return static_cast<int64_t>(nodes().size()); });
    return ns;
  }
  // On loading, and only in libraries that have a Function.
  template <class = void>
  struct Functions {
    static inline const std::string& ns = register_functions();
  };

}  // namespace aten_stable

namespace torch {
namespace autograd {
inline namespace aten_stable_0 {

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
    const int64_t number = ::aten_stable::nodes().add(node);
    variable_list outputs;
    try {
      outputs = ::aten_stable::tensors(BRIDGE(::aten_stable::Maybe, "function", ::aten_stable::Functions<>::ns, number,
                                              ::aten_stable::maybe(inputs), GradMode::is_enabled()));
    } catch (...) {
      ::aten_stable::nodes().remove(number);
      throw;
    }
    node->forward = nullptr;
    if (node->error) std::rethrow_exception(node->error);
    if constexpr (std::is_same_v<Result, Variable>)
      return outputs.at(0);
    else
      return outputs;
  }
};

inline variable_list grad(const variable_list& outputs, const variable_list& inputs,
                          const variable_list& grad_outputs = {}, std::optional<bool> retain_graph = std::nullopt,
                          bool create_graph = false, bool allow_unused = false) {
  return ::aten_stable::tensors(BRIDGE(::aten_stable::Maybe, "gradients", outputs, inputs,
                                       ::aten_stable::maybe(grad_outputs), retain_graph.value_or(create_graph),
                                       create_graph, allow_unused));
}

inline bool any_variable_requires_grad(const variable_list& variables) {
  return std::any_of(variables.begin(), variables.end(),
                     [](const Variable& v) { return v.defined() && v.requires_grad(); });
}

}  // namespace aten_stable_0
}  // namespace autograd
using at::AutoGradMode;
using at::GradMode;
using at::NoGradGuard;
}  // namespace torch
