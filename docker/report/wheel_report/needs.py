"""Who provides what a library needs, and the oldest CPython, torch, CUDA and glibc that do; each with what forces it."""

import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import abi3info
from abi3info.models import Symbol
from auditwheel.architecture import Architecture
from auditwheel.libc import Libc
from auditwheel.policy import WheelPolicies
from torch_abi_audit import torch_abi
from torch_abi_audit.demangle import demangle_symbol

from .library import Library
from .wheel import Wheel

TORCH = re.compile(r"lib(torch|torch_cpu|torch_python|torch_global_deps|c10|shm)\.so")
TORCH_CUDA = re.compile(r"lib(torch_cuda\w*|c10_cuda|torch_nvshmem|caffe2_nvrtc)\.so")
CUDA = re.compile(
    r"lib(cudart|cublas|cublasLt|cusparse|cusparseLt|cusolver|cusolverMg|cufft|cufftw|curand|cudnn\w*|nccl|nvrtc|nvJitLink|cupti"
    r"|nvToolsExt|nvjpeg|npp\w*|cufile|nvshmem\w*)\.so(?:\.(\d+))?[\d.]*"
)
DRIVER = re.compile(r"lib(cuda|nvidia-\w+|nvcuvid)\.so(\.\d+)*")
PYTHON = re.compile(r"libpython(3\.\d+t?)\.so[\d.]*")
MUSL = re.compile(r"libc\.musl-\w+\.so\.1|ld-musl-\w+\.so\.1")
GLIBC = re.compile(r"GLIBC_(\d+(?:\.\d+)+)")
# The libraries whose soname counts CUDA's own releases.
COUNTS_CUDA = {"cudart", "cublas", "cublasLt", "nvrtc", "nvJitLink", "nvjpeg"}
# The least driver for programs of a CUDA release, and for its PTX (NVIDIA's release notes).
DRIVERS = {(11, 0): 450, (12, 0): 525, (12, 1): 530, (12, 2): 535, (12, 3): 545, (12, 4): 550, (12, 5): 555, (12, 6): 560,
           (12, 8): 570, (12, 9): 575, (13, 0): 580, (13, 1): 590}  # fmt: skip
# The first CUDA release for a GPU, where an older driver of the same major version does not know it.
GPU_RELEASES = {100: (12, 8), 101: (12, 8), 120: (12, 8), 103: (12, 9), 121: (12, 9), 110: (13, 0)}
PTX_RELEASES = {(8, 5): (12, 5), (8, 6): (12, 8), (8, 7): (12, 8), (8, 8): (12, 9)}


class Floor(NamedTuple):
    """The least version of something, and what in the wheel asks for it."""

    version: tuple[int, ...]
    forced_by: str

    def __str__(self) -> str:
        return ".".join(map(str, self.version))


def numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))


@cache
def policies(machine: str) -> WheelPolicies | None:
    """auditwheel's manylinux policies; None for a machine it has none for."""
    try:
        return WheelPolicies(libc=Libc.GLIBC, arch=Architecture(machine))
    except ValueError:
        return None


def provider(wheel: Wheel, library: Library, name: str) -> str:
    """wheel, torch, torch with CUDA, CUDA, driver, python, system, musl or elsewhere: who brings a needed library."""
    inside = {other.name for other in wheel.libraries}
    loaded = {other.soname for other in wheel.libraries} | {other.file for other in wheel.libraries}
    if any(f"{folder}/{name}".lstrip("/") in inside for folder in library.folders()):
        return "wheel"
    rules = (
        ("torch with CUDA", TORCH_CUDA),
        ("torch", TORCH),
        ("CUDA", CUDA),
        ("driver", DRIVER),
        ("python", PYTHON),
        ("musl", MUSL),
    )
    if found := next((who for who, pattern in rules if pattern.fullmatch(name)), None):
        return found
    known = policies(library.machine)
    if name.startswith("ld-linux") or (known and any(name in policy.whitelist for policy in known)):
        return "system"
    return "wheel, if it was loaded before" if name in loaded else "elsewhere"


def cuda_majors(wheel: Wheel, library: Library) -> dict[int, str]:
    """CUDA's major versions that a library asks of its surroundings -> the needed library that says so."""
    found = {}
    for name in library.needed:
        match = CUDA.fullmatch(name)
        if match and match[2] and match[1] in COUNTS_CUDA and provider(wheel, library, name) == "CUDA":
            found[int(match[2])] = name
    return found


def ptx_release(version: tuple[int, int]) -> tuple[int, int]:
    """The CUDA release whose PTX has this version."""
    major, minor = version
    return PTX_RELEASES.get(version, (major + 4, minor))


def driver(wheel: Wheel, library: Library) -> Iterator[Floor]:
    """The least driver that runs a library's machine code, as far as it tells; the largest of them counts."""
    for major, name in cuda_majors(wheel, library).items():
        if known := DRIVERS.get((major, 0)):
            yield Floor((known,), f"{name} of {library.name}")
    images = library.images
    releases = {ptx_release(image.version) for image in images if image.kind == "ptx"}
    # Before CUDA 13, GPUs older than Blackwell got code of version 1.7.
    if any(image.kind == "machine_code" and image.architecture < 100 and image.version >= (1, 8) for image in images):
        releases.add((13, 0))
    newest_only = [GPU_RELEASES.get(image.architecture) for image in images]
    if newest_only and all(newest_only):
        oldest = min(images, key=lambda image: GPU_RELEASES[image.architecture])
        release = GPU_RELEASES[oldest.architecture]
        yield Floor(
            (DRIVERS[release],), f"sm_{oldest.architecture} of CUDA {release[0]}.{release[1]} in {library.name}"
        )
    for major in {release[0] for release in releases}:
        if known := DRIVERS.get((major, 0)):
            yield Floor((known,), f"device code of CUDA {major} in {library.name}")


def ptx_driver(image) -> int | None:
    """The least driver that compiles a piece of PTX; None if it is newer than this table."""
    return DRIVERS.get(ptx_release(image.version))


def glibc(library: Library) -> Floor | None:
    """The newest glibc symbol version, with symbol and library."""
    found = [
        (numbers(match[1]), symbols[0] if symbols else "the version table")
        for version, symbols in library.versions.items()
        if (match := GLIBC.fullmatch(version))
    ]
    if not found:
        return None
    newest, symbol = max(found)
    return Floor(newest, f"{symbol} in {library.name}")


def symbols_allow(wheel: Wheel) -> str | None:
    """The oldest manylinux platform whose glibc and libstdc++ have every versioned symbol: auditwheel's own answer."""
    machines = {library.machine for library in wheel.libraries}
    known = policies(machines.pop()) if len(machines) == 1 else None
    if known is None or any(MUSL.fullmatch(name) for library in wheel.libraries for name in library.needed):
        return None
    return known.versioned_symbols_policy(
        {version: {version} for library in wheel.libraries for version in library.versions}
    ).name


def python(library: Library) -> tuple[Floor | None, list[str]]:
    """(oldest CPython that has every symbol of its stable ABI, the symbols that are not of the stable ABI)"""
    floor, private = None, []
    for name in library.python_symbols:
        known = abi3info.FUNCTIONS.get(Symbol(name)) or abi3info.DATAS.get(Symbol(name))
        if known is None:
            private.append(name)
        elif floor is None or (known.added.major, known.added.minor) > floor.version:
            floor = Floor((known.added.major, known.added.minor), f"{name} in {library.name}")
    return floor, private


@cache
def torch_verdict(symbols: tuple[str, ...]) -> torch_abi.TorchABIVerdict:
    return torch_abi.classify_symbols([demangle_symbol(name) for name in symbols])


def torch(library: Library) -> torch_abi.TorchABIVerdict:
    """torch-abi-audit's verdict. Symbols that the library also defines are its own."""
    return torch_verdict(tuple(name for name in library.undefined if name not in library.defined))


def torch_floor(library: Library) -> Floor | None:
    """The oldest torch whose stable ABI has every function that is called."""
    verdict = torch(library)
    if not verdict.stable or not verdict.min_torch_version:
        return None
    symbol = verdict.version_defining_symbols[0] if verdict.version_defining_symbols else "the stable ABI"
    return Floor(numbers(verdict.min_torch_version)[:2], f"{symbol} in {library.name}")
