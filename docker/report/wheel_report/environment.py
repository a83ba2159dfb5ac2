"""A real environment, an interpreter of this machine with what is installed for it, and whether a wheel loads there.

Nothing of the wheel is run: its symbols are looked up in the libraries that a loader would find.
"""

import json
import subprocess
from collections import deque
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import strict
from elftools.elf.elffile import ELFFile
from packaging.version import Version

from . import matrix, needs
from .library import Library
from .wheel import Wheel

# Run by the environment's own interpreter. torch is not imported: that takes seconds, and may fail.
FACTS = """
import glob, importlib.util, json, os, platform, sys, sysconfig
spec = importlib.util.find_spec("torch")
torch = os.path.dirname(spec.origin) if spec and spec.origin else None
version = None
if torch:
    scope = {}
    exec(open(os.path.join(torch, "version.py")).read(), scope)
    version = scope["__version__"]
roots = [path for path in sys.path if os.path.isdir(os.path.join(path, "nvidia"))]
print(json.dumps({
    "python": "%d.%d.%d" % sys.version_info[:3], "threaded": bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
    "machine": platform.machine(), "glibc": os.confstr("CS_GNU_LIBC_VERSION").split()[-1], "torch": version, "torch_folder": torch,
    "executable": os.path.realpath(sys.executable), "libpython": sysconfig.get_config_var("LDLIBRARY"),
    "libdir": sysconfig.get_config_var("LIBDIR"),
    "nvidia": [f for root in roots for f in glob.glob(os.path.join(root, "nvidia/*/lib/*.so*"))],
}))
"""
HIDDEN = {"STV_HIDDEN", "STV_INTERNAL"}


@dataclass
class Environment:
    python: str
    threaded: bool
    machine: str
    glibc: str
    torch: str | None
    executable: str
    libraries: dict[str, list[Path]]  # who brings it -> files
    system: dict[str, Path]  # what the loader's cache knows

    def __str__(self) -> str:
        torch = f"torch {self.torch}" if self.torch else "no torch"
        return f"CPython {self.python}{'t' if self.threaded else ''}, {torch}, glibc {self.glibc}, {self.machine}"


def read(interpreter: str) -> Environment:
    """The facts of an interpreter; strict.Refused with one line if it tells none."""
    try:
        done = subprocess.run([interpreter, "-c", FACTS], capture_output=True, text=True, check=True, timeout=120)
        facts = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        said = getattr(error, "stderr", "") or str(error)
        raise strict.Refused(f"{interpreter} is no CPython that runs here: {said.strip().splitlines()[-1]}") from None
    folder = facts["torch_folder"]
    torch = sorted(Path(folder, "lib").glob("*.so*")) if folder else []
    python = [Path(facts["executable"]), *Path(facts["libdir"] or "/nowhere").glob("libpython3*.so.*")]
    return Environment(
        facts["python"], facts["threaded"], facts["machine"], facts["glibc"], facts["torch"], facts["executable"],
        {"torch": torch, "CUDA": [Path(file) for file in facts["nvidia"]], "python": python}, loader_cache(facts["machine"]),
    )  # fmt: skip


def loader_cache(machine: str) -> dict[str, Path]:
    """Libraries that the loader finds without being told where: name -> file."""
    kind = {"x86_64": "x86-64", "aarch64": "AArch64"}.get(machine, machine)
    listed = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=False).stdout
    found: dict[str, Path] = {}
    for line in listed.splitlines():
        name, _, path = line.strip().partition(" => ")
        if path and kind in name:
            found.setdefault(name.split(" ")[0], Path(path))
    return found


class Exports:
    """What a library on disk offers: looked up by its hash table, as the loader does."""

    def __init__(self, path: Path):
        self.elf = ELFFile(path.open("rb"))
        self.table = self.elf.get_section_by_name(".gnu.hash") or self.elf.get_section_by_name(".hash")
        dynamic = self.elf.get_section_by_name(".dynamic")
        self.needed = [tag.needed for tag in dynamic.iter_tags("DT_NEEDED")] if dynamic else []
        defined = self.elf.get_section_by_name(".gnu.version_d")
        self.versions = {next(names).name for _, names in defined.iter_versions()} if defined else set()

    def has(self, name: str) -> bool:
        symbol = self.table.get_symbol(name) if self.table else None
        return (
            symbol is not None and symbol["st_shndx"] != "SHN_UNDEF" and symbol["st_other"]["visibility"] not in HIDDEN
        )


@cache
def exports(path: Path) -> Exports:
    return Exports(path)


def find(wheel: Wheel, environment: Environment, library: Library, name: str) -> Library | Path | None:
    """The file that the loader takes for a needed library. torch and what it loads are there already."""
    who = needs.provider(wheel, library, name)
    if who.startswith("wheel"):
        folders = library.folders()
        inside = [other for other in wheel.libraries if name in (other.file, other.soname)]
        inside.sort(key=lambda other: folders.index(other.folder) if other.folder in folders else len(folders))
        if inside:
            return inside[0]
    with_cuda = any(needs.TORCH_CUDA.fullmatch(path.name) for path in environment.libraries["torch"])
    kinds = ("torch", "CUDA", "python") if with_cuda else ("torch", "python")  # torch loads its CUDA libraries
    brought = {path.name: path for kind in kinds for path in environment.libraries[kind]}
    return brought.get(name) or environment.system.get(name)


def loads(wheel: Wheel, environment: Environment, library: Library) -> str | None:
    """Why a library of the wheel does not load; None if it does."""
    if library.machine != environment.machine:
        return f"it is for {library.machine}"
    seen: set[str] = set()
    places: list[Library | Path] = [library, *environment.libraries["python"]]
    asked: list[tuple[Library, str]] = []
    queue: deque[tuple[Library | Path, str]] = deque((library, name) for name in library.needed)
    asked += [(library, name) for name in library.needed]
    while queue:
        asker, name = queue.popleft()
        if name in seen:
            continue
        seen.add(name)
        if isinstance(asker, Library):
            found = find(wheel, environment, asker, name)
            if found is None:
                return f"{name}: nobody has it ({needs.provider(wheel, asker, name)})"
        else:  # what an installed library needs was found when that was installed
            found = find(wheel, environment, library, name)
        if isinstance(found, Library):
            places.append(found)
            queue.extend((found, other) for other in found.needed)
        elif found:
            places.append(found)
            queue.extend((found, other) for other in exports(found).needed)
            if isinstance(asker, Library):
                missing = asker.wanted.get(name, set()) - exports(found).versions
                if missing:
                    return f"{name} here has no {sorted(missing)[0]}"
    for part in [place for place in places if isinstance(place, Library)]:
        own = [place for place in places if place is not part]
        for symbol in part.undefined:
            if symbol not in part.defined and not any(offers(place, symbol) for place in own):
                return f"undefined symbol {needs.demangle_symbol(symbol)[:100]}" + (
                    "" if part is library else f" in {part.name}"
                )
    return None


def offers(place: Library | Path, symbol: str) -> bool:
    return symbol in place.defined if isinstance(place, Library) else has(place, symbol)


@cache
def has(path: Path, symbol: str) -> bool:
    return exports(path).has(symbol)


def verdict(wheel: Wheel, environment: Environment) -> list[str]:
    """Why the wheel does not work there, what an installer says first; empty if it does."""
    version = ".".join(environment.python.split(".")[:2]) + ("t" if environment.threaded else "")
    tagged = matrix.cpython(wheel, version)
    found = [tagged.why] if tagged.verdict == matrix.FAILS else []
    if Version(environment.python) not in wheel.requires_python and not found:
        found.append(f"installers refuse it: Requires-Python {wheel.requires_python}")
    if not any(platform == "any" or platform_fits(platform, environment) for platform in wheel.platforms):
        found.append(f"installers refuse it: tagged {', '.join(wheel.platforms)}")
    if found:
        return found
    asked = wheel.requires("torch")
    if asked is not None and environment.torch and not asked.contains(environment.torch, prereleases=True):
        found.append(f"Requires-Dist: torch{asked}, {environment.torch} is installed")
    for members in matrix.families(wheel).values():
        reasons = {member.name: loads(wheel, environment, member) for member in members}
        if all(reasons.values()):
            name, reason = next(iter(reasons.items()))
            found.append(f"{name} does not load: {reason}")
    return found


def platform_fits(platform: str, environment: Environment) -> bool:
    if not platform.endswith(f"_{environment.machine}"):
        return False
    if platform == f"linux_{environment.machine}":
        return True
    old = {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}.get(platform.split("_")[0])
    least = old or (needs.numbers(".".join(platform.split("_")[1:3])) if platform.startswith("manylinux_") else None)
    return least is not None and least <= needs.numbers(environment.glibc)
