"""aten = "stable" with VARIANT=cuda: the same sources compiled by CUDA 12 and by CUDA 13, two libraries of each module in one wheel.

Which toolkit compiles for which GPUs is what CUDA_ARCHS, TORCH_CUDA_ARCH_LIST or the project's cuda-archs says; without a
word, DEFAULT. The runtime of CUDA is linked statically. torch may be a build for the CPU, or for another
CUDA: extensions link its CUDA runtime, and these do not (toolkit_of_build.py). Standard library only.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import architectures
import elf
import fatbin
import pinning
from project import BadProject
from wheelfile import Wheel

WHY = 'aten = "stable" with VARIANT=cuda'
# Each GPU is served by the oldest toolkit that knows it.
DEFAULT = "7.0 7.5 8.0 8.6 9.0+PTX 10.0 12.0+PTX"
# sh nvcc.sh NVCC ARGUMENT...
NVCC = """source={source}
for word in "$@"; do
  case $word in
    "$source"*" "*) ;;
    "$source"*.cu) set -- "$@" "-Xcudafe=--orig_src_path_name ${{word#"$source"}}" ;;
  esac
done
exec "$@"
"""
HOOK = Path(__file__).with_name("toolkit_of_build.py")


class Toolkit(NamedTuple):
    """cuda12 or cuda13, and what it compiles for: ("80", "90+PTX")."""

    name: str
    home: Path
    architectures: tuple[str, ...]

    def version(self) -> str:
        """Such as 12.4.131."""
        said = subprocess.check_output([self.home / "bin/nvcc", "--version"], text=True)
        return re.search(r", V([\d.]+)", said)[1]

    def static_runtime(self) -> Path:
        for folder in ("lib64", "lib"):
            if (path := self.home / folder / "libcudart_static.a").is_file():
                return path
        raise BadProject(
            f"{WHY}: {self.home} has no libcudart_static.a: `make image VARIANT=cuda` makes one that has it"
        )


def toolkits(table: Mapping[str, Any], base: Mapping[str, str]) -> list[Toolkit]:
    """The toolkits that have something to compile for, the oldest first.

    table: of the project. base: the variables of the build.
    """
    wanted = base.get("CUDA_ARCHS") or base.get("TORCH_CUDA_ARCH_LIST") or table["cuda-archs"] or DEFAULT
    chosen: dict[str, list[str]] = {}
    try:
        for name, major, minor, suffix, ptx in architectures.parse(wanted):
            if suffix:
                raise BadProject(
                    f"{WHY} compiles for no single GPU such as {major}.{minor}{suffix}: write {major}.{minor}"
                )
            chosen.setdefault(name, []).append(f"{major}{minor}{ptx}")
    except architectures.BadArchitecture as error:
        raise BadProject(f"{WHY}: {error}") from error
    found = [
        Toolkit(name, Path(base.get(f"{name.upper()}_HOME") or f"/opt/{name}"), tuple(chosen[name]))
        for name in sorted(chosen)
    ]
    for toolkit in found:
        if not (toolkit.home / "bin/nvcc").is_file():
            raise BadProject(
                f"{WHY} needs {toolkit.home}/bin/nvcc, which is missing: the images of VARIANT=cuda have it"
            )
    return found


def label(built: list[Toolkit], base: Mapping[str, str]) -> str:
    """What the version says of a build whose GPUs the caller has chosen, and not the project: as in our own wheels."""
    if not (base.get("CUDA_ARCHS") or base.get("TORCH_CUDA_ARCH_LIST")):
        return ""
    words = [f"{one.name}.{'.'.join(f'sm{entry}' for entry in one.architectures)}" for one in built]
    return ".".join(words).replace("+PTX", "ptx")


def for_torch(entry: str) -> str:
    """90+PTX is 9.0+PTX in TORCH_CUDA_ARCH_LIST."""
    number, plus, ptx = entry.partition("+")
    return f"{number[:-1]}.{number[-1]}{plus}{ptx}"


def python_path(folder: Path, given: str) -> str:
    """PYTHONPATH with toolkit_of_build.py in front, which is put into the folder."""
    folder.mkdir(exist_ok=True)
    shutil.copyfile(HOOK, folder / "sitecustomize.py")
    return os.pathsep.join([str(folder), given])


def nvcc_command(toolkit: Toolkit, path: str, source: Path, script: Path) -> str:
    """nvcc for torch's BuildExtension, which takes a command: nvcc names internal symbols after a source's path, let it be relative."""
    script.write_text(NVCC.format(source=shlex.quote(f"{source}/")))
    ccache = ["ccache"] if shutil.which("ccache", path=path) else []  # as torch itself has it, from 2.13 on
    return shlex.join(["sh", str(script), *ccache, f"{toolkit.home}/bin/nvcc"])


def variables(
    toolkit: Toolkit, own: Mapping[str, str], given: Mapping[str, str], work: Path, source: Path
) -> dict[str, str]:
    """Of the build by one toolkit.

    own: CXXFLAGS of stable_aten.variables(), of which nvcc gets its share. given: what the build has otherwise. work: its folder.
    """
    home = str(toolkit.home)
    (work / "lib/libcudart.so").write_text(f"INPUT ( {toolkit.static_runtime()} -lrt -lpthread -ldl )\n")
    # nvcc reads these before its arguments. What only the C++ compiler knows goes to it.
    maps = [word for word in given.get("CXXFLAGS", "").split() if word.startswith("-ffile-prefix-map=")]
    words = [word for word in [*own["CXXFLAGS"].split(), *maps] if not word.startswith("-std")]
    flags = [word if word.startswith(("-I", "-D")) else f"-Xcompiler={word}" for word in words]
    return {
        "CUDA_HOME": home,
        "CUDA_PATH": home,
        "CUDACXX": f"{home}/bin/nvcc",
        "PYTORCH_NVCC": nvcc_command(toolkit, given["PATH"], source, work / "nvcc.sh"),
        "FORCE_CUDA": "1",
        "TORCH_CUDA_ARCH_LIST": ";".join(map(for_torch, toolkit.architectures)),
        "NVCC_PREPEND_FLAGS": " ".join([*flags, "-Xfatbin=-compress-all", given.get("NVCC_PREPEND_FLAGS", "")]).strip(),
        "PATH": os.pathsep.join([f"{home}/bin", given["PATH"]]),
        "PYTHONPATH": python_path(work / "site", given["PYTHONPATH"]),
    }  # fmt: skip


def restore(copy: Path, source: Path) -> None:
    """Makes the sources what they were before a build, in the same place: this process may stand in the folder."""
    for path in source.iterdir():
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    shutil.copytree(copy, source, symlinks=True, dirs_exist_ok=True)


class Built(NamedTuple):
    """The wheels that the project's backend has made, one for each toolkit."""

    wheels: dict[str, Wheel]
    toolkits: list[Toolkit]
    label: str

    def record(self) -> dict:
        """For the build record, as csrc/nvcc.py has it."""
        return {one.name: {"nvcc": one.version(), "architectures": list(one.architectures)} for one in self.toolkits}

    def libraries(self, module: str) -> dict[str, bytes]:
        """{toolkit: library} of a module that has device code; {} for others."""
        found = {}
        for name, wheel in self.wheels.items():
            if module not in wheel.names:
                raise BadProject(
                    f"{WHY}: the build by {name} made no {module}, the other one did: one wheel cannot hold both"
                )
            found[name] = wheel.read(module)
        return found if any(fatbin.units(elf.read(body)) for body in found.values()) else {}

    def files(self, module: str, folder: str, stem: str) -> dict[str, bytes]:
        """What stands for a module in the wheel; {} for one without device code."""
        from aten_stable.face import cuda_face, held

        libraries = self.libraries(module)
        if not libraries:
            return {}
        described = {
            one.name: held(one.architectures, *map(int, one.version().split(".")[:2])) for one in self.toolkits
        }
        return {
            **{f"{folder}lib{stem}.{name}.so": body for name, body in libraries.items()},
            f"{folder}{stem}.py": cuda_face().encode(),
            f"{folder}{stem}.cuda.json": (json.dumps(described, indent=1) + "\n").encode(),
        }

    def differences(self) -> list[str]:
        """Files, other than compiled ones, that are not the same in all of the wheels."""
        names = {name for wheel in self.wheels.values() for name in wheel.names}
        plain = {name for name in names if ".dist-info/" not in name and not name.endswith(".so")}
        return sorted(
            name
            for name in plain
            if len({wheel.read(name) if name in wheel.names else None for wheel in self.wheels.values()}) > 1
        )

    def complete(self, contents: dict[str, bytes], wheel: Wheel, with_kernels: bool) -> tuple[str, dict[str, bytes]]:
        """(version, contents) with the beginning of the build record; the version names the GPUs that a caller has chosen."""
        if not with_kernels:
            raise BadProject(
                f"{WHY}: no module holds device code. A setup.py may ask whether this machine has a GPU: let it obey "
                "FORCE_CUDA=1 and CUDA_HOME; or build it with VARIANT=cpu"
            )
        for name in self.differences():
            print(
                f"warning: {name} differs between the builds by CUDA 12 and CUDA 13: the wheel holds the first",
                flush=True,
            )
        record = json.dumps({"variant": "cuda", "cuda": self.record()}).encode()
        contents = contents | {f"{wheel.info}/build.json": record}
        if not self.label:
            return wheel.version, contents
        version = f"{wheel.version}{'.' if '+' in wheel.version else '+'}{self.label}"
        return version, pinning.rename(contents, version)
