#error "aten_stable: <ATen/NativeFunctions.h> is not covered: include <ATen/ATen.h>"
