// flatten_copy: the elements of x in row-major order, as a new 1-D tensor. Reads x once, writes the copy once; an
// elementwise op whose output has the strides of a contiguous x.
#include "pointwise.cuh"

namespace customops::cuda {

struct Copy {
  template <class A>
  __device__ A operator()(A x) const {
    return x;
  }
};

void copy_strided(const char* op, const Tensor& from, Tensor& out) {
  dispatch_bits(from.scalar_type(),
                [&](auto zero) { pointwise_into<decltype(zero)>(op, out, out.sizes(), out.strides(), Copy(), from); });
}

void copy_walk(const Tensor& like, const Walk<1>& walk, const void* from, void* to, int64_t n, cudaStream_t stream) {
  const auto is_part = [](const auto& walk, int64_t n) { return n < kMaxPart && all_within_reach(walk, walk.dims); };
  dispatch_bits(like.scalar_type(), [&](auto zero) {
    using T = decltype(zero);
    const Pointers<T, 1> p{{static_cast<const T*>(from)}, static_cast<T*>(to)};
    for_each_part(walk, p, n, is_part, [&](const auto& part, const auto& pointers, int64_t elements) {
      launch_strided(part, pointers, elements, Copy(), stream);
    });
  });
}

Tensor flatten_copy(const Tensor& x) {
  check_dtype("flatten_copy", "x", x);
  const int64_t n = x.numel(), one = 1;
  Tensor out = empty_strided(x, {&n, 1}, {&one, 1});
  dispatch_bits(x.scalar_type(), [&](auto zero) {
    pointwise_into<decltype(zero)>("flatten_copy", out, x.sizes(), contiguous_strides(x.sizes()), Copy(), x);
  });
  return out;
}

}  // namespace customops::cuda

STABLE_TORCH_LIBRARY_IMPL(customops, CUDA, m) {
  m.impl("flatten_copy", CUSTOMOPS_BOX("flatten_copy", &customops::cuda::flatten_copy));
  m.impl("_flatten_copy", CUSTOMOPS_BOX("flatten_copy", &customops::cuda::flatten_copy));
}
