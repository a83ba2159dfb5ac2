#error "aten_stable: <torch/nn.h> is not covered: torch::nn is not covered: write modules in Python"
