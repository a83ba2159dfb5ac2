#error "aten_stable: <ATen/cuda/cub.cuh> is not covered: include <cub/cub.cuh>, with memory of at::empty"
