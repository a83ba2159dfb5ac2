#error "aten_stable: <c10/core/TensorImpl.h> is not covered: the stable ABI has no TensorImpl: use the members of at::Tensor"
