"""Downloads every locked input into .cache/ and verifies its sha256: `make fetch`. The only step that uses the network.

Reads debian-*.lock and requirements-*.txt in docker/locks/. Debian files come from DEBIAN_MIRROR or from the mirrors in the
machine's apt configuration, then from DEBIAN_ARCHIVE, Python wheels from the index that pip is configured for. BUNDLE names
a file of `make bundle` that replaces all of them. None is trusted: the hash decides. A file that is already in .cache/ is verified again, not downloaded. Standard library only, because this runs
before anything is installed.
"""

import argparse
import concurrent.futures
import contextlib
import errno
import hashlib
import http.client
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import bundle
import children
import interpreters
import native
from common import (
    CACHE,
    LOCKS,
    ROOT,
    Failure,
    Locked,
    check_sha256,
    debian_mirrors,
    main_guard,
    pip_target,
    read_debian_lock,
    read_requirements,
    replacing,
    sha256_of,
)
from image.project import Pair, Project

RETRY_AFTER_SECONDS = (0, 2, 10)
STALL_SECONDS = 60  # without a byte
LEAST_SECONDS, LEAST_BYTES_A_SECOND = 120, 50_000  # for one Debian file
LINE_SECONDS = 10  # between lines that say how far a download is, where there is no terminal
PIP_SECONDS = 3600  # for the wheels of one lock


def download(entry: Locked, folder: Path, mirrors: list[str], arrived: Callable[[int], None] = lambda _: None) -> None:
    """Downloads one Debian file from the first mirror that has it. It appears in the folder only if its hash is right.

    A mirror that cannot be reached is tried again later. The answer of one that can, even an error, is final.
    """
    target = folder / Path(entry.path).name
    problems, got = {}, 0

    def count(size: int) -> None:
        nonlocal got
        got += size
        arrived(size)

    for delay in RETRY_AFTER_SECONDS:
        time.sleep(delay)
        for mirror in mirrors:
            try:
                with replacing(target) as partial:
                    copy_locked(f"{mirror}/{entry.path}", entry, partial, count)
                return
            except (OSError, ValueError, http.client.HTTPException, Failure) as error:
                if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT):
                    raise
                problems[mirror] = error
                count(-got)
        if all(isinstance(problem, (urllib.error.HTTPError, ValueError, Failure)) for problem in problems.values()):
            break
    said = "; ".join(f"{mirror}: {problem}" for mirror, problem in problems.items())
    raise Failure(
        f"cannot download {entry.path} ({said}); check the network, or set DEBIAN_MIRROR, or DEBIAN_ARCHIVE to one that keeps old files"
    )


def copy_locked(url: str, entry: Locked, partial: Path, arrived: Callable[[int], None] = lambda _: None) -> None:
    """Downloads at most the locked size, in a time that grows with it, and compares the hash."""
    seconds = LEAST_SECONDS + entry.size / LEAST_BYTES_A_SECOND
    digest, left = hashlib.sha256(), entry.size
    with Deadline(seconds) as deadline, partial.open("wb") as file:
        try:
            with deadline.open(url) as response:
                while chunk := response.read1(1 << 16):
                    left -= len(chunk)
                    if left < 0:
                        raise Failure(f"the file is larger than the locked {entry.size} bytes")
                    digest.update(chunk)
                    file.write(chunk)
                    arrived(len(chunk))
        finally:
            if deadline.passed:
                raise Failure(f"not complete after {seconds:.0f} s")
    if digest.hexdigest() != entry.sha256:
        raise Failure(f"expected sha256 {entry.sha256}, got {digest.hexdigest()}")


class Deadline:
    """Opens URLs, and cuts their connections when the time is up: a timeout of a socket starts again with every byte."""

    def __init__(self, seconds: float):
        self.sockets, self.passed = [], False
        self.timer = threading.Timer(seconds, self.cut)
        self.timer.daemon = True

    def __enter__(self):
        self.timer.start()
        return self

    def __exit__(self, *_):
        self.timer.cancel()

    def cut(self) -> None:
        self.passed = True
        for connected in self.sockets:
            with contextlib.suppress(OSError):
                socket.socket.shutdown(connected, socket.SHUT_RDWR)

    def open(self, url: str):
        def connection(kind):
            def connect(this):
                kind.connect(this)
                self.sockets.append(this.sock)
                if self.passed:
                    self.cut()

            return type(kind.__name__, (kind,), {"connect": connect})

        class Plain(urllib.request.HTTPHandler):
            def http_open(self, request):
                return self.do_open(connection(http.client.HTTPConnection), request)

        class Encrypted(urllib.request.HTTPSHandler):
            def https_open(self, request):
                return self.do_open(connection(http.client.HTTPSConnection), request)

        return urllib.request.build_opener(Plain, Encrypted).open(url, timeout=STALL_SECONDS)


def fetch_debian(lock: Path, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    entries = read_debian_lock(lock)
    missing = []
    for entry in entries:
        path = folder / Path(entry.path).name
        if path.exists():
            check_sha256(path, entry.sha256)
        else:
            missing.append(entry)
    with bundle.given() as bundled:
        for entry in missing if bundled else ():
            bundled.take(entry, folder, lock, Path(entry.path).name)
    if missing and not bundled:
        mirrors = debian_mirrors()
        size = sum(entry.size for entry in missing)
        with concurrent.futures.ThreadPoolExecutor(8) as pool, Progress(lock.name, size, len(missing)) as progress:
            futures = [pool.submit(download, entry, folder, mirrors, progress.add) for entry in missing]
            try:
                for future in concurrent.futures.as_completed(futures):
                    future.result()
                    progress.files += 1
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
    say_verified(lock, "", f"{len(entries)} files", len(missing), bool(bundled))


_said: set[tuple[Path, str]] = set()


def say_verified(lock: Path, whose: str, number: str, missing: int, bundled: bool) -> None:
    """One line for a lock in a run: later steps verify again what the first has fetched, and say nothing."""
    if (lock, whose) not in _said or missing:
        _said.add((lock, whose))
        source = "from BUNDLE" if bundled else "downloaded"
        print(f"{lock.name}{whose}: {number} verified, {missing} {source}", flush=True)


class Progress:
    """Shows how far a download is, in bytes of the total: in place on a terminal, elsewhere a line every ten seconds."""

    def __init__(self, name: str, size: int, count: int):
        self.name, self.size, self.count, self.files, self.bytes = name, size, count, 0, 0
        self.live, self.ended, self.mutex = sys.stderr.isatty(), threading.Event(), threading.Lock()
        self.thread = threading.Thread(target=self.show, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()
        if self.live:
            print(f"\r\033[K{self}", file=sys.stderr, flush=True)

    def add(self, count: int) -> None:
        """Bytes that arrived; negative when a file has to be downloaded again."""
        with self.mutex:
            self.bytes += count

    def __str__(self) -> str:
        return f"{self.name}: {self.files} of {self.count} files, {self.bytes / 1e6:.1f} of {self.size / 1e6:.1f} MB"

    def show(self) -> None:
        while not self.ended.wait(0.2 if self.live else LINE_SECONDS):
            print(f"\r\033[K{self}" if self.live else self, end="" if self.live else "\n", file=sys.stderr, flush=True)


def find_wheel(folder: Path, requirement: str, sha256: str = "") -> Path | None:
    """The wheel of a locked requirement, found by the name and version in its file name; of several, the one with the hash."""
    name, _, version = requirement.partition("==")
    prefix = f"{name.replace('-', '_').replace('.', '_')}-{version}-".lower()
    found = [
        path
        for path in folder.glob("*.whl")
        if re.sub(r"^[^-]+", lambda m: m[0].replace(".", "_"), path.name).lower().startswith(prefix)
    ]
    if len(found) > 1:  # for several CPythons
        return next((path for path in found if sha256_of(path) == sha256), None)
    return found[0] if found else None


def missing_wheels(entries: list[Locked], folder: Path, tag: str) -> list[Locked]:
    """What is to be downloaded: also what is there for another CPython only."""

    def is_there(entry: Locked) -> bool:
        path = find_wheel(folder, entry.path, entry.sha256)
        foreign = path is not None and (match := re.search(r"-(cp\d+)-cp\d+t?-", path.name)) and match[1] != tag
        return path is not None and not (foreign and sha256_of(path) != entry.sha256)

    return [entry for entry in entries if not is_there(entry)]


def fetch_wheels(
    lock: Path, folder: Path, python: str = "3.11", machine: str = native.machine(), whose: str = "the pipeline"
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    entries = read_requirements(lock)
    missing = missing_wheels(entries, folder, "cp" + python.replace(".", "").rstrip("t"))
    with bundle.given() as bundled:
        for entry in missing if bundled else ():
            bundled.take(entry, folder, lock)
    if missing and not bundled:
        print(f"{lock.name} of {whose}: pip downloads {', '.join(e.path for e in missing)}", flush=True)
        with tempfile.NamedTemporaryFile("w", prefix=f".{lock.stem}.", suffix=".partial", dir=folder) as wanted:
            wanted.write("".join(f"{e.path} --hash=sha256:{e.sha256}\n" for e in missing))
            wanted.flush()
            run = pip_download(folder, wanted.name, python, machine)
        if run.returncode:
            raise Failure(explain_pip(run.stderr))
    for entry in entries:
        path = find_wheel(folder, entry.path, entry.sha256)
        if path is None:
            raise Failure(f"pip did not leave a wheel of {entry.path} in {folder}")
        check_sha256(path, entry.sha256)
    say_verified(lock, f" of {whose}", f"{len(entries)} wheels", len(missing), bool(bundled))


def pip_download(folder: Path, requirements: str, python: str, machine: str) -> subprocess.CompletedProcess:
    quiet = [] if sys.stderr.isatty() and sys.stdout.isatty() else ["--quiet"]  # on a terminal, pip shows its own bar
    command = [interpreters.with_pip(), "-m", "pip", "download", *quiet, "--disable-pip-version-check", "--no-deps", "--require-hashes", *pip_target(python, machine),
               "--dest", folder, "--requirement", requirements]  # fmt: skip
    try:
        return children.run(command, stderr=subprocess.PIPE, text=True, check=False, timeout=PIP_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise Failure(f"pip was not done after {PIP_SECONDS} s: check the network, and run this again") from error


def explain_pip(stderr: str) -> str:
    """pip's error in one line, with a remedy."""
    errors = [line.removeprefix("ERROR: ").strip() for line in stderr.splitlines() if line.startswith("ERROR: ")]
    said = next((line for line in errors if "No matching distribution" in line), errors[0] if errors else stderr[-200:])
    if "No space left" in stderr:
        return f"the disk that holds {CACHE} is full: free some space and run this again"
    if "HASHES" in stderr or "hash" in said.lower():
        hashes = [
            " ".join(line.split()) for line in stderr.splitlines() if re.search(r"Expected sha256|Got\s+[0-9a-f]", line)
        ]
        named = re.search(r"^\s+(\S+==\S+) ", stderr, re.MULTILINE)
        what = named[1] if named else "a wheel"
        return f"pip was offered another file than the locked one for {what}: {', '.join(hashes)}"
    remedy = "check the network and pip's index configuration (`pip config list`)"
    if "torch" in said:
        remedy += "; the CPU build of torch is on PyTorch's own index: name it in pip's extra-index-url or find-links"
    return f"{said}; {remedy}"


def fetch_debian_set(*names: str, locks: Path = LOCKS) -> None:
    """The packages of some locks: ``fetch_debian_set("build", "test")``."""
    for name in names:
        fetch_debian(locks / f"debian-{name}.lock", CACHE / "debian")


def fetch_set(*names: str, locks: Path = LOCKS) -> None:
    """The wheels of some requirement sets: ``fetch_set("build", "test")``."""
    for name in names:
        fetch_wheels(native.here(locks / f"requirements-{name}.txt"), CACHE / "wheels")


def check_machine(machine: str) -> None:
    import images  # not at the top: it imports this module

    native.check_inputs()
    images.check_choices("cpu", "debian", machine or images.OWN)


def fetch_across(machine: str) -> None:
    """What a build for another machine takes besides, and what its tests run."""
    for folder, wheels in bundle.folders_of_locks(machine).items():
        across = folder.name == machine
        for lock in sorted(folder.glob("debian-*.lock")) if across else ():
            fetch_debian(lock, CACHE / "debian")
        for lock in sorted(folder.glob("requirements-*.txt")) if across else ():
            fetch_wheels(lock, wheels, machine=machine, whose=f"the pipeline for {machine}")


def fetch_all(project: Project, pairs: list[Pair], machine: str = "") -> None:
    fetch_debian_set(*sorted(path.stem.removeprefix("debian-") for path in LOCKS.glob("debian-*.lock")))
    fetch_set(*sorted(path.stem.removeprefix("requirements-") for path in LOCKS.glob("requirements-*.txt")))
    fetch_across(machine)
    import project_run  # not at the top: it imports this module

    for pair in pairs:
        project_run.fetch_locks(project, pair, "build", "test")


def main() -> None:
    import project_run

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--project", type=Path, default=ROOT, help="whose locks are fetched, too")
    parser.add_argument("--pythons", default="")
    parser.add_argument("--torches", default="")
    parser.add_argument("--arch", default="", help="another machine to build for, besides this one")
    args = parser.parse_args()
    check_machine(args.arch)
    project = project_run.load(args.project)
    fetch_all(project, project_run.pairs(project, args.pythons, args.torches), args.arch)


if __name__ == "__main__":
    main_guard(main)
