// One call of a torch::autograd::Function, and how torch's Python class for it calls forward and backward here.
//
// apply() keeps its arguments in a Node. The quick way, Python's class has builtins of this library for its forward and
// backward. Otherwise apply() calls the operator aten_stable::function, which the module in front of the library has
// defined (_face.py), and that calls back by the number of the Node: forward, backward and release, in a namespace of
// this library's own. Both ways hooks, saved tensors, versions and double backward are torch's own.
#pragma once

#include "ivalue.h"
#include "quick.h"

namespace at {
inline namespace ATEN_STABLE_VERSION {

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

}  // namespace ATEN_STABLE_VERSION
}  // namespace at

namespace torch {
namespace autograd {
inline namespace ATEN_STABLE_VERSION {
using Variable = at::Tensor;
using variable_list = std::vector<Variable>;
using tensor_list = variable_list;
using at::AutoGradMode;
using at::GradMode;
using at::NoGradGuard;

class AutogradContext;
}  // namespace ATEN_STABLE_VERSION
}  // namespace autograd
}  // namespace torch

namespace aten_stable __attribute__((visibility("hidden"))) {
  inline namespace ATEN_STABLE_VERSION {
  struct Node;
  }
}  // namespace aten_stable

namespace torch {
namespace autograd {
inline namespace ATEN_STABLE_VERSION {

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

}  // namespace ATEN_STABLE_VERSION
}  // namespace autograd
}  // namespace torch

namespace aten_stable __attribute__((visibility("hidden"))) {
  inline namespace ATEN_STABLE_VERSION {

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
    std::optional<List> outputs;  // of a forward that has run before Python's class has a context for it
    bool grad_enabled = true;     // where apply() was called
    std::mutex mutex;

    static std::atomic<int64_t>& alive() {
      static std::atomic<int64_t> count{0};
      return count;
    }
    Node() { ++alive(); }
    ~Node() { --alive(); }

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

    Object* forward_for(Object* ctx, Object* capsule, Size tensors);
    Owned forward_unrecorded(Object* arguments);

    Maybe run_backward(const Maybe& gradients, const Maybe& saved, std::vector<bool> needs) {
      return maybe(run_backward(tensors(gradients), tensors(saved), &needs));
    }

    // A gradient for each Tensor among the arguments. Without `needs`, those of forward.
    List run_backward(List gradients, List saved, std::vector<bool>* needs) {
      const std::lock_guard<std::mutex> lock(mutex);
      context.saved_ = std::move(saved);
      if (needs != nullptr) context.needs_ = std::move(*needs);
      List all;
      try {
        all = backward(&context, std::move(gradients));
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
      return results;
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
    add("alive", [] { return Node::alive().load(); });
    return ns;
  }
  // The quick way: a torch.autograd.Function whose forward and backward are builtins of this library.
  inline Object* tuple_of(const Node::List& list, Size before = 0) {
    Owned all(python.PyTuple_New(before + static_cast<Size>(list.size())));
    for (Size i = 0; all && i < before; ++i) python.PyTuple_SetItem(all.get(), i, shared(python._Py_NoneStruct));
    for (size_t i = 0; all && i < list.size(); ++i) {
      Object* item = list[i].defined() ? Quick<at::Tensor>::out(list[i]) : shared(python._Py_NoneStruct);
      if (item == nullptr) return nullptr;
      python.PyTuple_SetItem(all.get(), before + static_cast<Size>(i), item);
    }
    return all.release();
  }
  inline at::Tensor tensor_of(Object* object) {
    std::optional<at::Tensor> value;
    if (!is_none(object) && !Quick<at::Tensor>::unwrap(object, value))
      throw std::runtime_error("torch::autograd::Function: a Tensor is expected");
    return value ? *value : at::Tensor();
  }
  inline Node::List list_of(Object* tuple) {
    Node::List all;
    for (Size i = 0, n = python.PyTuple_Size(tuple); i < n; ++i)
      all.push_back(tensor_of(python.PyTuple_GetItem(tuple, i)));
    return all;
  }
  inline Owned checked(Object* result) {
    if (result == nullptr) throw PythonError::take();
    return Owned(result);
  }
  // Names of attributes, which Python finds the quickest when it is given the same object each time.
  struct Names {
#define X(name) Object* name = python.PyUnicode_InternFromString(#name)
    X(node);
    X(requires_grad);
    X(_base);
    X(_current_level);
    X(needs_input_grad);
    X(saved_tensors);
    X(save_for_backward);
    X(mark_dirty);
    X(mark_non_differentiable);
    X(set_materialize_grads);
    X(to_save);
    X(dirty_tensors);
    X(non_differentiable);
#undef X
  };
  inline const Names& names() {
    static const Names all;
    return all;
  }
  inline Owned attribute(Object* object, Object* name) { return checked(python.PyObject_GetAttr(object, name)); }
  inline void set_attribute(Object* object, Object* name, Object* value) {
    if (python.PyObject_SetAttr(object, name, value) != 0) throw PythonError::take();
  }
  // ctx.method(*list), or the attribute that this sets; unless the list is empty.
  inline void tell(Object* ctx, Object* method, Object* name, const Node::List& list) {
    if (list.empty()) return;
    const Owned arguments = checked(tuple_of(list));
    if (python.plain_context)
      set_attribute(ctx, name, arguments.get());
    else
      checked(python.PyObject_Call(attribute(ctx, method).get(), arguments.get(), nullptr));
  }
  inline const std::shared_ptr<Node>& node_of(Object* capsule) {
    return *static_cast<std::shared_ptr<Node>*>(python.PyCapsule_GetPointer(capsule, nullptr));
  }

  // What forward gives, and to ctx what it has told its own context.
  inline Object* Node::forward_for(Object* ctx, Object* capsule, Size tensors) {
    const Owned needs = attribute(ctx, names().needs_input_grad);  // of the capsule, then of the tensors
    for (Size i = 1; i <= tensors; ++i)
      context.needs_.push_back(grad_enabled && python.PyObject_IsTrue(python.PyTuple_GetItem(needs.get(), i)) == 1);
    const List results = outputs ? *std::exchange(outputs, std::nullopt) : forward();
    set_attribute(ctx, names().node, capsule);
    tell(ctx, names().save_for_backward, names().to_save, context.saved_);
    tell(ctx, names().mark_dirty, names().dirty_tensors, context.dirty_);
    tell(ctx, names().mark_non_differentiable, names().non_differentiable, context.constant_);
    if (!context.materialize_)
      checked(call_with(attribute(ctx, names().set_materialize_grads).get(), python._Py_FalseStruct));
    context.saved_.clear(), context.dirty_.clear(), context.constant_.clear();  // torch keeps them
    return checked(tuple_of(results)).release();
  }
  // (ctx, node, *tensors); torch has disabled gradients.
  inline Object* forward_builtin(Object*, Arguments arguments, Size count, Object*) {
    const std::shared_ptr<Node> node = node_of(arguments[1]);
    try {
      return node->forward_for(arguments[0], arguments[1], count - 2);
    } catch (...) {  // apply() throws it again, as it was
      node->error = std::current_exception();
      python.PyErr_SetString(python.PyExc_RuntimeError, "torch::autograd::Function: forward has thrown");
      return nullptr;
    }
  }
  // (ctx, *gradients)
  inline Object* backward_builtin(Object*, Arguments arguments, Size count, Object*) {
    try {
      const Owned capsule = attribute(arguments[0], names().node);
      const Owned saved = attribute(arguments[0], names().saved_tensors);
      Node::List gradients, results;
      for (Size i = 1; i < count; ++i) gradients.push_back(tensor_of(arguments[i]));
      Node& node = *node_of(capsule.get());
      Node::List of_forward = list_of(saved.get());
      {
        const WithoutLock others_run;  // one of them may hold the node's mutex, and wait for Python's lock
        results = node.run_backward(std::move(gradients), std::move(of_forward), nullptr);
      }
      for (size_t i = 0; i < results.size(); ++i)
        if (!node.context.needs_input_grad(i)) results[i] = at::Tensor();
      return checked(tuple_of(results, 1)).release();
    } catch (...) {
      raise_current();
      return nullptr;
    }
  }
  inline bool is_false(Object* object, Object* name) { return attribute(object, name).get() == python._Py_FalseStruct; }
  // Has autograd nothing to record for a call with these tensors (after a first item), forward mode included? Where
  // somebody watches what is asked of tensors, nothing is asked.
  inline bool is_unrecorded(Object* arguments, bool grad_enabled) {
    const auto integer = [](const Owned& object) { return python.PyLong_AsLongLong(object.get()); };
    if (integer(checked(python.PyObject_CallFunctionObjArgs(python.modes, nullptr))) != 0) return false;
    for (Size i = 1, n = python.PyTuple_Size(arguments); i < n; ++i) {
      Object* tensor = python.PyTuple_GetItem(arguments, i);
      if (!is_exactly(tensor, {python.tensor, python.parameter})) return false;
      if (grad_enabled && !is_false(tensor, names().requires_grad)) return false;
    }
    return integer(attribute(python.forward_ad, names()._current_level)) == -1;
  }
  // Is what such a call's forward gives, a tuple, the call's result as it is? A tensor is, if it is new and no view.
  inline bool are_new(Object* outputs, Object* arguments) {
    const Size count = python.PyTuple_Size(arguments);
    for (Size i = 0, n = python.PyTuple_Size(outputs); i < n; ++i) {
      Object* tensor = python.PyTuple_GetItem(outputs, i);
      if (is_none(tensor)) continue;
      for (Size j = 1; j < count; ++j)
        if (tensor == python.PyTuple_GetItem(arguments, j)) return false;
      if (!is_exactly(tensor, {python.tensor}) || !is_false(tensor, names().requires_grad) ||
          !is_none(attribute(tensor, names()._base).get()))
        return false;
    }
    return true;
  }
  // Forward alone; the outputs, unless Python's class has to look at them.
  inline Owned Node::forward_unrecorded(Object* arguments) {
    const at::NoGradGuard guard;
    context.needs_.assign(static_cast<size_t>(python.PyTuple_Size(arguments)) - 1, false);
    outputs = forward();
    Owned tuple = checked(tuple_of(*outputs));
    return context.dirty_.empty() && are_new(tuple.get(), arguments) ? std::move(tuple) : Owned();
  }
  inline Owned call_apply(const std::shared_ptr<Node>& node, Object* arguments) {
    const auto forget = [](Object* capsule) { delete &node_of(capsule); };
    const Owned capsule = checked(python.PyCapsule_New(new std::shared_ptr<Node>(node), nullptr, forget));
    python.PyTuple_SetItem(arguments, 0, shared(capsule.get()));
    Owned outputs(python.PyObject_Call(python.apply, arguments, nullptr));
    if (!outputs && node->error) {
      python.PyErr_Clear();
      std::rethrow_exception(std::exchange(node->error, nullptr));
    }
    return checked(outputs.release());
  }
  inline Node::List apply_in_python(const std::shared_ptr<Node>& node, const Node::List& inputs) {
    const WithLock lock;
    if (checked(python.PyObject_CallFunctionObjArgs(python.transforms, nullptr)).get() == python._Py_TrueStruct)
      throw std::runtime_error(
          "cannot use C++ torch::autograd::Function with functorch transforms (vmap, grad, vjp, etc)");
    const Owned arguments = checked(tuple_of(inputs, 1));
    Owned outputs;
    if (is_unrecorded(arguments.get(), node->grad_enabled)) {
      outputs = node->forward_unrecorded(arguments.get());
      if (!outputs) {
        const at::NoGradGuard guard;  // as it was decided before forward ran
        outputs = call_apply(node, arguments.get());
      }
    } else {
      outputs = call_apply(node, arguments.get());
    }
    node->forward = nullptr;
    Node::List all = node->outputs ? *std::exchange(node->outputs, std::nullopt) : list_of(outputs.get());
    if (AtHand* known = AtHand::innermost()) known->keep(std::move(outputs));
    return all;
  }

  // On loading, and only in libraries that have a Function.
  template <class = void>
  struct Functions {
    static inline const std::string& ns = register_functions();
  };

  }  // namespace ATEN_STABLE_VERSION
}  // namespace aten_stable

// For the module in front of the library: (forward, backward) of a class, and then that class's apply.
extern "C" {
__attribute__((visibility("default"), used)) inline void* aten_stable_function() {
  using namespace aten_stable;
  Owned both(python.PyTuple_New(2));
  python.PyTuple_SetItem(both.get(), 0, builtin("forward", "", &forward_builtin, nullptr, nullptr));
  python.PyTuple_SetItem(both.get(), 1, builtin("backward", "", &backward_builtin, nullptr, nullptr));
  return both.release();
}
// transforms: are there any of functorch's? modes: how many of torch's function modes are active? forward_ad: the
// module; plain_context: as struct Python has it.
__attribute__((visibility("default"), used)) inline void aten_stable_apply(void* apply, void* transforms, void* modes,
                                                                           void* forward_ad, int64_t plain_context) {
  using namespace aten_stable;
  Object** const targets[] = {&python.apply, &python.transforms, &python.modes, &python.forward_ad};
  void* const given[] = {apply, transforms, modes, forward_ad};
  for (size_t i = 0; i < std::size(given); ++i) *targets[i] = shared(static_cast<Object*>(given[i]));
  python.plain_context = plain_context != 0;
}
}
