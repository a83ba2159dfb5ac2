// TORCH_LIBRARY, TORCH_LIBRARY_FRAGMENT and TORCH_LIBRARY_IMPL.
#pragma once

#include <set>
#include <string>

#include "keys.h"
#include "module.h"

namespace aten_stable __attribute__((visibility("hidden"))) {
  inline namespace ATEN_STABLE_VERSION {

  // Kernels with arguments or results that the stable ABI does not pass, as JSON.
  inline std::string& converted() {
    static std::string all;
    return all;
  }

  // The kernel is an operator of its own, which takes what the stable ABI passes; Python has the kernel for the
  // operator and the key that are meant, and converts (_face.py).
  template <class F>
  void add_converted(const char* ns, const char* key, const std::string& name, F f) {
    const size_t colons = name.find("::");
    const std::string op = colons == std::string::npos ? name : name.substr(colons + 2);
    std::string own = text("aten_stable_", op, "_", key);
    std::replace(own.begin(), own.end(), '.', '_');
    keep(StableLibrary::Kind::FRAGMENT, ns, nullptr).def(schema<F>(own, {}).c_str());
    keep(StableLibrary::Kind::IMPL, ns, "CompositeImplicitAutograd").impl(own.c_str(), box(kernel(f)));
    converted() += text(converted().empty() ? "" : ", ", "{\"namespace\": ", quoted(ns), ", \"name\": ", quoted(op),
                        ", \"key\": ", quoted(key), ", \"own\": ", quoted(own),
                        ", \"kinds\": ", kinds(static_cast<typename Signature<F>::Arguments*>(nullptr)),
                        ", \"result_kinds\": ", ResultKinds<typename Signature<F>::Result>::list(), "}");
  }

  }  // namespace ATEN_STABLE_VERSION
}  // namespace aten_stable

extern "C" __attribute__((visibility("default"), used)) inline const char* aten_stable_converted() {
  static const std::string all = "[" + ::aten_stable::converted() + "]";
  return all.c_str();
}

namespace torch {
inline namespace ATEN_STABLE_VERSION {

// Objects of classes: the stable ABI has none.
struct CustomClassHolder {};
template <class... Args>
struct init {};
template <class T>
struct class_ {
  static_assert(::aten_stable::never<T>,
                "aten_stable: torch::class_ is not covered: keep the state in tensors that the functions take, or "
                "write the class in Python");
  template <class... Args>
  explicit class_(Args&&...) {}
  template <class... Args>
  class_& def(Args&&...) {  // one error is enough
    return *this;
  }
};

struct CppFunction {
  template <class T = void>
  static CppFunction makeFallthrough() {
    static_assert(::aten_stable::never<T>,
                  "aten_stable: CppFunction::makeFallthrough is not covered: leave it out: torch passes over a key "
                  "that has no kernel");
    return {};
  }
};

template <class F>
struct KeyedFunction {
  c10::DispatchKey key;
  F function;
};
template <class F>
KeyedFunction<F> dispatch(c10::DispatchKey key, F function) {
  return {key, function};
}
template <class F>
KeyedFunction<F> dispatch(c10::DeviceType device, F function) {
  TORCH_CHECK(device == c10::DeviceType::CPU || device == c10::DeviceType::CUDA || device == c10::DeviceType::Meta,
              "torch::dispatch: kernels are covered for CPU, CUDA and Meta");
  return {device == c10::DeviceType::CPU    ? c10::DispatchKey::CPU
          : device == c10::DeviceType::CUDA ? c10::DispatchKey::CUDA
                                            : c10::DispatchKey::Meta,
          function};
}

class Library {
 public:
  Library(::aten_stable::StableLibrary::Kind kind, const char* ns, const char* key)
      : ns_(ns), key_(key), library_(::aten_stable::keep(kind, ns, key)) {}

  template <class T>
  torch::class_<T> class_(const char* name) {
    return torch::class_<T>(name);
  }
  Library& def(const char* schema) { return library_.def(schema), *this; }
  Library& def(const std::string& schema) { return def(schema.c_str()); }
  // With a function, and a schema or a name alone: then the schema follows from the function's type.
  template <class F>
  Library& def(const char* schema_or_name, F f) {
    const std::string given = schema_or_name;
    const size_t paren = given.find('(');
    def(paren == std::string::npos ? ::aten_stable::torch_schema<F>(given) : given);
    return put("CompositeImplicitAutograd", given.substr(0, paren), f);
  }
  template <class F>
  Library& impl(const char* name, F f) {
    if (key_ != nullptr) return put(key_, name, f);
    return put("CompositeImplicitAutograd", name, f);
  }
  // m.impl("name", torch::kCUDA, &function), in a block of any kind.
  template <class F>
  Library& impl(const char* name, c10::DeviceType device, F f) {
    const char* const key = device == c10::DeviceType::CPU    ? "CPU"
                            : device == c10::DeviceType::CUDA ? "CUDA"
                            : device == c10::DeviceType::Meta ? "Meta"
                                                              : nullptr;
    TORCH_CHECK(key != nullptr, name, ": kernels are covered for CPU, CUDA and Meta");
    return put(key, name, f);
  }
  // m.impl("name", torch::dispatch(c10::DispatchKey::CPU, &function)), and with the key alone.
  template <class F>
  Library& impl(const char* name, const KeyedFunction<F>& f) {
    return impl(name, f.key, f.function);
  }
  template <class F>
  Library& impl(const char* name, c10::DispatchKey key, F f) {
    return put(c10::toString(key), name, f);
  }
  template <class F>
  Library& def(const char* schema, const KeyedFunction<F>& f) {
    def(schema);
    const std::string given = schema;
    return impl(given.substr(0, given.find('(')).c_str(), f.key, f.function);
  }
  // The stable ABI of torch 2.10 takes no tags. Without these torch.compile is as careful or more.
  Library& def(const char* schema, const std::vector<at::Tag>& tags) {
    for (const at::Tag tag : tags)
      TORCH_CHECK(tag == at::Tag::pt2_compliant_tag || tag == at::Tag::needs_fixed_stride_order ||
                      tag == at::Tag::needs_exact_strides || tag == at::Tag::flexible_layout,
                  schema, ": a tag is not covered: define the operator in Python, with torch.library.define");
    return def(schema);
  }
  Library& fallback(const CppFunction&) { return *this; }
  // Where the fake kernel is: torch only names it if it is missing.
  void set_python_module(const char*, const char* = "") {}
  void impl_abstract_pystub(const char*, const char* = "") {}

 private:
  // The kernel of an operator for a key.
  template <class F>
  Library& put(const char* key, const std::string& name, F f) {
    static_assert(
        !::aten_stable::have_own_types(static_cast<typename ::aten_stable::Signature<F>::Arguments*>(nullptr)),
        "aten_stable: an enum or an object of your own in an operator of TORCH_LIBRARY is not covered: take an "
        "int64_t, or bind the function with PYBIND11_MODULE");
    if constexpr (::aten_stable::is_plain_function<F>())
      ::aten_stable::keep(::aten_stable::StableLibrary::Kind::IMPL, ns_, key)
          .impl(name.c_str(), ::aten_stable::box(::aten_stable::kernel(f)));
    else
      ::aten_stable::add_converted<F>(ns_, key, name, f);
    return *this;
  }
  const char *ns_, *key_;
  ::aten_stable::StableLibrary& library_;
};

// The registration of 2019: static auto registry = torch::RegisterOperators().op("theirs::name", &function);
class RegisterOperators {
 public:
  RegisterOperators() = default;
  template <class F>
  RegisterOperators(const std::string& schema_or_name, F f) {
    op(schema_or_name, f);
  }
  template <class F>
  RegisterOperators& op(const std::string& schema_or_name, F f) {
    const size_t colons = schema_or_name.find("::");
    TORCH_CHECK(colons != std::string::npos, "RegisterOperators: write namespace::name, got ", schema_or_name);
    const std::string ns = schema_or_name.substr(0, colons);
    Library(::aten_stable::StableLibrary::Kind::FRAGMENT, namespaces().insert(ns).first->c_str(), nullptr)
        .def(schema_or_name.substr(colons + 2).c_str(), f);
    return *this;
  }

 private:
  static std::set<std::string>& namespaces() {  // torch keeps the pointers
    static std::set<std::string> all;
    return all;
  }
};

}  // namespace ATEN_STABLE_VERSION
namespace jit {
using torch::RegisterOperators;
inline namespace ATEN_STABLE_VERSION {
class ATEN_STABLE_NO("torch::jit::Module is not covered: run it in Python, and pass the tensors") Module;
template <class... Args>
int load(Args&&...) {
  static_assert(::aten_stable::never<Args...>, "aten_stable: torch::jit::load is not covered: load it in Python");
  return 0;
}
}  // namespace ATEN_STABLE_VERSION
namespace script {
using jit::load;
using jit::Module;
}  // namespace script
}  // namespace jit
}  // namespace torch

#define TORCH_FN(function) (&function)
#define TORCH_SELECTIVE_NAME(name) (name)
#define TORCH_SELECTIVE_SCHEMA(schema) (schema)

#define ATEN_STABLE_LIBRARY(kind, ns, key, m, id)                                             \
  static void C10_CONCATENATE(aten_stable_library_, id)(torch::Library&);                     \
  static const bool C10_CONCATENATE(aten_stable_library_filled_, id) = [] {                   \
    torch::Library library(::aten_stable::StableLibrary::Kind::kind, C10_STRINGIZE(ns), key); \
    C10_CONCATENATE(aten_stable_library_, id)(library);                                       \
    return true;                                                                              \
  }();                                                                                        \
  static void C10_CONCATENATE(aten_stable_library_, id)([[maybe_unused]] torch::Library & m)

// C10_UID differs at each use: it is expanded here, once.
#define TORCH_LIBRARY(ns, m) ATEN_STABLE_LIBRARY(DEF, ns, nullptr, m, C10_UID)
#define TORCH_LIBRARY_FRAGMENT(ns, m) ATEN_STABLE_LIBRARY(FRAGMENT, ns, nullptr, m, C10_UID)
#define TORCH_LIBRARY_IMPL(ns, key, m) ATEN_STABLE_LIBRARY(IMPL, ns, C10_STRINGIZE(key), m, C10_UID)
