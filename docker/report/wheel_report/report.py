"""A report as data: plain dictionaries and lists, the same that --json prints and that the table is made of."""

from . import matrix, needs
from .library import Library
from .wheel import Wheel

SCHEMA = 1  # of the JSON; a field that changes its meaning raises it


def build(wheel: Wheel) -> dict:
    cells = matrix.matrix(wheel)
    return {
        "schema": SCHEMA,
        "wheel": {
            "file": wheel.path.name, "name": wheel.name, "version": wheel.version, "bytes": wheel.path.stat().st_size,
            "tags": list(map(str, wheel.tags)), "requires_python": str(wheel.requires_python),
            "requires_torch": None if wheel.requires("torch") is None else str(wheel.requires("torch")),
        },
        "works_on": {axis: {value: cell._asdict() for value, cell in row.items()} for axis, row in cells.items()},
        "floors": floors(wheel),
        "symbols_allow": needs.symbols_allow(wheel),
        "libraries": [describe(wheel, library) for library in wheel.libraries],
        "not_read": wheel.unread,
        "sizes": dict(wheel.sizes.most_common()),
        "largest": [{"file": name, "bytes": size} for size, name in wheel.largest],
        "problems": [*wheel.problems, *tag_problems(wheel)],
        "reproducibility_hazards": wheel.hazards,
        "sboms": wheel.sboms,
        "vulnerabilities": "not scanned: that takes a database, and this works offline" if wheel.sboms else "no SBOM in the wheel",
    }  # fmt: skip


def floors(wheel: Wheel) -> dict[str, dict]:
    """The least version of each thing that the wheel asks for, and what forces it."""
    found = {
        "glibc": [matrix.glibc_floor(wheel)],
        "CPython": [needs.python(library)[0] for library in wheel.libraries],
        "torch": [needs.torch_floor(library) for library in wheel.libraries],
        "CUDA driver": matrix.driver_floors(wheel),
    }
    newest = {name: max(filter(None, candidates), default=None) for name, candidates in found.items()}
    return {name: {"version": str(floor), "forced_by": floor.forced_by} for name, floor in newest.items() if floor}


def describe(wheel: Wheel, library: Library) -> dict:
    verdict, (python, private) = needs.torch(library), needs.python(library)
    own = needs.glibc(library)
    kinds = {
        kind: [f"{number}{'a' if specific else ''}" for number, specific in
               sorted({(image.architecture, image.specific) for image in library.images if image.kind == kind})]
        for kind in ("machine_code", "ptx")
    }  # fmt: skip
    return {
        "file": library.name,
        "bytes": sum(library.parts.values()),
        "machine": library.machine,
        "kind": "extension module" if library.module else "library",
        "needs": {name: needs.provider(wheel, library, name) for name in library.needed},
        "glibc": own and {"version": str(own), "forced_by": own.forced_by.split(" in ")[0]},
        "torch": "unstable" if verdict.unstable_symbols else "stable" if verdict.stable else "none",
        "torch_symbols": list(verdict.unstable_symbols[:10]),
        "torch_floor": verdict.min_torch_version,
        "cpython": "private" if private else "stable" if python else "none",
        "cpython_symbols": private[:10],
        "cpython_floor": python and str(python),
        "sm": kinds["machine_code"],
        "ptx": kinds["ptx"],
        "cuda": sorted(
            {".".join(map(str, needs.ptx_release(image.version))) for image in library.images if image.kind == "ptx"}
        ),
        "build_id": library.build_id,
    }


def tag_problems(wheel: Wheel) -> list[str]:
    """Tags that promise more than the contents keep."""
    found = []
    if wheel.libraries and all(tag.abi == "none" for tag in wheel.tags):
        users = [library for library in wheel.libraries if library.python_symbols and library.module]
        found += [
            f"{lib.name} is an extension module of CPython ({lib.python_symbols[0]}), and the tag says none"
            for lib in users
        ]
    if any(tag.abi == "abi3" for tag in wheel.tags):
        promised = min(
            needs.numbers(f"3.{tag.interpreter[3:] or 0}") for tag in wheel.tags if tag.interpreter.startswith("cp3")
        )
        for library in wheel.libraries:
            floor, private = needs.python(library)
            if private:
                found.append(f"{library.name} needs {private[0]} ({len(private)} such), and the tag says abi3")
            elif floor and floor.version > promised:
                found.append(
                    f"{floor.forced_by} came with CPython {floor}, and the tag says {'.'.join(map(str, promised))}"
                )
    for platform in wheel.platforms:
        policies = needs.policies(platform.split("_", 3)[-1]) if platform.startswith("manylinux_") else None
        allowed = needs.symbols_allow(wheel)  # for the libraries' machine, which may be another than the tag's
        if policies and {platform, allowed} <= {policy.name for policy in policies}:
            promised, needed = policies.get_policy_by_name(platform), policies.get_policy_by_name(allowed)
            if promised.priority > needed.priority:
                found.append(f"the tag says {platform}, the symbols need {allowed}")
    if len(wheel.platforms) and not wheel.libraries and not wheel.unread and "any" not in wheel.platforms:
        found.append(f"no compiled file, and the tag says {', '.join(wheel.platforms)}")
    return found
