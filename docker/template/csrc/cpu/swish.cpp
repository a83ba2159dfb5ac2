// swish on the CPU, elementwise: reads x once, writes the result once.
#include "../swish.h"

#include <torch/csrc/stable/library.h>

namespace myops::cpu {

Tensor swish(const Tensor& x) {
  const Tensor in = torch::stable::contiguous(x), out = torch::stable::empty_like(in);
  dispatch("swish", x, [&](auto type) {
    using T = decltype(type);
    const T* from = in.const_data_ptr<T>();
    T* to = out.mutable_data_ptr<T>();
    for (int64_t i = 0, n = in.numel(); i < n; ++i) to[i] = myops::swish(from[i]);
  });
  return out;
}

Tensor swish_backward(const Tensor& grad, const Tensor& x) {
  check_same(grad, x);
  const Tensor in = torch::stable::contiguous(x), gradient = torch::stable::contiguous(grad);
  const Tensor out = torch::stable::empty_like(in);
  dispatch("swish_backward", x, [&](auto type) {
    using T = decltype(type);
    const T *from = in.const_data_ptr<T>(), *of = gradient.const_data_ptr<T>();
    T* to = out.mutable_data_ptr<T>();
    for (int64_t i = 0, n = in.numel(); i < n; ++i) to[i] = of[i] * swish_derivative(from[i]);
  });
  return out;
}

}  // namespace myops::cpu

STABLE_TORCH_LIBRARY_IMPL(myops, CPU, m) {
  m.impl("swish", TORCH_BOX(&myops::cpu::swish));
  m.impl("swish_backward", TORCH_BOX(&myops::cpu::swish_backward));
}
