#error "aten_stable: <ATen/cuda/CUDABlas.h> is not covered: cuBLAS is not covered: call at::matmul"
