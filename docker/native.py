"""On an ARM machine, what the locks name for x86-64 in the version for ARM: `make wheel ENGINE=host` there, without crossing.

A lock names one file for each package. Of the packages that docker/locks/aarch64 has, the file is taken from there, whatever the
version; the others have to be pure Python, or pip refuses them. Containers need Debian's packages for x86-64, and stay there.
"""

import platform
from pathlib import Path

from common import CACHE, LOCKS, Failure, Locked, read_requirements
from image.project import Pair

ARM, X86 = "aarch64", "x86_64"
FOLDER = LOCKS / ARM
COMPILED = ("requirements-test.txt", "requirements-native.txt")


def is_arm() -> bool:
    return platform.machine() == ARM


def machine() -> str:
    """Whose wheels are built here without ARCH."""
    return ARM if is_arm() else X86


def for_arm() -> dict[str, Locked]:
    """Package -> its file for ARM."""
    return {entry.package: entry for name in COMPILED for entry in read_requirements(FOLDER / name)}


def written(lock: Path, target: Path) -> Path:
    """Writes a lock with the files for ARM; says once which versions differ."""
    held, lines, others = for_arm(), [], []
    for entry in read_requirements(lock):
        own = held.get(entry.package, entry)
        lines.append(f"{own.path} --hash=sha256:{own.sha256}\n")
        others += [f"{own.path} for {entry.version}"] * (own.version != entry.version)
    text = "".join([f"# {lock.name} with what docker/locks/{ARM} has\n", *lines])
    if others and not (target.exists() and target.read_text() == text):
        print(f"{lock.name} on {ARM}: {', '.join(others)}", flush=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)
    return target


def here(lock: Path) -> Path:
    """The lock of a file for x86-64 on this machine: itself there, a copy in .cache/locks on ARM."""
    if not is_arm() or FOLDER in lock.parents:
        return lock
    return written(lock, CACHE / "locks" / str(lock.parent.resolve()).strip("/").replace("/", "-") / lock.name)


def locks() -> Path:
    """The folder of the locks that the provenance of a wheel names. The torch for ARM is in the build's own lock."""
    if not is_arm():
        return LOCKS
    for name in ("tools", "build"):
        folder = here(LOCKS / f"requirements-{name}.txt").parent
    (folder / ARM).mkdir(exist_ok=True)
    (folder / ARM / "requirements-test.txt").write_text("# requirements-build.txt has what a build on ARM imports\n")
    return folder


def pair_here(pair: Pair) -> Pair:
    """A pair with the torch that is there."""
    return Pair(pair.python, for_arm()["torch"].version) if is_arm() else pair


def check_choices(variant: str, machine: str) -> None:
    """Refuses what cannot be built on this machine, in one line."""
    if platform.machine() not in (ARM, X86):
        raise Failure(f"this machine is {platform.machine()}: wheels are built on {X86}, and by ENGINE=host on {ARM}")
    if is_arm() and machine != ARM:
        raise Failure(f"ARCH={machine}: this machine is {ARM}, and builds for {X86} are made on {X86}")
    if is_arm() and variant == "cuda":
        raise Failure(f"VARIANT=cuda: the locked compilers of CUDA are for {X86}: build there, with ARCH={ARM}")


def check_engine(requested: str) -> None:
    if is_arm() and requested not in ("auto", "host"):
        raise Failure(
            f"ENGINE={requested}: this machine is {ARM}, and the images are made of packages for {X86}: use ENGINE=host, "
            f"or build on {X86} with ARCH={ARM}"
        )


def check_inputs() -> None:
    if is_arm():
        raise Failure(
            f"this machine is {ARM}, where `make wheel` downloads what it takes: `make fetch` and `make bundle` are for {X86}"
        )


def check_emulation() -> None:
    if is_arm():
        raise Failure(f"this machine is {ARM}, and the emulator is for {X86}: make test, without ARCH")
