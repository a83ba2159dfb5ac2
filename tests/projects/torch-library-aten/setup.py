from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension

# Nothing of CPython is used, which Py_LIMITED_API makes sure of; the torch that it is built with still counts.
extension = CppExtension(
    "wherelerp._C",
    ["csrc/wherelerp.cpp"],
    extra_compile_args=["-O3", "-DPy_LIMITED_API=0x030A0000"],
    py_limited_api=True,
)
setup(
    ext_modules=[extension],
    cmdclass={"build_ext": BuildExtension},
    options={"bdist_wheel": {"py_limited_api": "cp310"}},
)
