#error "aten_stable: <pybind11/embed.h> is not covered: call the library from Python"
