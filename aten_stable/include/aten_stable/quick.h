// The quick way in from Python: a function of the module, called with exactly what it takes, does not pass the
// dispatcher.
//
// So it is as under pybind11: modes and transforms of torch's (vmap, fake tensors, torch.compile) see what the function
// calls of ATen, not the function itself. A call with any other argument goes through torch.ops, which converts or
// raises.
#pragma once

#include "module.h"
#include "python.h"

namespace aten_stable __attribute__((visibility("hidden"))) {
  inline namespace ATEN_STABLE_VERSION {

  using Arguments = Object* const*;
  // false: these arguments are for torch.ops. Else the result, or null with Python's error set.
  using QuickCall = std::function<bool(Arguments, Object*&)>;

  constexpr size_t kMostArguments = 32;

  struct QuickFunction {
    QuickCall call;
    size_t count;
    // Set by Python:
    size_t positional = 0;          // the rest by keyword only
    std::vector<Object*> names;     // interned
    std::vector<Object*> defaults;  // null for none
    Object* otherwise = nullptr;    // the function by way of torch.ops
  };
  inline std::vector<QuickFunction>& quick_functions() {
    static auto& all = *new std::vector<QuickFunction>;
    return all;
  }

  template <class T>
  bool take_quick(Object* object, std::optional<T>& value) {
    return Quick<T>::in(object, value);
  }

  // Guard lives around the call: what py::call_guard names.
  template <class Guard, class F, size_t... I>
  bool quick_call(const F& f, Arguments arguments, Object*& result, std::index_sequence<I...>) {
    using S = Signature<F>;
    std::tuple<std::optional<typename Wire<std::tuple_element_t<I, typename S::Arguments>>::Hold>...> held;
    (void)arguments, (void)held;
    if (!(take_quick(arguments[I], std::get<I>(held)) && ...)) return false;
    using Result = Bare<typename S::Result>;
    const auto run = [&]() -> typename S::Result {
      [[maybe_unused]] const Guard guard;
      return f(pass<std::tuple_element_t<I, typename S::Declared>>(*std::get<I>(held))...);
    };
    if constexpr (std::is_void_v<Result>) {
      run();
      result = shared(python._Py_NoneStruct);
    } else {
      result = QuickResult<Result>::out(run());
    }
    return true;
  }

  template <class Result, class... Hold>
  constexpr bool quick_types(std::tuple<Hold...>*) {
    if constexpr (!(Quick<typename Wire<Hold>::Hold>::known && ...))
      return false;
    else if constexpr (std::is_void_v<Result>)
      return true;
    else
      return QuickResult<Result>::known;
  }

  // Empty, if a type of the signature is not known here.
  template <class Guard, class F>
  QuickCall quick(F f) {
    using S = Signature<F>;
    if constexpr (!quick_types<Bare<typename S::Result>>(static_cast<typename S::Arguments*>(nullptr)))
      return nullptr;
    else
      return [f](Arguments arguments, Object*& result) {
        return quick_call<Guard>(f, arguments, result,
                                 std::make_index_sequence<std::tuple_size_v<typename S::Arguments>>());
      };
  }

  // The number of a function's quick way, or null, as the description has it.
  template <class Guard, class F>
  std::string add_quick(F f) {
    constexpr size_t count = std::tuple_size_v<typename Signature<F>::Arguments>;
    QuickCall call = quick<Guard, F>(f);
    if (!call || count > kMostArguments) return "null";
    quick_functions().push_back({std::move(call), count});
    return std::to_string(quick_functions().size() - 1);
  }

  // Puts each argument in its place; false if they are too many, too few, or of other names.
  inline bool bind(const QuickFunction& function, Arguments arguments, size_t count, Object* keywords,
                   Object** places) {
    if (count > function.positional) return false;
    std::copy_n(arguments, count, places);
    std::copy(function.defaults.begin() + static_cast<Size>(count), function.defaults.end(), places + count);
    for (Size i = 0, n = keywords ? python.PyTuple_Size(keywords) : 0; i < n; ++i) {
      const auto found = std::find(function.names.begin() + static_cast<Size>(count), function.names.end(),
                                   python.PyTuple_GetItem(keywords, i));
      if (found == function.names.end()) return false;
      places[found - function.names.begin()] = arguments[count + static_cast<size_t>(i)];
    }
    return std::find(places + count, places + function.count, nullptr) == places + function.count;
  }

  // CPython 3.10 exports no PyObject_Vectorcall.
  inline Object* call_as_given(Object* callable, Arguments arguments, Size count, Object* keywords) {
    const Owned positional(python.PyTuple_New(count)), named(python.PyDict_New());
    if (!positional || !named) return nullptr;
    for (Size i = 0; i < count; ++i) python.PyTuple_SetItem(positional.get(), i, shared(arguments[i]));
    for (Size i = 0, n = keywords ? python.PyTuple_Size(keywords) : 0; i < n; ++i)
      if (python.PyDict_SetItem(named.get(), python.PyTuple_GetItem(keywords, i), arguments[count + i]) != 0)
        return nullptr;
    return python.PyObject_Call(callable, positional.get(), named.get());
  }

  inline Object* enter_quick(Object* self, Arguments arguments, Size count, Object* keywords) {
    const auto& function = *static_cast<QuickFunction*>(python.PyCapsule_GetPointer(self, nullptr));
    Object* places[kMostArguments];
    Object* result = nullptr;
    try {
      if (bind(function, arguments, static_cast<size_t>(count), keywords, places)) {
        const AtHand known(places, function.count);
        if (function.call(places, result)) return result;
      }
    } catch (...) {
      raise_current();
      return nullptr;
    }
    return call_as_given(function.otherwise, arguments, count, keywords);
  }

  struct MethodDef {  // PyMethodDef
    const char* name;
    Object* (*function)(Object*, Arguments, Size, Object*);
    int flags;
    const char* doc;
  };
  constexpr int kFastCallWithKeywords = 0x0082;  // METH_FASTCALL | METH_KEYWORDS
  inline Object* builtin(const char* name, const char* doc, decltype(MethodDef::function) function, Object* self,
                         Object* module) {
    const auto* definition = new MethodDef{strdup(name), function, kFastCallWithKeywords, strdup(doc)};
    return python.PyCFunction_NewEx(definition, self, module);
  }

  }  // namespace ATEN_STABLE_VERSION
}  // namespace aten_stable

// What the module in front of the library calls, with Python's lock held. First with two classes and functions of
// torch's, for a 1 if this process has all of CPython that is needed; then for each quick function.
extern "C" {
__attribute__((visibility("default"), used)) inline int aten_stable_python(void* tensor, void* parameter,
                                                                           void* generator, void* unwrap, void* wrap,
                                                                           int64_t offset, int64_t wrap_steals) {
  using namespace aten_stable;
  if (!python.look_up()) return 0;
  Object** const targets[] = {&python.tensor, &python.parameter, &python.generator, &python.unwrap, &python.wrap};
  void* const given[] = {tensor, parameter, generator, unwrap, wrap};
  for (size_t i = 0; i < std::size(given); ++i) *targets[i] = shared(static_cast<Object*>(given[i]));
  python.offset = static_cast<size_t>(offset);
  python.wrap_steals = wrap_steals != 0;
  return 1;
}
// names: a tuple; defaults: a tuple of as many, with `none` where there is none; positional: those not by keyword only.
__attribute__((visibility("default"), used)) inline void* aten_stable_quick(int64_t number, const char* name,
                                                                            const char* doc, void* module, void* names,
                                                                            void* defaults, void* none,
                                                                            int64_t positional, void* otherwise) {
  using namespace aten_stable;
  QuickFunction& function = quick_functions().at(static_cast<size_t>(number));
  for (size_t i = 0; i < function.count; ++i) {
    Object* value = python.PyTuple_GetItem(static_cast<Object*>(defaults), static_cast<Size>(i));
    function.names.push_back(shared(python.PyTuple_GetItem(static_cast<Object*>(names), static_cast<Size>(i))));
    function.defaults.push_back(value == none ? nullptr : shared(value));
  }
  function.positional = static_cast<size_t>(positional);
  function.otherwise = shared(static_cast<Object*>(otherwise));
  const Owned self(python.PyCapsule_New(&function, nullptr, nullptr));
  return builtin(name, doc, &enter_quick, self.get(), static_cast<Object*>(module));
}
}
