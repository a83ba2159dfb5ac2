"""Good inputs that the fuzzers start from, made here so that none is in git."""

import io
import json
import struct
import tarfile
import zipfile

INFO = "customops-0.1.0.dist-info"
PARTS = {b"m": "METADATA", b"w": "WHEEL", b"r": "RECORD", b"b": "build.json", b"s": "sboms/customops.cdx.json"}
METADATA = b"Metadata-Version: 2.4\nName: customops\nVersion: 0.1.0\nRequires-Python: >=3.10\nLicense: a\n b\n\ntext\n"
TAGS = b"Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: false\nTag: py3-none-manylinux_2_28_x86_64\n"
BUILD = {
    "variant": "cuda", "base": "host", "torch": "2.13.0", "compiler": "g++ 10", "python": "3.11.2",
    "source": {"commit": "c0ffee00", "dirty": False, "date_epoch": 1700000000},
    "cuda": {"cuda12": {"nvcc": "12.4.131", "architectures": ["80", "90+PTX"]}},
}  # fmt: skip


def contents() -> dict[str, bytes]:
    return {
        "customops/__init__.py": b"",
        "customops/_cpu.so": elf(),
        f"{INFO}/METADATA": METADATA,
        f"{INFO}/WHEEL": TAGS,
        f"{INFO}/build.json": json.dumps(BUILD).encode(),
    }


def zipped(files: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as made:
        for name, body in files.items():
            made.writestr(zipfile.ZipInfo(name), body, method)
    return out.getvalue()


def elf(device_code: bytes = b"") -> bytes:
    """A shared library with two loaded segments, PT_DYNAMIC, three symbols, both hash tables, versions and a relocation."""
    strings = b"\0memcpy\0leaked\0libc.so.6\0GLIBC_2.14\0/opt/evil\0"
    at = strings.index
    size = 0x1000
    symbols = bytes(24) + struct.pack("<IBBHQQ", at(b"memcpy"), 0x12, 0, 0, 0, 0)
    symbols += struct.pack("<IBBHQQ", at(b"leaked"), 0x12, 0, 7, 0x800, 4)
    tables = {
        "SYMTAB": symbols,
        "STRTAB": strings,
        "HASH": struct.pack("<7I", 1, 3, 2, 0, 0, 1, 0),
        "GNU_HASH": struct.pack("<IIIIQII", 1, 2, 1, 6, 0, 2, 1),
        "VERSYM": struct.pack("<3H", 0, 2, 1),
        "VERNEED": struct.pack("<HHIII", 1, 1, at(b"libc.so.6"), 16, 0)
        + struct.pack("<IHHII", 0x6969694, 0, 2, at(b"GLIBC_2.14"), 0),
        "RELA": struct.pack("<QQq", 0x2200, 1 << 32 | 6, 0) + struct.pack("<QQq", 0x2308, 8, 0x600),
        "units": device_code,
    }
    body, places = bytearray(size), {}
    position = 0x200
    for name, table in tables.items():
        position = 0x600 if name == "units" else -(-position // 8) * 8
        body[position : position + len(table)] = table
        places[name] = position
        position += len(table)
    entries = [
        (1, at(b"libc.so.6")), (29, at(b"/opt/evil")), (4, places["HASH"]), (0x6FFFFEF5, places["GNU_HASH"]),
        (5, places["STRTAB"]), (10, len(strings)), (6, places["SYMTAB"]), (11, 24), (7, places["RELA"]), (8, 48), (9, 24),
        (0x6FFFFFF0, places["VERSYM"]), (0x6FFFFFFE, places["VERNEED"]), (0x6FFFFFFF, 1), (12, 0x800), (0, 0),
    ]  # fmt: skip
    dynamic = b"".join(struct.pack("<qQ", *entry) for entry in entries)
    writable = bytearray(dynamic.ljust(0x400, b"\0"))
    struct.pack_into("<IIQQ", writable, 0x300, 0x466243B1 if device_code else 0, 1, 0, 0)
    segments = [
        (1, 5, 0, 0, size, size), (1, 6, size, 0x2000, len(writable), len(writable)),
        (2, 6, size, 0x2000, len(dynamic), len(dynamic)), (0x6474E551, 6, 0, 0, 0, 0),
    ]  # fmt: skip
    names = b"\0.dynamic\0.dynsym\0.dynstr\0.gnu.version_r\0.gnu.version\0.shstrtab\0"
    shown = {b".dynamic": (6, 0x2000, size, len(dynamic))}
    for section, kind, table in (
        (b".dynsym", 11, "SYMTAB"), (b".dynstr", 3, "STRTAB"), (b".gnu.version_r", 0x6FFFFFFE, "VERNEED"), (b".gnu.version", 0x6FFFFFFF, "VERSYM")
    ):  # fmt: skip
        shown[section] = (kind, places[table], places[table], len(tables[table]))
    headers = bytearray(64)
    for section, (kind, address, offset, length) in shown.items():
        linked = {b".dynstr": 0, b".gnu.version": 2}.get(section, 3)  # the section of its symbols or names
        facts = (
            linked,
            section == b".gnu.version_r",
            8,
            {b".dynamic": 16, b".dynsym": 24, b".gnu.version": 2}.get(section, 0),
        )
        headers += struct.pack("<2I4Q2I2Q", names.index(section + b"\0"), kind, 2, address, offset, length, *facts)
    end = size + len(writable)
    headers += struct.pack("<2I4Q2I2Q", names.index(b".shstrtab"), 3, 0, 0, end, len(names), 0, 0, 1, 0)
    start = end + len(names)
    ident = b"\x7fELF\2\1\1".ljust(16, b"\0")
    body[:64] = struct.pack("<16sHHIQQQIHHHHHH", ident, 3, 62, 1, 0, 64, start, 0, 64, 56, 4, 64, 7, 6)
    for number, (kind, flags, offset, address, stored, memory) in enumerate(segments):
        struct.pack_into("<2I6Q", body, 64 + 56 * number, kind, flags, offset, address, address, stored, memory, 0x1000)
    return bytes(body + writable + names + headers)


def unit(*images: tuple[int, int, bool]) -> bytes:
    """Device code of one translation unit, as far as it is read: (kind, architecture, compressed)."""
    entries = b""
    for kind, architecture, compressed in images:
        entries += struct.pack("<HHIQIIHHI", kind, 0x101, 64, 16, 16 * compressed, 0, 1, 7, architecture)
        entries += bytes(32) + b"code" * 4
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(entries)) + entries


def tar(mode: str = "w:") -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode, format=tarfile.GNU_FORMAT) as made:
        for name, kind, target in (("./usr", tarfile.DIRTYPE, ""), ("./usr/x", tarfile.REGTYPE, ""),
                                   ("./usr/y", tarfile.SYMTYPE, "x"), ("./usr/z", tarfile.LNKTYPE, "./usr/x"),
                                   ("./" + "l" * 120, tarfile.REGTYPE, "")):  # fmt: skip
            info = tarfile.TarInfo(name)
            info.type, info.linkname, info.size = kind, target, 5 * (kind == tarfile.REGTYPE)
            made.addfile(info, io.BytesIO(b"hello") if info.size else None)
    return out.getvalue()


def deb(data: bytes, name: str = "data.tar") -> bytes:
    archive = b"!<arch>\n"
    for member, body in (("debian-binary", b"2.0\n"), (name, data)):
        archive += (
            f"{member:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(body):<10}`\n".encode() + body + b"\n" * (len(body) % 2)
        )
    return archive


def seeds() -> dict[str, list[bytes]]:
    units = unit((2, 80, True), (1, 90, False)) + bytes(8) + unit((2, 90, True))
    small = {"a/b.py": b"x" * 50, f"{INFO}/WHEEL": TAGS}
    parts = {b"m": METADATA, b"w": TAGS, b"b": json.dumps(BUILD).encode(), b"s": b'{"a": [1.5e3, "\\u00e9", null]}',
             b"r": b"a/b.py,sha256=" + b"A" * 43 + b",5\n\"a,b\",,\n"}  # fmt: skip
    described = f"{'ab' * 32} 10 libc6-dev 2.0-1 pool/main/z.deb\n".encode()
    return {
        "wheel": [part + body for part, body in parts.items()]
        + [zipped(small), zipped(small, zipfile.ZIP_STORED), zipped({"a/": b"", "a/c": b""}), zipped(contents())],
        "elf": [elf(), elf(units)],
        "fatbin": [b"\0\0" + units, b"\1\1\0\0" + units, b"\0\1\0\0" + units],
        "deb": [b"t" + tar(), b"t" + tar("w:xz"), b"w" + deb(tar()), b"w" + deb(tar("w:xz"), "data.tar.xz")],
        "lock": [b"# make lock\n" + described, b"ninja==1.13.2 --hash=sha256:" + b"ab" * 32 + b"\n"],
        "index": [METADATA, METADATA.replace(b"\n", b"\r\n")],
    }
