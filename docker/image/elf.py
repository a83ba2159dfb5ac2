"""Reads a shared library as the dynamic loader does: by its program headers and PT_DYNAMIC.

    library = elf.read(body)         Refused if no loader, or not every loader, would take it
    library.needed, .search, .symbols, .versions, ...

loadable.py reports what an honest linker does not leave. 64-bit, little-endian libraries. Standard library only.
"""

import re
import struct
from collections.abc import Iterator
from typing import NamedTuple

from strict import Refused, one_line

PT_LOAD, PT_DYNAMIC, PT_INTERP, PT_GNU_STACK = 1, 2, 3, 0x6474E551
EXECUTE, WRITE = 1, 2
ET_DYN = 3
MACHINES = {62: "x86_64", 183: "aarch64"}
PAGE = 4096
SHN_UNDEF, SHN_ABS = 0, 0xFFF1
HEADER, SEGMENT, SECTION = struct.Struct("<16sHHIQQQIHHHHHH"), struct.Struct("<2I6Q"), struct.Struct("<2I4Q2I2Q")
SYMBOL, RELOCATION = struct.Struct("<IBBHQQ"), struct.Struct("<QQq")
BINDINGS = {0: "local", 1: "global", 2: "weak", 10: "unique"}
NAME = re.compile(rb"[!-~]{0,4096}")
MAX_SEGMENTS, MAX_SYMBOLS, MAX_VERSIONS = 128, 1 << 24, 1000

TAGS = {
    0: "NULL", 1: "NEEDED", 2: "PLTRELSZ", 3: "PLTGOT", 4: "HASH", 5: "STRTAB", 6: "SYMTAB", 7: "RELA", 8: "RELASZ",
    9: "RELAENT", 10: "STRSZ", 11: "SYMENT", 12: "INIT", 13: "FINI", 14: "SONAME", 15: "RPATH", 16: "SYMBOLIC",
    17: "REL", 18: "RELSZ", 19: "RELENT", 20: "PLTREL", 21: "DEBUG", 22: "TEXTREL", 23: "JMPREL", 24: "BIND_NOW",
    25: "INIT_ARRAY", 26: "FINI_ARRAY", 27: "INIT_ARRAYSZ", 28: "FINI_ARRAYSZ", 29: "RUNPATH", 30: "FLAGS",
    32: "PREINIT_ARRAY", 33: "PREINIT_ARRAYSZ", 34: "SYMTAB_SHNDX", 35: "RELRSZ", 36: "RELR", 37: "RELRENT",
    0x6FFFFEF5: "GNU_HASH", 0x6FFFFEF6: "TLSDESC_PLT", 0x6FFFFEF7: "TLSDESC_GOT", 0x6FFFFEFA: "CONFIG", 0x6FFFFEFB: "DEPAUDIT", 0x6FFFFEFC: "AUDIT", 0x6FFFFDFD: "POSFLAG_1",
    0x6FFFFFF0: "VERSYM", 0x6FFFFFF9: "RELACOUNT", 0x6FFFFFFA: "RELCOUNT", 0x6FFFFFFB: "FLAGS_1", 0x6FFFFFFC: "VERDEF",
    0x6FFFFFFD: "VERDEFNUM", 0x6FFFFFFE: "VERNEED", 0x6FFFFFFF: "VERNEEDNUM", 0x7FFFFFFD: "AUXILIARY", 0x7FFFFFFF: "FILTER",
    0x70000001: "BTI_PLT", 0x70000003: "PAC_PLT", 0x70000005: "VARIANT_PCS",
}  # fmt: skip


class Segment(NamedTuple):
    kind: int
    flags: int
    offset: int
    address: int
    stored: int  # bytes in the file
    size: int  # bytes in memory
    align: int


class Symbol(NamedTuple):
    name: str
    binding: str
    defined: bool
    absolute: bool
    value: int  # address
    version: str  # "" for none

    @property
    def exported(self) -> bool:
        return self.defined and self.binding != "local"


class Relocation(NamedTuple):
    address: int
    kind: int
    symbol: int
    addend: int


class Library:
    """What a loader knows of a library. Every table is read to its end before the constructor returns."""

    def __init__(self, body: bytes):
        self.body = body
        self._read_segments()
        self._read_tags()
        self.strings = self._table("STRTAB", "STRSZ")
        self.needed = [self._string(value) for value in self.tags.get("NEEDED", [])]
        self.soname = self._named("SONAME")
        self.search = [path for tag in ("RPATH", "RUNPATH") if (path := self._named(tag)) is not None]
        self.relocations = self._read_relocations()
        self.versions, versions = self._read_versions()  # (library, version) for each that is needed
        self.symbols = self._read_symbols(versions)

    def take(self, form: struct.Struct, offset: int) -> tuple:
        if offset < 0 or offset + form.size > len(self.body):
            raise Refused(f"is cut: it has no {form.size} bytes at {offset}")
        return form.unpack_from(self.body, offset)

    def offset(self, address: int, size: int) -> int:
        """Where the bytes of an address are in the file."""
        for part in self.loads:
            if part.address <= address and address + size <= part.address + part.stored:
                return part.offset + address - part.address
        raise Refused(f"points to {size} bytes at {address:#x}, which the file does not fill")

    def memory(self, address: int, size: int) -> bytes:
        start = self.offset(address, size)
        return self.body[start : start + size]

    def flags(self, address: int) -> int:
        """PF_ flags of the memory at an address; 0 if there is none."""
        found = (part.flags for part in self.loads if part.address <= address < part.address + part.size)
        return next(found, 0)

    def first(self, tag: str) -> int | None:
        return self.tags[tag][0] if tag in self.tags else None

    def _read_segments(self) -> None:
        ident, kind, machine, version, _, start, self.section_start, _, header, size, count, *self.section_facts = (
            self.take(HEADER, 0)
        )
        if ident[:7] != b"\x7fELF\2\1\1" or ident[7] not in (0, 3) or machine not in MACHINES or kind != ET_DYN:
            raise Refused("is not a shared library for x86-64 or aarch64")
        if version != 1 or header != HEADER.size or size != SEGMENT.size or not 0 < count <= MAX_SEGMENTS:
            raise Refused("has a header that no linker writes")
        self.machine = MACHINES[machine]
        rows = [self.take(SEGMENT, start + number * size) for number in range(count)]
        self.segments = [
            Segment(kind, flags, offset, address, *rest) for kind, flags, offset, address, _, *rest in rows
        ]
        self.loads = [part for part in self.segments if part.kind == PT_LOAD]
        page = 0
        for part in self.loads:
            if part.offset + part.stored > len(self.body) or part.stored > part.size:
                raise Refused(f"is cut: it has no {part.stored} bytes at {part.offset} to load")
            if part.offset % PAGE != part.address % PAGE or part.address + part.size >= 1 << 47:
                raise Refused("has a segment that cannot be mapped")
            if part.address // PAGE < page:
                raise Refused("has segments that overlap in memory, or are not in order")
            page = -(-(part.address + part.size) // PAGE)

    def _read_tags(self) -> None:
        dynamic = [part for part in self.segments if part.kind == PT_DYNAMIC]
        if len(dynamic) != 1:
            raise Refused(f"has {len(dynamic)} dynamic segments, expected one")
        (self.dynamic,) = dynamic
        if self.offset(self.dynamic.address, self.dynamic.stored) != self.dynamic.offset:
            raise Refused("has a dynamic segment that is not at its address")
        self.tags: dict[str, list[int]] = {}
        self.entries: list[tuple[int, int]] = []
        data = self.body[self.dynamic.offset :][: self.dynamic.stored - self.dynamic.stored % 16]
        for tag, value in struct.iter_unpack("<qQ", data):
            self.entries.append((tag, value))
            if tag == 0:
                break
            self.tags.setdefault(TAGS.get(tag, f"{tag:#x}"), []).append(value)
        else:
            raise Refused("has a dynamic segment without an end")
        for tag, values in self.tags.items():
            if len(values) > 1 and tag != "NEEDED":
                raise Refused(f"has DT_{tag} {len(values)} times, and loaders differ in which one counts")

    def _table(self, start: str, size: str) -> bytes:
        """The bytes of a table whose address and size stand in two tags; empty without them."""
        if (start in self.tags) != (size in self.tags):
            raise Refused(f"has only one of DT_{start} and DT_{size}")
        return self.memory(self.first(start), self.first(size)) if start in self.tags else b""

    def _string(self, at: int) -> str:
        end = self.strings.find(b"\0", at)
        if at >= len(self.strings) or end < 0:
            raise Refused(f"has a name beyond the end of its strings, at {at}")
        name = self.strings[at:end]
        if not NAME.fullmatch(name):
            raise Refused(f"has the name '{one_line(name.decode('latin-1'), 40)}'")
        return name.decode()

    def _named(self, tag: str) -> str | None:
        return self._string(self.first(tag)) if tag in self.tags else None

    def _read_relocations(self) -> list[Relocation]:
        found = []
        jumps = self._table("JMPREL", "PLTRELSZ")
        for table in (self._table("RELA", "RELASZ"), jumps):
            if len(table) % RELOCATION.size:
                raise Refused("has relocations of another size than 24 bytes")
            for address, info, addend in RELOCATION.iter_unpack(table):
                found.append(Relocation(address, info & 0xFFFFFFFF, info >> 32, addend))
        if jumps and self.first("PLTREL") != 7:
            raise Refused("has relocations of another kind than RELA")
        if self._table("REL", "RELSZ"):
            raise Refused("has relocations without addends, which loaders skip on this machine")
        relative = {"x86_64": 8, "aarch64": 1027}[self.machine]
        packed = self._table("RELR", "RELRSZ")
        for address in self._unpack_relr(packed):
            found.append(Relocation(address, relative, 0, *struct.unpack("<q", self.memory(address, 8))))
        return found

    def _unpack_relr(self, packed: bytes):
        """Addresses in DT_RELR: an even word is one, an odd word has a bit for each of the next 63 places."""
        where = 0
        for (word,) in struct.iter_unpack("<Q", packed[: len(packed) - len(packed) % 8]):
            if not word & 1:
                yield word
                where = word + 8
            else:
                yield from (where + 8 * bit for bit in range(63) if word >> (bit + 1) & 1)
                where += 63 * 8

    def _read_versions(self) -> tuple[list[tuple[str, str]], dict[int, str]]:
        """(library, version) for all that are needed; and the version of each number in DT_VERSYM."""
        needed, numbers = [], {}
        self.defined_versions = []
        for at, (_, count, file, inner, _) in self._chain("VERNEED", "<HHIII"):
            for _, (_, _, number, name, _) in self._links(at + inner, count, "<IHHII"):
                needed.append((self._string(file), self._string(name)))
                numbers[number & 0x7FFF] = self._string(name)
        for at, (_, _, number, _, _, inner, _) in self._chain("VERDEF", "<HHHHIII"):
            name, _ = self._record("<II", at + inner)
            numbers[number & 0x7FFF] = self._string(name)
            self.defined_versions.append(self._string(name))
        return needed, numbers

    def _chain(self, tag: str, form: str) -> Iterator[tuple[int, tuple]]:
        count = self.first(f"{tag}NUM") or 0
        if (tag in self.tags) != (count > 0):
            raise Refused(f"has only one of DT_{tag} and DT_{tag}NUM")
        return self._links(self.first(tag), count, form)

    def _links(self, at: int, count: int, form: str) -> Iterator[tuple[int, tuple]]:
        """(address, record) of a chain, whose records end in the distance to the next one."""
        if count > MAX_VERSIONS:
            raise Refused(f"has {count} versions, no library has so many")
        for left in range(count, 0, -1):
            record = self._record(form, at)
            yield at, record
            if (record[-1] == 0) != (left == 1):
                raise Refused("has a chain of versions that ends elsewhere than its count says")
            at += record[-1]

    def _record(self, form: str, address: int) -> tuple:
        return struct.unpack(form, self.memory(address, struct.calcsize(form)))

    def _read_symbols(self, versions: dict[int, str]) -> list[Symbol]:
        """All that the loader can reach: by the hash tables, and by the relocations."""
        count = max([self._hashed(), self._gnu_hashed(), *(r.symbol + 1 for r in self.relocations)])
        if count > MAX_SYMBOLS or (count and "SYMTAB" not in self.tags) or self.tags.get("SYMENT", [24]) != [24]:
            raise Refused(f"has {count} symbols and no table of them that can be read")
        table = self.memory(self.first("SYMTAB"), count * SYMBOL.size) if count else b""
        numbers = [1] * count
        if "VERSYM" in self.tags:
            numbers = struct.unpack(f"<{count}H", self.memory(self.first("VERSYM"), count * 2))
        found = []
        for number, (name, info, _, section, value, _) in zip(numbers, SYMBOL.iter_unpack(table), strict=True):
            number &= 0x7FFF
            if number > 1 and number not in versions:
                raise Refused(f"has a symbol of version {number}, which it neither needs nor defines")
            binding = BINDINGS.get(info >> 4, f"binding {info >> 4}")
            facts = section != SHN_UNDEF, section == SHN_ABS, value, versions.get(number, "")
            found.append(Symbol(self._string(name), binding, *facts))
        return found

    def _hashed(self) -> int:
        if "HASH" not in self.tags:
            return 0
        buckets, chains = self._record("<II", self.first("HASH"))
        self.memory(self.first("HASH"), 8 + 4 * (buckets + chains))
        return chains

    def _gnu_hashed(self) -> int:
        """The number of symbols up to the last one in DT_GNU_HASH; 0 if it holds none."""
        start = self.first("GNU_HASH")
        if start is None:
            return 0
        buckets, first, bloom, _ = self._record("<IIII", start)
        words = self.memory(start + 16 + bloom * 8, buckets * 4)
        used = [word for word in struct.unpack(f"<{buckets}I", words) if word]
        if not used:
            return 0
        if min(used) < first:
            raise Refused("has a hash table that points before its first symbol")
        symbol, chain = max(used), start + 16 + bloom * 8 + buckets * 4
        while not self._record("<I", chain + 4 * (symbol - first))[0] & 1:
            symbol += 1
        return symbol + 1


def read(body: bytes) -> Library:
    return Library(body)
