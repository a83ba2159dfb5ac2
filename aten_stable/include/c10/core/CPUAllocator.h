#error "aten_stable: <c10/core/CPUAllocator.h> is not covered: take the memory of a tensor: at::empty({bytes}, at::kByte)"
