"""Times depthwise_conv2d of two builds of customops on the same problems, in turn: what a change has made slower.

    python benchmarks/compare_builds.py OLD NEW [--device=cuda] [--replay=FILE] [--output=FILE]

OLD and NEW are folders with a built package `customops` in each (a wheel, unpacked). The problems are the rows of
benchmarks/depthwise_conv2d.py, or the lines of FILE, as sweep.py prints them. Each build has a process of its own; both
load the same inputs and take turns, ROUNDS times a problem, with CUDA graphs on a GPU. Prints the medians, in
microseconds, of what NEW makes slower by more than 3 %, those of a second look if it was slower in the first.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

import sweep_cases
from sweep_cases import DIRECTIONS, LAYOUTS, Problem

ROUNDS, MORE_ROUNDS = 7, 31
SLOWER = 1.03  # times the old build's microseconds


def rows(device: str) -> list[str]:
    """The rows of benchmarks/depthwise_conv2d.py."""
    import depthwise_conv2d as bench

    shapes, dtypes = (bench.CUDA, ("float32", "float16", "bfloat16"))
    if device == "cpu":
        shapes, dtypes = (bench.CPU, ("float32", "bfloat16", "float64"))
    lines = []
    for n, c, size, kernel, stride in shapes:
        pair = (kernel, kernel), (stride, stride), (kernel // 2, kernel // 2)
        for dtype in dtypes:
            for layout in LAYOUTS:
                problem = Problem("row", dtype, layout, (n, c, size, size), *pair)
                lines += [f"{direction} {problem}" for direction in DIRECTIONS]
    return lines


def work(device: str) -> None:
    """A build's process, which answers lines: `rows`, a problem, which is prepared, and an empty one, which times it."""
    import sweep_timing as timing
    import torch

    import customops

    print(customops.__file__, flush=True)
    if device == "cpu":
        torch.set_num_threads(1)
    timing.set_precision()
    timer = None
    for line in sys.stdin:
        if line == "rows\n":
            print(json.dumps(rows(device)), flush=True)
        elif line.strip():
            timer = None  # frees the last one's memory first
            direction, problem = sweep_cases.parse(line)
            sets = timing.input_sets(problem, device)
            call = timing.ours(direction, problem)
            timer = (timing.CpuTimer if device == "cpu" else timing.GraphTimer)({timing.OURS: call}, sets)
            print(timing.kernel(direction, problem, device), flush=True)
        else:
            print(timer.finish([timer.round([timing.OURS])])[0][timing.OURS], flush=True)


def start(folder: str, device: str) -> subprocess.Popen:
    """The process of the build in a folder."""
    worker = subprocess.Popen(
        [sys.executable, __file__, "--work", "--device", device, "", ""],
        env=os.environ | {"PYTHONPATH": str(Path(folder).resolve())},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    loaded = worker.stdout.readline().strip()
    if not Path(loaded).is_relative_to(Path(folder).resolve()):
        found = f"Python found {loaded}" if loaded else "see the error above"
        sys.exit(f"compare_builds.py: no built customops in {folder}: {found}. Unpack a wheel there")
    return worker


def ask(worker: subprocess.Popen, line: str) -> str:
    worker.stdin.write(line + "\n")
    worker.stdin.flush()
    answer = worker.stdout.readline().strip()
    if not answer:
        sys.exit(f"compare_builds.py: a build failed at {line!r}")
    return answer


def medians(workers: list[subprocess.Popen], rounds: int) -> list[float]:
    """Microseconds of each build."""
    times = [[float(ask(worker, "")) for worker in workers] for _ in range(rounds)]
    return [round(statistics.median(us), 3) for us in zip(*times, strict=True)]


def compare(lines: list[str] | None, folders: list[str], device: str) -> list[dict]:
    """A dict a problem, by default a row: the line, both builds' kernels and microseconds."""
    workers = [start(folder, device) for folder in folders]
    lines = lines or json.loads(ask(workers[1], "rows"))
    results = []
    for line in lines:
        kernels = [ask(worker, line) for worker in workers]
        us = medians(workers, ROUNDS)
        if us[1] > SLOWER * us[0]:
            us = medians(workers, MORE_ROUNDS)
        results.append({"case": line, "kernels": kernels, "us": us, "ratio": round(us[1] / us[0], 4)})
    for worker in workers:
        worker.stdin.close()
        worker.wait()
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    parser.add_argument("--replay", type=Path)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        return work(options.device)
    lines = options.replay.read_text().splitlines() if options.replay else None
    results = compare(lines, [options.old, options.new], options.device)
    if options.output:
        options.output.write_text("".join(json.dumps(result) + "\n" for result in results))
    for result in sorted(results, key=lambda result: -result["ratio"]):
        if result["ratio"] > SLOWER:
            print(f"{result['ratio']:.3f} {result['us']} {result['kernels']} {result['case']}")
    slower = sum(result["ratio"] > SLOWER for result in results)
    mean = statistics.geometric_mean(result["ratio"] for result in results)
    print(f"{slower} of {len(results)} slower by more than 3 %; geometric mean of the times' ratios {mean:.3f}")
    return None


if __name__ == "__main__":
    main()
