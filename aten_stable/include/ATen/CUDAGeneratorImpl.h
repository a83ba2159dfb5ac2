#error "aten_stable: <ATen/CUDAGeneratorImpl.h> is not covered: random generators are not covered: take a tensor of random numbers, or a seed, from Python"
