#error "aten_stable: <ATen/native/GridSampler.h> is not covered: copy the formulas that you use, or call at::grid_sampler"
