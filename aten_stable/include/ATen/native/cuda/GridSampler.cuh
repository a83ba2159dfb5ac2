#error "aten_stable: <ATen/native/cuda/GridSampler.cuh> is not covered: copy the formulas that you use, or call at::grid_sampler"
