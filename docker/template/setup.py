"""Builds myops/_cpu.so, and with FORCE_CUDA=1 also myops/_cuda.so; metadata: pyproject.toml.

Only the LibTorch stable ABI is used and no symbol of Python, so one wheel serves every Python and every torch from 2.10 on.
"""

import os
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from torch.utils import cpp_extension
from torch.utils.cpp_extension import BuildExtension, include_paths, library_paths

HERE = Path(__file__).resolve().parent
# A CPU build of torch compiles for GPUs just as well, but ignores CUDA_HOME: tell it.
CUDA_HOME = cpp_extension.CUDA_HOME = os.environ.get("CUDA_HOME") or cpp_extension.CUDA_HOME
ARCHITECTURES = "7.5 8.0 8.6 8.9 9.0+PTX"  # unless TORCH_CUDA_ARCH_LIST names others; PTX is for what comes after
CXX = [
    "-std=c++17", "-O3", "-g0", "-fvisibility=hidden",
    "-DTORCH_TARGET_VERSION=0x020a000000000000",  # the headers refuse what torch 2.10 lacks
    # No path of this machine ends up in an error message.
    f"-ffile-prefix-map={HERE}=.", f"-ffile-prefix-map={include_paths()[0]}=torch/include",
]  # fmt: skip
# libstdc++ comes along, hidden; libgcc_s stays shared, because torch catches what is thrown here.
LINK = [
    "-static-libstdc++",
    "-Wl,--exclude-libs,ALL",
    "-Wl,--version-script=csrc/exports.map",
    "-Wl,--gc-sections,--strip-all",
]


def library(name, sources, **more):
    return Extension(
        f"myops.{name}",
        sorted(sources),
        include_dirs=include_paths() + more.pop("include_dirs", []),
        library_dirs=library_paths() + more.pop("library_dirs", []),
        libraries=["torch_cpu", *more.pop("libraries", [])],
        extra_link_args=LINK,
        language="c++",
        py_limited_api=True,
        depends=["csrc/exports.map"],
        **more,
    )


def cuda():
    """The kernels for GPUs, with CUDA's runtime inside: the wheel asks for no CUDA of torch's, only for a driver."""
    if not CUDA_HOME or not Path(CUDA_HOME, "bin/nvcc").exists():
        raise SystemExit(f"error: FORCE_CUDA=1 needs a CUDA toolkit, and CUDA_HOME={CUDA_HOME or ''} has no bin/nvcc")
    os.environ.setdefault("TORCH_CUDA_ARCH_LIST", ARCHITECTURES)
    nvcc = [flag for flag in CXX if flag.startswith(("-std", "-O", "-D"))]
    nvcc += [f"-Xcompiler={flag}" for flag in CXX if flag.startswith("-f")]
    nvcc += ["-Xfatbin=-compress-all", "-objtemp"]  # temporary names stay out of the objects
    sources = ["csrc/cuda/swish.cu"]
    if len(sources) == 1:  # its path stays out, too; with more files, the same bytes take the same folder
        nvcc.append(f"-Xcudafe=--orig_src_path_name {sources[0]}")
    folders = [
        str(path)
        for path in (Path(CUDA_HOME, "lib64"), Path(CUDA_HOME, "lib"))
        if (path / "libcudart_static.a").exists()
    ]
    return library(
        "_cuda",
        sources,
        include_dirs=[f"{CUDA_HOME}/include"],
        library_dirs=folders,
        libraries=["cudart_static", "dl", "rt", "pthread"],
        extra_compile_args={"cxx": CXX, "nvcc": nvcc},
    )


class AnyPython(bdist_wheel):
    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


extensions = [library("_cpu", ["csrc/library.cpp", "csrc/cpu/swish.cpp"], extra_compile_args={"cxx": CXX})]
if os.environ.get("FORCE_CUDA", "0") == "1":  # asked for, never guessed from the machine
    extensions.append(cuda())

setup(
    ext_modules=extensions,
    cmdclass={"build_ext": BuildExtension.with_options(no_python_abi_suffix=True), "bdist_wheel": AnyPython},
)
