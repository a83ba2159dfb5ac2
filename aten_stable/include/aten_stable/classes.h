// py::class_: a class of Python's (_face.py makes it), whose objects hold the number of one here (objects.h). Methods
// are functions of the module that take the object first.
#pragma once

#include "module.h"

namespace aten_stable __attribute__((visibility("hidden"))) {
  inline namespace ATEN_STABLE_VERSION {

  // A result that is a reference or a pointer to an object: a copy of it, or the object itself, which then keeps its
  // owner.
  template <class Owner, class R>
  decltype(auto) owned(const std::shared_ptr<Owner>& owner, R&& result, bool is_part) {
    using T = std::remove_pointer_t<Bare<R>>;
    if constexpr (std::is_pointer_v<Bare<R>> && std::is_class_v<T>) {
      using Object = std::remove_const_t<T>;
      auto* const object = const_cast<Object*>(result);
      return is_part ? std::shared_ptr<Object>(owner, object) : std::shared_ptr<Object>(object);
    } else if constexpr (is_object<Bare<R>> && std::is_lvalue_reference_v<R>) {
      using Object = Bare<R>;
      if (is_part) return std::shared_ptr<Object>(owner, const_cast<Object*>(&result));
      if constexpr (std::is_copy_constructible_v<Object>)
        return std::make_shared<Object>(result);
      else
        throw std::runtime_error(
            "aten_stable: a result that cannot be copied: give py::return_value_policy::reference");
      return std::shared_ptr<Object>();
    } else if constexpr (is_object<Bare<R>>) {
      return std::make_shared<Bare<R>>(std::move(result));
    } else {
      return Bare<R>(std::forward<R>(result));
    }
  }

  // What is bound, as a function that takes the object first.
  template <class T, class R, class... A, class F>
  auto taking_object(F f, bool is_part) {
    return [f, is_part](std::shared_ptr<T> self, A... arguments) {
      if (self == nullptr) throw std::runtime_error(text(kWrongArguments, ": None is given for an object"));
      if constexpr (std::is_void_v<R>)
        std::invoke(f, *self, std::forward<A>(arguments)...);
      else
        return owned(self, static_cast<R>(std::invoke(f, *self, std::forward<A>(arguments)...)), is_part);
    };
  }
  template <class T, class C, class R, class... A>
  auto method(R (C::*f)(A...), bool is_part) {
    return taking_object<T, R, A...>(f, is_part);
  }
  template <class T, class C, class R, class... A>
  auto method(R (C::*f)(A...) const, bool is_part) {
    return taking_object<T, R, A...>(f, is_part);
  }
  template <class T, class F, class R, class Self, class... A>
  auto method_of(F f, bool is_part, R (F::*)(Self, A...) const) {
    if constexpr (std::is_same_v<Bare<Self>, T>)
      return taking_object<T, R, A...>(f, is_part);
    else
      return f;
  }
  template <class T, class R, class Self, class... A>
  auto method(R (*f)(Self, A...), bool is_part) {
    if constexpr (std::is_same_v<Bare<Self>, T>)
      return taking_object<T, R, A...>(f, is_part);
    else
      return f;
  }
  template <class T, class F>
  auto method(F f, bool is_part) {
    return method_of<T>(f, is_part, &F::operator());
  }

  }  // namespace ATEN_STABLE_VERSION
}  // namespace aten_stable

namespace pybind11 {
inline namespace ATEN_STABLE_VERSION {

template <class... Args>
struct Init {};
template <class F>
struct Factory {
  F make;
};
template <class... Args>
Init<Args...> init() {
  return {};
}
template <class F>
Factory<F> init(F make) {
  return {make};
}
template <class... Args>
Init<> pickle(Args&&...) {
  static_assert(::aten_stable::never<Args...>,
                "aten_stable: py::pickle is not covered: give the class __reduce__ in Python");
  return {};
}
struct dynamic_attr {};
struct is_final {};

template <class T, class... Options>
class class_ {
 public:
  template <class... Extra>
  class_(module_& m, const char* name, const Extra&... extra) : module_of_(&m), name_(name) {
    ::aten_stable::Class one{name, typeid(T).name(), "", {}};
    ::aten_stable::objects().add_class(typeid(T));
    (read(one, extra), ...);
    (add_base<Options>(one), ...);
    m.add_class(one);
  }

  template <class... Args, class... Extra>
  class_& def(Init<Args...>, const Extra&... extra) {
    return add(
        "__init__", "init",
        [](Args... arguments) {
          if constexpr (std::is_constructible_v<T, Args...>)
            return std::make_shared<T>(std::forward<Args>(arguments)...);
          else
            return std::shared_ptr<T>(new T{std::forward<Args>(arguments)...});
        },
        extra...);
  }
  template <class F, class... Extra>
  class_& def(const Factory<F>& factory, const Extra&... extra) {
    return add_factory(factory.make, &F::operator(), extra...);
  }
  template <class F, class... Extra>
  class_& def(const char* name, F f, const Extra&... extra) {
    return add(name, "method", ::aten_stable::method<T>(f, is_part(extra...)), extra...);
  }
  template <class F, class... Extra>
  class_& def_static(const char* name, F f, const Extra&... extra) {
    return add(name, "static", f, extra...);
  }
  template <class M, class C, class... Extra>
  class_& def_readonly(const char* name, M C::* member, const Extra&... extra) {
    return add(
        name, "get",
        [member](const std::shared_ptr<T>& self) { return ::aten_stable::owned(self, (*self.*member), true); },
        extra...);
  }
  template <class M, class C, class... Extra>
  class_& def_readwrite(const char* name, M C::* member, const Extra&... extra) {
    def_readonly(name, member, extra...);
    return add(name, "set", [member](const std::shared_ptr<T>& self, const M& value) { *self.*member = value; });
  }
  template <class F, class... Extra>
  class_& def_property_readonly(const char* name, F get, const Extra&... extra) {
    return add(name, "get", ::aten_stable::method<T>(get, true), extra...);
  }
  template <class F, class G, class... Extra>
  class_& def_property(const char* name, F get, G set, const Extra&... extra) {
    def_property_readonly(name, get, extra...);
    return add(name, "set", ::aten_stable::method<T>(set, false));
  }
#define X(name)                                                                                                \
  template <class... Args>                                                                                     \
  class_& name(Args&&...) {                                                                                    \
    static_assert(::aten_stable::never<Args...>,                                                               \
                  "aten_stable: " #name " is not covered: set the attribute in a Python file of the package"); \
    return *this;                                                                                              \
  }
  // clang-format off
X(def_readwrite_static) X(def_readonly_static) X(def_property_static) X(def_property_readonly_static)
// clang-format on
#undef X
      template <class... Args>
      class_& def_buffer(Args&&...) {
    static_assert(::aten_stable::never<Args...>, "aten_stable: def_buffer is not covered: return a Tensor");
    return *this;
  }

 private:
  static void read(::aten_stable::Class& one, const char* doc) { one.doc = doc; }
  template <class Extra>
  static void read(::aten_stable::Class&, const Extra&) {}
  template <class Option>
  static void add_base(::aten_stable::Class& one) {
    if constexpr (std::is_base_of_v<Option, T>) {
      one.bases.push_back(typeid(Option).name());
      ::aten_stable::objects().add_base(typeid(T), typeid(Option), [](const std::shared_ptr<void>& object) {
        return std::shared_ptr<void>(std::shared_ptr<Option>(std::static_pointer_cast<T>(object)));
      });
    }
  }
  static bool is_part(return_value_policy policy) {
    return policy == return_value_policy::reference || policy == return_value_policy::reference_internal;
  }
  template <class Extra>
  static bool is_part(const Extra&) {
    return false;
  }
  template <class... Extra, std::enable_if_t<sizeof...(Extra) != 1, int> = 0>
  static bool is_part(const Extra&... extra) {
    return (is_part(extra) || ...);
  }
  template <class F, class R, class... A, class... Extra>
  class_& add_factory(F make, R (F::*)(A...) const, const Extra&... extra) {
    return add(
        "__init__", "init",
        [make](A... arguments) {
          if constexpr (std::is_pointer_v<R>)
            return std::shared_ptr<T>(make(std::forward<A>(arguments)...));
          else if constexpr (std::is_convertible_v<R, std::shared_ptr<T>>)
            return std::shared_ptr<T>(make(std::forward<A>(arguments)...));
          else
            return std::make_shared<T>(make(std::forward<A>(arguments)...));
        },
        extra...);
  }
  template <class F, class... Extra>
  class_& add(const char* name, const char* role, F f, const Extra&... extra) {
    module_of_->def_member({typeid(T).name(), name, role}, name_ + "_" + role + "_" + name, f, extra...);
    return *this;
  }
  module_* module_of_;
  std::string name_;
};

}  // namespace ATEN_STABLE_VERSION
}  // namespace pybind11
