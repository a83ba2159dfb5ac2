#error "aten_stable: <ATen/native/cuda/MemoryAccess.cuh> is not covered: write the load and store of several elements as one of float4 or int4"
