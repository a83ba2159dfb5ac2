// dispatch() of dtype.h for the dtypes of tensors.
#pragma once

#include <cstdint>

#include "check.h"
#include "dtype.h"

namespace customops {

inline Dtype dtype_of(ScalarType dtype) {
  switch (dtype) {
    case ScalarType::Float: return Dtype::kFloat32;
    case ScalarType::Double: return Dtype::kFloat64;
    case ScalarType::Half: return Dtype::kFloat16;
    case ScalarType::BFloat16: return Dtype::kBFloat16;
    default: fail("internal error: the dtype ", to_string(dtype), " passed check_dtype");
  }
}

template <class F>
void dispatch(ScalarType dtype, const F& f) {
  dispatch(dtype_of(dtype), f);
}

// The same for code that only moves elements: f gets an unsigned integer of their size.
template <class F>
void dispatch_bits(ScalarType dtype, const F& f) {
  switch (dtype) {
    case ScalarType::Float: return f(uint32_t());
    case ScalarType::Double: return f(uint64_t());
    default: return f(uint16_t());
  }
}

}  // namespace customops
