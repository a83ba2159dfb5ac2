"""Builds customops/_cpu.so, a library of PyTorch ops that no CPython and no torch ABI is baked into.

Metadata stands in pyproject.toml. `pip install .` is enough; `make wheel` is the reproducible way.
"""

import json
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from torch.utils.cpp_extension import BuildExtension, include_paths, library_paths

ROOT = Path(__file__).parent
TORCH_HEADERS = include_paths()[0]

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
    f"-ffile-prefix-map={TORCH_HEADERS}=torch/include",
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


def files(pattern):
    """Paths under csrc/, in an order that no file system decides."""
    return sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob(f"csrc/{pattern}"))


class Wheel(bdist_wheel):
    """Tags the wheel py3-none: the library has no Python symbol, torch.ops.load_library opens it."""

    def get_tag(self):
        return "py3", "none", super().get_tag()[2]

    def egg2dist(self, egginfo_path, distinfo_path):
        """Begins the build record with the flags; docker/record.py completes it."""
        super().egg2dist(egginfo_path, distinfo_path)
        flags = {"compile_args": COMPILE_ARGS, "link_args": LINK_ARGS}
        record = json.dumps(flags, indent=1).replace(str(ROOT.resolve()), "$SOURCE").replace(TORCH_HEADERS, "$TORCH")
        Path(distinfo_path, "build.json").write_text(record + "\n")


setup(
    # The version stands in pyproject.toml; the label says that this build has no CUDA kernels.
    options={"egg_info": {"tag_build": "+cpu"}},
    ext_modules=[
        Extension(
            "customops._cpu",
            ["csrc/library.cpp", *files("cpu/*.cpp")],
            depends=["csrc/exports.map", *files("**/*.h")],
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
