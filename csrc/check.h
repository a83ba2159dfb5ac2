// Input checks that every op shares. A message names the op, the argument, what was expected and what came.
#pragma once

#include <torch/headeronly/core/ScalarType.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "stable.h"

namespace customops {

using torch::headeronly::IntHeaderOnlyArrayRef;
using torch::headeronly::ScalarType;
using torch::stable::Tensor;

// Adds text or a number to a message: less code than a stream in every caller.
template <class T>
[[gnu::cold]] [[gnu::noinline]] void append(std::string& message, T part) {
  if constexpr (std::is_floating_point_v<T>) {
    std::ostringstream digits;  // whatever LC_NUMERIC says
    digits << part;
    message += digits.str();
  } else if constexpr (std::is_integral_v<T>) {
    static_assert(sizeof(T) > 1, "a letter or a number?");
    message += std::to_string(part);
  } else {
    static_assert(std::is_convertible_v<T, std::string>, "text or a number");
    message += part;
  }
}

// Throws what Python sees as a RuntimeError.
template <class... Args>
[[noreturn]] [[gnu::cold]] [[gnu::noinline]] void fail(Args... args) {
  std::string message;
  (append(message, args), ...);
  throw std::runtime_error(message);
}

inline std::string to_string(IntHeaderOnlyArrayRef sizes) {
  std::string text = "(";
  for (size_t d = 0; d < sizes.size(); ++d) text += (d ? ", " : "") + std::to_string(sizes[d]);
  return text + (sizes.size() == 1 ? ",)" : ")");
}

// The name that Python users know: torch.float32, not Float.
inline std::string to_string(ScalarType dtype) {
  switch (dtype) {
    case ScalarType::Float: return "torch.float32";
    case ScalarType::Double: return "torch.float64";
    case ScalarType::Half: return "torch.float16";
    case ScalarType::BFloat16: return "torch.bfloat16";
    case ScalarType::Byte: return "torch.uint8";
    case ScalarType::Char: return "torch.int8";
    case ScalarType::Short: return "torch.int16";
    case ScalarType::Int: return "torch.int32";
    case ScalarType::Long: return "torch.int64";
    case ScalarType::UInt16: return "torch.uint16";
    case ScalarType::UInt32: return "torch.uint32";
    case ScalarType::UInt64: return "torch.uint64";
    case ScalarType::Bool: return "torch.bool";
    case ScalarType::Float8_e5m2: return "torch.float8_e5m2";
    case ScalarType::Float8_e4m3fn: return "torch.float8_e4m3fn";
    case ScalarType::ComplexHalf: return "torch.complex32";
    case ScalarType::ComplexFloat: return "torch.complex64";
    case ScalarType::ComplexDouble: return "torch.complex128";
    default: return torch::headeronly::toString(dtype);
  }
}

inline std::string device_name(const Tensor& t) {
  return t.is_cpu() ? "cpu" : (t.is_cuda() ? "cuda:" : "device ") + std::to_string(t.get_device_index());
}

inline void check_dtype(const char* op, const char* name, const Tensor& t) {
  switch (t.scalar_type()) {
    case ScalarType::Float:
    case ScalarType::Double:
    case ScalarType::Half:
    case ScalarType::BFloat16: return;
    default: fail(op, ": ", name, " must be float32, float64, float16 or bfloat16, got ", to_string(t.scalar_type()));
  }
}

inline void check_device(const char* op, const char* like_name, const Tensor& like, const char* name, const Tensor& t) {
  if (t.is_cpu() != like.is_cpu() || t.get_device_index() != like.get_device_index())
    fail(op, ": ", name, " must be on the device of ", like_name, ", ", device_name(like), ", got ", device_name(t));
}

// `t` has to match `like` in dtype, device and shape: these ops neither promote nor broadcast.
inline void check_same(const char* op, const char* like_name, const Tensor& like, const char* name, const Tensor& t) {
  if (t.scalar_type() != like.scalar_type())
    fail(op, ": ", name, " must have the dtype of ", like_name, ", ", to_string(like.scalar_type()), ", got ",
         to_string(t.scalar_type()));
  check_device(op, like_name, like, name, t);
  auto expected = like.sizes(), got = t.sizes();
  if (expected.size() != got.size() || !std::equal(expected.begin(), expected.end(), got.begin()))
    fail(op, ": ", name, " must have the shape of ", like_name, ", ", to_string(expected), ", got ", to_string(got),
         " (expand it first: this op does not broadcast)");
}

// A result of these sizes can be addressed; otherwise products of sizes, such as strides, would leave 64 bits.
inline void check_numel(const char* op, IntHeaderOnlyArrayRef sizes) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max() / 8;  // bytes of the widest element
  int64_t numel = 1;
  for (size_t d = 0; d < sizes.size(); ++d) {
    const int64_t size = sizes[d] > 1 ? sizes[d] : 1;  // an empty tensor has strides as well
    if (numel > kMost / size) fail(op, ": a result of shape ", to_string(sizes), " is more than memory can hold");
    numel *= size;
  }
}

// `value` becomes a float32 for every dtype but float64: it has to fit, unless it is infinite or NaN already.
inline void check_fits(const char* op, const char* name, double value, ScalarType dtype) {
  if (dtype != ScalarType::Double && std::isfinite(value) && std::abs(value) > std::numeric_limits<float>::max())
    fail(op, ": ", name, " must fit into float32, the type of the arithmetic for ", to_string(dtype), ", got ", value);
}

}  // namespace customops
