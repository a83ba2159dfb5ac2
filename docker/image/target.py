"""The machine that a wheel is for: this one, or the one that CUSTOMOPS_TARGET names, such as aarch64 on x86-64.

Python, the build backend and torch's own Python code run on this machine. Compiler, linker, tags and torch's headers and
libraries are the other machine's; the latter lie in CUSTOMOPS_TARGET_SITE, a folder with torch's package, of which nothing runs.
Standard library only.
"""

import os
import platform
import subprocess
from pathlib import Path

TOOLCHAIN = Path(__file__).resolve().with_name("toolchain.cmake")  # of CMake, which reads it from 3.21 on
DEBIAN = {"x86_64": "amd64", "aarch64": "arm64"}  # the names of Debian's packages


def machine() -> str:
    return os.environ.get("CUSTOMOPS_TARGET") or platform.machine()


def is_another() -> bool:
    return machine() != platform.machine()


def compiler(language: str = "c++") -> str:
    """The command of a compiler: CXX or CC of the caller, or Debian's for the other machine."""
    variable, own, program = {"c++": ("CXX", "c++", "g++"), "c": ("CC", "cc", "gcc")}[language]
    return os.environ.get(variable) or (f"{machine()}-linux-gnu-{program}" if is_another() else own)


def site() -> Path | None:
    """Where torch's package for another machine is; None if there is no other, or no torch for it."""
    return (
        Path(os.environ["CUSTOMOPS_TARGET_SITE"]) if is_another() and os.environ.get("CUSTOMOPS_TARGET_SITE") else None
    )


def ask(python: Path, expression: str) -> str:
    code = f"import sysconfig; print({expression})"
    return subprocess.check_output([python, "-c", code], text=True).strip()


def variables(python: Path) -> dict[str, str]:
    """What setuptools, torch's BuildExtension and CMake read when they compile for another machine. CFLAGS and LDFLAGS stand
    before what a project passes: torch's headers and libraries of the other machine are found first."""
    if not is_another():
        return {}
    cc, cxx, suffix = compiler("c"), compiler(), ask(python, "sysconfig.get_config_var('EXT_SUFFIX')")
    found = {
        "CC": cc,
        "CXX": cxx,
        "LDSHARED": f"{cc} -shared",
        "LDCXXSHARED": f"{cxx} -shared",
        "AR": f"{machine()}-linux-gnu-ar",
        "SETUPTOOLS_EXT_SUFFIX": suffix.replace(platform.machine(), machine()),
        "_PYTHON_HOST_PLATFORM": f"linux-{machine()}",  # sysconfig.get_platform(), of which the wheel's tag is made
        "CMAKE_TOOLCHAIN_FILE": str(TOOLCHAIN),
    }
    if folder := site():
        headers = [folder / "torch/include", folder / "torch/include/torch/csrc/api/include"]
        flags = [*(f"-I{path}" for path in headers), f"-ffile-prefix-map={folder}=environment"]
        found |= {"CFLAGS": " ".join(flags), "CXXFLAGS": " ".join(flags), "LDFLAGS": f"-L{folder}/torch/lib"}
    return found
