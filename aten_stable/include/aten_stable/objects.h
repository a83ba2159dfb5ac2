// Objects of the source's own classes, which py::class_ binds. Python has them by number: one crosses the dispatcher as
// an integer, and the Python file in front of the library (_face.py) has a class whose objects hold it.
#pragma once

#include <typeindex>

#include "core.h"

namespace aten_stable __attribute__((visibility("hidden"))) {
  inline namespace ATEN_STABLE_VERSION {

  // What Python is told of a class, and of a function that belongs to one.
  struct Class {
    std::string name, type, doc;
    std::vector<std::string> bases;
  };
  struct Member {
    std::string type, name, role;  // method, static, init, get or set
  };

  class Objects {
   public:
    using Any = std::shared_ptr<void>;
    // Counts: Python gives each back (remove). An object that is here already keeps its number.
    int64_t add(const Any& object, std::type_index type) {
      if (object == nullptr) return 0;
      const std::lock_guard<std::mutex> lock(mutex_);
      const auto [number, is_new] = numbers_.try_emplace({object.get(), type}, last_ + 1);
      if (is_new) all_.emplace(++last_, Entry{object, type});
      ++all_.at(number->second).count;
      return number->second;
    }
    void remove(int64_t number) {
      Any object;  // its destructor runs without the lock
      const std::lock_guard<std::mutex> lock(mutex_);
      const auto found = all_.find(number);
      if (found == all_.end() || --found->second.count != 0) return;
      object = std::move(found->second.object);
      numbers_.erase({object.get(), found->second.type});
      all_.erase(found);
    }
    Any find(int64_t number, std::type_index type) {
      const std::lock_guard<std::mutex> lock(mutex_);
      const auto found = all_.find(number);
      Any object = found == all_.end() ? nullptr : as(found->second, type);
      if (object == nullptr)
        throw std::runtime_error("incompatible function arguments: there is no object of this number and class");
      return object;
    }
    const char* class_of(int64_t number) {
      const std::lock_guard<std::mutex> lock(mutex_);
      return all_.at(number).type.name();
    }
    // py::class_ binds `type`.
    void add_class(std::type_index type) { classes_.insert(type); }
    bool has_class(std::type_index type) const { return classes_.count(type) != 0; }
    // Each object of the class `type` is one of the class `base`, too.
    void add_base(std::type_index type, std::type_index base, Any (*cast)(const Any&)) {
      bases_.emplace(type, Base{base, cast});
    }

   private:
    struct Entry {
      Any object;
      std::type_index type;
      size_t count = 0;
    };
    struct Base {
      std::type_index type;
      Any (*cast)(const Any&);
    };
    Any as(const Entry& entry, std::type_index type) const {
      if (entry.type == type) return entry.object;
      const auto [first, last] = bases_.equal_range(entry.type);
      for (auto base = first; base != last; ++base)
        if (Any found = as(Entry{base->second.cast(entry.object), base->second.type}, type)) return found;
      return nullptr;
    }
    std::mutex mutex_;
    int64_t last_ = 0;
    std::unordered_map<int64_t, Entry> all_;
    std::map<std::pair<const void*, std::type_index>, int64_t> numbers_;
    std::set<std::type_index> classes_;
    std::multimap<std::type_index, Base> bases_;
  };
  inline Objects& objects() {
    static auto& all = *new Objects;
    return all;
  }
  template <class T>
  int64_t number_of(const std::shared_ptr<T>& given) {
    const auto object = std::const_pointer_cast<std::remove_const_t<T>>(given);
    if constexpr (std::is_polymorphic_v<T>)
      if (object != nullptr && objects().has_class(typeid(*object)))
        return objects().add(std::shared_ptr<void>(object, dynamic_cast<void*>(object.get())), typeid(*object));
    return objects().add(object, typeid(T));
  }
  template <class T>
  std::shared_ptr<T> object_of(int64_t number) {
    return std::static_pointer_cast<T>(objects().find(number, typeid(T)));
  }

  }  // namespace ATEN_STABLE_VERSION
}  // namespace aten_stable

extern "C" __attribute__((visibility("default"), used)) inline void aten_stable_release(int64_t number) {
  ::aten_stable::objects().remove(number);
}
extern "C" __attribute__((visibility("default"), used)) inline const char* aten_stable_class_of(int64_t number) {
  return ::aten_stable::objects().class_of(number);
}
