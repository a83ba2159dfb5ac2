"""What no honest linker leaves in a library: section headers, which tools read, that differ from the segments, which a loader
reads; tables that the library could rewrite while it is loaded; and what makes a loader do more than load it.
"""

from collections.abc import Iterator

from elf import EXECUTE, PT_GNU_STACK, PT_INTERP, PT_LOAD, SECTION, SYMBOL, WRITE, Library
from strict import Refused, one_line

EXPECTED_TAGS = {
    "NEEDED", "PLTRELSZ", "PLTGOT", "HASH", "STRTAB", "SYMTAB", "RELA", "RELASZ", "RELAENT", "STRSZ", "SYMENT", "INIT",
    "FINI", "SONAME", "RPATH", "RUNPATH", "SYMBOLIC", "PLTREL", "DEBUG", "TEXTREL", "JMPREL", "BIND_NOW", "INIT_ARRAY",
    "FINI_ARRAY", "INIT_ARRAYSZ", "FINI_ARRAYSZ", "FLAGS", "RELRSZ", "RELR", "RELRENT", "GNU_HASH", "VERSYM", "RELACOUNT",
    "FLAGS_1", "VERDEF", "VERDEFNUM", "VERNEED", "VERNEEDNUM", "TLSDESC_PLT", "TLSDESC_GOT", "BTI_PLT", "PAC_PLT",
    "VARIANT_PCS",
}  # fmt: skip
DF_TEXTREL = 0x4
# DF_ORIGIN, SYMBOLIC, BIND_NOW, STATIC_TLS; DF_1_NOW, NODELETE, ORIGIN. Others interpose, audit or load more.
EXPECTED_FLAGS = {"FLAGS": 0x1 | 0x2 | DF_TEXTREL | 0x8 | 0x10, "FLAGS_1": 0x1 | 0x8 | 0x80}
# What addresses a table that is read again after the library's own relocations are done.
TABLES = ("STRTAB", "SYMTAB", "HASH", "GNU_HASH", "VERSYM", "VERNEED", "VERDEF", "RELA", "JMPREL")
# Words, addresses of symbols, relative addresses, and thread-local storage.
EXPECTED_RELOCATIONS = {
    "x86_64": {1, 6, 7, 8, 16, 17, 18, 36, 37},
    "aarch64": {257, 1025, 1026, 1027, 1028, 1029, 1030, 1031, 1032},
}
# Where the loader finds them, and the section of the same content.
SECTIONS = {"SYMTAB": ".dynsym", "STRTAB": ".dynstr", "VERNEED": ".gnu.version_r", "VERSYM": ".gnu.version"}


def check_library(name: str, library: Library) -> Iterator[str]:
    """One line for each thing that is not as linkers leave it."""
    for finding in (*segments(library), *tags(library), *relocations(library), *sections(library)):
        yield f"library: {name} {finding}"


def segments(library: Library) -> Iterator[str]:
    stack = [part for part in library.segments if part.kind == PT_GNU_STACK]
    for part in library.segments:
        if part.flags & (WRITE | EXECUTE) == WRITE | EXECUTE and part.kind in (PT_LOAD, PT_GNU_STACK):
            kind = "PT_LOAD" if part.kind == PT_LOAD else "PT_GNU_STACK"
            yield f"has memory that may be written and executed ({kind})"
    if len(stack) != 1:
        yield f"has {len(stack)} segments PT_GNU_STACK: without exactly one, the stack may become executable"
    if any(part.kind == PT_INTERP for part in library.segments):
        yield "names an interpreter, as a program does"


def tags(library: Library) -> Iterator[str]:
    for tag, values in library.tags.items():
        if tag not in EXPECTED_TAGS:
            yield f"has DT_{tag} ({values[0]:#x}), which makes some loaders do more than load it"
        elif values[0] & ~EXPECTED_FLAGS.get(tag, -1):
            yield f"has DT_{tag} {values[0]:#x}, which makes some loaders do more than load it"
    if "TEXTREL" in library.tags or (library.first("FLAGS") or 0) & DF_TEXTREL:
        yield "has relocations in its code"
    for tag in ("INIT", "FINI"):
        if tag in library.tags and not library.flags(library.first(tag)) & EXECUTE:
            yield f"has a DT_{tag} that is not code"
    for tag in TABLES:
        if tag in library.tags and library.flags(library.first(tag)) & WRITE:
            yield f"has DT_{tag} in memory that it may write"


def relocations(library: Library) -> Iterator[str]:
    expected = EXPECTED_RELOCATIONS[library.machine]
    if kinds := {relocation.kind for relocation in library.relocations} - expected:
        yield f"has relocations of the kinds {sorted(kinds)}, which a library has no use for"
    start, end = library.dynamic.address, library.dynamic.address + library.dynamic.size
    parts = [(part.address, part.address + part.size) for part in library.loads if part.flags & WRITE]
    for relocation in library.relocations:
        if not any(first <= relocation.address and relocation.address + 8 <= last for first, last in parts):
            yield f"has a relocation at {relocation.address:#x}, which is not memory to write"
            return
        if start - 8 < relocation.address < end:
            yield f"has a relocation in its dynamic segment, at {relocation.address:#x}"
            return


def sections(library: Library) -> Iterator[str]:
    """The tables that tools find by section headers are those of the loader."""
    try:
        described = section_headers(library)
    except Refused as error:
        yield str(error)
        return
    _, address, offset, size = described.get(".dynamic", (0, 0, 0, 0))
    if (address, offset) != (library.dynamic.address, library.dynamic.offset) or size > library.dynamic.stored:
        yield "has a dynamic segment that its section headers do not show: what it loads cannot be checked"
        return
    if size < 16 * len(library.entries):
        yield "has other entries in its dynamic segment than in section .dynamic"
        return
    for tag, section in SECTIONS.items():
        _, address, offset, size = described.get(section, (0, None, 0, 0))
        if library.first(tag) != address:
            yield f"has a DT_{tag} that is not its section {section}"
        elif address is not None and library.offset(address, 1) != offset:
            yield f"loads something else at the address of section {section}"
        elif section == ".dynsym" and size < len(library.symbols) * SYMBOL.size:
            yield "has symbols beyond the end of section .dynsym"
        elif section == ".dynstr" and size != len(library.strings):
            yield "has names beyond the end of section .dynstr, or fewer"


def section_headers(library: Library) -> dict[str, tuple[int, int, int, int]]:
    """(type, address, offset, size) by name; Refused if a name that matters is there twice."""
    size, count, names = library.section_facts
    if not library.section_start or not count:
        return {}
    if size != SECTION.size or names >= count:
        raise Refused("has section headers that no linker writes")
    rows = [library.take(SECTION, library.section_start + number * size) for number in range(count)]
    _, _, _, _, start, length, *_ = rows[names]
    table = library.body[start : start + length]
    found: dict[str, tuple[int, int, int, int]] = {}
    for at, kind, _, address, offset, length, *_ in rows:
        name = table[at : table.find(b"\0", at)].decode("latin-1")
        if name in found and name in (".dynamic", *SECTIONS.values()):
            raise Refused(f"has two sections {one_line(name)}")
        found[name] = (kind, address, offset, length)
    return found
