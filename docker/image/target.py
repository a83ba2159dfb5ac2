"""The machine that a wheel is for: this one, or the one that CUSTOMOPS_TARGET names, such as aarch64 on x86-64.

Python, the build backend and torch's own Python code run on this machine. Compiler, linker, tags and torch's headers and
libraries are the other machine's; the latter lie in CUSTOMOPS_TARGET_SITE, a folder with torch's package, of which nothing runs.
Standard library only.
"""

import os
import platform
import shutil
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


# A module that sysconfig reads in place of the one of this machine's Python. FindPython of CMake, Meson and nanobind ask
# sysconfig for the suffix of modules, and have no variable for it.
SYSCONFIG = """# Of {python}, as if it ran on {machine}.
from importlib import import_module

build_time_vars = dict(import_module({own!r}).build_time_vars)
for _name in ("EXT_SUFFIX", "SOABI", "MULTIARCH"):
    build_time_vars[_name] = build_time_vars[_name].replace({this!r}, {machine!r})
"""
SYSCONFIG_NAME = "_sysconfigdata_of_target"

MESON = """[binaries]
c = '{cc}'
cpp = '{cxx}'
ar = '{machine}-linux-gnu-ar'
strip = '{machine}-linux-gnu-strip'
{tools}
[host_machine]
system = 'linux'
cpu_family = '{machine}'
cpu = '{machine}'
endian = 'little'

[properties]
needs_exe_wrapper = true
"""
MESON_TOOLS = (
    "pybind11-config",
    "numpy-config",
    "cython",
    "cmake",
)  # which run on this machine, and are asked for the other


def describe_python(python: Path, folder: Path) -> dict[str, str]:
    """Variables that make sysconfig of this machine's Python name modules for the other; writes a module into the folder, which
    has to be on the PYTHONPATH. Programs that are started with `python -I` do not see it: of these, no build backend is known."""
    if not is_another():
        return {}
    own = ask(python, "sysconfig._get_sysconfigdata_name()")
    text = SYSCONFIG.format(python=python, machine=machine(), own=own, this=platform.machine())
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{SYSCONFIG_NAME}.py").write_text(text)
    return {"_PYTHON_SYSCONFIGDATA_NAME": SYSCONFIG_NAME}


def config_settings(backend: str, path: str, folder: Path) -> list[str]:
    """What a build backend has to be told beside variables: meson-python, a cross file, which this writes into the folder.

    path: the build's PATH, on which tools are looked for that a project's meson.build may ask for.
    """
    if not is_another() or backend.partition(":")[0] != "mesonpy":
        return []
    tools = "".join(f"{name} = '{found}'\n" for name in MESON_TOOLS if (found := shutil.which(name, path=path)))
    file = folder / "cross.ini"
    folder.mkdir(parents=True, exist_ok=True)
    file.write_text(MESON.format(cc=compiler("c"), cxx=compiler(), machine=machine(), tools=tools))
    return [f"setup-args=--cross-file={file}"]
