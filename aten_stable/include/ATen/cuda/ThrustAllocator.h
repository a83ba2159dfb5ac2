#error "aten_stable: <ATen/cuda/ThrustAllocator.h> is not covered: write thrust::cuda::par.on(stream)"
