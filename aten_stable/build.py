"""Compiles C++ sources written for <torch/extension.h> into a module for every Python and every torch from 2.10 on."""

import contextlib
import os
import re
import shlex
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

from aten_stable import INCLUDE
from aten_stable.face import held, write_cuda_face, write_face
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


class Toolkit(NamedTuple):
    """A CUDA toolkit, and what to compile for: ("90", "90+PTX")."""

    home: Path
    architectures: tuple[str, ...]

    @property
    def nvcc(self) -> Path:
        return self.home / "bin/nvcc"

    def release(self) -> tuple[int, int]:
        said = subprocess.check_output([self.nvcc, "--version"], text=True)
        found = re.search(r"release (\d+)\.(\d+)", said)
        return int(found[1]), int(found[2])

    def libraries(self) -> Path:
        """The folder of the static runtime."""
        for name in ("lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib"):
            if (self.home / name / "libcudart_static.a").is_file():
                return self.home / name
        raise SystemExit(f"error: {self.home} has no libcudart_static.a: the CUDA runtime is linked statically")

    def gencode(self) -> list[str]:
        flags = []
        for entry in self.architectures:
            number = entry.removesuffix("+PTX")
            code = f"[sm_{number},compute_{number}]" if entry.endswith("+PTX") else f"sm_{number}"
            flags.append(f"-gencode=arch=compute_{number},code={code}")
        return flags


def toolkit(text: str) -> Toolkit:
    """FOLDER:ARCHITECTURES, as in /opt/cuda13:90,100+PTX."""
    folder, _, wanted = text.rpartition(":")
    if not folder or not re.fullmatch(r"\d{2,3}(\+PTX)?(,\d{2,3}(\+PTX)?)*", wanted):
        raise SystemExit(f"error: --cuda {text}: write FOLDER:ARCHITECTURES, such as /opt/cuda13:90,100+PTX")
    found = Toolkit(Path(folder), tuple(wanted.split(",")))
    if not found.nvcc.is_file():
        raise SystemExit(f"error: --cuda {text}: {found.nvcc} does not exist")
    return found


def run(command: list) -> None:
    if subprocess.run(command, check=False).returncode:
        raise SystemExit("error: the compiler failed; `python -m aten_stable scan` lists what is not covered")


# As torch's BuildExtension gives them to nvcc: c10::Half has operators of its own, and two for one call are ambiguous.
FOR_NVCC = (
    "-D__CUDA_NO_HALF_OPERATORS__",
    "-D__CUDA_NO_HALF_CONVERSIONS__",
    "-D__CUDA_NO_BFLOAT16_CONVERSIONS__",
    "-D__CUDA_NO_HALF2_OPERATORS__",
    "--expt-relaxed-constexpr",
    "--expt-extended-lambda",
)
EXPORTS = Path(__file__).with_name("exports.map")
COMPILER_CACHES = ("ccache", "sccache", "distcc")  # which CXX may begin with


def cxx_library(compiler: list[str]) -> list[str]:
    """C++'s library comes along, where the compiler has it as an archive; else the process has to have one as new."""
    found = subprocess.check_output([*compiler, "-print-file-name=libstdc++.a"], text=True).strip()
    return ["-static-libstdc++"] if Path(found).is_absolute() else []


def link(sources: list[Path], library: Path, common: list[str], torch: Path, cuda: Toolkit | None) -> None:
    """One library of all sources. With a toolkit it holds the CUDA runtime, hidden."""
    compiler = shlex.split(os.environ.get("CXX") or "c++")
    program = next((word for word in compiler if Path(word).name not in COMPILER_CACHES), compiler[0])
    host = [*compiler, *common, "-fPIC", "-fvisibility=hidden"]
    libraries = [f"-L{torch / 'lib'}", "-ltorch_cpu", "-ldl"]  # each process has its own torch loaded: no rpath
    if not any(option.startswith("-fsanitize") for option in common):  # they watch what the shared one throws
        libraries += cxx_library(compiler)
    libraries += ["-Wl,--exclude-libs,ALL", f"-Wl,--version-script={EXPORTS}"]
    with tempfile.TemporaryDirectory() as work:
        inputs: list[Path] = []
        for number, source in enumerate(sources):
            if source.suffix != ".cu":
                inputs.append(source)
                continue
            inputs.append(Path(work, f"{number}.o"))
            own = [*cuda.gencode(), "-Xfatbin=-compress-all"]
            hidden = "-Xcompiler=-fPIC,-fvisibility=hidden"
            # A project's options come later: -U takes a definition back.
            run([cuda.nvcc, f"-ccbin={program}", *FOR_NVCC, *common, *own, hidden, "-c", source, "-o", inputs[-1]])
        if cuda:
            host.append(f"-I{cuda.home / 'include'}")
            libraries += [f"-L{cuda.libraries()}", "-lcudart_static", "-lrt", "-lpthread"]
        run([*host, "-shared", *inputs, *libraries, "-o", library])


def build(
    module: str, sources: list[Path], folder: Path, torch: Path, options: list[str], cuda: tuple[Toolkit, ...] = ()
) -> Path:
    """Writes folder/<module's path>.py and the library beside it; returns the library.

    With CUDA toolkits, one library for each of them, of which Python's file takes the one for the machine; returns the last.
    """
    for part in module.split("."):
        if not part.isidentifier():
            raise SystemExit(f"error: {module} is no name of a module: write, for example, theirs._C")
    for source in sources:
        if not source.is_file():
            raise SystemExit(f"error: {source} does not exist")
        if source.suffix == ".cu" and not cuda:
            raise SystemExit(f"error: {source}: name a CUDA toolkit: --cuda /opt/cuda13:90,100+PTX")
    face = folder.joinpath(*module.split(".")).with_suffix(".py")
    face.parent.mkdir(parents=True, exist_ok=True)
    common = [*flags(module, torch), "-O2", *options]
    if not cuda:
        library = face.with_name(f"lib{face.stem}.so")
        link(sources, library, common, torch, None)
        write_face(face, library.name)
        return library
    libraries: dict[str, dict] = {}
    for one in sorted(cuda, key=Toolkit.release):
        major, minor = one.release()
        if f"cuda{major}" in libraries:
            raise SystemExit(f"error: --cuda {one.home}: a second toolkit of CUDA {major}: one of each version")
        library = face.with_name(f"lib{face.stem}.cuda{major}.so")
        link(sources, library, common, torch, one)
        libraries[f"cuda{major}"] = held(one.architectures, major, minor)
    write_cuda_face(face, libraries)
    return library
