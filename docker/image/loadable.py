"""What a loader or an installer would see and the other checks of a wheel would not: names in the archive that lead elsewhere
or twice to one file, and libraries whose section headers, which tools read, differ from the segments, which a loader reads.
"""

import re
import stat
import zipfile
from collections.abc import Iterator

from elftools.elf.elffile import ELFFile

NAME = re.compile(r"[A-Za-z0-9_.+-]+(/[A-Za-z0-9_.+-]+)*/?")
METHODS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}
# A file of a wheel that takes more than this, or that shrank by more, is nothing that a build makes.
MAX_FILE_BYTES, MAX_RATIO = 1 << 30, 1000
# Where the loader finds them, and the section of the same content.
TABLES = {
    "DT_SYMTAB": ".dynsym",
    "DT_STRTAB": ".dynstr",
    "DT_VERNEED": ".gnu.version_r",
    "DT_VERSYM": ".gnu.version",
}


def check_names(archive: zipfile.ZipFile) -> Iterator[str]:
    """Every entry is a plain file or folder below the top, and no two are one file, also where case does not count."""
    seen: dict[str, str] = {}
    for entry in archive.infolist():
        name, mode = entry.filename, entry.external_attr >> 16
        if entry.orig_filename != name or not NAME.fullmatch(name) or {".", ".."} & set(name.split("/")):
            yield f"file: {entry.orig_filename!r} is not a plain path below the top of the wheel"
        if first := seen.get(name.rstrip("/").lower()):
            yield f"file: {name!r} is in the wheel twice, the first time as {first!r}"
        seen[name.rstrip("/").lower()] = name
        if stat.S_IFMT(mode) not in (0, stat.S_IFDIR if entry.is_dir() else stat.S_IFREG):
            yield f"file: {name!r} is a link or a special file"
        if entry.flag_bits & 0x1 or entry.compress_type not in METHODS:
            yield f"file: {name!r} is encrypted, or compressed by a method that installers do not know"
        if entry.file_size > min(MAX_FILE_BYTES, max(1 << 20, entry.compress_size * MAX_RATIO)):
            yield f"file: {name!r} has {entry.file_size} bytes, out of {entry.compress_size}"


def check_segments(name: str, elf: ELFFile) -> Iterator[str]:
    """The tables that a loader finds through PT_DYNAMIC are those of the sections, and nothing in memory may be
    written and executed."""
    if (elf["e_machine"], elf.elfclass, elf.little_endian, elf["e_type"]) != ("EM_X86_64", 64, True, "ET_DYN"):
        yield f"library: {name} is not a shared library for x86-64"
        return
    for segment in elf.iter_segments():
        if segment["p_flags"] & 0x3 == 0x3 and segment["p_type"] in ("PT_LOAD", "PT_GNU_STACK"):
            yield f"library: {name} has memory that may be written and executed ({segment['p_type']})"
    segments = [s for s in elf.iter_segments() if s["p_type"] == "PT_DYNAMIC"]
    section = elf.get_section_by_name(".dynamic")
    if len(segments) != 1 or section is None or section["sh_offset"] != segments[0]["p_offset"]:
        yield f"library: {name} has a dynamic segment that its section headers do not show: what it loads cannot be checked"
        return
    (segment,) = segments
    held, shown = ([(t.entry.d_tag, t.entry.d_val) for t in part.iter_tags()] for part in (segment, section))
    if held != shown:
        yield f"library: {name} has other entries in its dynamic segment than in section .dynamic"
        return
    if "DT_TEXTREL" in dict(held):
        yield f"library: {name} has relocations in its code"
    for tag, table in TABLES.items():
        addresses = [value for key, value in held if key == tag]
        described = elf.get_section_by_name(table)
        if addresses != ([described["sh_addr"]] if described else []):
            yield f"library: {name} has a {tag} that is not its section {table}"
            return
        offsets = list(elf.address_offsets(addresses[0])) if addresses else []
        if described and offsets != [described["sh_offset"]]:
            yield f"library: {name} loads something else at the address of section {table}"
            return
    symbols = elf.get_section_by_name(".dynsym")
    if symbols and segment.num_symbols() > symbols.num_symbols():
        yield f"library: {name} has symbols beyond the end of section .dynsym"
