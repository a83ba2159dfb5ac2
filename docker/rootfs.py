"""Assembles a root file system from locked Debian packages: the base image, made without any container registry.

    python3 docker/rootfs.py docker/locks/debian-build.lock .cache/debian rootfs.tar

Unpacks every package and runs no maintainer script, so the result depends only on the packages' bytes: the same lock gives
the same tar file, on any machine and without root. FINISH_LINKS and FINISH_FILES list the few files that scripts would have
made. Each package is verified against the lock.
"""

import argparse
import hashlib
import io
import lzma
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path

from common import Failure, check_sha256, main_guard, read_debian_lock, replacing

# Symbolic links and files that Debian's maintainer scripts create (update-alternatives, base-passwd).
FINISH_LINKS = {
    "usr/bin/awk": "mawk",
    "usr/bin/cc": "gcc",
    "usr/bin/c++": "g++",
    "bin/sh": "dash",
}
FINISH_FILES = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    "etc/group": "root:x:0:\nnogroup:x:65534:\n",
}
# No step reads these, and they are half of the bytes.
LEFT_OUT = ("usr/share/doc/", "usr/share/man/", "usr/share/info/", "usr/share/locale/", "usr/share/lintian/")
MAX_BYTES, MAX_XZ_MEMORY = 2 << 30, 1 << 28  # of an unpacked package; xz -9 takes 65 MiB
KEPT_IN_DOC = "/copyright"  # licences of what is linked statically into a wheel


def locked_bytes(package: Path, expected: str) -> bytes:
    """The bytes of a package, read once: what is unpacked is what was hashed."""
    data = package.read_bytes()
    check_sha256(package, expected, hashlib.sha256(data).hexdigest())
    return data


def deb_members(package: Path, data: bytes):
    """The files of a .deb, which is an `ar` archive: (name, bytes)."""
    if not data.startswith(b"!<arch>\n"):
        raise Failure(f"{package} is not a Debian package")
    offset = 8
    while offset + 60 <= len(data):
        header = data[offset : offset + 60]
        name = re.fullmatch(rb"([!-.0-~]+)/? *", header[:16])
        size = re.fullmatch(rb"(\d+) *`\n", header[48:])
        if not name or not size or offset + 60 + int(size[1]) > len(data):
            raise Failure(f"{package} has no header of a file, or only a part of the file, at byte {offset}")
        name, size = name[1].decode(), int(size[1])
        yield name, data[offset + 60 : offset + 60 + size]
        offset += 60 + size + size % 2


def data_files(package: Path, data: bytes) -> Iterator[tuple[tarfile.TarInfo, io.BytesIO | None]]:
    """The files that a .deb installs, with plain names below the root: (facts, contents of a regular file)."""
    members = [body for name, body in deb_members(package, data) if name.startswith("data.tar")]
    if len(members) != 1:
        raise Failure(f"{package} has {len(members)} members data.tar, expected one")
    try:
        with tarfile.open(fileobj=io.BytesIO(unpacked(package, members[0])), mode="r:", errorlevel=2) as tar:
            for info in tar:
                info.name = plain(package, info.name)
                if not (info.isreg() or info.isdir() or info.issym() or info.islnk()):
                    raise Failure(f"{package}: {info.name!a} is neither a file, a folder nor a link")
                if info.islnk():
                    info.linkname = plain(package, info.linkname)
                if info.sparse is not None or "\0" in info.linkname or not 0 <= info.mode <= 0o7777 or info.mtime < 0:
                    raise Failure(f"{package}: {info.name!a} has facts that no package has")
                # Read here: what is cut is an error of this package.
                yield info, io.BytesIO(tar.extractfile(info).read()) if info.isreg() else None
    except (tarfile.TarError, EOFError, ValueError, OverflowError, KeyError, RecursionError) as error:
        raise Failure(f"{package} has a data.tar that cannot be read: {type(error).__name__}: {error}") from error


def unpacked(package: Path, member: bytes) -> bytes:
    """A tar archive, out of xz if it is in one."""
    if not member.startswith(b"\xfd7zXZ\0"):
        return member
    try:
        unxz = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MAX_XZ_MEMORY)
        found = unxz.decompress(member, MAX_BYTES + 1)
    except (lzma.LZMAError, EOFError) as error:
        raise Failure(f"{package} has a data.tar.xz that cannot be read: {error}") from error
    if len(found) > MAX_BYTES or not unxz.eof or unxz.unused_data:
        raise Failure(f"{package} has a data.tar.xz that is cut, or of more than {MAX_BYTES} bytes")
    return found


def plain(package: Path, name: str) -> str:
    name = name.removeprefix("./").rstrip("/")
    if name in ("", "."):
        return ""
    if {"", ".", ".."} & set(name.split("/")) or not name.isprintable():
        raise Failure(f"{package}: {name!a} is not a path below the root")
    return name


def assemble(lock: Path, packages: Path, output: Path) -> None:
    seen = set()
    with replacing(output) as partial, tarfile.open(partial, "w", format=tarfile.GNU_FORMAT) as out:

        def add(info: tarfile.TarInfo, content=None) -> None:
            if info.name in seen:
                return
            seen.add(info.name)
            info.uid = info.gid = 0
            info.uname = info.gname = ""
            out.addfile(info, content)

        for entry in read_debian_lock(lock):
            path = packages / Path(entry.path).name
            for info, content in data_files(path, locked_bytes(path, entry.sha256)):
                left_out = info.name.startswith(LEFT_OUT) and not info.name.endswith(KEPT_IN_DOC)
                if info.name and not (left_out and (info.isreg() or info.islnk())):
                    add(info, content)
        for name, target in FINISH_LINKS.items():
            if str(Path(name).parent / target) in seen:
                info = tarfile.TarInfo(name)
                info.type, info.linkname = tarfile.SYMTYPE, target
                add(info)
        for name, text in FINISH_FILES.items():
            info = tarfile.TarInfo(name)
            info.size = len(text)
            add(info, io.BytesIO(text.encode()))
    print(f"{output.name}: {len(seen)} files, {output.stat().st_size / 1e6:.0f} MB", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("lock", type=Path)
    parser.add_argument("packages", type=Path, help="folder with the .deb files")
    parser.add_argument("output", type=Path, help="tar file to write")
    args = parser.parse_args()
    assemble(args.lock, args.packages, args.output)


if __name__ == "__main__":
    main_guard(main)
