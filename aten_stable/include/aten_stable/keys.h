// Dispatch keys, and tags of operators.
#pragma once

#include "core.h"

namespace c10 {
inline namespace ATEN_STABLE_VERSION {

// clang-format off
#define ATEN_STABLE_KEYS(X) \
  X(CPU) X(CUDA) X(Meta) X(XPU) X(MPS) X(PrivateUse1) X(SparseCPU) X(SparseCUDA) X(QuantizedCPU) X(QuantizedCUDA) \
  X(ADInplaceOrView) X(Autograd) X(AutogradOther) X(AutogradCPU) X(AutogradCUDA) X(AutogradMeta) X(AutogradXPU) \
  X(AutogradMPS) X(AutogradPrivateUse1) X(Autocast) X(AutocastCPU) X(AutocastCUDA) X(AutocastXPU) X(AutocastMPS) \
  X(BackendSelect) X(CompositeExplicitAutograd) X(CompositeImplicitAutograd)
// clang-format on
enum class DispatchKey : uint16_t {
#define X(key) key,
  ATEN_STABLE_KEYS(X)
#undef X
};
inline const char* toString(DispatchKey key) {
  static constexpr const char* names[] = {
#define X(key) #key,
      ATEN_STABLE_KEYS(X)
#undef X
  };
  return names[static_cast<size_t>(key)];
}

}  // namespace ATEN_STABLE_VERSION
}  // namespace c10

#if __has_include(<torch/headeronly/core/enum_tag.h>)
#include <torch/headeronly/core/enum_tag.h>
#else
namespace at {
enum class Tag { pt2_compliant_tag, needs_fixed_stride_order, needs_exact_strides, flexible_layout };
}  // namespace at
#endif
