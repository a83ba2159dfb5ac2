// torch::indexing: what x.index({...}) and x.index_put_({...}, value) take.
#pragma once

#include "tensor.h"

namespace at {
inline namespace ATEN_STABLE_VERSION {
namespace indexing {

enum class EllipsisIndexType { Ellipsis };
constexpr EllipsisIndexType Ellipsis = EllipsisIndexType::Ellipsis;
constexpr std::nullopt_t None = std::nullopt;

struct Slice {
  Slice(std::optional<int64_t> start = std::nullopt, std::optional<int64_t> stop = std::nullopt,
        std::optional<int64_t> step = std::nullopt)
      : start_(start), stop_(stop), step_(step.value_or(1)) {
    TORCH_CHECK_VALUE(step_ != 0, "slice step cannot be zero");
  }
  std::optional<int64_t> start_, stop_;
  int64_t step_;
};

struct TensorIndex {
  enum class Kind { kNone, kEllipsis, kInteger, kBool, kSlice, kTensor } kind;
  TensorIndex(std::nullopt_t) : kind(Kind::kNone) {}
  TensorIndex(EllipsisIndexType) : kind(Kind::kEllipsis) {}
  TensorIndex(const char* dots) : kind(Kind::kEllipsis) {
    TORCH_CHECK_VALUE(std::string_view(dots) == "...", "Expected \"...\" to represent an ellipsis index, but got \"",
                      dots, "\"");
  }
  template <class T, std::enable_if_t<std::is_integral_v<T>, int> = 0>
  TensorIndex(T value) : kind(std::is_same_v<T, bool> ? Kind::kBool : Kind::kInteger), integer(value) {}
  TensorIndex(Slice s) : kind(Kind::kSlice), slice(s) {}
  TensorIndex(Tensor t) : kind(Kind::kTensor), tensor(std::move(t)) {}
  int64_t integer = 0;
  Slice slice;
  Tensor tensor;
};

}  // namespace indexing
}  // namespace ATEN_STABLE_VERSION
}  // namespace at
