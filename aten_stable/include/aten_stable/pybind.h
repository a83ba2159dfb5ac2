// PYBIND11_MODULE, m.def, py::arg: the part of pybind11 that binds functions.
#pragma once

#include "quick.h"

namespace aten_stable __attribute__((visibility("hidden"))) {
  inline namespace ATEN_STABLE_VERSION {

  inline std::string literal(bool value) { return value ? "True" : "False"; }
  inline std::string literal(const char* value) {
    for (const char* c = value; *c; ++c)
      if (*c == '"' || *c == '\\' || *c < ' ')
        throw std::runtime_error("aten_stable: a default with quotes or escapes");
    return "\"" + std::string(value) + "\"";
  }
  inline std::string literal(const std::string& value) { return literal(value.c_str()); }
  inline std::string literal(std::nullopt_t) { return "None"; }
  template <class T>
  std::enable_if_t<std::is_enum_v<T>, std::string> literal(T value) {
    return std::to_string(static_cast<int64_t>(value));
  }
  template <class T>
  std::enable_if_t<std::is_arithmetic_v<T> && !std::is_same_v<T, bool>, std::string> literal(T value) {
    if constexpr (std::is_integral_v<T>) return std::to_string(value);
    if (!std::isfinite(value)) throw std::runtime_error("aten_stable: a default must be finite");
    char digits[32];
    std::snprintf(digits, sizeof digits, "%.17g", static_cast<double>(value));
    return digits;
  }
  template <class T>
  std::string literal(const std::vector<T>& values) {
    std::string all;
    for (const T& value : values) all += (all.empty() ? "" : ", ") + literal(value);
    return "[" + all + "]";
  }
  template <class... T>
  std::string literal(const std::tuple<T...>& values) {
    std::string all;
    std::apply([&](const T&... value) { ((all += (all.empty() ? "" : ", ") + literal(value)), ...); }, values);
    return "[" + all + "]";
  }
  template <class A, class B>
  std::string literal(const std::pair<A, B>& values) {
    return literal(std::tuple<A, B>(values));
  }
  template <class T, size_t N>
  std::string literal(const std::array<T, N>& values) {
    return literal(std::vector<T>(values.begin(), values.end()));
  }
  template <class T>
  std::string literal(const std::optional<T>& value) {
    return value ? literal(*value) : "None";
  }

  inline std::string& description() {
    static std::string json;
    return json;
  }

  }  // namespace ATEN_STABLE_VERSION
}  // namespace aten_stable

namespace pybind11 {
inline namespace ATEN_STABLE_VERSION {

struct none {};
struct kw_only {};
struct doc {
  explicit doc(const char* text) : text(text) {}
  const char* text;
};
// Results are values: nothing refers to what C++ keeps.
enum class return_value_policy {
  automatic,
  automatic_reference,
  take_ownership,
  copy,
  move,
  reference,
  reference_internal
};
template <size_t, size_t>
struct keep_alive {};
struct is_operator {};
using ssize_t = std::ptrdiff_t;
// Which function of a name: py::overload_cast<int, int>(&add).
template <class... Args>
struct OverloadCast {
  template <class R>
  constexpr auto operator()(R (*function)(Args...)) const {
    return function;
  }
};
template <class... Args>
constexpr OverloadCast<Args...> overload_cast{};
// Under torch.ops it is released already, and then nothing is done.
class gil_scoped_release {
 public:
  gil_scoped_release() {
    if (::aten_stable::has_lock()) without_.emplace();
  }
  gil_scoped_release(const gil_scoped_release&) = delete;

 private:
  std::optional<::aten_stable::WithoutLock> without_;
};
template <class... T>
struct call_guard {};

namespace aten_stable_detail {
inline std::string literal(none) { return "None"; }
template <class T>
std::string literal(const T& value) {
  return ::aten_stable::literal(value);
}
}  // namespace aten_stable_detail

struct arg {
  explicit arg(const char* name) : argument{name, std::nullopt} {}
  template <class T>
  arg operator=(const T& value) const {
    arg copy = *this;
    if constexpr (std::is_arithmetic_v<T>) copy.argument.number = ::aten_stable::literal(c10::Scalar(value).words());
    if constexpr (std::is_convertible_v<T, const char*>)
      copy.argument.otherwise = ::aten_stable::literal(static_cast<const char*>(value));
    else
      copy.argument.otherwise = aten_stable_detail::literal(value);
    return copy;
  }
  // Of tensors they say nothing; a number is converted all the same, and None is refused where the type has none.
  arg& noconvert(bool = true) { return *this; }
  arg& none(bool = true) { return *this; }
  ::aten_stable::Argument argument;
};
template <class T>
arg arg_v(const char* name, const T& value, const char* = nullptr) {
  return arg(name) = value;
}

// What a function throws.
struct value_error : std::invalid_argument {
  explicit value_error(const char* what = "") : std::invalid_argument(what) {}
  explicit value_error(const std::string& what) : std::invalid_argument(what) {}
};
struct index_error : std::out_of_range {
  explicit index_error(const char* what = "") : std::out_of_range(what) {}
  explicit index_error(const std::string& what) : std::out_of_range(what) {}
};
namespace literals {
inline arg operator""_a(const char* name, size_t) { return arg(name); }
}  // namespace literals

// More of pybind11 would need Python's C API, and with it a wheel for each Python.
#define X(name)                                                                                \
  class ATEN_STABLE_NO("py::" #name                                                            \
                       " is not covered: take and return tensors, numbers, strings, lists of " \
                       "these, and convert in Python") name
// clang-format off
X(object); X(handle); X(dict); X(list); X(tuple); X(bytes); X(str); X(function); X(array); X(buffer); X(args);
X(kwargs); X(int_); X(float_); X(bool_); X(capsule); X(set); X(iterable); X(sequence); X(slice); X(type);
// clang-format on
#undef X
template <class T, int flags = 0>
class ATEN_STABLE_NO("py::array_t is not covered: take a Tensor: torch.from_numpy shares its memory") array_t;
#define ATEN_STABLE_NO_ERROR(name) \
  class ATEN_STABLE_NO("py::" #name " is not covered: throw py::value_error, py::index_error, or use TORCH_CHECK") name
// clang-format off
ATEN_STABLE_NO_ERROR(type_error); ATEN_STABLE_NO_ERROR(key_error); ATEN_STABLE_NO_ERROR(attribute_error);
ATEN_STABLE_NO_ERROR(import_error); ATEN_STABLE_NO_ERROR(stop_iteration); ATEN_STABLE_NO_ERROR(cast_error);
// clang-format on
class ATEN_STABLE_NO("py::error_already_set is not covered: no call here leaves an error of Python's")
    error_already_set;
class ATEN_STABLE_NO("py::gil_scoped_acquire is not covered: leave it out: nothing of Python is called")
    gil_scoped_acquire;
template <class... Args>
void print(Args&&...) {
  static_assert(::aten_stable::never<Args...>,
                "aten_stable: py::print is not covered: use std::cout, or print in Python");
}
template <class T, class... Args>
void register_exception(Args&&...) {
  static_assert(::aten_stable::never<T>,
                "aten_stable: py::register_exception is not covered: throw py::value_error, "
                "std::runtime_error or another of C++'s, which Python knows");
}
template <class... Args>
void make_tuple(Args&&...) {
  static_assert(::aten_stable::never<Args...>, "aten_stable: py::make_tuple is not covered: return a std::tuple");
}
class ATEN_STABLE_NO(
    "py::"  // not one text: x.options() is another, and scan.py has names alone
    "options is not covered: leave it out: a docstring begins with the schema") options;

// What Python makes of py::enum_ (_face.py).
struct Enumerators {
  std::string name, members;
  bool exported = false;
};

class module_ {
 public:
  explicit module_(const char* ns) : ns_(ns), def_(nullptr), impl_(nullptr) {}
  std::string& doc() { return doc_; }

  template <class F, class... Extra>
  module_& def(const char* name, F&& f, const Extra&... extra) {
    return define(name, {}, std::forward<F>(f), extra...);
  }
  // A function of a class: its name here is unique, and an operator's.
  template <class F, class... Extra>
  void def_member(const ::aten_stable::Member& member, const std::string& name, F&& f, const Extra&... extra) {
    define(name.c_str(), member, std::forward<F>(f), extra...);
  }
  void add_class(const ::aten_stable::Class& one) {
    std::string bases;
    for (const std::string& base : one.bases) bases += (bases.empty() ? "" : ", ") + ::aten_stable::quoted(base);
    classes_ += ::aten_stable::text(classes_.empty() ? "" : ", ", "{\"name\": ", ::aten_stable::quoted(one.name),
                                    ", \"type\": ", ::aten_stable::quoted(one.type),
                                    ", \"doc\": ", ::aten_stable::quoted(one.doc), ", \"bases\": [", bases, "]}");
  }
  // m.attr("__version__") = "1.0"; numbers, too.
  struct Attribute {
    std::string& all;
    const char* name;
    template <class T>
    void operator=(const T& value) const {
      all += (all.empty() ? "" : ", ") + ::aten_stable::quoted(name) + ": " +
             ::aten_stable::json<std::decay_t<const T>>(value);
    }
  };
  Attribute attr(const char* name) { return {attributes_, name}; }
  std::shared_ptr<Enumerators> add_enum(const char* name) {
    enums_.push_back(std::make_shared<Enumerators>(Enumerators{name, ""}));
    return enums_.back();
  }
  template <class T = void>
  static module_ import(const char*) {
    static_assert(::aten_stable::never<T>,
                  "aten_stable: py::module::import is not covered: import it in Python, and pass what it gives");
    return module_("");
  }
  template <class... Args>
  void add_object(Args&&...) {
    static_assert(::aten_stable::never<Args...>,
                  "aten_stable: add_object is not covered: set it in a Python file of the package");
  }
  template <class T = void>
  module_ def_submodule(const char*, const char* = "") {
    static_assert(::aten_stable::never<T>,
                  "aten_stable: submodules are not covered: bind the functions in this module");
    return module_("");
  }

  std::string describe() const {
    std::string enums;
    for (const auto& one : enums_)
      enums += (enums.empty() ? "" : ", ") + std::string("{\"name\": ") + ::aten_stable::quoted(one->name) +
               ", \"exported\": " + (one->exported ? "true" : "false") + ", \"members\": {" + one->members + "}}";
    return "{\"namespace\": " + ::aten_stable::quoted(ns_) + ", \"doc\": " + ::aten_stable::quoted(doc_) +
           ", \"attributes\": {" + attributes_ + "}, \"classes\": [" + classes_ + "], \"enums\": [" + enums +
           "], \"functions\": [" + functions_ + "]}";
  }

 private:
  template <class F, class... Extra>
  module_& define(const char* name, const ::aten_stable::Member& member, F&& f, const Extra&... extra) {
    using Function = std::decay_t<F>;
    open();
    std::string help;
    std::vector<::aten_stable::Argument> arguments;
    (add(help, arguments, extra), ...);
    if (!arguments.empty() && member.role == "method") arguments.insert(arguments.begin(), {"self", std::nullopt});
    size_t same = 0;
    for (const std::string& known : names_) same += known == name;
    names_.push_back(name);
    const std::string op = name + (same ? ".overload" + std::to_string(same) : "");
    const std::string schema = ::aten_stable::schema<Function>(op, arguments);
    def_->def(schema.c_str());
    impl_->impl(op.c_str(), ::aten_stable::box(::aten_stable::kernel<true, Function>(f)));
    functions_ += (functions_.empty() ? "" : ", ") + std::string("{\"name\": ") + ::aten_stable::quoted(name) +
                  ", \"doc\": " + ::aten_stable::quoted(help) + ", \"schema\": " + ::aten_stable::quoted(schema) +
                  ", \"kinds\": " +
                  ::aten_stable::kinds(static_cast<typename ::aten_stable::Signature<Function>::Arguments*>(nullptr)) +
                  ", \"result_kinds\": " +
                  ::aten_stable::ResultKinds<typename ::aten_stable::Signature<Function>::Result>::list() +
                  ", \"quick\": " + ::aten_stable::add_quick<typename Guards<Extra...>::type, Function>(f) +
                  ::aten_stable::text(", \"type\": ", ::aten_stable::quoted(member.type),
                                      ", \"member\": ", ::aten_stable::quoted(member.name),
                                      ", \"role\": ", ::aten_stable::quoted(member.role), "}");
    return *this;
  }
  // The guards of all call_guard's among the extras.
  template <class... Extra>
  struct Guards {
    using type = std::tuple<>;
  };
  template <class... T, class... Extra>
  struct Guards<call_guard<T...>, Extra...> {
    using type = std::tuple<T...>;
  };
  template <class Other, class... Extra>
  struct Guards<Other, Extra...> : Guards<Extra...> {};

  using Library = ::aten_stable::StableLibrary;
  void open() {
    if (def_ != nullptr) return;
    def_ = &::aten_stable::keep(Library::Kind::FRAGMENT, ns_, nullptr);
    impl_ = &::aten_stable::keep(Library::Kind::IMPL, ns_, "CompositeImplicitAutograd");
  }
  using Arguments = std::vector<::aten_stable::Argument>;
  static void add(std::string& help, Arguments&, const char* text) { help = text; }
  static void add(std::string& help, Arguments&, const pybind11::doc& text) { help = text.text; }
  static void add(std::string&, Arguments&, return_value_policy) {}
  template <size_t nurse, size_t patient>
  static void add(std::string&, Arguments&, keep_alive<nurse, patient>) {}
  static void add(std::string&, Arguments& all, const arg& a) { all.push_back(a.argument); }
  static void add(std::string&, Arguments& all, kw_only) { all.push_back({"", std::nullopt, true}); }
  template <class... T>
  static void add(std::string&, Arguments&, call_guard<T...>) {}
  static void add(std::string&, Arguments&, is_operator) {}

  const char* ns_;
  Library *def_, *impl_;
  std::string doc_, functions_, attributes_, classes_;
  std::vector<std::string> names_;
  std::vector<std::shared_ptr<Enumerators>> enums_;
};
using module = module_;

// Members of the enum, which Python has as integers of a class of their own. Functions take them alone.
struct arithmetic {};
struct module_local {
  explicit module_local(bool = true) {}
};
template <class T>
class enum_ {
 public:
  template <class... Extra>
  enum_(module_& m, const char* name, const Extra&...) : members_(m.add_enum(name)) {}
  enum_& value(const char* name, T value, const char* = nullptr) {
    const auto number = static_cast<int64_t>(value);
    members_->members +=
        (members_->members.empty() ? "" : ", ") + ::aten_stable::quoted(name) + ": " + std::to_string(number);
    ::aten_stable::values_of_enum<T>().push_back(number);
    return *this;
  }
  enum_& export_values() {
    members_->exported = true;
    return *this;
  }
  template <class... Args>
  enum_& def(Args&&...) {
    static_assert(::aten_stable::never<Args...>,
                  "aten_stable: functions of py::enum_ are not covered: write them in Python");
    return *this;
  }

 private:
  std::shared_ptr<Enumerators> members_;
};

}  // namespace ATEN_STABLE_VERSION
}  // namespace pybind11

#include "classes.h"

namespace py = pybind11;
namespace torch {
template <class F>
F wrap_pybind_function(F function) {
  return function;
}
}  // namespace torch

// The namespace of the operators. `python -m aten_stable build` names it; a project's build, where one set of flags
// serves all of its modules, gives what stands before the name of each.
#if defined ATEN_STABLE_NAMESPACE
#define ATEN_STABLE_NAMESPACE_OF(name) C10_STRINGIZE(ATEN_STABLE_NAMESPACE)
#elif defined ATEN_STABLE_PREFIX
#define ATEN_STABLE_NAMESPACE_OF(name) C10_STRINGIZE(ATEN_STABLE_PREFIX) C10_STRINGIZE(name)
#else
#define ATEN_STABLE_NAMESPACE_OF(name) C10_STRINGIZE(name)
#endif

#define PYBIND11_MODULE(name, m, ...)                                                    \
  static void aten_stable_fill_module(pybind11::module_&);                               \
  static const bool aten_stable_module_filled = [] {                                     \
    pybind11::module_ module(ATEN_STABLE_NAMESPACE_OF(name));                            \
    aten_stable_fill_module(module);                                                     \
    ::aten_stable::description() = module.describe();                                    \
    return true;                                                                         \
  }();                                                                                   \
  extern "C" __attribute__((visibility("default"))) const char* aten_stable_describe() { \
    return aten_stable_module_filled ? ::aten_stable::description().c_str() : nullptr;   \
  }                                                                                      \
  static void aten_stable_fill_module([[maybe_unused]] pybind11::module_& m)
