#error "aten_stable: <ATen/cuda/CUDAGraphsUtils.cuh> is not covered: random generators are not covered: take a tensor of random numbers, or a seed, from Python"
