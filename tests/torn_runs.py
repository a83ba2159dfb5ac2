"""Kills `make wheel ENGINE=host` at random moments, then lets it run once: it ends well, and dist/ is never half-written.

python tests/torn_runs.py [--kills 30] [--seed 0]: some 15 minutes on two cores; not part of any test run. A copy of this
project is built, with the sources for the baseline's instructions alone, unoptimised, and one file of tests. Every other
time make alone gets SIGKILL, otherwise its whole process group at once. Needs a .cache with the downloads of `make wheel`.
"""

import argparse
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COMMAND = ["make", "wheel", "ENGINE=host", f"PYTHON={sys.executable}"]


def cheap_copy(folder: Path) -> Path:
    """The project, quick to build and to test, with the downloads of this checkout (links, so none is copied)."""
    copy = folder / "project"
    subprocess.run(["bash", ROOT / "docker/image/stage-source.sh", ROOT, copy], check=True)
    flags = copy / "csrc/flags.txt"
    flags.write_text(flags.read_text().replace("-O3\n", "-O0\n-DCUSTOMOPS_ONLY_BASELINE\n"))
    for test in copy.glob("tests/test_*.py"):
        if test.name != "test_docstrings.py":  # others compile graphs
            test.unlink()
    for name in ("wheels", "debian"):
        if (ROOT / ".cache" / name).is_dir():
            shutil.copytree(ROOT / ".cache" / name, copy / ".cache" / name, copy_function=os.link)
    return copy


def processes(folder: Path) -> list[int]:
    """Those that work in the copy."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and (entry / "cwd").readlink().is_relative_to(folder):
                found.append(int(entry.name))
    return found


class Watch(threading.Thread):
    """Reads every wheel in dist/, all the time: it must be complete and, for the same source, have the same bytes."""

    def __init__(self, dist: Path):
        super().__init__(daemon=True)
        self.dist, self.looks, self.torn, self.ended = dist, 0, [], threading.Event()
        self.good: set[str] = set()

    def run(self) -> None:
        while not self.ended.wait(0.002):
            self.look()

    def look(self) -> None:
        self.looks += 1
        for path in self.dist.glob("[!.]*"):
            with contextlib.suppress(FileNotFoundError):  # an earlier one that was just removed
                data = path.read_bytes()
                digest = sha256(data).hexdigest()
                if digest in self.good or path.suffix != ".whl":
                    continue
                try:
                    with zipfile.ZipFile(path) as archive:
                        broken = archive.testzip()
                except zipfile.BadZipFile as error:
                    broken = error
                if broken:
                    self.torn.append(f"{path.name}: {len(data)} bytes, {broken}")
                else:
                    self.good.add(digest)


def run_to_the_end(project: Path) -> float:
    began = time.monotonic()
    subprocess.run(COMMAND, cwd=project, check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - began


def kill_one(project: Path, moment: float, whole_group: bool) -> str:
    """How it ended, and after how long nothing of it was left."""
    log = (project.parent / "log").open("a")
    make = subprocess.Popen(COMMAND, cwd=project, stdout=log, stderr=log, start_new_session=True)
    with contextlib.suppress(subprocess.TimeoutExpired):
        make.wait(moment)
        return "ended before"
    if whole_group:
        os.killpg(make.pid, signal.SIGKILL)
    else:
        make.kill()
    make.wait()
    began = time.monotonic()
    while left := processes(project.parent):
        if time.monotonic() - began > 30:
            sys.exit(f"error: 30 s after the kill these still run: {left}")
        time.sleep(0.05)
    return f"killed, nothing left after {time.monotonic() - began:.1f} s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    rng = random.Random(args.seed)
    with tempfile.TemporaryDirectory(prefix="torn-runs-") as folder:
        project = cheap_copy(Path(folder))
        seconds = run_to_the_end(project)
        seconds = run_to_the_end(project)  # the first one made the environments of tools
        watch = Watch(project / "dist")
        watch.look()
        watch.start()
        print(f"one run takes {seconds:.0f} s; {len(watch.good)} wheel", flush=True)
        for number in range(args.kills):
            moment = rng.uniform(0, seconds)
            print(f"{number + 1}: {moment:.1f} s: {kill_one(project, moment, number % 2 == 0)}", flush=True)
        last = run_to_the_end(project)
        watch.ended.set()
        watch.join()
        watch.look()
        files = sorted(path.name for path in (project / "dist").iterdir())
        print(f"the run after them took {last:.0f} s; dist/: {', '.join(files)}; {watch.looks} looks at dist/")
        if watch.torn or len(watch.good) != 1 or len(files) != 2:
            sys.exit(f"error: torn files {watch.torn}, {len(watch.good)} different wheels, {len(files)} files in dist/")


if __name__ == "__main__":
    main()
