"""Builds and tests with ENGINE=host: the locked tools in virtual environments under .cache/, this machine's compiler."""

import os
import platform
import shutil
import subprocess
from pathlib import Path

import children
import emulated
import fetch
import images
import interpreters
import project_run
from common import CACHE, IMAGE_SCRIPTS, LOCKS, Failure, environment, fresh_folder, sha256_of, virtual_environment
from image.project import Pair, Project
from project_run import memory_file, pair_variables

NEWEST_GCC_FOR_CUDA = 13


def check_host(machine: str = images.OWN, variant: str = "cpu") -> None:
    interpreters.locked()
    across = machine != platform.machine()
    if across and variant == "cuda":
        raise Failure(
            f"VARIANT=cuda ARCH={machine} needs ENGINE=docker or podman, whose image has the locked CUDA runtimes"
        )
    compiler = os.environ.get("CXX", f"{machine}-linux-gnu-g++" if across else "c++")
    if shutil.which(compiler) is None:
        package = f"g++-{machine}-linux-gnu" if across else "g++"
        raise Failure(
            f"ENGINE=host needs a C++17 compiler and {compiler} is not on the PATH: install {package}, or set CXX"
        )
    if across:
        for command in (compiler, os.environ.get("CC", f"{machine}-linux-gnu-gcc")):
            made_for = subprocess.check_output([command, "-dumpmachine"], text=True).strip()
            if not made_for.startswith(f"{machine}-"):
                raise Failure(
                    f"ARCH={machine}: {command} compiles for {made_for}: unset CC and CXX, or set them to others"
                )


def host_machine(machine: str) -> dict[str, str]:
    """Environment variables of a host build for another machine; unpacks torch for it."""
    if machine == platform.machine():
        return {}
    return {"CUSTOMOPS_TARGET": machine, "CUSTOMOPS_TARGET_SITE": str(emulated.prepared() / "site")}


def host_variant(variant: str) -> dict[str, str]:
    """Environment variables of a host build; for CUDA, installs the locked compilers in .cache/cuda."""
    if variant == "cpu":
        return {"CUSTOMOPS_VARIANT": "cpu"}
    compiler = os.environ.get("CXX", "c++")
    major = int(subprocess.check_output([compiler, "-dumpversion"], text=True).split(".")[0])
    if major > NEWEST_GCC_FOR_CUDA and "clang" not in subprocess.check_output([compiler, "--version"], text=True):
        raise Failure(
            f"VARIANT=cuda ENGINE=host: nvcc 12.4 supports GCC up to {NEWEST_GCC_FOR_CUDA}, and {compiler} is GCC {major}: "
            "set CXX to an older one, or use ENGINE=docker"
        )
    tools = virtual_environment("tools")
    fetch.fetch_set(*images.CUDA_SETS)
    fetch.fetch_debian_set("cuda")
    folder, stamp = CACHE / "cuda", CACHE / "cuda/made-from"
    inputs = [
        IMAGE_SCRIPTS / "install-cuda.sh",
        LOCKS / "debian-cuda.lock",
        *(LOCKS / f"requirements-{n}.txt" for n in images.CUDA_SETS),
    ]
    expected = " ".join(map(sha256_of, inputs))
    if not stamp.exists() or stamp.read_text() != expected:
        script = ["bash", IMAGE_SCRIPTS / "install-cuda.sh", folder, LOCKS, CACHE / "wheels", CACHE / "debian"]
        children.run(script, env=environment(tools))
        stamp.write_text(expected)
    homes = {f"{name.upper()}_HOME": str(folder / name) for name in ("cuda12", "cuda13")}
    return {"CUSTOMOPS_VARIANT": "cuda"} | homes


def host_variables(pair: Pair) -> dict[str, str]:
    return {
        "BUILD_INTERPRETER": str(project_run.host_interpreter(pair)),
        "BUILD_NETWORK": str(project_run.network_library()),
    }


def build(
    project: Project, pair: Pair, out: Path, variant: str, archs: dict[str, str], machine: str = images.OWN
) -> None:
    tools = virtual_environment("tools")
    folder = project_run.make_environment(project, "build", pair, "host", "")
    temporary = str(fresh_folder("tmp"))  # what a killed build leaves there, the next one removes
    env = environment(tools, MANYLINUX="auto", TMPDIR=temporary, BUILD_MEMORY=str(memory_file(project)), **host_variant(variant),
                      **archs, **pair_variables(pair, folder), **host_variables(pair), **host_machine(machine))  # fmt: skip
    with project_run.own_error() as error:
        command = ["bash", IMAGE_SCRIPTS / "build-wheel.sh", project.folder, out]
        children.run(command, env=env | {"BUILD_ERROR": str(error)})


def test(project: Project, pair: Pair, out: Path, options: dict[str, str]) -> None:
    tools = virtual_environment("tools")
    folder = project_run.make_environment(project, "test", pair, "host", "")
    env = environment(tools, **pair_variables(pair, folder), **host_variables(pair), **options)
    with project_run.own_error() as error:
        command = [tools / "python", IMAGE_SCRIPTS / "test_project.py", out, project.folder]
        children.run(command, env=env | {"BUILD_ERROR": str(error)})
