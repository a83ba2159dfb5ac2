"""Builds customops/_cpu.so, a library of PyTorch ops that no CPython and no torch ABI is baked into.

Metadata stands in pyproject.toml. `pip install .` is enough; `make wheel` is the reproducible way.
"""

import json
import os
import platform
import shlex
import subprocess
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from torch import __version__ as torch_version
from torch.utils.cpp_extension import BuildExtension, include_paths, library_paths

ROOT = Path(__file__).parent

COMPILE_ARGS = [
    "-std=c++17",
    "-O3",
    "-g0",
    "-fvisibility=hidden",
    "-ffunction-sections",
    "-Wall",
    "-Wno-maybe-uninitialized",  # GCC's own AVX-512 headers trip over it
    # What torch 2.10 offers, whichever torch stands by: the headers then refuse anything newer.
    "-DTORCH_TARGET_VERSION=0x020a000000000000",
    # No absolute path of the build machine ends up in an error message: not the project's, not torch's headers'.
    f"-ffile-prefix-map={ROOT.resolve()}=.",
    f"-ffile-prefix-map={include_paths()[0]}=torch/include",
]
LINK_ARGS = [
    # libstdc++ comes along, hidden, so that the user's may be older. libgcc_s stays shared: an exception that is thrown
    # here is caught in libtorch, and both sides must unwind with the same library.
    "-static-libstdc++",
    "-Wl,--exclude-libs,ALL",
    "-Wl,--version-script=csrc/exports.map",
    "-Wl,--gc-sections",
    "-Wl,--strip-all",
]


def sources(device, suffix):
    """csrc/library.cpp and every kernel of one device, in an order that no file system decides."""
    return ["csrc/library.cpp", *sorted(p.relative_to(ROOT).as_posix() for p in ROOT.glob(f"csrc/{device}/*{suffix}"))]


class Wheel(bdist_wheel):
    """Tags the wheel py3-none: the library has no Python symbol, torch.ops.load_library opens it."""

    def get_tag(self):
        return "py3", "none", super().get_tag()[2]

    def egg2dist(self, egginfo_path, distinfo_path):
        """Adds the build record; docker/record.py completes it with what only the pipeline knows."""
        super().egg2dist(egginfo_path, distinfo_path)
        command = [*shlex.split(os.environ.get("CXX", "c++")), "--version"]
        record = {
            "version": self.distribution.get_version(),
            "compiler": subprocess.check_output(command, text=True).splitlines()[0],
            "python": platform.python_version(),
            "torch": str(torch_version),
            "compile_args": [
                flag.replace(str(ROOT.resolve()), "$SOURCE").replace(include_paths()[0], "$TORCH")
                for flag in COMPILE_ARGS
            ],
            "link_args": LINK_ARGS,
        }
        Path(distinfo_path, "build.json").write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")


setup(
    # The version stands in pyproject.toml; the label says that this build has no CUDA kernels.
    options={"egg_info": {"tag_build": "+cpu"}},
    ext_modules=[
        Extension(
            "customops._cpu",
            sources("cpu", ".cpp"),
            depends=["csrc/exports.map", *sorted(p.relative_to(ROOT).as_posix() for p in ROOT.glob("csrc/**/*.h"))],
            include_dirs=include_paths(),
            library_dirs=library_paths(),
            # Named, because torch is loaded RTLD_LOCAL: its symbols are found only through a library that needs it.
            libraries=["torch_cpu"],
            extra_compile_args=COMPILE_ARGS,
            extra_link_args=LINK_ARGS,
            language="c++",
            py_limited_api=True,
        )
    ],
    cmdclass={"build_ext": BuildExtension.with_options(no_python_abi_suffix=True), "bdist_wheel": Wheel},
)
