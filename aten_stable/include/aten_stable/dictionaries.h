// Dictionaries in signatures: std::map, std::unordered_map and c10::Dict, which Python has as a dict.
//
// The stable ABI passes none. One crosses the dispatcher as a list of tensors, the keys before the values, and the
// Python file in front of the library (_face.py) turns it into a dict and back.
#pragma once

#include "factories.h"

namespace aten_stable {
inline namespace ATEN_STABLE_VERSION {

using Parts = std::vector<torch::stable::Tensor>;

template <class T>
void put_row(Parts& parts, const std::vector<T>& values) {
  const at::Tensor row = at::empty({static_cast<int64_t>(values.size())}, c10::CppTypeToScalarType<T>::value);
  if (!values.empty()) std::memcpy(row.mutable_data_ptr(), values.data(), values.size() * sizeof(T));
  parts.push_back(row.stable());
}
template <class T>
std::vector<T> take_row(const Parts& parts, size_t& at) {
  const at::Tensor row(parts.at(at++));
  const T* const first = row.const_data_ptr<T>();
  return {first, first + row.numel()};
}

// A list of T as parts; a list of tensors comes last.
template <class T, class = void>
struct Packed {
  static_assert(never<T>,
                "aten_stable: this dictionary cannot cross the dispatcher. Covered: keys that are std::string or "
                "integers; values that are Tensor, std::string, bool, integers, float, double, or vectors of numbers");
};
template <class T>
struct Packed<T, std::enable_if_t<std::is_arithmetic_v<T>>> {
  using Wide = std::conditional_t<std::is_floating_point_v<T>, double, int64_t>;
  static constexpr std::string_view name = std::is_same_v<T, bool>        ? "bool"
                                           : std::is_same_v<Wide, double> ? "float"
                                                                          : "int";
  static void put(Parts& parts, const std::vector<T>& values) {
    put_row(parts, std::vector<Wide>(values.begin(), values.end()));
  }
  static std::vector<T> take(const Parts& parts, size_t& at) {
    std::vector<T> values;
    for (const Wide value : take_row<Wide>(parts, at)) values.push_back(Wire<T>::in(value));
    return values;
  }
};
template <class T>
struct Packed<std::vector<T>, std::enable_if_t<std::is_arithmetic_v<T>>> {
  static constexpr std::string_view name = std::is_same_v<T, bool>                            ? "bool[]"
                                           : std::is_same_v<typename Packed<T>::Wide, double> ? "float[]"
                                                                                              : "int[]";
  static void put(Parts& parts, const std::vector<std::vector<T>>& lists) {
    std::vector<int64_t> counts;
    std::vector<T> values;
    for (const auto& list : lists) {
      counts.push_back(static_cast<int64_t>(list.size()));
      values.insert(values.end(), list.begin(), list.end());
    }
    put_row(parts, counts);
    Packed<T>::put(parts, values);
  }
  static std::vector<std::vector<T>> take(const Parts& parts, size_t& at) {
    const auto counts = take_row<int64_t>(parts, at);
    const auto values = Packed<T>::take(parts, at);
    std::vector<std::vector<T>> lists;
    auto first = values.begin();
    for (const int64_t count : counts) {
      lists.emplace_back(first, first + count);
      first += count;
    }
    return lists;
  }
};
template <>
struct Packed<std::string> {
  static constexpr std::string_view name = "str";
  static void put(Parts& parts, const std::vector<std::string>& texts) {
    std::vector<std::vector<uint8_t>> bytes;
    for (const auto& text : texts) bytes.emplace_back(text.begin(), text.end());
    Packed<std::vector<uint8_t>>::put(parts, bytes);
  }
  static std::vector<std::string> take(const Parts& parts, size_t& at) {
    std::vector<std::string> texts;
    for (const auto& bytes : Packed<std::vector<uint8_t>>::take(parts, at))
      texts.emplace_back(bytes.begin(), bytes.end());
    return texts;
  }
};
template <>
struct Packed<at::Tensor> {
  static constexpr std::string_view name = "Tensor";
  static void put(Parts& parts, const std::vector<at::Tensor>& tensors) {
    for (const at::Tensor& tensor : tensors) parts.push_back(tensor.stable());
  }
  static std::vector<at::Tensor> take(const Parts& parts, size_t& at) {
    std::vector<at::Tensor> tensors;
    while (at < parts.size()) tensors.emplace_back(parts[at++]);
    return tensors;
  }
};

template <class Map, class K, class V>
struct DictionaryWire {
  using Stable = Parts;
  using Hold = Map;
  static std::string name() { return "Tensor[]"; }
  static Stable out(const Map& all) {
    std::vector<K> keys;
    std::vector<V> values;
    for (const auto& entry : all) {
      if constexpr (std::is_same_v<Map, c10::Dict<K, V>>)
        keys.push_back(entry.key()), values.push_back(entry.value());
      else
        keys.push_back(entry.first), values.push_back(entry.second);
    }
    Stable parts;
    Packed<K>::put(parts, keys);
    Packed<V>::put(parts, values);
    return parts;
  }
  static Hold in(const Stable& parts) {
    size_t at = 0;
    std::vector<K> keys = Packed<K>::take(parts, at);
    std::vector<V> values = Packed<V>::take(parts, at);
    Map all;
    for (size_t i = 0; i < keys.size(); ++i) {
      if constexpr (std::is_same_v<Map, c10::Dict<K, V>>)
        all.insert(std::move(keys[i]), std::move(values[i]));
      else
        all.emplace(std::move(keys[i]), std::move(values[i]));
    }
    return all;
  }
};
template <class K, class V>
struct Wire<c10::Dict<K, V>> : DictionaryWire<c10::Dict<K, V>, K, V> {};
template <class K, class V>
struct Wire<std::map<K, V>> : DictionaryWire<std::map<K, V>, K, V> {};
template <class K, class V>
struct Wire<std::unordered_map<K, V>> : DictionaryWire<std::unordered_map<K, V>, K, V> {};

// "dict str Tensor"
template <class K, class V>
struct DictionaryKind {
  static constexpr std::array<char, 24> join() {
    std::array<char, 24> all{};
    size_t at = 0;
    for (const std::string_view part :
         {std::string_view("dict "), Packed<K>::name, std::string_view(" "), Packed<V>::name})
      for (const char c : part) all[at++] = c;
    return all;
  }
  static constexpr std::array<char, 24> text = join();
};
template <class K, class V>
inline constexpr const char* python_kind<c10::Dict<K, V>> = DictionaryKind<K, V>::text.data();
template <class K, class V>
inline constexpr const char* python_kind<std::map<K, V>> = DictionaryKind<K, V>::text.data();
template <class K, class V>
inline constexpr const char* python_kind<std::unordered_map<K, V>> = DictionaryKind<K, V>::text.data();

// The name of a type in a schema of torch's own, where it is not the one that crosses.
template <class T>
std::string torch_name() {
  const std::string_view kind = python_kind<T>;
  const std::string wire = Wire<T>::name();
  const char* const maybe = wire.back() == '?' ? "?" : "";
  if (kind == "number") return text("Scalar", maybe);
  if (kind == "numbers") return text("Scalar[]", maybe);
  if (kind == "generator") return text("Generator", maybe);
  if (kind.substr(0, 5) != "dict ") return wire;
  const size_t space = kind.find(' ', 5);
  return text("Dict(", kind.substr(5, space - 5), ", ", kind.substr(space + 1), ")", maybe);
}

}  // namespace ATEN_STABLE_VERSION
}  // namespace aten_stable
