#error "aten_stable: <ATen/cuda/CUDAApplyUtils.cuh> is not covered: write the kernel with CUDA_KERNEL_LOOP"
