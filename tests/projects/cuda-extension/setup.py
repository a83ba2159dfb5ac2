from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CUDAExtension

sources = ["csrc/bindings.cpp", "csrc/rowscale_cpu.cpp", "csrc/rowscale_cuda.cu"]
flags = {"cxx": ["-O3"], "nvcc": ["-O3", "--use_fast_math"]}
setup(
    ext_modules=[CUDAExtension("rowscale._C", sources, extra_compile_args=flags)],
    cmdclass={"build_ext": BuildExtension},
)
