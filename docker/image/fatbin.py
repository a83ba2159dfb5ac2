"""Reads which GPUs a library has device code for, from the fat binaries that nvcc embeds in section .nv_fatbin.

The layout is not documented. This follows the output of nvcc 12.4 and 13.0; tests compare it with cuobjdump.
"""

import struct
from typing import NamedTuple

from elftools.elf.elffile import ELFFile

MAGIC = 0xBA55ED50
KINDS = {1: "ptx", 2: "machine_code"}


class Image(NamedTuple):
    kind: str  # machine_code or ptx
    architecture: int  # 90 for sm_90
    bytes: int  # as stored
    compressed: bool


def units(elf: ELFFile) -> list[list[Image]]:
    """The device code of a library, by translation unit; empty for one without any."""
    section = elf.get_section_by_name(".nv_fatbin")
    data = section.data() if section else b""
    found, offset = [], 0
    while offset + 16 <= len(data):
        magic, _, header, size = struct.unpack_from("<IHHQ", data, offset)
        if magic != MAGIC:
            offset += 8  # padding between translation units
            continue
        if header < 16 or size == 0 or offset + header + size > len(data):
            raise ValueError(f".nv_fatbin has a unit of {header} + {size} bytes at {offset} of {len(data)}")
        entry, offset = offset + header, offset + header + size
        found.append([])
        while entry + 64 <= offset:
            kind, _, header, stored = struct.unpack_from("<HHIQ", data, entry)
            (architecture,) = struct.unpack_from("<I", data, entry + 28)
            (compressed,) = struct.unpack_from("<I", data, entry + 16)
            if kind not in KINDS or header < 64:
                raise ValueError(f".nv_fatbin has an entry of unknown kind {kind}")
            found[-1].append(Image(KINDS[kind], architecture, stored, compressed > 0))
            entry += header + stored
        if entry != offset:
            raise ValueError(f".nv_fatbin has a unit that ends at {offset}, and whose entries end at {entry}")
    return found


def architectures(images: list[Image]) -> dict[str, list[int]]:
    """{"machine_code": [70, 75, ...], "ptx": [90]}"""
    return {
        kind: sorted({image.architecture for image in images if image.kind == kind}) for kind in ("machine_code", "ptx")
    }
