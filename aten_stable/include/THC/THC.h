#error "aten_stable: <THC/THC.h> is not covered: THC is gone from torch: include <ATen/cuda/CUDAContext.h>"
