"""Tests the CPU's library for aarch64 on this x86 machine, under qemu-user: `make test ARCH=aarch64`.

Compiles it with g++-aarch64-linux-gnu, or takes the one of WHEEL; then random calls of every op against float64 torch, forward
and gradients, and the op tests, with each of TORCHES. With --quick, as the gate runs it: compiled with -O1, and no op tests.

docker/locks/aarch64/ locks what runs: qemu, a root file system of Debian packages, CPython's wheels. No script of a package
runs, and the kernel needs no binfmt registration: the emulated programs start each other through .cache/aarch64/python.
"""

import argparse
import os
import shlex
import shutil
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

import children
import cpu_library
import emulated_torch
import fetch
import interpreters
import native
import project_run
import rootfs
from common import (
    CACHE,
    IMAGE_SCRIPTS,
    LOCKS,
    ROOT,
    Failure,
    environment,
    fresh_folder,
    main_guard,
    read_debian_lock,
    read_requirements,
    sha256_of,
    virtual_environment,
)
from image import elf
from image import environment as packages
from image.project import Pair, Project

QEMU, SYSTEM, PACKAGES = (
    LOCKS / "aarch64" / name for name in ("debian-qemu.lock", "debian-test.lock", "requirements-test.txt")
)
WHEELS = CACHE / "wheels-aarch64"  # of the same names as those for x86
CXX = "aarch64-linux-gnu-g++"
SECONDS_OF_A_WHEEL = 20
WITHOUT_KERNELS = ("test_cuda.py", "test_loader.py", "test_report.py", "test_docstrings.py", "test_saved_results.py")
# A script, which the kernel starts wherever it starts scripts; Python takes it for its own program.
# Without SME: torch 2.13's library for convolutions takes it for SME2, which this qemu has not.
LAUNCHER = """#!/bin/sh
PYTHONHOME={root}/usr QEMU_LD_PREFIX={root} exec {qemu} -cpu "${{EMULATED_CPU:-max,sme=off}}" -0 "$0" {root}/usr/bin/python3.11 "$@"
"""

NAMES = ("python", "python3")  # of what test commands start

# What emulated programs read in place of this machine's files, which describe an x86 processor: torch 2.13 finds no cache
# in them, and writes the first one's description to address 0. This is a Cortex-A72 of one core.
PROCESSOR = {
    "proc/cpuinfo": "processor\t: 0\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU variant\t: 0x0\n"
    "CPU part\t: 0xd08\nCPU revision\t: 3\n",
    "sys/devices/system/cpu/possible": "0\n",
    "sys/devices/system/cpu/present": "0\n",
    "sys/devices/system/cpu/cpu0/regs/identification/midr_el1": "0x00000000410fd083\n",
}

# What `pytest` of a test command is: unpacked wheels bring no programs, and this machine's own has another Python.
PYTEST = """#!/bin/sh
exec {launcher} -m pytest "$@"
"""


def unpacked(wheel: Path, folder: Path) -> Path:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def fetch_inputs() -> None:
    for lock in (QEMU, SYSTEM):
        fetch.fetch_debian(lock, CACHE / "debian")
    fetch.fetch_wheels(PACKAGES, WHEELS, machine="aarch64", whose="the pipeline for aarch64")


def take_qemu(target: Path) -> None:
    """The one program of its package that is needed."""
    (entry,) = read_debian_lock(QEMU)
    package = CACHE / "debian" / Path(entry.path).name
    for info, content in rootfs.data_files(package, rootfs.locked_bytes(package, entry.sha256)):
        if info.name == f"usr/bin/{target.name}" and content is not None:
            target.write_bytes(content.read())
            target.chmod(0o755)
            return
    raise Failure(f"{package} has no {target.name}")


def write_launcher(launcher: Path, root: Path, qemu: Path) -> Path:
    launcher.write_text(LAUNCHER.format(root=shlex.quote(str(root)), qemu=shlex.quote(str(qemu))))
    launcher.chmod(0o755)
    return launcher


def describe_processor(root: Path) -> None:
    for name, text in PROCESSOR.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def write_pytest(program: Path, launcher: Path) -> None:
    program.parent.mkdir(exist_ok=True)
    program.write_text(PYTEST.format(launcher=shlex.quote(str(launcher))))
    program.chmod(0o755)


@cache
def prepared() -> Path:
    """The folder .cache/aarch64: python, which starts the emulated CPython; root/; site/, its packages."""
    folder = CACHE / "aarch64"
    inputs = (QEMU, SYSTEM, PACKAGES, Path(rootfs.__file__))
    expected = " ".join([*map(sha256_of, inputs), str(folder), LAUNCHER, *NAMES, *PROCESSOR.values()])
    stamp = folder / "made-from"
    if stamp.exists() and stamp.read_text() == expected:
        return folder
    fetch_inputs()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    root, qemu = folder / "root", folder / "qemu-aarch64-static"
    take_qemu(qemu)
    rootfs.assemble(SYSTEM, CACHE / "debian", folder / "root.tar")
    with tarfile.open(folder / "root.tar") as tar:
        tar.extraction_filter = lambda info, _: info  # made here; its links lead to its own /
        tar.extractall(root)
    (folder / "root.tar").unlink()
    describe_processor(root)
    for entry in read_requirements(PACKAGES):
        unpacked(fetch.find_wheel(WHEELS, entry.path, entry.sha256), folder / "site")
    for name in NAMES:
        write_launcher(folder / name, root, qemu)
    stamp.write_text(expected)
    return folder


def environment_for(project: Project, pair: Pair) -> Path:
    """A folder of what the project's lock for tests names. What PACKAGES holds of it comes from there, whatever its version;
    pure Python comes from the lock; what is compiled for x86-64 alone is left out, and named."""
    folder, site = fresh_folder("aarch64-environment"), prepared() / "site"
    held = {name.partition("==")[0]: (name, files) for name, files in packages.entries(site).items()}
    others, lacking = [], []
    for entry in read_requirements(project.lock("test", pair)):
        name, files = held.get(packages.normalized(entry.package), ("", ()))
        wheel = fetch.find_wheel(project_run.WHEELS, entry.path, entry.sha256)
        if name:
            others += [f"{name} for {entry.version}"] * (name.partition("==")[2].partition("+")[0] != entry.version)
            for file in files:
                (folder / file).parent.mkdir(exist_ok=True)
                (folder / file).symlink_to(site / file)
        elif wheel.name.endswith("-none-any.whl"):
            unpacked(wheel, folder)
        else:
            lacking.append(entry.path)
    write_pytest(folder / "bin/pytest", prepared() / "python")
    if others:
        print(f"what tests import on aarch64: {', '.join(others)}", flush=True)
    if lacking:
        print(f"without {', '.join(lacking)}: compiled, and docker/locks/aarch64 has none for aarch64", flush=True)
    return folder


def variables(*folders: Path, **extra: str) -> dict[str, str]:
    """The environment of an emulated CPython that imports from the folders, customops from the first, before site/."""
    # One thread: qemu runs them on the same cores, and they only wait for each other.
    return environment(
        PYTHONPATH=os.pathsep.join(map(str, (*folders, prepared() / "site"))),
        PYTHONDONTWRITEBYTECODE="1",
        OMP_NUM_THREADS="1",
        **extra,
    )


def cross_compiled(torch: Path, quick: bool) -> Path:
    """The library, by this machine's cross compiler."""
    if shutil.which(CXX) is None:
        raise Failure(f"this needs {CXX}: apt-get install g++-aarch64-linux-gnu")
    folder = CACHE / "aarch64-objects"
    return cpu_library.compile_library(
        CXX, ["-O1" if quick else "-O3"], torch, folder / ("quick" if quick else "full"), []
    )


def library_of(wheel: Path) -> Path:
    """The library in a folder that holds what the wheel holds."""
    folder = CACHE / "aarch64-wheel"
    shutil.rmtree(folder, ignore_errors=True)
    library = unpacked(wheel, folder) / "customops/_cpu.so"
    if not library.exists() or elf.read(library.read_bytes()).machine != "aarch64":
        raise Failure(f"{wheel} holds no customops/_cpu.so for aarch64: make wheel ARCH=aarch64")
    return library


def random_calls(env: dict[str, str], seconds: int, seed: int) -> None:
    script = [prepared() / "python", ROOT / "tests/fuzz/differential.py", f"--seconds={seconds}", f"--seed={seed}"]
    children.run(script, env=env, cwd=prepared())


def held_torch() -> str:
    return next(entry.version for entry in read_requirements(PACKAGES) if entry.package == "torch")


def check_pairs(pairs: list[Pair]) -> None:
    """Refuses what would be built or tested as something else."""
    if len(pairs) > 1 or pairs[0].python != interpreters.LOCKED:
        raise Failure(
            f"ARCH=aarch64 builds and tests for CPython {interpreters.LOCKED} with torch {held_torch()} alone, not for "
            f"{', '.join(pair.python for pair in pairs)}: make wheel ARCH=aarch64 PYTHONS={interpreters.LOCKED} TORCHES={pairs[0].torch}"
        )


def test_wheel(project: Project, pair: Pair, out: Path, options: Mapping[str, str] = MappingProxyType({})) -> None:
    """The test stage of `make wheel ARCH=aarch64`: the project's own tests, and of this one, whose tests take hours, random calls."""
    if project.folder == ROOT:
        (wheel,) = out.glob("*.whl")
        return random_calls(variables(library_of(wheel).parents[1]), SECONDS_OF_A_WHEEL, 0)
    env = variables(
        out,
        CUSTOMOPS_TARGET="aarch64",
        BUILD_PAIR=f"{pair.python} {held_torch()}",
        BUILD_INTERPRETER=str(prepared() / "python"),
        BUILD_ENVIRONMENT=str(environment_for(project, pair)),
        **options,
    )
    del env["PYTHONPATH"]
    script = [virtual_environment("tools") / "python", IMAGE_SCRIPTS / "test_project.py", out, project.folder]
    with tempfile.TemporaryDirectory() as folder:
        error = Path(folder, "error")
        if children.run(script, env=env | {"BUILD_ERROR": str(error)}, check=False).returncode:
            raise Failure(
                error.read_text().strip() if error.exists() else f"the tests of {project.folder.name} failed, see above"
            )


def run_tests(args: argparse.Namespace, library: Path, version: str) -> None:
    """Random calls and op tests with one torch."""
    torch = [] if version == held_torch() else [emulated_torch.prepared(version, prepared() / "root")]
    if args.wheel:
        env = variables(library.parents[1], *torch)  # the wheel's own Python files, too
    else:
        env = variables(ROOT, *torch, CUSTOMOPS_COMPILER="cmake", CUSTOMOPS_LIBRARY=str(library))
    print(f"==> torch {version}", flush=True)
    random_calls(env, args.seconds, args.seed)
    if not args.quick:
        print("==> the op tests", flush=True)
        suite = [path for path in sorted(ROOT.glob("tests/test_*.py")) if path.name not in WITHOUT_KERNELS]
        pytest = (prepared() / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not compiled")
        children.run([*pytest, f"--one-in={args.one_in}", *suite], env=env, cwd=prepared())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--arch", choices=("aarch64",), default="aarch64", help="the one that there is")
    parser.add_argument("--wheel", type=Path, help="instead of compiling csrc/")
    parser.add_argument("--seconds", type=int, default=60, help="of random calls")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="compile with -O1; no op tests")
    parser.add_argument("--one-in", type=int, default=1, metavar="N", help="of the op tests, every N-th alone")
    parser.add_argument("--torches", default="", help="instead of the one of docker/locks/aarch64")
    args = parser.parse_args()
    native.check_emulation()
    torch = prepared() / "site/torch"
    began = time.monotonic()
    library = library_of(args.wheel) if args.wheel else cross_compiled(torch, args.quick)
    print(f"==> {library} after {time.monotonic() - began:.0f} s", flush=True)
    for version in args.torches.split() or [held_torch()]:
        run_tests(args, library, version)


if __name__ == "__main__":
    main_guard(main)
