#error "aten_stable: <torch/csrc/autograd/custom_function.h> is not covered: torch::autograd::Function is not covered: write it in Python"
