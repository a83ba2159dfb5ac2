#error "aten_stable: <ATen/cuda/PinnedMemoryAllocator.h> is not covered: write at::empty(sizes, options.pinned_memory(true))"
