"""How many compilers may run at once: what this process's cgroups allow, not what the machine has.

In a container, os.cpu_count() and /proc/meminfo show the host; a build that believes them is throttled or killed.
"""

import os
from pathlib import Path

GIGABYTES_A_JOB = 2  # a compiler of CUDA sources takes up to 1.2; nvcc's two of them at once were seen to take 0.4 each


def limits(root: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> tuple[float, float]:
    """(CPUs, bytes of memory) that the cgroups of this process allow, version 1 or 2; infinity where nothing limits."""
    cpus = memory = float("inf")

    def numbers(path: Path) -> list[float]:
        try:
            return [float(word.replace("max", "inf")) for word in path.read_text().split()]
        except (OSError, ValueError):
            return []

    lines = own.read_text().splitlines() if own.exists() else []
    for _, controllers, path in (line.split(":", 2) for line in lines):
        # A limit may stand on any level above. In a container the path may be the host's; the root is then our own.
        levels = [Path(path), *Path(path).parents]
        for level in dict.fromkeys([*levels, Path("/")]):
            inside = level.relative_to("/") if level.is_absolute() else level
            if not controllers:  # version 2; hybrid machines mount it under unified/
                for base in (root, root / "unified"):
                    if len(quota := numbers(base / inside / "cpu.max")) == 2:
                        cpus = min(cpus, quota[0] / quota[1])
                    memory = min([memory, *numbers(base / inside / "memory.max")])
            if "cpu" in controllers.split(","):
                for base in (root / "cpu", root / controllers):
                    quota = numbers(base / inside / "cpu.cfs_quota_us") + numbers(base / inside / "cpu.cfs_period_us")
                    if len(quota) == 2 and quota[0] > 0:
                        cpus = min(cpus, quota[0] / quota[1])
            if controllers == "memory":
                memory = min([memory, *numbers(root / "memory" / inside / "memory.limit_in_bytes")])
    return cpus, memory


def jobs() -> int:
    """MAX_JOBS if that is set; otherwise as many as CPUs and memory allow, at least one.

    Raises:
        ValueError: MAX_JOBS is not a number of compilers.
    """
    if wanted := os.environ.get("MAX_JOBS"):
        if not wanted.strip().isdecimal() or int(wanted) < 1:
            raise ValueError(f"MAX_JOBS must be a positive whole number, got {wanted!r}: correct it, or unset it")
        return int(wanted)
    cpus, memory = limits()
    cpus = min(cpus, len(os.sched_getaffinity(0)))
    memory = min(memory, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    return max(1, min(int(cpus), int(memory / 1e9 / GIGABYTES_A_JOB)))
