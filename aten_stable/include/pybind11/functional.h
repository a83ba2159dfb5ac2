#error "aten_stable: <pybind11/functional.h> is not covered: Python callables are not covered: call back in Python"
