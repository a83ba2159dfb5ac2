// How a C++ type crosses the dispatcher: its name in a schema, and the conversions. One rule for calls in both
// directions: from this library into ATen's operators (ops.h), and from torch.ops into this library (module.h).
//
// Wire<T>: Stable is the stable ABI's type, Hold owns the value during a call, and a parameter T is made from a Hold.
#pragma once

#include "objects.h"
#include "tensor.h"

namespace aten_stable {
inline namespace ATEN_STABLE_VERSION {

// Classes of C++'s and torch's that no py::class_ binds.
template <class T>
inline constexpr bool is_foreign = false;
template <class R, class... A>
inline constexpr bool is_foreign<std::function<R(A...)>> = true;
template <class T, class Free>
inline constexpr bool is_foreign<std::unique_ptr<T, Free>> = true;
template <class... T>
inline constexpr bool is_foreign<std::set<T...>> = true;
template <class... T>
inline constexpr bool is_foreign<std::unordered_set<T...>> = true;
template <class... T>
inline constexpr bool is_foreign<std::variant<T...>> = true;
template <class T>
inline constexpr bool is_foreign<std::complex<T>> = true;
template <class T>
inline constexpr bool is_foreign<c10::complex<T>> = true;

// A parameter of a class of the source's own: T, T& or T*.
template <class T>
struct Held {
  std::shared_ptr<T> object;
  operator T&() const { return *object; }
};
template <class T>
struct ObjectWire {
  static_assert(std::is_class_v<T> && !is_foreign<T>,
                "aten_stable: this type cannot cross the dispatcher. Covered: Tensor, bool, integers, float, double, "
                "std::string, ScalarType, Device, and vectors, ArrayRefs and optionals of them; results may also be "
                "tuples and pairs. Write one of these in place of py::object, py::array and std::function");
  using Stable = int64_t;
  using Hold = Held<T>;
  static std::string name() { return "int"; }
  static Stable out(const T& value) { return number_of(std::make_shared<T>(value)); }
  static Hold in(Stable number) { return {object_of<T>(number)}; }
};
template <class T, class = void>
struct Wire : ObjectWire<T> {};
template <class T>
struct Wire<std::shared_ptr<T>> {
  using Stable = int64_t;
  using Hold = std::shared_ptr<T>;
  static std::string name() { return "int"; }
  static Stable out(const Hold& object) { return number_of(object); }
  static Hold in(Stable number) { return number == 0 ? nullptr : object_of<T>(number); }
};

template <class T>
struct Same {
  using Stable = T;
  using Hold = T;
  static Stable out(const T& value) { return value; }
  static Hold in(Stable value) { return value; }
};

template <>
struct Wire<at::Tensor> {
  using Stable = torch::stable::Tensor;
  using Hold = at::Tensor;
  static std::string name() { return "Tensor"; }
  static Stable out(const at::Tensor& t) { return t.stable(); }
  static Hold in(Stable t) { return at::Tensor(std::move(t)); }
};

template <>
struct Wire<bool> : Same<bool> {
  static std::string name() { return "bool"; }
};

inline constexpr const char* kWrongArguments = "incompatible function arguments";

template <class T>
struct Wire<T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>>> {
  using Stable = int64_t;
  using Hold = T;
  static std::string name() { return "int"; }
  static Stable out(T value) { return static_cast<int64_t>(value); }
  static Hold in(Stable value) {
    const T narrow = static_cast<T>(value);
    if (static_cast<int64_t>(narrow) != value || (value < 0) != (narrow < 0))
      throw std::runtime_error(text(kWrongArguments, ": ", value, " does not fit into the C++ type"));
    return narrow;
  }
};

template <class T>
struct Wire<T, std::enable_if_t<std::is_floating_point_v<T>>> {
  using Stable = double;
  using Hold = T;
  static std::string name() { return "float"; }
  static Stable out(T value) { return value; }
  static Hold in(Stable value) { return static_cast<T>(value); }
};

template <>
struct Wire<std::string> : Same<std::string> {
  static std::string name() { return "str"; }
};
template <>
struct Wire<std::string_view> : Wire<std::string> {
  static std::string out(std::string_view value) { return std::string(value); }
};

template <>
struct Wire<c10::ScalarType> : Same<c10::ScalarType> {
  static std::string name() { return "ScalarType"; }
};
template <>
struct Wire<c10::MemoryFormat> : Same<c10::MemoryFormat> {
  static std::string name() { return "MemoryFormat"; }
};
template <>
struct Wire<c10::Layout> : Same<c10::Layout> {
  static std::string name() { return "Layout"; }
};

template <>
struct Wire<c10::Device> {
  using Stable = torch::stable::Device;
  using Hold = c10::Device;
  static std::string name() { return "Device"; }
  static Stable out(const c10::Device& device) { return device.stable(); }
  static Hold in(Stable device) { return device; }
};

// A number crosses as three integers: the dispatcher of the stable ABI has no Scalar. Not as text: torch does not free
// the strings that it is given.
template <>
struct Wire<c10::Scalar> {
  using Stable = std::vector<int64_t>;
  using Hold = c10::Scalar;
  static std::string name() { return "int[]"; }
  static Stable out(const c10::Scalar& value) { return value.words(); }
  static Hold in(const Stable& words) { return c10::Scalar::of(words); }
};
template <>
struct Wire<c10::ArrayRef<c10::Scalar>> {
  using Stable = std::vector<int64_t>;
  using Hold = std::vector<c10::Scalar>;
  static std::string name() { return "int[]"; }
  static Stable out(c10::ArrayRef<c10::Scalar> list) {
    Stable all;
    for (const c10::Scalar& value : list)
      for (const int64_t word : value.words()) all.push_back(word);
    return all;
  }
  static Hold in(const Stable& words) {
    Hold all;
    for (size_t i = 0; i + 2 < words.size(); i += 3)
      all.push_back(c10::Scalar::of({words[i], words[i + 1], words[i + 2]}));
    return all;
  }
};
template <>
struct Wire<std::vector<c10::Scalar>> : Wire<c10::ArrayRef<c10::Scalar>> {};

template <>
struct Wire<at::Generator> {
  using Stable = int64_t;
  using Hold = at::Generator;
  static std::string name() { return "int"; }
  static Stable out(const at::Generator& generator) { return generator.address(); }
  static Hold in(Stable address) { return at::Generator(address); }
};

// An enum of the source's own, which py::enum_ gives Python: its values cross as integers.
template <class T>
inline constexpr bool is_own_enum = std::is_enum_v<T> && !std::is_same_v<T, c10::ScalarType> &&
                                    !std::is_same_v<T, c10::MemoryFormat> && !std::is_same_v<T, c10::Layout>;
template <class T>
std::vector<int64_t>& values_of_enum() {
  static auto& all = *new std::vector<int64_t>;
  return all;
}
template <class T>
struct Wire<T, std::enable_if_t<is_own_enum<T>>> {
  using Stable = int64_t;
  using Hold = T;
  static std::string name() { return "int"; }
  static Stable out(T value) { return static_cast<int64_t>(value); }
  static Hold in(Stable value) {
    const auto& known = values_of_enum<T>();
    if (std::find(known.begin(), known.end(), value) == known.end())
      throw std::runtime_error(text(kWrongArguments, ": ", value, " is no value of this enum: bind it by py::enum_"));
    return static_cast<T>(value);
  }
};

template <class List, class T>
struct ListWire {
  static_assert(!is_own_enum<T>, "aten_stable: a list of enums is not covered: take integers");
  using Stable = std::vector<typename Wire<T>::Stable>;
  using Hold = std::vector<T>;
  static std::string name() { return Wire<T>::name() + "[]"; }
  static Stable out(const List& list) {
    Stable all;
    all.reserve(list.size());
    for (const auto& value : list) all.push_back(Wire<T>::out(value));
    return all;
  }
  static Hold in(Stable list) {
    Hold all;
    all.reserve(list.size());
    for (auto&& value : list) all.push_back(Wire<T>::in(std::move(value)));
    return all;
  }
};
template <class T>
struct Wire<std::vector<T>> : ListWire<std::vector<T>, T> {};
template <class T>
struct Wire<c10::ArrayRef<T>> : ListWire<c10::ArrayRef<T>, T> {};

template <class T>
struct Wire<c10::List<T>> : ListWire<c10::List<T>, T> {
  using Hold = c10::List<T>;
  static Hold in(typename ListWire<c10::List<T>, T>::Stable list) {
    return ListWire<c10::List<T>, T>::in(std::move(list));
  }
};

// Lists of so many: Python gives a list or a tuple.
inline void check_count(size_t wanted, size_t given) {
  if (given != wanted)
    throw std::runtime_error(text(kWrongArguments, ": ", wanted, " values are expected, got ", given));
}
template <class T, size_t N>
struct Wire<std::array<T, N>> : ListWire<std::array<T, N>, T> {
  using Hold = std::array<T, N>;
  static Hold in(typename ListWire<std::array<T, N>, T>::Stable list) {
    check_count(N, list.size());
    const std::vector<T> values = ListWire<std::array<T, N>, T>::in(std::move(list));
    Hold all;
    std::copy(values.begin(), values.end(), all.begin());
    return all;
  }
};
template <class All, class First, class... Rest>
struct TupleWire {
  using Value = typename Wire<First>::Stable;
  static_assert((std::is_same_v<Value, typename Wire<Rest>::Stable> && ...) && !std::is_same_v<Value, bool>,
                "aten_stable: a tuple of several types, or of bool, cannot cross the dispatcher: take its parts as "
                "arguments");
  using Stable = std::vector<Value>;
  using Hold = All;
  static std::string name() { return Wire<First>::name() + "[]"; }
  static Stable out(const All& values) {
    return std::apply([](const First& first,
                         const Rest&... rest) { return Stable{Wire<First>::out(first), Wire<Rest>::out(rest)...}; },
                      values);
  }
  static Hold in(Stable list) {
    check_count(1 + sizeof...(Rest), list.size());
    return in(list, std::index_sequence_for<Rest...>());
  }
  template <size_t... I>
  static Hold in(Stable& list, std::index_sequence<I...>) {
    return {Wire<First>::in(std::move(list[0])), Wire<Rest>::in(std::move(list[1 + I]))...};
  }
};
template <class... T>
struct Wire<std::tuple<T...>> : TupleWire<std::tuple<T...>, T...> {};
template <class A, class B>
struct Wire<std::pair<A, B>> : TupleWire<std::pair<A, B>, A, B> {};

template <>
struct Wire<c10::OptionalIntArrayRef> {
  using Stable = std::optional<std::vector<int64_t>>;
  using Hold = std::optional<std::vector<int64_t>>;
  static std::string name() { return "int[]?"; }
  static Stable out(const c10::OptionalIntArrayRef& list) { return list ? Stable(list.value().vec()) : std::nullopt; }
  static Hold in(Stable list) { return list; }
};

template <class T>
struct Wire<std::optional<T>> {
  using Stable = std::optional<typename Wire<T>::Stable>;
  using Hold = std::optional<typename Wire<T>::Hold>;
  static std::string name() { return Wire<T>::name() + "?"; }
  static Stable out(const std::optional<T>& value) {
    return value ? Stable(Wire<T>::out(*value)) : Stable(std::nullopt);
  }
  static Hold in(Stable value) { return value ? Hold(Wire<T>::in(std::move(*value))) : Hold(std::nullopt); }
};

// What the module in front of the library converts for the dispatcher: numbers to integers, generators to addresses.
template <class T>
inline constexpr bool is_object = std::is_base_of_v<ObjectWire<T>, Wire<T>>;
template <class T>
inline constexpr const char* python_kind = is_own_enum<T> ? "enum"
                                           : is_object<T> ? "object"
                                                          : "";
template <class T>
inline constexpr const char* python_kind<std::shared_ptr<T>> = "shared";
template <class T>
inline constexpr const char* python_kind<std::vector<T>> =
    python_kind<T>[0] == 'o' || python_kind<T>[0] == 's' ? "objects" : "";
template <>
inline constexpr const char* python_kind<c10::Scalar> = "number";
template <>
inline constexpr const char* python_kind<c10::ArrayRef<c10::Scalar>> = "numbers";
template <>
inline constexpr const char* python_kind<std::vector<c10::Scalar>> = "numbers";
template <>
inline constexpr const char* python_kind<at::Generator> = "generator";
template <class T>
inline constexpr const char* python_kind<std::optional<T>> = python_kind<T>;

// And what it converts of results: torch.ops gives a dtype as a number.
template <class T>
inline constexpr const char* result_kind = python_kind<T>;
template <>
inline constexpr const char* result_kind<c10::ScalarType> = "dtype";
template <class T>
inline constexpr const char* result_kind<std::optional<T>> = result_kind<T>;

// The class of an object, also of what a list or a pointer holds.
template <class T>
struct ClassOf {
  using type = T;
};
template <class T>
struct ClassOf<std::shared_ptr<T>> : ClassOf<std::remove_const_t<T>> {};
template <class T>
struct ClassOf<std::vector<T>> : ClassOf<T> {};
template <class T>
struct ClassOf<std::optional<T>> : ClassOf<T> {};
// With an object's kind stands its class: "object N5theirs6ConfigE".
template <class T>
std::string with_class(const char* kind) {
  if (kind[0] != 'o' && kind[0] != 's') return kind;
  return text(kind, " ", typeid(typename ClassOf<T>::type).name());
}

template <class T>
using Bare = std::remove_cv_t<std::remove_reference_t<T>>;

// torch's own conversion takes no std::vector<bool>.
inline StableIValue give_bools(const std::vector<bool>& values) {
  StableListHandle list = nullptr;
  TORCH_ERROR_CODE_CHECK(torch_new_list_reserve_size(values.size(), &list));
  for (const bool value : values)
    TORCH_ERROR_CODE_CHECK(torch_list_push_back(list, torch::stable::detail::from(value)));
  return torch::stable::detail::from(list);
}

template <class T>
StableIValue give(const T& value) {
  if constexpr (std::is_same_v<typename Wire<T>::Stable, std::vector<bool>>)
    return give_bools(Wire<T>::out(value));
  else
    return torch::stable::detail::from(Wire<T>::out(value));
}

template <class T>
typename Wire<T>::Hold take(StableIValue value) {
  if constexpr (std::is_same_v<typename Wire<T>::Stable, std::string>) {  // torch's own conversion leaks the string
    const auto handle = torch::stable::detail::to<StringHandle>(value);
    size_t length = 0;
    const char* data = nullptr;
    TORCH_ERROR_CODE_CHECK(torch_string_length(handle, &length));
    TORCH_ERROR_CODE_CHECK(torch_string_c_str(handle, &data));
    std::string copy(data, length);
    TORCH_ERROR_CODE_CHECK(torch_delete_string(handle));
    return Wire<T>::in(std::move(copy));
  } else {
    return Wire<T>::in(torch::stable::detail::to<typename Wire<T>::Stable>(value));
  }
}

}  // namespace ATEN_STABLE_VERSION
}  // namespace aten_stable
