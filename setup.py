"""Builds customops/_cpu.so, and with CUSTOMOPS_VARIANT=cuda also _cuda12.so and _cuda13.so; metadata: pyproject.toml."""

import os
import shlex
import sys
from pathlib import Path

from setuptools import Extension, setup
from torch.utils.cpp_extension import BuildExtension, include_paths, library_paths

ROOT = Path(__file__).parent
TORCH_HEADERS = include_paths()[0]
sys.path.insert(0, str(ROOT / "csrc"))
import jobs, nvcc, py3_wheel, readme, sources  # noqa: E401, E402, I001

VARIANT, ARCHITECTURES = nvcc.variant()
os.environ["MAX_JOBS"] = str(jobs.jobs())  # for BuildExtension

COMPILE_ARGS = [
    *sources.flags(ROOT / "csrc"),
    *sources.flags_of_gcc(ROOT / "csrc", shlex.split(os.environ.get("CXX") or "c++")),
    # No absolute path of the build machine ends up in an error message.
    f"-ffile-prefix-map={ROOT.resolve()}=.",
    f"-ffile-prefix-map={TORCH_HEADERS}=torch/include",
]
LINK_ARGS = sources.link_flags(Path("csrc"))


def relative(paths):
    return [path.relative_to(ROOT).as_posix() for path in paths]


def library(name, device):
    return Extension(
        f"customops._{name}",
        relative(sources.sources(ROOT / "csrc", device)),
        depends=["csrc/exports.map", *relative(sources.headers(ROOT / "csrc", device))],
        include_dirs=include_paths(),
        library_dirs=library_paths(),
        # Named, because torch is loaded RTLD_LOCAL: its symbols are found only through a library that needs it.
        libraries=["torch_cpu"],
        extra_compile_args=COMPILE_ARGS,
        extra_link_args=LINK_ARGS,
        language="c++",
        py_limited_api=True,
    )


record = {"variant": VARIANT, "cuda": nvcc.record(ARCHITECTURES), "compile_args": COMPILE_ARGS, "link_args": LINK_ARGS}
wheel = py3_wheel.command(record, {str(ROOT.resolve()): "$SOURCE", TORCH_HEADERS: "$TORCH"})
build_ext = nvcc.command(BuildExtension.with_options(no_python_abi_suffix=True), ARCHITECTURES)

setup(
    long_description=readme.description(),
    long_description_content_type="text/markdown",
    # The version stands in pyproject.toml; a label says what a build lacks: +cpu, or the few architectures it has.
    options={"egg_info": {"tag_build": "+cpu" if VARIANT == "cpu" else nvcc.label(ARCHITECTURES)}},
    ext_modules=[
        library("cpu", "cpu"),
        *(library(name, "cuda") for name in ARCHITECTURES),
    ],
    cmdclass={"build_ext": build_ext, "build_py": py3_wheel.Sources, "bdist_wheel": wheel},
)
