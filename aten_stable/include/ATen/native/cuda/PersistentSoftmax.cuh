#error "aten_stable: <ATen/native/cuda/PersistentSoftmax.cuh> is not covered: call at::softmax"
