#error "aten_stable: <ATen/native/TensorIterator.h> is not covered: TensorIterator is not covered: loop over data_ptr() or accessors"
