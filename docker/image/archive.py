"""Reads a zip archive that everybody reads alike: pip, which trusts the central directory, and tools that read entry by entry.

    archive = Archive(data)          Refused, with every reason, if another reader might see something else
    archive.names, archive.read(name)

Entries lie one behind the other from the first byte to the central directory, both descriptions of an entry agree, and a name
is a plain path below the top that no other entry has. Standard library only.
"""

import re
import stat
import struct
import zlib
from typing import NamedTuple

from strict import Refused, one_line

END, CENTRAL, LOCAL = struct.Struct("<4s4H2LH"), struct.Struct("<4s6H3L5H2L"), struct.Struct("<4s5H3L2H")
DESCRIPTOR = struct.Struct("<4s3L")
STORED, DEFLATED = 0, 8
DEFLATE_LEVEL, DESCRIBED_AFTER, UTF8 = 0x6, 0x8, 0x800  # all that a flag may say
HARMLESS_EXTRA = {0x5455, 0x7875}  # times and owners, of Info-ZIP
DOS_FOLDER = 0x10

# Printable ASCII without what some system reads as a separator, a drive or a pattern.
PART = re.compile(r"[A-Za-z0-9_.+@=,!#$%&()\[\]{}^~; -]*[A-Za-z0-9_+@=,!#$%&()\[\]{}^~;-]")
# A file that takes more than this, or that shrank by more, is nothing that a build makes.
MAX_FILE_BYTES, MAX_TOTAL_BYTES, MAX_RATIO = 1 << 30, 4 << 30, 1000


class Entry(NamedTuple):
    name: str
    is_folder: bool
    mode: int  # permissions
    method: int
    crc: int
    stored: int  # bytes in the archive
    size: int
    start: int  # of the data, in the archive
    changed: tuple[int, int, int]  # year, month, day


class Archive:
    """An archive that is in memory as a whole, so that what is checked is what is read."""

    def __init__(self, data: bytes, max_file: int = MAX_FILE_BYTES, max_total: int = MAX_TOTAL_BYTES):
        self.data = data
        self.limits = max_file, max_total
        self.problems: list[str] = []
        self.entries: dict[str, Entry] = {}
        self._read_directory()
        if self.problems:
            raise Refused(*self.problems)

    @property
    def names(self) -> list[str]:
        """Files, without folders, in the order of the archive."""
        return [entry.name for entry in self.entries.values() if not entry.is_folder]

    def read(self, name: str) -> bytes:
        """The contents of a file; Refused if they are not what the directory promises."""
        entry = self.entries[name]
        held = self.data[entry.start : entry.start + entry.stored]
        if entry.method == DEFLATED:
            inflate = zlib.decompressobj(-zlib.MAX_WBITS)
            try:
                found = inflate.decompress(held, entry.size + 1)
            except zlib.error as error:
                raise Refused(f"file: {name!r} cannot be decompressed: {one_line(error)}") from None
            if not inflate.eof or inflate.unused_data:
                raise Refused(f"file: {name!r} does not end where the archive says")
        else:
            found = held
        if len(found) != entry.size or zlib.crc32(found) != entry.crc:
            raise Refused(f"file: {name!r} has another size or checksum than the archive says")
        return found

    def _read_directory(self) -> None:
        end = len(self.data) - END.size
        if end < 0 or self.data[end : end + 4] != b"PK\5\6":
            raise Refused("file: it is no zip archive, or bytes follow its end")
        _, disk, first_disk, here, count, size, start, comment = END.unpack_from(self.data, end)
        if disk or first_disk or here != count or comment or start + size != end:
            raise Refused("file: it is a zip archive in parts, with a comment, or with bytes around its directory")
        at, expected, total = start, 0, 0
        for _ in range(count):
            if at + CENTRAL.size > end or self.data[at : at + 4] != b"PK\1\2":
                raise Refused(f"file: the zip directory has no entry at byte {at}")
            at, expected, size = self._read_entry(at, end, expected, start)
            total += size
        if at != end or expected != start:
            raise Refused("file: the zip archive has bytes that belong to no entry")
        if total > self.limits[1]:
            self.problems.append(f"file: the archive has {total} bytes unpacked, the limit is {self.limits[1]}")
        self._compare_names()

    def _read_entry(self, at: int, end: int, expected: int, limit: int) -> tuple[int, int, int]:
        """Reads the directory's entry at a byte; (next one, end of the data, size). Its data has to begin as expected."""
        _, _, needs, flags, method, clock, date, crc, stored, size, name_size, extra_size, comment, disk, _, attributes, local = (
            CENTRAL.unpack_from(self.data, at)
        )  # fmt: skip
        following = at + CENTRAL.size + name_size + extra_size + comment
        if following > end or comment or disk:
            raise Refused(f"file: the zip directory has a cut entry, or one with a comment, at byte {at}")
        raw = self.data[at + CENTRAL.size : at + CENTRAL.size + name_size]
        shown = one_line(raw.decode("latin-1"))
        if local != expected or local + LOCAL.size + name_size > limit:
            raise Refused(f"file: '{shown}' does not begin where the entry before it ends")
        magic, *here, local_name, local_extra = LOCAL.unpack_from(self.data, local)
        data = local + LOCAL.size + local_name + local_extra
        after = flags & DESCRIBED_AFTER
        promised = [needs, flags, method, clock, date, *((0, 0, 0) if after else (crc, stored, size))]
        if magic != b"PK\3\4" or (here != promised and here != [*promised[:5], crc, stored, size]):
            raise Refused(f"file: '{shown}' is described in two ways")
        if self.data[local + LOCAL.size : data - local_extra] != raw:
            raise Refused(f"file: '{shown}' has another name where its data is")
        ends = data + stored + (DESCRIPTOR.size if after else 0)
        if ends > limit:
            raise Refused(f"file: '{shown}' is cut")
        if after and DESCRIPTOR.unpack_from(self.data, data + stored) != (b"PK\7\x08", crc, stored, size):
            raise Refused(f"file: '{shown}' is described in two ways")
        for extra in (self.data[data - local_extra : data], self.data[following - extra_size : following]):
            self._check_extra(shown, extra)
        folder, mode = raw.endswith(b"/"), attributes >> 16
        if flags & ~(DEFLATE_LEVEL | DESCRIBED_AFTER | UTF8) or method not in (STORED, DEFLATED) or needs > 20:
            self.problems.append(f"file: '{shown}' is encrypted, or compressed by a method that installers do not know")
        elif method == STORED and (stored != size or after):
            self.problems.append(f"file: '{shown}' is described in two ways")
        if size > min(self.limits[0], max(1 << 20, stored * MAX_RATIO)):
            self.problems.append(f"file: '{shown}' has {size} bytes, out of {stored}")
        if attributes & DOS_FOLDER and not folder:
            self.problems.append(f"file: '{shown}' is a file by its name and a folder by its attributes")
        changed = 1980 + (date >> 9), date >> 5 & 15, date & 31
        self._add(raw, shown, Entry("", folder, mode, method, crc, stored, size, data, changed))
        return following, ends, size

    def _check_extra(self, shown: str, extra: bytes) -> None:
        """Extra fields can hold another name, other sizes, or a password's salt."""
        at = 0
        while at < len(extra):
            kind, size = struct.unpack_from("<HH", extra, at) if at + 4 <= len(extra) else (0, len(extra))
            at += 4 + size
            if kind not in HARMLESS_EXTRA or at > len(extra):
                self.problems.append(f"file: '{shown}' has the extra field {kind:#06x}, which some readers obey")
                return

    def _add(self, raw: bytes, shown: str, entry: Entry) -> None:
        name = raw.decode("latin-1")
        parts = name.removesuffix("/").split("/")
        if not all(PART.fullmatch(part) and not part.startswith(" ") for part in parts):
            self.problems.append(f"file: '{shown}' is not a plain path below the top of the wheel")
        expected = stat.S_IFDIR if entry.is_folder else stat.S_IFREG
        if stat.S_IFMT(entry.mode) not in (0, expected) or entry.mode & 0o7000:
            self.problems.append(f"file: '{shown}' is a link or a special file")
        if entry.is_folder and (entry.size or entry.stored > 2):
            self.problems.append(f"file: '{shown}' is a folder with contents")
        if name in self.entries:
            self.problems.append(f"file: '{shown}' is in the wheel twice, the first time as {shown!r}")
        self.entries[name] = entry._replace(name=name, mode=entry.mode & 0o777)

    def _compare_names(self) -> None:
        """No two entries are one file, also where case does not count; and no file is a folder of another."""
        seen: dict[str, str] = {}
        for name in self.entries:
            plain = name.removesuffix("/").lower()
            if plain in seen:
                self.problems.append(f"file: {name!r} is in the wheel twice, the first time as {seen[plain]!r}")
            seen[plain] = name
        files = {plain for plain, name in seen.items() if not name.endswith("/")}
        for plain, name in seen.items():
            parents = plain.split("/")
            if any("/".join(parents[:depth]) in files for depth in range(1, len(parents))):
                self.problems.append(f"file: {name!r} is below another file")
