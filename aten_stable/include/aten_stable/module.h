// PYBIND11_MODULE and TORCH_LIBRARY, as libraries of operators with boxed kernels.
//
// A function of PYBIND11_MODULE becomes an operator whose schema follows from its C++ signature and its py::arg's. Its
// kernel is CompositeImplicitAutograd: as under pybind11, what it calls of ATen is recorded for the backward. The
// module that Python imports (face.py writes it) reads aten_stable_describe().
#pragma once

#include <array>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "dictionaries.h"

namespace aten_stable __attribute__((visibility("hidden"))) {
  inline namespace ATEN_STABLE_VERSION {

  using Stack = StableIValue*;
  using Kernel = std::function<void(Stack, uint64_t, uint64_t)>;
  using Boxed = void (*)(Stack, uint64_t, uint64_t);

  // The stable ABI's kernels are plain functions, without a context. So each kernel gets a function of its own.
  constexpr size_t kMostKernels = 512;
  inline std::vector<Kernel>& kernels() {
    static std::vector<Kernel> all;
    return all;
  }
  template <size_t N>
  void enter(Stack stack, uint64_t inputs, uint64_t outputs) {
    kernels()[N](stack, inputs, outputs);
  }
  template <size_t... N>
  Boxed entrance(size_t n, std::index_sequence<N...>) {
    static constexpr Boxed all[] = {&enter<N>...};
    return all[n];
  }
  inline Boxed box(Kernel kernel) {
    if (kernels().size() == kMostKernels)
      throw std::runtime_error("aten_stable: more than 512 functions in one library");
    kernels().push_back(std::move(kernel));
    return entrance(kernels().size() - 1, std::make_index_sequence<kMostKernels>());
  }

  template <class F>
  struct Signature : Signature<decltype(&F::operator())> {};
  // As under pybind11, a function may take a pointer to a tensor, or to an object.
  template <class T>
  using Taken = std::conditional_t<std::is_pointer_v<Bare<T>> && std::is_class_v<std::remove_pointer_t<Bare<T>>>,
                                   Bare<std::remove_pointer_t<Bare<T>>>, Bare<T>>;
  template <class R, class... A>
  struct Signature<R (*)(A...)> {
    using Result = R;
    using Arguments = std::tuple<Taken<A>...>;
    using Declared = std::tuple<A&&...>;
  };
  template <class C, class R, class... A>
  struct Signature<R (C::*)(A...) const> : Signature<R (*)(A...)> {};
  template <class C, class R, class... A>
  struct Signature<R (C::*)(A...)> : Signature<R (*)(A...)> {};

  template <class T>
  struct Results {
    static std::string name() { return Wire<Bare<T>>::name(); }
    static constexpr size_t count = 1;
    static void put(Stack stack, const Bare<T>& value) { stack[0] = give(value); }
  };
  template <>
  struct Results<void> {
    static std::string name() { return "()"; }
    static constexpr size_t count = 0;
  };
  template <class... T>
  struct Results<std::tuple<T...>> {
    static constexpr size_t count = sizeof...(T);
    static std::string name() {
      std::string all;
      ((all += (all.empty() ? "" : ", ") + Wire<Bare<T>>::name()), ...);
      return "(" + all + ")";
    }
    static void put(Stack stack, const std::tuple<T...>& value) { put(stack, value, std::index_sequence_for<T...>()); }
    template <size_t... I>
    static void put(Stack stack, const std::tuple<T...>& value, std::index_sequence<I...>) {
      ((stack[I] = give(std::get<I>(value))), ...);
    }
  };
  template <class A, class B>
  struct Results<std::pair<A, B>> : Results<std::tuple<A, B>> {};

  // For a parameter that is a reference to what is made for the call, such as IntArrayRef&.
  template <class T>
  struct Lent {
    T value;
    operator T&() { return value; }
  };
  template <class Declared, class Hold>
  decltype(auto) pass(Hold& value) {
    using Pointee = Bare<std::remove_pointer_t<Bare<Declared>>>;
    if constexpr (std::is_same_v<Hold, Held<Pointee>>) {
      if constexpr (std::is_pointer_v<Bare<Declared>>)
        return value.object.get();
      else if constexpr (std::is_lvalue_reference_v<Declared>)
        return static_cast<Declared>(*value.object);
      else
        return Pointee(*value.object);
    } else if constexpr (std::is_pointer_v<Bare<Declared>> && std::is_same_v<Pointee, Hold>) {
      return &value;
    } else if constexpr (std::is_same_v<Hold, Bare<Declared>>) {
      return static_cast<Declared>(value);
    } else if constexpr (std::is_lvalue_reference_v<Declared> && !std::is_const_v<std::remove_reference_t<Declared>>) {
      return Lent<Bare<Declared>>{Bare<Declared>(value)};
    } else {
      return Bare<Declared>(value);
    }
  }

  // Under pybind11, None is no Tensor; torch.ops passes it as a tensor that is not defined.
  template <class T>
  void refuse_none(const T& value) {
    if constexpr (std::is_same_v<T, at::Tensor>)
      if (!value.defined()) throw std::runtime_error(text(kWrongArguments, ": None is given for a Tensor"));
  }

  template <bool none_is_wrong, class F, size_t... I>
  void run(const F& f, Stack stack, std::index_sequence<I...>) {
    using S = Signature<F>;
    std::tuple<typename Wire<std::tuple_element_t<I, typename S::Arguments>>::Hold...> held{
        take<std::tuple_element_t<I, typename S::Arguments>>(stack[I])...};
    (void)held;
    if constexpr (none_is_wrong) (refuse_none(std::get<I>(held)), ...);
    if constexpr (std::is_void_v<typename S::Result>)
      f(pass<std::tuple_element_t<I, typename S::Declared>>(std::get<I>(held))...);
    else
      Results<typename S::Result>::put(stack,
                                       f(pass<std::tuple_element_t<I, typename S::Declared>>(std::get<I>(held))...));
  }

  // Throws what torch.ops turns into the same exception of Python's. Torch 2.15 makes a RuntimeError of a kernel's
  // std::invalid_argument: a Python file in front of the module reads the type off the first words.
  template <bool in_module, class E>
  [[noreturn]] void throw_as(const char* type, const std::exception& error) {
    if (in_module) throw std::runtime_error(text("aten_stable:", type, ":", error.what()));
    throw E(error.what());
  }
  template <bool in_module, class F>
  void with_known_errors(const F& f) {
    try {
      f();
    } catch (const c10::IndexError& error) {
      throw_as<in_module, std::out_of_range>("IndexError", error);
    } catch (const c10::ValueError& error) {
      throw_as<in_module, std::invalid_argument>("ValueError", error);
    } catch (const c10::TypeError& error) {
      throw_as<in_module, std::runtime_error>("TypeError", error);
    } catch (const c10::NotImplementedError& error) {
      throw_as<in_module, std::runtime_error>("NotImplementedError", error);
    } catch (const std::out_of_range& error) {
      throw_as<in_module, std::out_of_range>("IndexError", error);
    } catch (const std::invalid_argument& error) {
      throw_as<in_module, std::invalid_argument>("ValueError", error);
    }
  }

  // in_module: of PYBIND11_MODULE.
  template <bool in_module = false, class F>
  Kernel kernel(F f) {
    using S = Signature<F>;
    static constexpr size_t count = std::tuple_size_v<typename S::Arguments>;
    return [f](Stack stack, uint64_t inputs, uint64_t outputs) {
      if (inputs != count || outputs != Results<typename S::Result>::count)
        throw std::runtime_error(text("aten_stable: the schema has ", inputs, " arguments and ", outputs,
                                      " results, and the C++ function ", count, " and ",
                                      Results<typename S::Result>::count));
      with_known_errors<in_module>([&] { run<in_module>(f, stack, std::make_index_sequence<count>()); });
    };
  }

  template <class... T>
  std::vector<std::string> names(std::tuple<T...>*) {
    return {Wire<T>::name()...};
  }
  template <class... T>
  std::vector<std::string> kind_names(std::tuple<T...>*) {
    return {std::string(python_kind<T>)...};
  }

  // ["", "number"]: what Python converts, argument by argument.
  template <class... T>
  std::string kinds(std::tuple<T...>*) {
    std::string all;
    ((all += std::string(all.empty() ? "" : ", ") + '"' + with_class<T>(python_kind<T>) + '"'), ...);
    return "[" + all + "]";
  }
  template <class... T>
  std::string result_kinds() {
    static_assert(((!std::is_same_v<T, c10::Layout> && !std::is_same_v<T, c10::MemoryFormat>) && ...),
                  "aten_stable: a Layout or MemoryFormat as a result is not covered: ask the tensor in Python");
    static_assert((!is_own_enum<T> && ...), "aten_stable: an enum as a result is not covered: return an int64_t");
    std::string all;
    ((all += std::string(all.empty() ? "" : ", ") + '"' + with_class<T>(result_kind<T>) + '"'), ...);
    return "[" + all + "]";
  }
  template <class T>
  struct ResultKinds {
    static std::string list() { return result_kinds<Bare<T>>(); }
  };
  template <>
  struct ResultKinds<void> {
    static std::string list() { return "[]"; }
  };
  template <class... T>
  struct ResultKinds<std::tuple<T...>> {
    static std::string list() { return result_kinds<Bare<T>...>(); }
  };
  template <class A, class B>
  struct ResultKinds<std::pair<A, B>> : ResultKinds<std::tuple<A, B>> {};

  template <class... T>
  constexpr bool are_plain(std::tuple<T...>*) {
    return ((python_kind<T>[0] == '\0') && ...);
  }
  template <class... T>
  constexpr bool have_own_types(std::tuple<T...>*) {
    return (is_own_enum<T> || ...) || ((python_kind<T>[0] == 'o' || python_kind<T>[0] == 's') || ...);
  }
  // Results as a tuple of any number.
  template <class R>
  struct ResultTuple {
    using type = std::tuple<Bare<R>>;
  };
  template <>
  struct ResultTuple<void> {
    using type = std::tuple<>;
  };
  template <class... T>
  struct ResultTuple<std::tuple<T...>> {
    using type = std::tuple<Bare<T>...>;
  };
  template <class A, class B>
  struct ResultTuple<std::pair<A, B>> : ResultTuple<std::tuple<A, B>> {};
  // Does the dispatcher of the stable ABI pass all of it?
  template <class F>
  constexpr bool is_plain_function() {
    return are_plain(static_cast<typename Signature<F>::Arguments*>(nullptr)) &&
           are_plain(static_cast<typename ResultTuple<typename Signature<F>::Result>::type*>(nullptr));
  }

  template <class... T>
  std::vector<std::string> torch_names(std::tuple<T...>*) {
    return {torch_name<T>()...};
  }
  // As torch infers it from a function.
  template <class F>
  std::string torch_schema(const std::string& name) {
    const auto takes = torch_names(static_cast<typename Signature<F>::Arguments*>(nullptr));
    const auto gives = torch_names(static_cast<typename ResultTuple<typename Signature<F>::Result>::type*>(nullptr));
    std::string all, results;
    for (size_t i = 0; i < takes.size(); ++i) all += text(i ? ", " : "", takes[i], " arg", i);
    for (const std::string& type : gives) results += (results.empty() ? "" : ", ") + type;
    return text(name, "(", all, ") -> ", gives.size() == 1 ? results : "(" + results + ")");
  }

  struct Argument {
    std::string name;
    std::optional<std::string> otherwise;  // the default, as a schema writes it
    bool star = false;                     // py::kw_only()
    std::string number;                    // the default as a Scalar crosses
  };

  template <class F>
  std::string schema(const std::string& name, const std::vector<Argument>& given) {
    const auto types = names(static_cast<typename Signature<F>::Arguments*>(nullptr));
    const auto kinds_of = kind_names(static_cast<typename Signature<F>::Arguments*>(nullptr));
    std::string all;
    size_t at = 0;
    for (const Argument& a : given) {
      if (a.star) {
        all += all.empty() ? "*" : ", *";
        continue;
      }
      if (at == types.size()) throw std::runtime_error(name + ": more py::arg than arguments");
      all += (all.empty() ? "" : ", ") + types[at] + " " + a.name;
      if (a.otherwise) {
        const bool scalar = !a.number.empty() && kinds_of[at] == "number";
        const bool number = types[at] == "float" && a.otherwise->find_first_not_of("-0123456789") == std::string::npos;
        const bool nothing = kinds_of[at] == "shared" && *a.otherwise == "None";
        all += "=" + (scalar ? a.number : nothing ? "0" : *a.otherwise) + (number ? ".0" : "");
      }
      ++at;
    }
    if (at != 0 && at != types.size()) throw std::runtime_error(name + ": py::arg must name all arguments or none");
    for (; at < types.size(); ++at) all += (all.empty() ? "" : ", ") + types[at] + " arg" + std::to_string(at);
    return name + "(" + all + ") -> " + Results<typename Signature<F>::Result>::name();
  }

  using StableLibrary = torch::stable::detail::StableLibrary;
  inline StableLibrary& keep(StableLibrary::Kind kind, const char* ns, const char* key) {
    return *new StableLibrary(kind, ns, key, "", 0);  // as long as the process: torch does not unload libraries
  }

  // As JSON has it; a floating number stays one.
  inline std::string quoted(const std::string& text);
  template <class T>
  std::string json(const T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      return value ? "true" : "false";
    } else if constexpr (std::is_integral_v<T>) {
      return std::to_string(value);
    } else if constexpr (std::is_floating_point_v<T>) {
      char digits[32];
      std::snprintf(digits, sizeof digits, "%.17g", static_cast<double>(value));
      return digits + std::string(std::strpbrk(digits, ".en") ? "" : ".0");
    } else {
      static_assert(
          std::is_convertible_v<T, std::string>,
          "aten_stable: this attribute of the module is not covered: give a number or a string, or set it in a "
          "Python file of the package");
      return quoted(value);
    }
  }
  inline std::string quoted(const std::string& text) {
    std::string all = "\"";
    for (const char c : text) {
      char code[8];
      std::snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned char>(c));
      all += c == '"' || c == '\\' || (c >= 0 && c < ' ') ? std::string(code) : std::string(1, c);
    }
    return all + "\"";
  }

  }  // namespace ATEN_STABLE_VERSION
}  // namespace aten_stable
