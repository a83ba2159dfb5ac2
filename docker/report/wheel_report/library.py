"""Facts of one ELF file of a wheel: what it needs and defines, its device code, its parts. Runs and extracts nothing."""

import io
from dataclasses import dataclass, field
from pathlib import PurePosixPath

import elf
import fatbin
import loadable
from elftools.elf.elffile import ELFFile

MACHINES = {
    3: "i686",
    21: "ppc64le",
    22: "s390x",
    40: "armv7l",
    62: "x86_64",
    183: "aarch64",
    243: "riscv64",
    258: "loongarch64",
}
ORIGIN = ("$ORIGIN", "${ORIGIN}")
# How sections are called in the table of sizes.
PARTS = {".nv_fatbin": "device code", "__nv_relfatbin": "device code", ".debug": "debug information",
         ".symtab": "symbols for debuggers", ".strtab": "symbols for debuggers"}  # fmt: skip
# patchelf, and with it auditwheel, leaves its tables there; nothing else that it does is unusual.
PATCHELF = "in memory that it may write"


@dataclass
class Library:
    name: str  # in the wheel
    machine: str
    needed: list[str]
    soname: str | None
    search: list[str]  # folders of DT_RPATH or DT_RUNPATH
    versions: dict[str, list[str]]  # version such as GLIBC_2.17 -> symbols that want it
    wanted: dict[str, set[str]]  # needed library -> versions
    undefined: dict[str, str]  # what must be found for it to load -> its version
    weak: set[str]  # what may be missing
    defined: set[str]
    units: list[list[fatbin.Image]]
    build_id: str | None = None
    parts: dict[str, int] = field(default_factory=dict)
    findings: list[str] = field(default_factory=list)  # what no linker leaves

    @property
    def file(self) -> str:
        return PurePosixPath(self.name).name

    @property
    def folder(self) -> str:
        return self.name.rpartition("/")[0]

    @property
    def module(self) -> bool:
        """Does Python import it?"""
        return any(name.startswith(("PyInit_", "PyInitU_", "PyModExport_")) for name in self.defined)

    @property
    def python_symbols(self) -> list[str]:
        return [name for name in self.undefined if name.startswith(("Py", "_Py"))]

    @property
    def images(self) -> list[fatbin.Image]:
        return [image for unit in self.units for image in unit]

    def folders(self) -> list[str]:
        """Where it searches for libraries: folders of the wheel as paths in it, others as they are."""
        found = []
        for path in self.search:
            start = next((word for word in ORIGIN if path.startswith(word)), None)
            parts = [] if start is None else list(PurePosixPath(self.folder).parts)
            for part in PurePosixPath(path.removeprefix(start or "").lstrip("/")).parts if start else ():
                parts = parts[:-1] if part == ".." and parts else [*parts, part]
            found.append(path if start is None else "/".join(parts))
        return found


def machine(data: bytes) -> str:
    """What an ELF file says it is for, before anything else of it is believed."""
    number = int.from_bytes(data[18:20], "big" if data[5:6] == b"\2" else "little")
    return MACHINES.get(number, f"machine {number}")


def read(name: str, data: bytes) -> Library:
    """strict.Refused if no loader, or not every loader, would take it. The tables are those that a loader reads."""
    loaded = elf.read(data)
    versions: dict[str, list[str]] = {version: [] for _, version in loaded.versions}
    wanted: dict[str, set[str]] = {}
    for file, version in loaded.versions:
        wanted.setdefault(file, set()).add(version)
    unresolved = [symbol for symbol in loaded.symbols if symbol.name and not symbol.defined]
    for symbol in unresolved:
        if symbol.version in versions:
            versions[symbol.version].append(symbol.name)
    library = Library(
        name, loaded.machine, loaded.needed, loaded.soname,
        search=[part for path in loaded.search for part in path.split(":") if part],
        versions=versions, wanted=wanted,
        undefined={symbol.name: symbol.version for symbol in unresolved if symbol.binding != "weak"},
        weak={symbol.name for symbol in unresolved if symbol.binding == "weak"},
        defined={symbol.name for symbol in loaded.symbols if symbol.exported},
        units=fatbin.units(loaded),
    )  # fmt: skip
    if not any(part.kind == elf.PT_INTERP for part in loaded.segments):  # programs have other habits
        prefix = f"library: {name} "
        found = [finding.removeprefix(prefix) for finding in loadable.check_library(name, loaded)]
        library.findings = [finding for finding in found if not finding.endswith(PATCHELF)]
    read_sections(library, data)
    return library


def read_sections(library: Library, data: bytes) -> None:
    """Sizes and build id. Nothing that decides where the library works: a loader does not look at sections."""
    try:
        for section in ELFFile(io.BytesIO(data)).iter_sections():
            part = next((part for start, part in PARTS.items() if section.name.startswith(start)), "code and data")
            if section["sh_type"] not in ("SHT_NOBITS", "SHT_NULL"):
                library.parts[part] = library.parts.get(part, 0) + section["sh_size"]
            if section.name == ".note.gnu.build-id":
                library.build_id = next((str(note["n_desc"]) for note in section.iter_notes()), None)
    except Exception:  # pyelftools raises dozens of types for sections that are cut or made up
        library.findings.append("has section headers that cannot be read")
        library.parts = {"code and data": len(data)}
