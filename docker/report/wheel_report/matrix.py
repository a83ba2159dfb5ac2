"""Where a wheel works, by its tags, metadata and symbols: one axis each for CPython, torch, torch's build, glibc, driver, GPU.

Libraries whose names differ in a number only (`_cuda12.so`, `_cuda13.so`) are alternatives: one of them has to work.
"""

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from packaging import tags as packaging_tags
from packaging.version import Version

from . import needs
from .library import Library
from .wheel import Wheel

PYTHONS = ("3.9", "3.10", "3.11", "3.12", "3.13", "3.14", "3.14t", "3.15", "3.15t")
TORCHES = ("2.6", "2.7", "2.8", "2.9", "2.10", "2.11", "2.12", "2.13", "2.14", "2.15")
BUILDS = ("CPU", "CUDA 12", "CUDA 13")
# Of RHEL 7, RHEL 8, Ubuntu 20.04, RHEL 9, Ubuntu 22.04, Debian 12, Ubuntu 24.04, Debian 13.
GLIBCS = ("2.17", "2.28", "2.31", "2.34", "2.35", "2.36", "2.39", "2.41")
DRIVERS = tuple(map(str, (450, 525, 550, 570, 580, 590)))
GPUS = tuple(f"sm_{number}" for number in (60, 70, 75, 80, 86, 89, 90, 100, 103, 110, 120, 121))
WORKS, FAILS, UNSURE = "works", "fails", "not known"
RANK = {WORKS: 0, UNSURE: 1, FAILS: 2}


class Cell(NamedTuple):
    """Does the wheel work with this version of something, and why?"""

    verdict: str
    why: str


def families(wheel: Wheel) -> dict[str, list[Library]]:
    """The libraries by their names without numbers: alternatives of one another."""
    found: dict[str, list[Library]] = {}
    for library in wheel.libraries:
        plain = re.sub(r"\d+", "#", library.name)
        found.setdefault(plain if ".libs/" not in library.name else library.name, []).append(library)
    return found


def worst(cells: Iterable[Cell], default: Cell) -> Cell:
    return max(cells, key=lambda cell: RANK[cell.verdict], default=default)


def each(wheel: Wheel, judge: Callable[[Library], Cell | None], default: Cell) -> Cell:
    """The verdict of all families; of each, that of its best member."""
    found = []
    for members in families(wheel).values():
        cells = [cell for member in members if (cell := judge(member))]
        if cells:
            found.append(min(cells, key=lambda cell: RANK[cell.verdict]))
    return worst(found, default)


def python_tags(version: str) -> set[tuple[str, str]]:
    """(interpreter, abi) of the wheels that an installer takes on a CPython."""
    number, threaded = tuple(map(int, version.rstrip("t").split("."))), version.endswith("t")
    abi = f"cp{number[0]}{number[1]}{'t' if threaded else ''}"
    found = [
        *packaging_tags.cpython_tags(number, abis=[abi], platforms=["any"]),
        *packaging_tags.compatible_tags(number, interpreter=f"cp{number[0]}{number[1]}", platforms=["any"]),
    ]
    return {(tag.interpreter, tag.abi) for tag in found}


def cpython(wheel: Wheel, version: str) -> Cell:
    taken = python_tags(version)
    if not any((tag.interpreter, tag.abi) in taken for tag in wheel.tags):
        pairs = sorted({f"{tag.interpreter}-{tag.abi}" for tag in wheel.tags})
        return Cell(FAILS, f"installers refuse it: tagged {', '.join(pairs)}")
    number = version.rstrip("t")
    if Version(f"{number}.99") not in wheel.requires_python:  # the newest patch release
        return Cell(FAILS, f"installers refuse it: Requires-Python {wheel.requires_python}")
    promised = {tag.abi for tag in wheel.tags}
    if not promised <= {"abi3", "none"}:
        return Cell(WORKS, f"tagged {', '.join(sorted(promised))}")

    def judge(library: Library) -> Cell | None:
        if named := [needs.PYTHON.fullmatch(name) for name in library.needed if needs.PYTHON.fullmatch(name)]:
            return Cell(WORKS if named[0][1] == version else FAILS, f"{library.name} needs {named[0][0]}")
        floor, private = needs.python(library)
        if private:
            return Cell(UNSURE, f"{library.name} needs {private[0]}, which is not in the stable ABI")
        if floor and version.endswith("t"):
            return Cell(
                FAILS,
                f"{library.name} uses the stable ABI of the other kind of CPython, such as {library.python_symbols[0]}",
            )
        if floor and floor.version > needs.numbers(number):
            return Cell(FAILS, f"{floor.forced_by} came with CPython {floor}")
        return Cell(WORKS, floor.forced_by) if floor else None

    return each(wheel, judge, Cell(WORKS, "no symbol of CPython"))


def uses_torch(wheel: Wheel) -> bool:
    linked = (
        needs.TORCH.fullmatch(name) or needs.TORCH_CUDA.fullmatch(name)
        for lib in wheel.libraries
        for name in lib.needed
    )
    return (
        wheel.requires("torch") is not None
        or any(linked)
        or any(needs.torch(lib).uses_torch for lib in wheel.libraries)
    )


def torch(wheel: Wheel, version: str) -> Cell:
    asked = wheel.requires("torch")
    releases = [Version(f"{version}.{patch}") for patch in range(4)]
    if asked and not any(release in asked for release in releases):
        return Cell(FAILS, f"Requires-Dist: torch{asked}")
    pinned = asked is not None and any(part.operator in ("==", "===") for part in asked)

    def judge(library: Library) -> Cell | None:
        verdict = needs.torch(library)
        if verdict.unstable_symbols:
            named = f"{verdict.unstable_symbols[0][:80]} in {library.name}"
            if pinned:
                return Cell(WORKS, f"torch{asked} is the one that it was compiled against")
            return Cell(
                UNSURE, f"only the torch it was compiled against is certain, and no requirement names it: {named}"
            )
        floor = needs.torch_floor(library)
        if floor and floor.version > needs.numbers(version):
            return Cell(FAILS, f"{floor.forced_by} came with torch {floor}")
        if verdict.unknown_shim_symbols:
            return Cell(UNSURE, f"{verdict.unknown_shim_symbols[0]} in {library.name} is newer than this report's list")
        return Cell(WORKS, floor.forced_by) if floor else None

    return each(wheel, judge, Cell(WORKS, "no symbol of torch"))


OF_CUDA = ("torch with CUDA", "CUDA")


def torch_build(wheel: Wheel, build: str) -> Cell:
    def judge(library: Library) -> Cell | None:
        for name in library.needed:
            who = needs.provider(wheel, library, name)
            if build == "CPU" and who in OF_CUDA:
                return Cell(FAILS, f"{library.name} needs {name}")
        for major, name in needs.cuda_majors(wheel, library).items():
            if build != "CPU" and build != f"CUDA {major}":
                return Cell(FAILS, f"{library.name} needs {name}")
        brought = next((name for name in library.needed if needs.provider(wheel, library, name) in OF_CUDA), None)
        return Cell(WORKS, f"it brings {brought}, which {library.name} needs") if brought else None

    return each(wheel, judge, Cell(WORKS, "nothing of CUDA is asked of torch"))


def glibc_floor(wheel: Wheel) -> needs.Floor | None:
    """The newest of what the tags ask for and what the symbols need; None if glibc is not asked for."""
    tagged = [needs.numbers(f"{m[1]}.{m[2]}") for p in wheel.platforms if (m := re.match(r"manylinux_(\d+)_(\d+)_", p))]
    floors = [floor for library in wheel.libraries if (floor := needs.glibc(library))]
    if tagged:
        floors.append(needs.Floor(min(tagged), f"the tag manylinux_{min(tagged)[0]}_{min(tagged)[1]}"))
    return max(floors, default=None)


def glibc(wheel: Wheel, version: str) -> Cell:
    if any(needs.MUSL.fullmatch(name) for lib in wheel.libraries for name in lib.needed) or all(
        "musl" in p for p in wheel.platforms
    ):
        return Cell(FAILS, "it is for musl, another C library")
    floor = glibc_floor(wheel)
    if floor and floor.version > needs.numbers(version):
        return Cell(FAILS, f"{floor.forced_by} needs glibc {floor}")
    return Cell(WORKS, floor.forced_by if floor else "no symbol of glibc")


def device_libraries(wheel: Wheel) -> list[Library]:
    """Libraries with device code of the project's own; those that a repair copied in are NVIDIA's."""
    return [library for library in wheel.libraries if library.units and ".libs/" not in library.name]


def driver(wheel: Wheel, version: str) -> Cell:
    any_driver = Cell(WORKS, "any that knows the GPU")

    def judge(library: Library) -> Cell | None:
        if library not in device_libraries(wheel):
            return None
        floor = max(needs.driver(wheel, library), default=None)
        if floor is None:
            return any_driver
        return Cell(WORKS if floor.version <= (int(version),) else FAILS, f"{floor.forced_by}: {floor} or newer")

    return each(wheel, judge, any_driver)


def driver_floors(wheel: Wheel) -> list[needs.Floor | None]:
    """The least driver of each family of libraries with device code: of alternatives, that of the one that asks for least."""
    device, found = device_libraries(wheel), []
    for members in families(wheel).values():
        floors = [max(needs.driver(wheel, member), default=None) for member in members if member in device]
        if floors:
            found.append(min(floors) if all(floors) else None)
    return found


def gpu(wheel: Wheel, name: str) -> Cell:
    """Machine code runs on newer GPUs of its own major number; PTX is compiled for any newer one.

    Of alternatives, one with machine code is named.
    """
    number = int(name.removeprefix("sm_"))
    device = device_libraries(wheel)
    best = [
        min((gpu_code(member, number) for member in members if member in device), key=lambda found: found[0])[1]
        for members in families(wheel).values()
        if any(member in device for member in members)
    ]
    missing = [cell for cell in best if cell.verdict == FAILS]
    if missing and len(missing) < len(best):  # a library may be for one architecture on purpose
        return Cell(UNSURE, f"in part: {missing[0].why}")
    return worst(best, Cell(WORKS, "no device code"))


def gpu_code(library: Library, number: int) -> tuple[int, Cell]:
    """What a GPU runs of a library, after a number to sort by: 0 for machine code, 1 for PTX, 2 for nothing."""
    native = [image.architecture for image in library.images if image.kind == "machine_code" and runs(image, number)]
    if native:
        return 0, Cell(WORKS, f"machine code for sm_{max(native)} in {library.name}")
    ptx = [
        image for image in library.images if image.kind == "ptx" and image.architecture <= number and not image.specific
    ]
    if ptx:
        newest = max(ptx, key=lambda image: image.architecture)
        driver = needs.ptx_driver(newest) or "newer than 590"
        return 1, Cell(WORKS, f"PTX for compute_{newest.architecture} in {library.name}, with driver {driver} or newer")
    return 2, Cell(FAILS, f"{library.name} has no code for it")


def runs(image, number: int) -> bool:
    if image.specific:
        return image.architecture == number
    return image.architecture // 10 == number // 10 and image.architecture <= number


def matrix(wheel: Wheel) -> dict[str, dict[str, Cell]]:
    axes = {"CPython": (PYTHONS, cpython), "glibc": (GLIBCS, glibc)}
    if uses_torch(wheel):
        axes["torch"] = (TORCHES, torch)
    if uses_torch(wheel) or any(
        needs.provider(wheel, lib, name) == "CUDA" for lib in wheel.libraries for name in lib.needed
    ):
        axes["torch build"] = (BUILDS, torch_build)
    if device_libraries(wheel):
        axes["CUDA driver"] = (DRIVERS, driver)
        axes["GPU"] = (GPUS, gpu)
    return {axis: {value: judge(wheel, value) for value in values} for axis, (values, judge) in axes.items()}
