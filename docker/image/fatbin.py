"""Reads which GPUs a library has device code for, from the fat binaries that nvcc embeds.

The layout is not documented. This follows the output of nvcc 12.4 and 13.0; tests compare it with cuobjdump. Sections don't
count, as the CUDA runtime does not see them: it is handed a wrapper, whose pointer the loader relocates.
"""

import struct
from typing import NamedTuple

from elf import EXECUTE, Library
from strict import Refused

MAGIC, WRAPPER_MAGIC = 0xBA55ED50, 0x466243B1
UNIT, ENTRY = struct.Struct("<IHHQ"), struct.Struct("<HHIQIIHHI")
FLAGS, SPECIFIC = struct.Struct("<40xQ"), 0x100000  # of an entry; seen in sm_90a code of nvcc 12.8 and 13.0
KINDS = {1: "ptx", 2: "machine_code"}
RELATIVE = {"x86_64": 8, "aarch64": 1027}
WORD = {"x86_64": 1, "aarch64": 257}


class Image(NamedTuple):
    kind: str  # machine_code or ptx
    architecture: int  # 90 for sm_90
    bytes: int  # as stored
    compressed: bool
    version: tuple[int, int]  # of PTX, such as (8, 4) of CUDA 12.4; of machine code, 1.7 before CUDA 13 and Blackwell
    specific: bool  # sm_90a: for GPUs of exactly this architecture
    content: bytes = b""  # these, after a header


def units(library: Library) -> list[list[Image]]:
    """The device code of a library, by translation unit; empty for one without any."""
    wrapped = wrapped_units(library)
    found = []
    for part in library.loads:
        data = library.body[part.offset : part.offset + part.stored]
        starts = {address - part.address for address in wrapped if part.address <= address < part.address + part.stored}
        found += read_units(data, starts, code=bool(part.flags & EXECUTE))
        wrapped -= {part.address + start for start in starts}
    if wrapped:
        raise Refused(f"registers device code at {min(wrapped):#x}, which the file does not fill")
    return found


def wrapped_units(library: Library) -> set[int]:
    """The addresses that wrappers hand to the runtime: a wrapper is magic, version and a pointer."""
    found = set()
    relative, word = RELATIVE[library.machine], WORD[library.machine]
    magic = struct.pack("<I", WRAPPER_MAGIC)
    marks = set()
    for part in library.loads:
        data = library.body[part.offset : part.offset + part.stored]
        at = data.find(magic)
        while at >= 0:
            marks.add(part.address + at)
            at = data.find(magic, at + 1)
    for relocation in library.relocations if marks else ():
        if relocation.address - 8 in marks:
            if relocation.kind == relative:
                found.add(relocation.addend)
            elif relocation.kind == word and library.symbols[relocation.symbol].defined:
                found.add(library.symbols[relocation.symbol].value + relocation.addend)
            else:
                raise Refused(f"registers device code that is found at run time only, at {relocation.address:#x}")
    return found


def read_units(data: bytes, registered: set[int] = frozenset(), code: bool = False) -> list[list[Image]]:
    """The units in some memory: at the registered places and wherever else the magic is. In code, which compares numbers with
    the magic, only what has the version and the size of a header counts, too."""
    magic = struct.pack("<IHH", MAGIC, 1, 16) if code else struct.pack("<I", MAGIC)
    left = sorted(registered)
    found, at = [], 0
    while True:
        following = data.find(magic, at)
        if left and (following < 0 or left[0] <= following):
            following = left.pop(0)
            if following < at or data[following : following + 4] != struct.pack("<I", MAGIC):
                raise Refused(f"registers device code at byte {following} of a segment, where no unit begins")
        if following < 0:
            return found
        if following % 4 and following not in registered:
            at = following + 1
            continue
        images, at = read_unit(data, following)
        found.append(images)


def read_unit(data: bytes, start: int) -> tuple[list[Image], int]:
    """(images, end) of the unit that begins at a byte."""
    if start + UNIT.size > len(data):
        raise Refused(f"has a cut unit of device code at {start} of {len(data)}")
    _, version, header, size = UNIT.unpack_from(data, start)
    if version != 1 or header != UNIT.size or size == 0 or start + header + size > len(data):
        raise Refused(f"has a unit of device code with {header} + {size} bytes at {start} of {len(data)}")
    at, end = start + header, start + header + size
    images = []
    while at + FLAGS.size <= end:
        kind, _, header, stored, compressed, _, minor, major, architecture = ENTRY.unpack_from(data, at)
        if kind not in KINDS or header < 64:
            raise Refused(f"has device code of unknown kind {kind}")
        specific = bool(FLAGS.unpack_from(data, at)[0] & SPECIFIC)
        content = data[at : at + header + stored]
        images.append(Image(KINDS[kind], architecture, stored, compressed > 0, (major, minor), specific, content))
        at += header + stored
    if at != end:
        raise Refused(f"has a unit of device code that ends at {end}, and whose entries end at {at}")
    return images, end


def architectures(images: list[Image]) -> dict[str, list[int]]:
    """{"machine_code": [70, 75, ...], "ptx": [90]}"""
    return {
        kind: sorted({image.architecture for image in images if image.kind == kind}) for kind in ("machine_code", "ptx")
    }
