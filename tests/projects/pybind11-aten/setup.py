from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension

setup(
    ext_modules=[CppExtension("softclip._C", ["csrc/bindings.cpp", "csrc/softclip.cpp"])],
    cmdclass={"build_ext": BuildExtension},
)
