#error "aten_stable: <ATen/cuda/CUDAEvent.h> is not covered: use cudaEvent_t and getCurrentCUDAStream()"
