// New tensors on the device of an input, and dense versions of one. Both avoid the dispatcher, which costs a
// microsecond: memory comes straight from the allocator, and what is dense already is seen to be here.
#pragma once

#include "check.h"

namespace customops {

// What follows from torch's refusal of so much memory. A torch that gives no text, before 2.13, is taken to have none
// left where that is a GPU's.
[[gnu::cold]] inline TorchError no_memory(const std::string& what, const std::string& device, const TorchError& error) {
  return TorchError("no memory for " + what + " on " + device + ": " + error.what(),
                    error.out_of_memory || (device != "cpu" && torch_text() == nullptr));
}

// f(), which makes a tensor of these sizes on t's device. If torch refuses, the message has its shape.
template <class F>
Tensor allocated(const Tensor& t, IntHeaderOnlyArrayRef sizes, const F& f) {
  try {
    return f();
  } catch (const TorchError& error) {
    throw no_memory("a tensor of shape " + to_string(sizes), device_name(t), error);
  }
}

// A new tensor of t's device, and of its dtype or float32.
inline Tensor empty_strided(const Tensor& t, IntHeaderOnlyArrayRef sizes, IntHeaderOnlyArrayRef strides,
                            bool float32 = false) {
  int32_t dtype = aoti_torch_dtype_float32(), device;
  AtenTensorHandle out;
  if (!float32) STABLE_TORCH_ERROR_CODE_CHECK(aoti_torch_get_dtype(t.get(), &dtype));
  STABLE_TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_type(t.get(), &device));
  return allocated(t, sizes, [&] {
    STABLE_TORCH_ERROR_CODE_CHECK(aoti_torch_empty_strided(sizes.size(), sizes.data(), strides.data(), dtype, device,
                                                           t.is_cpu() ? 0 : t.get_device_index(), &out));
    return Tensor(out);
  });
}

// A new tensor like t. Its strides are t's where t is dense; torch decides otherwise, as its own elementwise ops do.
inline Tensor new_like(const Tensor& t) {
  if (t.is_contiguous()) return empty_strided(t, t.sizes(), t.strides());
  return allocated(t, t.sizes(), [&] { return torch::stable::empty_like(t); });
}

// t, or a copy where t isn't contiguous.
inline Tensor dense(const Tensor& t) {
  if (t.is_contiguous()) return t;
  return allocated(t, t.sizes(), [&] { return torch::stable::contiguous(t); });
}

// The same for an image, (N, C, H, W), in either memory format.
inline Tensor dense_image(const Tensor& t, bool channels_last) {
  if (!channels_last) return dense(t);
  const int64_t c = t.size(1), row = t.size(3) * c;
  if (t.stride(0) == t.size(2) * row && t.stride(1) == 1 && t.stride(2) == row && t.stride(3) == c) return t;
  return allocated(t, t.sizes(),
                   [&] { return torch::stable::contiguous(t, torch::headeronly::MemoryFormat::ChannelsLast); });
}

}  // namespace customops
