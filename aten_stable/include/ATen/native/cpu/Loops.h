#error "aten_stable: <ATen/native/cpu/Loops.h> is not covered: cpu_kernel is not covered: loop over data_ptr() or accessors"
