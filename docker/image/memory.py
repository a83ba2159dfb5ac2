"""How many compilers may run at once: by the memory that they were seen to take, not by cores alone.

A Watch samples the processes below it while a build runs; the peak of each source is kept in a file, so that the next build
of the project starts right. Standard library only.
"""

import json
import os
import threading
from pathlib import Path

from project import BadProject

FIRST_GUESS = (
    2.5e9  # bytes of a compiler of a source that was never measured: torch's headers take 1 to 2, nvcc up to 5
)
KEPT_FREE = 0.1
COMPILERS = {"nvcc", "gcc", "g++", "cc", "c++", "clang", "clang++"} | {
    f"{machine}-linux-gnu-{name}" for machine in ("x86_64", "aarch64") for name in ("gcc", "g++")
}
SOURCES = (".c", ".cc", ".cpp", ".cxx", ".cu")
SECONDS_BETWEEN_SAMPLES = 0.2


def number(path: str) -> float:
    try:
        return float(Path(path).read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return float("inf")


def limits() -> tuple[float, float]:
    """(CPUs, bytes of memory that are free) of this container, or of this machine."""
    cpus = float(len(os.sched_getaffinity(0)))
    for quota, period in (("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us"),):
        allowed = number(f"/sys/fs/cgroup/{quota}") / number(f"/sys/fs/cgroup/{period}")
        cpus = min(cpus, allowed) if allowed > 0 else cpus
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        cpus = min(cpus, float(quota) / float(period))
    except (OSError, ValueError):  # cgroups of version 1, or "max"
        pass
    lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    free = float(lines["MemAvailable"].split()[0]) * 1024
    for limit in ("memory.max", "memory/memory.limit_in_bytes"):
        free = min(free, number(f"/sys/fs/cgroup/{limit}"))
    return cpus, free


def jobs(peaks: dict[str, float], wanted: str = "") -> tuple[int, str]:
    """(number of jobs, why). The k largest sources must fit at once; MAX_JOBS, if given, is what the caller asks for.

    Raises:
        BadProject: MAX_JOBS is not a number of compilers.
    """
    if wanted:
        if not (wanted.isascii() and wanted.isdigit() and int(wanted)):
            raise BadProject(f"MAX_JOBS must be a positive whole number, got {wanted!r}: correct it, or unset it")
        return int(wanted), "MAX_JOBS"
    cpus, free = limits()
    budget = free * (1 - KEPT_FREE)
    largest = sorted(peaks.values(), reverse=True) or [FIRST_GUESS]
    count = 1
    while count < int(cpus) and sum((largest * (count + 1) if not peaks else largest)[: count + 1]) <= budget:
        count += 1
    how = (
        f"a compiler was seen to take {largest[0] / 1e9:.1f} GB"
        if peaks
        else f"{FIRST_GUESS / 1e9} GB assumed for each"
    )
    return count, f"{cpus:g} CPUs, {free / 1e9:.1f} GB free, {how}"


def read(path: Path | None) -> dict[str, float]:
    """Peaks of an earlier build, in bytes; whatever else is in the file counts as nothing."""
    try:
        found = json.loads(path.read_text()) if path else {}
    except (OSError, ValueError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {k: float(v) for k, v in found.items() if isinstance(v, (int, float)) and 0 < v < 1e13}


def processes() -> dict[int, tuple[int, str, float]]:
    """pid -> (parent, source or "" if it is no compiler driver, resident bytes)."""
    page, found = os.sysconf("SC_PAGE_SIZE"), {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            fields = Path("/proc", name, "stat").read_bytes().rpartition(b")")[2].split()
            words = Path("/proc", name, "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        source = ""
        if os.path.basename(words[0]) in COMPILERS:
            source = next((os.path.basename(word) for word in words[1:] if word.endswith(SOURCES)), "")
        found[int(name)] = int(fields[1]), source, int(fields[21]) * page
    return found


class Watch(threading.Thread):
    """Measures the compilers below this process until stopped: peaks[source] in bytes."""

    def __init__(self):
        super().__init__(daemon=True)
        self.peaks: dict[str, float] = {}
        self.ended = threading.Event()

    def run(self) -> None:
        while not self.ended.wait(SECONDS_BETWEEN_SAMPLES):
            self.sample(processes(), os.getpid())

    def sample(self, found: dict[int, tuple[int, str, float]], root: int) -> None:
        """Adds each process to the outermost compiler driver above it: nvcc starts gcc, which starts cc1plus."""
        sums: dict[int, float] = {}
        for pid, (_, _, resident) in found.items():
            owner, above, steps = 0, pid, 0
            while above in found and above != root and steps < 64:
                if found[above][1]:
                    owner = above
                above, steps = found[above][0], steps + 1
            if owner and above == root:
                sums[owner] = sums.get(owner, 0) + resident
        for owner, resident in sums.items():
            source = found[owner][1]
            self.peaks[source] = max(self.peaks.get(source, 0), resident)

    def stop(self) -> None:
        self.ended.set()
        self.join()

    def keep(self, path: Path | None, before: dict[str, float]) -> None:
        if path and self.peaks:
            path.write_text(json.dumps(before | self.peaks, indent=1, sort_keys=True) + "\n")
