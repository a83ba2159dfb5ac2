"""Every locked input in one archive, with a manifest: `make bundle`. `make wheel BUNDLE=FILE` needs no network then.

    manifest.txt      a line for each file: sha256, size, name
    debian/, wheels/  the files, as in .cache/

ARCH=aarch64 adds what a build for ARM and its tests take: the same archive serves both machines then. The same locks give the
same archive. What is taken out of one is compared with the lock, as a download is; the manifest only
says where it is. Not in it: PyPA's image (BASE=manylinux), actionlint, and what `make test-matrix` installs.
"""

import argparse
import contextlib
import hashlib
import io
import os
import re
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from common import (
    CACHE,
    LOCKS,
    ROOT,
    Failure,
    Locked,
    main_guard,
    read_debian_lock,
    read_requirements,
    replacing,
    sha256_of,
)
from strict import one_line

MANIFEST = "manifest.txt"
MANIFEST_BYTES = 10_000_000
LINE = re.compile(r"([0-9a-f]{64}) (\d+) ((?:debian|wheels)/[A-Za-z0-9][A-Za-z0-9._+~%-]*)")


class Bundle:
    """An archive that somebody gave us."""

    def __init__(self, path: Path, tar: tarfile.TarFile):
        self.path, self.tar, self.names = path, tar, {}
        for line in self.read(MANIFEST, MANIFEST_BYTES).decode(errors="replace").splitlines():
            match = LINE.fullmatch(line)
            if not match:
                raise Failure(f"{path}: {line[:80]!r} in {MANIFEST} is not `sha256 size name`: run `make bundle` again")
            self.names[match[1]] = match[3], int(match[2])

    def open(self, name: str) -> tuple[io.BufferedIOBase, int]:
        try:
            member = self.tar.getmember(name)
        except KeyError:
            raise Failure(f"{self.path} holds no {name}: run `make bundle` again") from None
        # A sparse file may be larger than any disk.
        if member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or member.issparse():
            raise Failure(f"{self.path}: {name} is not a file: run `make bundle` again")
        return self.tar.extractfile(member), member.size

    def read(self, name: str, limit: int) -> bytes:
        file, size = self.open(name)
        if size > limit:
            raise Failure(
                f"{self.path}: {name} has {size} bytes, at most {limit} are expected: run `make bundle` again"
            )
        return file.read()

    def take(self, entry: Locked, folder: Path, lock: Path, name: str = "") -> None:
        """Copies a file of a lock into a folder if its hash is right, under its own name or the one given."""
        found, size = self.names.get(entry.sha256, ("", 0))
        if not found:
            across = f" ARCH={lock.parent.name}" if lock.parent.parent == LOCKS else ""
            raise Failure(
                f"{self.path} lacks {entry.path}, it was made from other locks: run `make bundle{across}` again, or leave out BUNDLE"
            )
        file, actual = self.open(found)
        if actual != size or (entry.size and size != entry.size):
            raise Failure(f"{self.path}: {found} has {actual} bytes, {entry.size or size} are expected")
        digest = hashlib.sha256()
        with replacing(folder / (name or Path(found).name)) as partial, partial.open("wb") as out:
            while chunk := file.read(1 << 20):
                digest.update(chunk)
                out.write(chunk)
            if digest.hexdigest() != entry.sha256:
                raise Failure(
                    f"{self.path}: {found} is not the locked file: expected sha256 {entry.sha256}, got {digest.hexdigest()}"
                )


@contextlib.contextmanager
def given() -> Iterator[Bundle | None]:
    """The bundle that the variable BUNDLE names, or None."""
    if not os.environ.get("BUNDLE"):
        yield None
        return
    path = Path(os.environ["BUNDLE"])
    if not path.is_file():
        raise Failure(f"there is no bundle {path}: make bundle BUNDLE={path}, with a network")
    try:
        tar = tarfile.open(path, "r:")  # noqa: SIM115, closed below
        tar.getmembers()
    except (tarfile.TarError, EOFError, ValueError, OverflowError, KeyError, RecursionError) as error:
        raise Failure(f"{path} is not a bundle ({one_line(error)}): run `make bundle` again") from error
    with tar:
        yield Bundle(path, tar)


def folders_of_locks(machine: str = "") -> dict[Path, Path]:
    """Folders of locks, and where the wheels are kept that they name: the pipeline's, and of another machine."""
    across = machine and (LOCKS / machine).is_dir()
    return {LOCKS: CACHE / "wheels"} | ({LOCKS / machine: CACHE / f"wheels-{machine}"} if across else {})


def locked_files(own: Sequence[Path], machine: str) -> Iterable[tuple[str, str, Path]]:
    """(name in the archive, sha256, file in the cache) of everything that a lock names, a project's own included."""
    import fetch  # not at the top: these import this module
    import project_run

    folders = folders_of_locks(machine)
    for lock in (lock for folder in folders for lock in folder.glob("debian-*.lock")):
        for entry in read_debian_lock(lock):
            path = CACHE / "debian" / Path(entry.path).name
            yield f"debian/{path.name}", entry.sha256, path
    wheels = [(lock, kept) for folder, kept in folders.items() for lock in folder.glob("requirements-*.txt")]
    for lock, folder in [*wheels, *((lock, project_run.WHEELS) for lock in own)]:
        for entry in read_requirements(lock):
            path = fetch.find_wheel(folder, entry.path, entry.sha256)
            yield f"wheels/{path.name}", entry.sha256, path


def write(target: Path, own: Sequence[Path] = (), machine: str = "") -> None:
    """Writes the archive; hashes what it writes, so that a bundle never holds another file than the locked one."""
    files = {name: (sha256, path) for name, sha256, path in locked_files(own, machine)}
    lines = [f"{sha256} {path.stat().st_size} {name}\n" for name, (sha256, path) in sorted(files.items())]
    with replacing(target) as partial, tarfile.open(partial, "w", format=tarfile.GNU_FORMAT) as tar:

        def add(name: str, size: int, content) -> None:
            info = tarfile.TarInfo(name)
            info.size = size
            tar.addfile(info, content)

        text = "".join(lines).encode()
        add(MANIFEST, len(text), io.BytesIO(text))
        for name, (sha256, path) in sorted(files.items()):
            content = path.read_bytes()
            if hashlib.sha256(content).hexdigest() != sha256:
                raise Failure(f"{path} is not the locked file: delete it and run `make fetch` again")
            add(name, len(content), io.BytesIO(content))
    print(f"{target}: {len(files)} files, {target.stat().st_size / 1e6:.0f} MB, sha256 {sha256_of(target)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target", type=Path, nargs="?", default=ROOT / "build/inputs.tar")
    parser.add_argument("--project", type=Path, default=ROOT)
    parser.add_argument("--pythons", default="")
    parser.add_argument("--torches", default="")
    parser.add_argument("--arch", default="", help="another machine to build for, besides this one")
    args = parser.parse_args()
    os.environ.pop("BUNDLE", None)  # here it names what is written
    import fetch  # not at the top: these import this module
    import project_run

    fetch.check_machine(args.arch)
    project = project_run.load(args.project)
    pairs = project_run.pairs(project, args.pythons, args.torches)
    fetch.fetch_all(project, pairs, args.arch)
    args.target.parent.mkdir(parents=True, exist_ok=True)
    write(args.target, project_run.locks(project, pairs), args.arch)


if __name__ == "__main__":
    main_guard(main)
