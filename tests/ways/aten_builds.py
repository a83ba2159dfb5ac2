"""Builds the sources of aten_stable/ for the tests: against ATen, and against aten_stable's headers."""

import concurrent.futures
import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
import torch
from same_bits import load

ROOT = Path(__file__).parents[2]
SOURCES = Path(__file__).with_name("aten_stable")
TORCH = Path(torch.__file__).parent
PYTHON_H = Path(sysconfig.get_paths()["include"]) / "Python.h"
sys.path.insert(0, str(ROOT))

from aten_stable.build import build, toolkit  # noqa: E402

PROJECTS = ("windows", "options", "registered", "numbers", "functions", "draws")
CUDA_PROJECTS = ("blend", "noise")
# A process has one operator of a name: the second builds get namespaces of their own.
OTHER_NAMESPACES = [f"-Daten_stable_{name}=aten_stable_{name}_too" for name in ("registered", "functions")]


def aten_standard():
    """What ATen's headers are written in: that of torch's own builds."""
    return re.search(r"'(-std=c\+\+\d+)', '-fPIC'", (TORCH / "utils/cpp_extension.py").read_text())[1]


def all_projects():
    """All projects as one source: instantiating what torch/extension.h has takes the compiler half a minute, once or for each.

    A project has a namespace of its own, and so headers of others come first.
    """
    sources = {name: SOURCES / f"{name}.cpp" for name in PROJECTS}
    texts = "".join(source.read_text() for source in sources.values())
    lines = [*dict.fromkeys(re.findall(r"^#include <.+>$", texts, re.MULTILINE))]
    for name, source in sources.items():
        lines += ["#undef TORCH_EXTENSION_NAME", f"#define TORCH_EXTENSION_NAME {name}"]
        lines += [f"namespace project_{name} {{", f'#include "{source}"', "}"]
    return "\n".join(lines) + "\n"


def compile_against_aten(folder):
    """The module of every project, in one library: aten.so."""
    source = folder / "aten.cpp"
    source.write_text(all_projects())
    includes = [TORCH / "include", TORCH / "include/torch/csrc/api/include", PYTHON_H.parent]
    libraries = [f"-L{TORCH / 'lib'}", "-lc10", "-ltorch_cpu", "-ltorch", "-ltorch_python"]
    command = ["c++", aten_standard(), "-O0", "-w", "-shared", "-fPIC"]
    command += [*(f"-I{path}" for path in includes), source, *libraries, "-o", folder / "aten.so"]
    subprocess.run(command, check=True)


def compile_stable(name, folder, *options):
    build(f"theirs.{name}", [SOURCES / f"{name}.cpp"], folder, TORCH, ["-Wall", "-O0", *OTHER_NAMESPACES, *options])


def compile_cuda(name, folder):
    """A library for each toolkit of this machine."""
    build(f"theirs.{name}", [SOURCES / f"{name}.cu"], folder, TORCH, [], toolkits())


def compile_all_cuda(folder):
    """Each in a folder of its name."""
    for name in CUDA_PROJECTS if toolkits() else ():
        compile_cuda(name, folder / name)


def places(folder):
    """Of the library on ATen, of the modules on the stable ABI; ATEN_STABLE_ATEN and ATEN_STABLE_BUILT: built before."""
    return [Path(os.environ.get(f"ATEN_STABLE_{kind}") or folder / kind) for kind in ("ATEN", "BUILT")]


def compile_all(folder):
    """What loaded() loads."""
    aten, stable = places(folder)
    jobs = []
    if not aten.exists() and PYTHON_H.is_file():
        aten.mkdir()
        jobs.append((compile_against_aten, aten))
    if not stable.exists():
        jobs += [(compile_stable, name, stable) for name in PROJECTS]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for job in [pool.submit(*job) for job in jobs]:
            job.result()


def loaded(folder):
    """{name: (the module on ATen, the module on the stable ABI)}."""
    aten, stable = places(folder)
    if not aten.exists():
        pytest.skip("the build against ATen needs Python.h")
    torch.ops.load_library(aten / "aten.so")
    return {
        name: (
            load(name, aten / "aten.so") if name != "registered" else torch.ops.aten_stable_registered,
            load(f"theirs.{name}", stable / f"theirs/{name}.py"),
        )
        for name in PROJECTS
    }


def toolkits():
    """CUDA homes of this machine, one for each version."""
    found = {}
    for home in (
        os.environ.get("CUDA12_HOME"),
        os.environ.get("CUDA13_HOME"),
        os.environ.get("CUDA_HOME"),
        "/usr/local/cuda",
    ):
        if home and Path(home, "bin/nvcc").is_file():
            one = toolkit(f"{home}:90")
            found.setdefault(one.release()[0], one)
    return tuple(found.values())


if __name__ == "__main__":
    {"modules": compile_all, "cuda_modules": compile_all_cuda}[sys.argv[1]](Path(sys.argv[2]))
