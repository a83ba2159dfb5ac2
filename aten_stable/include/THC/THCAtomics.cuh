#error "aten_stable: <THC/THCAtomics.cuh> is not covered: THC is gone from torch: include <ATen/cuda/Atomic.cuh>"
