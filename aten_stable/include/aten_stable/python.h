// CPython, without a symbol of it: what its limited API promises is looked up by name in the process, once the module
// in front of the library offers it (aten_stable_quick). A process without these names has the dispatcher for all
// calls.
//
// Quick<T>: a value between Python's object and C++, where that needs no conversion of torch's. Everything else (a
// subclass of Tensor, a number of NumPy's, a wrong type) is left to the dispatcher, which has the rules and the errors.
#pragma once

#include <dlfcn.h>

#include "wire.h"

namespace aten_stable __attribute__((visibility("hidden"))) {
  inline namespace ATEN_STABLE_VERSION {

  struct Object;  // PyObject
  using Size = intptr_t;

  // name, result, arguments
#define ATEN_STABLE_PYTHON(X)                                        \
  X(Py_IncRef, void, (Object*))                                      \
  X(Py_DecRef, void, (Object*))                                      \
  X(Py_IsInitialized, int, ())                                       \
  X(PyObject_Type, Object*, (Object*))                               \
  X(PyObject_Call, Object*, (Object*, Object*, Object*))             \
  X(PyObject_CallFunctionObjArgs, Object*, (Object*, ...))           \
  X(PyDict_New, Object*, ())                                         \
  X(PyDict_SetItem, int, (Object*, Object*, Object*))                \
  X(PyObject_Str, Object*, (Object*))                                \
  X(PyObject_IsTrue, int, (Object*))                                 \
  X(PyObject_GetAttr, Object*, (Object*, Object*))                   \
  X(PyObject_SetAttr, int, (Object*, Object*, Object*))              \
  X(PyUnicode_InternFromString, Object*, (const char*))              \
  X(PyCapsule_New, Object*, (void*, const char*, void (*)(Object*))) \
  X(PyCapsule_GetPointer, void*, (Object*, const char*))             \
  X(PyCFunction_NewEx, Object*, (const void*, Object*, Object*))     \
  X(PyLong_AsLongLong, long long, (Object*))                         \
  X(PyLong_AsDouble, double, (Object*))                              \
  X(PyLong_FromLongLong, Object*, (long long))                       \
  X(PyFloat_AsDouble, double, (Object*))                             \
  X(PyComplex_RealAsDouble, double, (Object*))                       \
  X(PyComplex_ImagAsDouble, double, (Object*))                       \
  X(PyComplex_FromDoubles, Object*, (double, double))                \
  X(PyFloat_FromDouble, Object*, (double))                           \
  X(PyUnicode_AsUTF8AndSize, const char*, (Object*, Size*))          \
  X(PyUnicode_FromStringAndSize, Object*, (const char*, Size))       \
  X(PyTuple_New, Object*, (Size))                                    \
  X(PyTuple_Size, Size, (Object*))                                   \
  X(PyTuple_GetItem, Object*, (Object*, Size))                       \
  X(PyTuple_SetItem, int, (Object*, Size, Object*))                  \
  X(PyList_New, Object*, (Size))                                     \
  X(PyList_SetItem, int, (Object*, Size, Object*))                   \
  X(PySequence_Size, Size, (Object*))                                \
  X(PySequence_GetItem, Object*, (Object*, Size))                    \
  X(PyErr_Occurred, Object*, ())                                     \
  X(PyErr_Clear, void, ())                                           \
  X(PyErr_Fetch, void, (Object**, Object**, Object**))               \
  X(PyErr_NormalizeException, void, (Object**, Object**, Object**))  \
  X(PyErr_Restore, void, (Object*, Object*, Object*))                \
  X(PyErr_SetString, void, (Object*, const char*))                   \
  X(PyEval_SaveThread, void*, ())                                    \
  X(PyEval_RestoreThread, void, (void*))                             \
  X(PyGILState_Check, int, ())                                       \
  X(PyGILState_Ensure, int, ())                                      \
  X(PyGILState_Release, void, (int))
  // Objects, and variables that hold one.
#define ATEN_STABLE_PYTHON_OBJECTS(X) \
  X(PyBool_Type)                      \
  X(PyLong_Type)                      \
  X(PyFloat_Type)                     \
  X(PyComplex_Type)                   \
  X(PyUnicode_Type) X(PyTuple_Type) X(PyList_Type) X(_Py_TrueStruct) X(_Py_FalseStruct) X(_Py_NoneStruct)
#define ATEN_STABLE_PYTHON_ERRORS(X) \
  X(PyExc_RuntimeError)              \
  X(PyExc_TypeError)                 \
  X(PyExc_ValueError) X(PyExc_IndexError) X(PyExc_OverflowError) X(PyExc_NotImplementedError) X(PyExc_MemoryError)

  struct Python {
#define X(name, R, A) R(*name) A = nullptr;
    ATEN_STABLE_PYTHON(X)
#undef X
#define X(name) Object* name = nullptr;
    ATEN_STABLE_PYTHON_OBJECTS(X)
    ATEN_STABLE_PYTHON_ERRORS(X)
#undef X
    // What the module in front of the library gives: two classes, and functions of torch's.
    Object *tensor = nullptr, *parameter = nullptr, *generator = nullptr, *unwrap = nullptr, *wrap = nullptr,
           *apply = nullptr, *transforms = nullptr, *modes = nullptr, *forward_ad = nullptr, *philox = nullptr;
    // Do the methods of a Function's context set one attribute each, as in torch 2.10 to 2.15?
    bool plain_context = false;
    // Where torch keeps the C++ Tensor in Python's, found by comparing; 0: ask torch, which is slower.
    size_t offset = 0;
    bool wrap_steals = true;  // does `wrap` take the handle that it is given, as its name says?

    bool ready = false;  // is all of it here?

    bool look_up() {
      bool found = true;
#define X(name, R, A) found &= (name = reinterpret_cast<R(*) A>(dlsym(RTLD_DEFAULT, #name))) != nullptr;
      ATEN_STABLE_PYTHON(X)
#undef X
#define X(name) found &= (name = static_cast<Object*>(dlsym(RTLD_DEFAULT, #name))) != nullptr;
      ATEN_STABLE_PYTHON_OBJECTS(X)
#undef X
#define X(name) \
  if (void* at = dlsym(RTLD_DEFAULT, #name); (found &= at != nullptr)) name = *static_cast<Object**>(at);
      ATEN_STABLE_PYTHON_ERRORS(X)
#undef X
      return ready = found;
    }
  };
  inline Python python;
  inline bool has_lock() { return python.ready && python.PyGILState_Check() != 0; }

  // A reference that is owned.
  class Owned {
   public:
    explicit Owned(Object* object = nullptr) : object_(object) {}
    Owned(Owned&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
    Owned& operator=(Owned&& other) noexcept {
      std::swap(object_, other.object_);
      return *this;
    }
    ~Owned() {
      if (object_ != nullptr) python.Py_DecRef(object_);
    }
    Object* get() const { return object_; }
    Object* release() { return std::exchange(object_, nullptr); }
    explicit operator bool() const { return object_ != nullptr; }

   private:
    Object* object_;
  };
  inline Object* shared(Object* object) {
    python.Py_IncRef(object);
    return object;
  }

  // While it lives, other threads of Python run; and the reverse, on any thread.
  class WithoutLock {
   public:
    WithoutLock() : state_(python.PyEval_SaveThread()) {}
    ~WithoutLock() { python.PyEval_RestoreThread(state_); }
    WithoutLock(const WithoutLock&) = delete;

   private:
    void* state_;
  };
  class WithLock {
   public:
    WithLock() : state_(python.PyGILState_Ensure()) {}
    ~WithLock() { python.PyGILState_Release(state_); }
    WithLock(const WithLock&) = delete;

   private:
    int state_;
  };

  // An exception of Python's on its way through C++. It comes out as it was, or, through the dispatcher, as its text.
  class PythonError : public std::runtime_error {
   public:
    struct Parts {
      Object *type = nullptr, *value = nullptr, *trace = nullptr;
      ~Parts() {
        if (type == nullptr) return;
        const WithLock lock;
        for (Object* part : {type, value, trace})
          if (part != nullptr) python.Py_DecRef(part);
      }
    };
    static PythonError take() {
      auto parts = std::make_shared<Parts>();
      python.PyErr_Fetch(&parts->type, &parts->value, &parts->trace);
      python.PyErr_NormalizeException(&parts->type, &parts->value, &parts->trace);
      std::string words;
      const Owned said(parts->value ? python.PyObject_Str(parts->value) : nullptr);
      Size length = 0;
      if (const char* utf8 = said ? python.PyUnicode_AsUTF8AndSize(said.get(), &length) : nullptr)
        words.assign(utf8, static_cast<size_t>(length));
      else
        python.PyErr_Clear();
      return PythonError(words, std::move(parts));
    }
    void restore() const {
      python.PyErr_Restore(std::exchange(parts_->type, nullptr), std::exchange(parts_->value, nullptr),
                           std::exchange(parts_->trace, nullptr));
    }

   private:
    PythonError(const std::string& words, std::shared_ptr<Parts> parts)
        : std::runtime_error(words), parts_(std::move(parts)) {}
    std::shared_ptr<Parts> parts_;
  };

  // The exception that is being handled, as Python's: the types are those that torch.ops gives.
  inline void raise_current() {
    const auto set = [](Object* type, const std::exception& error) { python.PyErr_SetString(type, error.what()); };
    try {
      throw;
    } catch (const PythonError& error) {
      error.restore();
    } catch (const c10::IndexError& error) {
      set(python.PyExc_IndexError, error);
    } catch (const c10::ValueError& error) {
      set(python.PyExc_ValueError, error);
    } catch (const c10::TypeError& error) {
      set(python.PyExc_TypeError, error);
    } catch (const c10::NotImplementedError& error) {
      set(python.PyExc_NotImplementedError, error);
    } catch (const std::bad_alloc& error) {
      set(python.PyExc_MemoryError, error);
    } catch (const std::out_of_range& error) {
      set(python.PyExc_IndexError, error);
    } catch (const std::logic_error& error) {  // invalid_argument, domain_error, length_error
      const bool value = dynamic_cast<const std::invalid_argument*>(&error) != nullptr ||
                         dynamic_cast<const std::domain_error*>(&error) != nullptr ||
                         dynamic_cast<const std::length_error*>(&error) != nullptr;
      set(value ? python.PyExc_ValueError : python.PyExc_RuntimeError, error);
    } catch (const std::range_error& error) {
      set(python.PyExc_ValueError, error);
    } catch (const std::overflow_error& error) {
      set(python.PyExc_OverflowError, error);
    } catch (const std::exception& error) {
      const std::string_view words = error.what();
      const bool type = !words.empty() && words[0] == '"' && words.find("\" not implemented for '") != words.npos;
      set(type ? python.PyExc_NotImplementedError : python.PyExc_RuntimeError, error);
    } catch (...) {
      python.PyErr_SetString(python.PyExc_RuntimeError, "Caught an unknown exception!");
    }
  }

  // Exactly of this type? References to types are not kept: somebody else holds the object.
  inline bool is_exactly(Object* object, std::initializer_list<Object*> types) {
    Object* type = python.PyObject_Type(object);
    python.Py_DecRef(type);
    return std::find(types.begin(), types.end(), type) != types.end();
  }
  inline Object* call_with(Object* callable, Object* argument) {
    return python.PyObject_CallFunctionObjArgs(callable, argument, static_cast<Object*>(nullptr));
  }
  inline bool is_none(Object* object) { return object == python._Py_NoneStruct; }

  template <class T, class = void>
  struct Quick {
    static constexpr bool known = false;
  };
  struct Known {
    static constexpr bool known = true;
  };

  // The Python objects that a call from Python has at hand. torch has one object for a tensor, and looks for it slowly.
  class AtHand {
   public:
    AtHand(Object* const* objects, size_t count) : objects_(objects), count_(count), outer_(innermost()) {
      innermost() = this;
    }
    ~AtHand() { innermost() = outer_; }
    AtHand(const AtHand&) = delete;
    static AtHand*& innermost() {
      static thread_local AtHand* one = nullptr;
      return one;
    }
    // Tensors of a tuple, until the next one or the end of the call.
    void keep(Owned tuple) { made_ = std::move(tuple); }
    // The object of this tensor, borrowed, or null.
    Object* find(const at::Tensor& value) const {
      if (python.offset == 0) return nullptr;
      const void* const wanted = *reinterpret_cast<void* const*>(value.stable().get());
      for (size_t i = 0; i < count_; ++i)
        if (is_of(objects_[i], wanted)) return objects_[i];
      for (Size i = 0, n = made_ ? python.PyTuple_Size(made_.get()) : 0; i < n; ++i)
        if (Object* object = python.PyTuple_GetItem(made_.get(), i); is_of(object, wanted)) return object;
      return nullptr;
    }

   private:
    static bool is_of(Object* object, const void* tensor) {
      return is_exactly(object, {python.tensor, python.parameter}) &&
             *reinterpret_cast<void* const*>(reinterpret_cast<char*>(object) + python.offset) == tensor;
    }
    Object* const* objects_;
    size_t count_;
    Owned made_;
    AtHand* outer_;
  };

  template <>
  struct Quick<at::Tensor> : Known {
    static bool in(Object* object, std::optional<at::Tensor>& value) {
      return is_exactly(object, {python.tensor, python.parameter}) && unwrap(object, value);
    }
    static bool unwrap(Object* object, std::optional<at::Tensor>& value) {
      AtenTensorHandle handle = nullptr;
      if (python.offset != 0) {
        const auto here = reinterpret_cast<AtenTensorHandle>(reinterpret_cast<char*>(object) + python.offset);
        TORCH_ERROR_CODE_CHECK(aoti_torch_new_tensor_handle(here, &handle));
      } else {
        const Owned capsule(call_with(python.unwrap, object));
        if (capsule) handle = static_cast<AtenTensorHandle>(python.PyCapsule_GetPointer(capsule.get(), nullptr));
        if (handle == nullptr) return python.PyErr_Clear(), false;
      }
      value.emplace(torch::stable::Tensor(handle));
      return true;
    }
    static Object* out(const at::Tensor& value) {
      if (const AtHand* known = AtHand::innermost())
        if (Object* object = known->find(value)) return shared(object);
      AtenTensorHandle handle = value.stable().get();
      if (python.wrap_steals) TORCH_ERROR_CODE_CHECK(aoti_torch_new_tensor_handle(value.stable().get(), &handle));
      const Owned capsule(python.PyCapsule_New(handle, nullptr, nullptr));
      return capsule ? call_with(python.wrap, capsule.get()) : nullptr;
    }
  };
  template <>
  struct Quick<bool> : Known {
    static bool in(Object* object, std::optional<bool>& value) {
      value = object == python._Py_TrueStruct;
      return *value || object == python._Py_FalseStruct;
    }
    static Object* out(bool value) { return shared(value ? python._Py_TrueStruct : python._Py_FalseStruct); }
  };
  template <class T>
  struct Quick<T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>>> : Known {
    static bool in(Object* object, std::optional<T>& value) {
      if (!is_exactly(object, {python.PyLong_Type})) return false;
      const long long wide = python.PyLong_AsLongLong(object);
      if (wide == -1 && python.PyErr_Occurred() != nullptr) return python.PyErr_Clear(), false;
      value = static_cast<T>(wide);
      return static_cast<long long>(*value) == wide && (wide < 0) == (*value < 0);
    }
    static Object* out(T value) { return python.PyLong_FromLongLong(static_cast<int64_t>(value)); }
  };
  template <class T>
  struct Quick<T, std::enable_if_t<std::is_floating_point_v<T>>> : Known {
    static bool in(Object* object, std::optional<T>& value) {
      const bool integer = is_exactly(object, {python.PyLong_Type});
      if (!integer && !is_exactly(object, {python.PyFloat_Type})) return false;
      const double wide = integer ? python.PyLong_AsDouble(object) : python.PyFloat_AsDouble(object);
      if (integer && wide == -1 && python.PyErr_Occurred() != nullptr) return python.PyErr_Clear(), false;
      value = static_cast<T>(wide);
      return true;
    }
    static Object* out(T value) { return python.PyFloat_FromDouble(static_cast<double>(value)); }
  };
  template <>
  struct Quick<std::string> : Known {
    static bool in(Object* object, std::optional<std::string>& value) {
      if (!is_exactly(object, {python.PyUnicode_Type})) return false;
      Size length = 0;
      const char* utf8 = python.PyUnicode_AsUTF8AndSize(object, &length);
      if (utf8 == nullptr) return python.PyErr_Clear(), false;
      value.emplace(utf8, static_cast<size_t>(length));
      return true;
    }
    static Object* out(const std::string& value) {
      return python.PyUnicode_FromStringAndSize(value.data(), static_cast<Size>(value.size()));
    }
  };
  template <>
  struct Quick<c10::Scalar> : Known {
    static bool in(Object* object, std::optional<c10::Scalar>& value) {
      std::optional<bool> boolean;
      std::optional<int64_t> integer;
      std::optional<double> real;
      if (Quick<bool>::in(object, boolean))
        value.emplace(*boolean);
      else if (Quick<int64_t>::in(object, integer))
        value.emplace(*integer);
      else if (is_exactly(object, {python.PyFloat_Type}) && Quick<double>::in(object, real))
        value.emplace(*real);
      else if (is_exactly(object, {python.PyComplex_Type}))
        value.emplace(
            c10::complex<double>(python.PyComplex_RealAsDouble(object), python.PyComplex_ImagAsDouble(object)));
      return value.has_value();
    }
    static Object* out(const c10::Scalar& value) {
      if (value.isBoolean()) return Quick<bool>::out(value.toBool());
      if (value.isIntegral()) return python.PyLong_FromLongLong(value.toLong());
      if (!value.isComplex()) return python.PyFloat_FromDouble(value.toDouble());
      const auto parts = value.toComplexDouble();
      return python.PyComplex_FromDoubles(parts.real(), parts.imag());
    }
  };
  template <>
  struct Quick<at::Generator> : Known {
    static bool in(Object* object, std::optional<at::Generator>& value) {
      if (!is_exactly(object, {python.generator})) return false;
      value.emplace(reinterpret_cast<int64_t>(object));
      return true;
    }
  };
  template <class T>
  struct Quick<std::optional<T>, std::enable_if_t<Quick<T>::known>> : Known {
    static bool in(Object* object, std::optional<std::optional<T>>& value) {
      value.emplace();
      return is_none(object) || Quick<T>::in(object, *value);
    }
    static Object* out(const std::optional<T>& value) {
      return value ? Quick<T>::out(*value) : shared(python._Py_NoneStruct);
    }
  };
  template <class T>
  struct Quick<std::vector<T>, std::enable_if_t<Quick<T>::known>> : Known {
    template <class List>
    static bool in(Object* object, std::optional<List>& value) {
      if (!is_exactly(object, {python.PyList_Type, python.PyTuple_Type})) return false;
      const Size count = python.PySequence_Size(object);
      value.emplace().reserve(static_cast<size_t>(count));
      for (Size i = 0; i < count; ++i) {
        const Owned item(python.PySequence_GetItem(object, i));
        std::optional<T> element;
        if (!item) return python.PyErr_Clear(), false;
        if (!Quick<T>::in(item.get(), element)) return false;
        value->push_back(std::move(*element));
      }
      return true;
    }
    static Object* out(const std::vector<T>& value) {
      Owned list(python.PyList_New(static_cast<Size>(value.size())));
      for (size_t i = 0; list && i < value.size(); ++i) {
        Object* element = Quick<T>::out(value[i]);
        if (element == nullptr) return nullptr;
        python.PyList_SetItem(list.get(), static_cast<Size>(i), element);
      }
      return list.release();
    }
  };
  template <class T>
  struct Quick<c10::List<T>, std::enable_if_t<Quick<T>::known>> : Quick<std::vector<T>> {};

  // A result: nothing, one value, or several.
  template <class T>
  struct QuickResult : Quick<T> {};
  template <class... T>
  struct QuickResult<std::tuple<T...>> {
    static constexpr bool known = sizeof...(T) > 1 && (Quick<Bare<T>>::known && ...);
    static Object* out(const std::tuple<T...>& value) { return out(value, std::index_sequence_for<T...>()); }
    template <size_t... I>
    static Object* out(const std::tuple<T...>& value, std::index_sequence<I...>) {
      Owned all(python.PyTuple_New(sizeof...(T)));
      const auto put = [&](Size at, Object* element) {
        return element != nullptr && python.PyTuple_SetItem(all.get(), at, element) == 0;
      };
      if (!all || !(put(I, Quick<Bare<T>>::out(std::get<I>(value))) && ...)) return nullptr;
      return all.release();
    }
  };
  template <class A, class B>
  struct QuickResult<std::pair<A, B>> : QuickResult<std::tuple<A, B>> {};

  }  // namespace ATEN_STABLE_VERSION
}  // namespace aten_stable

namespace c10 {
inline namespace ATEN_STABLE_VERSION {

inline Generator::Generator(int64_t address, DeviceIndex device) : defined_(true), address_(address), device_(device) {
  using namespace ::aten_stable;
  if (address == 0 || !python.ready) return;  // then the caller holds it
  const WithLock lock;
  kept_ = std::shared_ptr<void>(shared(reinterpret_cast<Object*>(address)), [](void* object) {
    if (python.Py_IsInitialized() == 0) return;  // a static object of the library's, at the process's end
    const WithLock again;
    python.Py_DecRef(static_cast<Object*>(object));
  });
}

}  // namespace ATEN_STABLE_VERSION
}  // namespace c10
