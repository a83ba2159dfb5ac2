// The four dtypes of every op. dispatch(dtype, [&](auto zero) { using T = decltype(zero); ... }) runs the body for one.
// A function, where torch has macros: a macro would split the body at its commas.
#pragma once

#include <torch/headeronly/util/BFloat16.h>
#include <torch/headeronly/util/Half.h>

#include "check.h"

namespace customops {

template <class F>
void dispatch(ScalarType dtype, const F& f) {
  switch (dtype) {
    case ScalarType::Float: return f(float());
    case ScalarType::Double: return f(double());
    case ScalarType::Half: return f(c10::Half());
    case ScalarType::BFloat16: return f(c10::BFloat16());
    default: fail("internal error: the dtype ", to_string(dtype), " passed check_dtype");
  }
}

}  // namespace customops
