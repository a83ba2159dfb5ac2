#error "aten_stable: <ATen/TensorIterator.h> is not covered: TensorIterator is not covered: loop over data_ptr() or accessors"
