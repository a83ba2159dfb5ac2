// flatten_copy: the elements of x in row-major order, as a new 1-D tensor. Reads x once, writes the copy once.
//
// The seven parts of an ATen kernel, in their order: (1) the schema stands in library.cpp, the method variant in
// customops/flatten_copy.py; (2) the dispatch key is named at the bottom of this file; then, below, (3) error checking,
// (4) allocation of the output, (5) dispatch over dtypes, (6) parallelisation, (7) data access and the computation.
#include "../dispatch.h"
#include "simd.h"
#include "strided.h"

#include <torch/csrc/stable/library.h>

namespace customops::cpu {
namespace {

constexpr int64_t kBlock = 2048;  // elements a step: large enough to hide the index arithmetic of a strided row

template <class T>
void copy(const Walk<1>& walk, const T* x, T* y, int64_t begin, int64_t end) {
  for (; begin < end; begin += kBlock) {
    const int64_t n = std::min(kBlock, end - begin);
    const T* from = walk.read(0, x, begin, n, y + begin);
    if (from != y + begin) std::memcpy(y + begin, from, n * sizeof(T));
  }
}

}  // namespace

Tensor flatten_copy(const Tensor& x) {
  check_dtype("flatten_copy", "x", x);                                                            // (3)
  const int64_t n = x.numel(), one = 1;
  Tensor out = empty_strided(x, {&n, 1}, {&one, 1});                                              // (4)
  if (n == 0) return out;
  const Walk<1> walk(x.sizes(), contiguous_strides(x.sizes()), {&x});
  dispatch(x.scalar_type(), [&](auto zero) {                                                      // (5)
    using T = decltype(zero);
    const T* from = x.const_data_ptr<T>();
    T* to = out.mutable_data_ptr<T>();
    parallel(n, [&](int64_t begin, int64_t end) {                                                 // (6)
      run_simd([&] { copy(walk, from, to, begin, end); });                                        // (7)
    });
  });
  return out;
}

}  // namespace customops::cpu

STABLE_TORCH_LIBRARY_IMPL(customops, CPU, m) {
  m.impl("flatten_copy", TORCH_BOX(&customops::cpu::flatten_copy));
  m.impl("_flatten_copy", TORCH_BOX(&customops::cpu::flatten_copy));
}
