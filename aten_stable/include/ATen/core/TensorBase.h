#error "aten_stable: <ATen/core/TensorBase.h> is not covered: include <ATen/ATen.h>"
