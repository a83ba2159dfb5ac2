#error "aten_stable: <ATen/native/UpSample.h> is not covered: copy the formulas that you use, or call at::upsample_bilinear2d and its like"
