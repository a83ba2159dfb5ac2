"""CUDA ops of tests/, compiled from the same source against ATen and against aten_stable's headers: times of kernels and of calls.

    python benchmarks/port_cuda.py [--json FILE]        needs a GPU, torch and its nvcc (CUDA_HOME), not customops; takes about two minutes

A call on 17 million elements keeps the GPU busy for longer than the host takes, so it is timed by CUDA's events: the kernel, and the
launch behind it. A call on 4 elements is timed on the host. Both builds are called in turns; medians of microseconds.
"""

import argparse
import concurrent.futures
import datetime
import functools
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import torch
from port import module, report
from torch.utils import cpp_extension

ROOT = Path(__file__).resolve().parents[1]
SAMPLES, PROJECT = ROOT / "tests/ways/aten_stable", ROOT / "tests/projects/cuda-extension/csrc"
LARGE, SMALL = 4096, 2  # rows and columns
ROUNDS, CALLS = 51, 20
ATEN = """
import sys
from torch.utils import cpp_extension
name, folder, *sources = sys.argv[1:]
flags = ["-O2", "-w"]
cpp_extension.load(name, sources, build_directory=folder, extra_cflags=flags, extra_cuda_cflags=flags, is_python_module=False)
"""
# Sources, and a call on a square of so many rows.
OPS: dict[str, tuple[list[Path], Callable]] = {
    "rowscale": (sorted(PROJECT.glob("*.c*")), lambda op, x: op.rowscale(x, x[0])),
    "blend": ([SAMPLES / "blend.cu"], lambda op, x: op.blend(x, x)),
    "noise": ([SAMPLES / "noise.cu"], lambda op, x: op.noise(x)),
}


def build(name: str, way: str, folder: Path) -> Path:
    """The module's file."""
    sources, own = OPS[name][0], folder / name / way
    own.mkdir(parents=True)
    major, minor = torch.cuda.get_device_capability()
    if way == "aten":
        environment = os.environ | {"TORCH_CUDA_ARCH_LIST": f"{major}.{minor}", "MAX_JOBS": "3"}
        subprocess.run([sys.executable, "-c", ATEN, name, own, *sources], env=environment, check=True)
        return own / f"{name}.so"
    command = [sys.executable, "-m", "aten_stable", "build", name, *sources, "--folder", own]
    subprocess.run([*command, "--cuda", f"{cpp_extension.CUDA_HOME}:{major}{minor}"], cwd=ROOT, check=True)
    return own / f"{name}.py"


def on_gpu(call: Callable) -> float:
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    call()  # keeps the GPU busy while the host goes ahead
    start.record()
    for _ in range(CALLS):
        call()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / CALLS * 1e3


def on_host(call: Callable) -> float:
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(CALLS):
        call()
    return (time.perf_counter() - start) / CALLS * 1e6


def medians(timed: Callable, calls: dict[str, Callable]) -> dict[str, float]:
    times = {way: [] for way in calls}
    for _ in range(ROUNDS):
        for way, call in calls.items():
            times[way].append(timed(call))
    return {way: round(statistics.median(values[1:]), 2) for way, values in times.items()}


def measure(name: str, modules: dict[str, ModuleType]) -> dict:
    call = OPS[name][1]
    found = {"op": name}
    for what, timed, rows in (("kernel_us", on_gpu, LARGE), ("call_us", on_host, SMALL)):
        x = torch.rand(rows, rows, device="cuda")
        found[what] = medians(timed, {way: functools.partial(call, op, x) for way, op in modules.items()})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    ways = ("aten", "aten_stable")
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor() as pool:
        built = {(name, way): pool.submit(build, name, way, Path(folder)) for name in OPS for way in ways}
        modules = {of: module(of[0], path.result()) for of, path in built.items()}
        rows = [measure(name, {way: modules[name, way] for way in ways}) for name in OPS]
    facts = {"about": "benchmarks/port_cuda.py: the same sources against ATen and aten_stable", "date": datetime.date.today().isoformat(),
             "device": torch.cuda.get_device_name(), "torch": torch.__version__, "elements": LARGE * LARGE, "rows": rows}  # fmt: skip
    report(facts, given.json)


if __name__ == "__main__":
    main()
