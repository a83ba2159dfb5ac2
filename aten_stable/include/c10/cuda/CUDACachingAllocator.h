#error "aten_stable: <c10/cuda/CUDACachingAllocator.h> is not covered: the caching allocator is not covered: allocate with at::empty"
