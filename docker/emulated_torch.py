"""Another torch than that of docker/locks/aarch64 for the emulated tests: `make test ARCH=aarch64 TORCHES=2.13.0`.

From 2.11 on, torch for aarch64 is a CUDA build. Of NVIDIA's libraries, the tests need the CUDA runtime, which says that
there is no GPU. The others, some gigabytes, are not downloaded: their names are links to a library of torch's that has
nothing in it, and Python loads modules lazily, so that a function is looked for when it is called.
"""

import shutil
from pathlib import Path

import fetch
from common import CACHE, LOCKS, Failure, read_requirements, sha256_of
from image import elf

VERSIONS = LOCKS / "aarch64-torch"  # requirements-<version>.txt
WHEELS = CACHE / "wheels-aarch64-torch"
EMPTY = "libtorch_global_deps.so"
LAZILY = "import os\nimport sys\n\nsys.setdlopenflags(os.RTLD_LAZY)\n"


def locked() -> dict[str, Path]:
    return {path.stem.removeprefix("requirements-"): path for path in sorted(VERSIONS.glob("requirements-*.txt"))}


def link_missing(site: Path, root: Path) -> list[str]:
    """Gives torch's libraries what they name and neither the folder nor the root file system has; returns the names."""
    own = site / "torch/lib"
    libraries = [path for path in own.glob("*.so*") if path.is_file()]
    needed = {name for path in libraries for name in elf.read(path.read_bytes()).needed}
    held = {path.name for folder in (site, root) for path in folder.rglob("*.so*")}
    missing = sorted(needed - held)
    for name in missing:
        (own / name).symlink_to(EMPTY)
    return missing


def prepared(version: str, root: Path) -> Path:
    """A folder of the torch, to stand on the PYTHONPATH before another one.

    root: the emulated root file system.
    Raises Failure if no lock names the version.
    """
    if version not in locked():
        raise Failure(
            f"{VERSIONS} has no lock of torch {version}, it has {', '.join(locked())}: TORCHES names one of these"
        )
    lock, folder = locked()[version], CACHE / f"aarch64-torch{version}"
    stamp, expected = folder / "made-from", f"{sha256_of(lock)} {sha256_of(Path(__file__))}"
    if stamp.exists() and stamp.read_text() == expected:
        return folder
    fetch.fetch_wheels(lock, WHEELS, machine="aarch64", whose="the tests for aarch64")
    shutil.rmtree(folder, ignore_errors=True)
    for entry in read_requirements(lock):
        shutil.unpack_archive(fetch.find_wheel(WHEELS, entry.path, entry.sha256), folder, "zip")
    (folder / "sitecustomize.py").write_text(LAZILY)
    print(f"torch {version} runs without {', '.join(link_missing(folder, root))}", flush=True)
    stamp.write_text(expected)
    return folder
