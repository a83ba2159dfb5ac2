"""Which files of csrc/ a build compiles and reads, in which order, how it names their objects, and with which flags.

setup.py, csrc/nvcc.py, csrc/py3_wheel.py and customops/_recipes.py ask here. csrc/cmake/Sources.cmake states the same rules
for CMake; tests/pipeline/test_sources.py compares the two.
"""

import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

# Below csrc/, folders included. The schemas and other files of no device go with the CPU's library, which comes first.
SOURCES = {"cpu": ("*.cpp", "cpu/**/*.cpp"), "cuda": ("cuda/**/*.cu",)}
HEADERS = {"cpu": ("*.h", "cpu/**/*.h", "cuda/**/*.h"), "cuda": ("*.h", "cuda/**/*.h", "cuda/**/*.cuh")}
# What the builds on a user's machine need besides: it travels in the wheel. Also listed in docker/check_wheel.py.
BUILD_FILES = (
    "CMakeLists.txt",
    "exports.map",
    "flags.txt",
    "flags_gcc_x86_64.txt",
    "link_flags.txt",
    "jobs.py",
    "sources.py",
    "cmake/*.cmake",
)
STATIC_CXX = "-static-libstdc++"  # the flag that a build leaves out where there is no such archive
# Of every CUDA library: the runtime is inside, and these are what it needs of the system.
CUDA_LIBRARIES = ("cudart_static", "dl", "rt", "pthread")


def sources(csrc: Path, device: str) -> list[Path]:
    """What the library of a device, cpu or cuda, is compiled from, the largest file first."""
    return largest_first(_find(csrc, SOURCES[device]))


def headers(csrc: Path, device: str) -> list[Path]:
    """Every header that these sources may include."""
    return _find(csrc, HEADERS[device])


def packaged(csrc: Path) -> list[Path]:
    """Everything that the JIT and CMake builds read."""
    return _find(csrc, [*BUILD_FILES, *(p for table in (SOURCES, HEADERS) for kinds in table.values() for p in kinds)])


def object_name(csrc: Path, source: Path) -> str:
    """Such as cuda/axpy.o: the path below csrc/, because files in two folders may have the same name."""
    return source.relative_to(csrc).with_suffix(".o").as_posix()


def largest_first(files: Iterable[Path]) -> list[Path]:
    """Sources in the order in which to compile them: the longest must not begin last. No file system decides it."""
    return sorted(files, key=lambda file: (-file.stat().st_size, file))


def flags(csrc: Path) -> list[str]:
    """For the compiler of C++."""
    return _lines(csrc / "flags.txt")


def flags_of_gcc(csrc: Path, compiler: list[str]) -> list[str]:
    """Besides, if `compiler` is GCC for x86-64; the JIT build's -march=native says the same. None without a compiler."""
    try:
        ask = [*compiler, "-dM", "-E", "-x", "c++", os.devnull]
        macros = subprocess.run(ask, capture_output=True, text=True, check=False).stdout
    except OSError:
        return []
    return _lines(csrc / "flags_gcc_x86_64.txt") if "__x86_64__" in macros and "__clang__" not in macros else []


def for_nvcc(flags: Iterable[str]) -> list[str]:
    """The same for nvcc, which takes some of them itself and hands others to the host's compiler."""
    flags = list(flags)
    own = [flag for flag in flags if flag.startswith(("-std", "-O", "-D"))]
    return ["-Xfatbin=-compress-all", *own, *(f"-Xcompiler={f}" for f in flags if f.startswith(("-f", "-W")))]


def link_flags(csrc: Path) -> list[str]:
    """Paths begin with `csrc` as it is given: relative ones leave nothing of the build machine in a record."""
    return [flag.replace("@csrc@", str(csrc)) for flag in _lines(csrc / "link_flags.txt")]


def _lines(path: Path) -> list[str]:
    return [line for line in path.read_text().splitlines() if line.startswith("-")]


def _find(csrc: Path, patterns: Iterable[str]) -> list[Path]:
    return sorted({path for pattern in patterns for path in csrc.glob(pattern) if path.is_file()})
