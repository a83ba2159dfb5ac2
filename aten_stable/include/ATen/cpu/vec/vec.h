#error "aten_stable: <ATen/cpu/vec/vec.h> is not covered: at::vec is not covered: loop over the elements: compilers use the vectors of the machine"
