#error "aten_stable: <pybind11/numpy.h> is not covered: py::array is not covered: take at::Tensor, and torch.from_numpy in Python"
