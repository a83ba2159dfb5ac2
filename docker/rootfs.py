"""Assembles a root file system from locked Debian packages: the base image, made without any container registry.

    python3 docker/rootfs.py docker/locks/debian-build.lock .cache/debian rootfs.tar

Unpacks every package and runs no maintainer script, so the result depends only on the packages' bytes: the same lock gives
the same tar file, on any machine and without root. FINISH_LINKS and FINISH_FILES list the few files that scripts would have
made. Each package is verified against the lock.
"""

import argparse
import hashlib
import io
import re
import tarfile
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
            members = deb_members(path, locked_bytes(path, entry.sha256))
            content = next((body for name, body in members if name.startswith("data.tar")), None)
            if content is None:
                raise Failure(f"{path} has no data.tar")
            with tarfile.open(fileobj=io.BytesIO(content)) as data:
                for info in data:
                    info.name = info.name.removeprefix("./").rstrip("/")
                    left_out = info.name.startswith(LEFT_OUT) and not info.name.endswith(KEPT_IN_DOC)
                    if info.name in ("", ".") or (left_out and (info.isreg() or info.islnk())):
                        continue
                    if info.islnk():
                        info.linkname = info.linkname.removeprefix("./")
                    add(info, data.extractfile(info) if info.isreg() else None)
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
