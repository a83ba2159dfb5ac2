#error "aten_stable: <pybind11/eigen.h> is not covered: take at::Tensor"
