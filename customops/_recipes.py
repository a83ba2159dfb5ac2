"""What to compile just in time for this machine: csrc/, with this torch, compiler, CPU and GPU; _build.py compiles it."""

import importlib.util
import os
import re
import subprocess
from functools import cache
from pathlib import Path
from types import ModuleType

import torch

from customops import _build, _driver
from customops._build import BuildError, paths, words

HERE = Path(__file__).parent
# In a wheel the sources lie in the package, in a checkout beside it.
SOURCES = HERE / "csrc" if (HERE / "csrc").is_dir() else HERE.parent / "csrc"
_CPU_FACTS = (
    "vendor_id",
    "cpu family",
    "model",
    "model name",
    "stepping",
    "flags",
    "CPU implementer",
    "CPU part",
    "Features",
)


def build(verbose: bool = False) -> Path:
    """Compiles the library with the CPU kernels, or finds it in the cache; does not open it. See :func:`customops.jit.load`."""
    name, facts = cpu()
    return _build.build(recipe("_cpu", (facts,), f"CPU kernels for {name}"), verbose)


def build_cuda(verbose: bool = False) -> Path:
    """The same for the library with the CUDA kernels, for the GPUs that torch sees; needs the CUDA toolkit.

    Raises:
        BuildError: as :func:`customops.jit.load`; or there is no nvcc, or one newer than the driver.
    """
    architectures = sorted({torch.cuda.get_device_capability(i) for i in range(torch.cuda.device_count())})
    if not architectures:
        raise BuildError("customops: torch sees no GPU to compile for: check nvidia-smi and CUDA_VISIBLE_DEVICES")
    numbers = [f"{major}{minor}" for major, minor in architectures]
    purpose = f"CUDA kernels for sm_{', sm_'.join(numbers)}"
    return _build.build(recipe("_cuda", (), purpose, numbers), verbose)


def recipe(
    name: str,
    identity: tuple[str, ...],
    purpose: str,
    architectures: list[str] | None = None,
) -> _build.Recipe:
    """How to make the library of the CPU's kernels, or that of CUDA's for some architectures such as ``["90"]``."""
    device, files = "cpu" if architectures is None else "cuda", _tool("sources")
    sources, headers = files.sources(SOURCES, device), files.headers(SOURCES, device)
    # As torch.utils.cpp_extension has them; importing it, and with it setuptools, would make every start slower.
    torch_folder = Path(torch.__file__).parent
    compiler, compiler_identity = _build.find_compiler(os.environ.get("CXX") or "c++")
    flags, include = ["-fPIC", *files.flags(SOURCES)], [f"-I{torch_folder / 'include'}"]
    link = [f"-L{torch_folder / 'lib'}", "-ltorch_cpu"]
    identity += (compiler_identity, torch.__version__, str(torch.version.git_version), *_build.environment())
    if architectures is None:
        compile = words(*compiler, "-c") + " $in -o $out " + words("-march=native", *flags, *include)
    else:
        home = cuda_home()
        identity += (_build.identity_of(str(home / "bin/nvcc")),)
        compile = words(home / "bin/nvcc", "-c") + " $in -o $out " + words(
            *files.for_nvcc(flags),
            *(f"-gencode=arch=compute_{number},code=sm_{number}" for number in architectures),
            f"-ccbin={_build.host_compiler(compiler)}",
            *include,
        )  # fmt: skip
        link += [f"-L{folder}" for folder in _static_runtime(home)] + [f"-l{name}" for name in files.CUDA_LIBRARIES]
    link += [flag for flag in files.link_flags(SOURCES) if flag != files.STATIC_CXX]
    objects = {files.object_name(SOURCES, source): source for source in sources}
    # libstdc++ goes into the library where there is a static one: an older one in this process does not count then.
    static = '$$(test -f "$$(' + words(*compiler) + f' -print-file-name=libstdc++.a)" && echo {files.STATIC_CXX})'
    rules = [
        "rule compile",
        f"  command = {compile} -MMD -MF $out.d",
        "  depfile = $out.d",
        "  description = compile $in",
        "rule link",
        f"  command = {words(*compiler, '-shared')} $in -o $out {words(*link)} {static}",
        "  description = link $out",
        *(f"build {out}: compile {paths(source)}" for out, source in objects.items()),
        f"build {name}.so: link {paths(*objects)}",
    ]
    return _build.Recipe(
        name,
        "\n".join(rules) + "\n",
        (*sources, *headers, SOURCES / "exports.map"),
        identity,
        purpose,
        _jobs(),
    )


def _jobs() -> int:
    try:
        jobs: int = _tool("jobs").jobs()
        return jobs
    except ValueError as error:
        raise BuildError(f"customops: {error}") from error


def cuda_home() -> Path:
    """The CUDA toolkit that torch.utils.cpp_extension finds, if it can serve this machine's driver."""
    try:
        from torch.utils import cpp_extension
    except ModuleNotFoundError as error:  # of setuptools
        raise BuildError(
            f"customops: torch.utils.cpp_extension needs {error.name}: pip install {error.name}"
        ) from error
    found = cpp_extension.CUDA_HOME
    if found is None or not Path(found, "bin/nvcc").exists():
        raise BuildError(
            "customops: there is a GPU, but no nvcc to compile its kernels with: install the CUDA toolkit and set "
            "CUDA_HOME, or use the prebuilt kernels (CUSTOMOPS_COMPILER=setuptools)"
        )
    driver, nvcc = _driver.driver_version(), _nvcc_major(Path(found, "bin/nvcc"))
    if driver and nvcc > driver // 1000:
        raise BuildError(
            f"customops: {found}/bin/nvcc is of CUDA {nvcc}, and the driver runs code of CUDA {_driver.dotted(driver)} "
            "at most: update the driver, or set CUDA_HOME to an older toolkit"
        )
    if not _static_runtime(Path(found)):
        raise BuildError(
            f"customops: {found} has no libcudart_static.a: install the complete CUDA toolkit, or set CUDA_HOME"
        )
    return Path(found)


def _nvcc_major(nvcc: Path) -> int:
    """From version.json, or from nvcc itself."""
    with_version = nvcc.parent.parent / "version.json"
    text = with_version.read_text() if with_version.exists() else ""
    match = re.search(r'"cuda_nvcc"[^}]*"version"\s*:\s*"(\d+)', text)
    if match is None:
        match = re.search(r"release (\d+)", subprocess.check_output([nvcc, "--version"], text=True))
    return int(match[1]) if match else 0


def _static_runtime(home: Path) -> list[Path]:
    """Where a toolkit keeps the static runtime: lib64 in NVIDIA's own packages, lib in wheels."""
    folders = [home / name for name in ("lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib")]
    return [folder for folder in folders if (folder / "libcudart_static.a").exists()][:1]


@cache
def cpu() -> tuple[str, str]:
    """(name, all that -march=native depends on) of this machine's processor."""
    with open("/proc/cpuinfo") as file:
        first = file.read(16384).split("\n\n")[0]
    facts = dict(re.findall(r"^([^\t:]+?)\s*: (.*)$", first, re.MULTILINE))
    known = {name: facts[name] for name in _CPU_FACTS if name in facts}
    return facts.get("model name", os.uname().machine), repr(known)


@cache
def _tool(name: str) -> ModuleType:
    """csrc/jobs.py, how many compilers may run at once; csrc/sources.py, which files they compile."""
    spec = importlib.util.spec_from_file_location(f"customops._{name}", SOURCES / f"{name}.py")
    assert spec is not None and spec.loader is not None  # for type checkers: a file named .py has a loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
