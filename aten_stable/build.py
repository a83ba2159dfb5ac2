"""Compiles C++ sources written for <torch/extension.h> into a module for every Python and every torch from 2.10 on."""

import contextlib
import os
import re
import subprocess
import tempfile
from pathlib import Path

from aten_stable import INCLUDE
from aten_stable.face import write_face
from aten_stable.scan import covered, through_dispatcher, verdict


def write_operator_headers(torch: Path, include: Path = INCLUDE) -> None:
    """<ATen/ops/relu.h> and its like: one for each of torch's, that brings all functions, or says what is not covered."""
    operators = include / "ATen/ops"
    if operators.is_dir():
        return
    known = through_dispatcher() | covered()
    if not os.access(operators.parent, os.W_OK):
        raise SystemExit(
            f"error: {operators} is written once for the torch that is installed: run this as {operators.parent.owner()}"
        )
    with tempfile.TemporaryDirectory(dir=operators.parent) as folder:
        for path in (torch / "include/ATen/ops").glob("*.h"):
            name = path.stem
            text = "#pragma once\n#include <aten_stable/factories.h>\n"
            if re.search(r"_(native|ops|meta|[a-z]+_dispatch)$", name):
                continue
            if name not in known:
                text = f'#error "aten_stable: <ATen/ops/{path.name}> is not covered: {verdict(name)[1]}"\n'
            Path(folder, path.name).write_text(text)
        with contextlib.suppress(OSError):  # another process was first
            os.chmod(folder, 0o755)
            Path(folder).rename(operators)
            Path(folder).mkdir()


def headers(torch: Path, include: Path = INCLUDE) -> list[str]:
    """What finds these headers before torch's own; `include` is a folder of them, by default this package's."""
    write_operator_headers(torch, include)
    return [
        f"-I{include}",
        f"-I{torch / 'include'}",
        "-DTORCH_TARGET_VERSION=0x020a000000000000",  # nothing is used that torch 2.10 lacks
    ]


def factory_flags(prefix: str, include: Path, torch: Path) -> list[str]:
    """What all modules of a project compile with whose build names each of them (TORCH_EXTENSION_NAME): see pybind.h."""
    return [*headers(torch, include), f"-DATEN_STABLE_PREFIX={prefix}"]


def flags(module: str, torch: Path) -> list[str]:
    """What g++ and nvcc need for the sources of `module` (say, theirs._C), beside their own options."""
    name = module.rpartition(".")[2]
    return [
        "-std=c++17",
        *headers(torch),
        f"-DTORCH_EXTENSION_NAME={name}",
        f"-DATEN_STABLE_NAMESPACE={module.replace('.', '__')}",
    ]


def build(module: str, sources: list[Path], folder: Path, torch: Path, options: list[str]) -> Path:
    """Writes folder/<module's path>.py and the library beside it; returns the library."""
    for part in module.split("."):
        if not part.isidentifier():
            raise SystemExit(f"error: {module} is no name of a module: write, for example, theirs._C")
    for source in sources:
        if not source.is_file():
            raise SystemExit(f"error: {source} does not exist")
        if source.suffix == ".cu":
            raise SystemExit(f"error: {source}: CUDA is compiled by your own nvcc: see `python -m aten_stable flags`")
    face = folder.joinpath(*module.split(".")).with_suffix(".py")
    face.parent.mkdir(parents=True, exist_ok=True)
    library = face.with_name(f"lib{face.stem}.so")
    libraries = [f"-L{torch / 'lib'}", "-ltorch_cpu", "-ldl"]  # each process has its own torch loaded: no rpath
    command = [os.environ.get("CXX", "c++"), *flags(module, torch), "-O2", "-fPIC", "-fvisibility=hidden", "-shared"]
    result = subprocess.run([*command, *options, *sources, *libraries, "-o", library], check=False)
    if result.returncode:
        raise SystemExit("error: the compiler failed; `python -m aten_stable scan` lists what is not covered")
    write_face(face, library.name)
    return library
