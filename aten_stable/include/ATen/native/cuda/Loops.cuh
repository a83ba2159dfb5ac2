#error "aten_stable: <ATen/native/cuda/Loops.cuh> is not covered: gpu_kernel is not covered: write the kernel"
