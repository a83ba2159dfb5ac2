"""Times an op beside its peers and beside a plain copy of as many bytes, in one run: `make bench`, or

    python benchmarks/add2.py [--device=cpu] [--output=FOLDER]

Memory-bound ops have a floor: each input byte read once, each output byte written once, at the speed of a copy. The floor is
a copy of exactly that many bytes, timed in the same rounds as the op and its peers; rows with more arithmetic than that say
how much, and their floor is the larger of both. Every round times each of them once, in
random order, over inputs that rotate through more memory than the caches hold. Quoted are medians.
"""

import argparse
import datetime
import json
import platform
import random
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch

import customops

RESULTS = Path(__file__).parent / "results"
ROUNDS = 50
CACHE_BYTES = {"cuda": 256e6, "cpu": 128e6}  # inputs of one row take at least as much together
FLOOR = "floor"
CUDA_FLOPS = 67e12  # of float32, outside tensor cores, an H200's by its data sheet


class Row(NamedTuple):
    """One line of a table. `make()` returns fresh inputs; each peer is called as peer(*inputs)."""

    name: str
    bytes: int  # read once plus written once
    make: Callable[[], tuple]
    peers: dict[str, Callable]  # "customops" first
    flops: float = 0  # at least so many, twice the multiply-adds; counts on GPUs


def compiled(f: Callable) -> Callable:
    return torch.compile(f, dynamic=False, fullgraph=True)


def timers(device: str) -> tuple[Callable[[], object], Callable[[object, object], float]]:
    """(mark, microseconds between two marks)."""
    if device == "cpu":
        return time.perf_counter, lambda a, b: (b - a) * 1e6

    def mark():
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    return mark, lambda a, b: a.elapsed_time(b) * 1e3


def measure(row: Row, device: str, rounds: int) -> dict[str, float]:
    """Median microseconds of the floor and of every peer."""
    torch.compiler.reset()
    sets = [row.make() for _ in range(1 + int(CACHE_BYTES[device] // row.bytes))]
    halves = [torch.ones(row.bytes // 2, dtype=torch.uint8, device=device) for _ in sets]
    calls = {FLOOR: lambda i: halves[i].clone()}
    calls |= {name: (lambda i, peer=peer: peer(*sets[i])) for name, peer in row.peers.items()}
    mark, microseconds = timers(device)
    for call in calls.values():
        for i in range(len(sets)):
            call(i)
    names, marks = list(calls), {name: [] for name in calls}
    order = random.Random(0)
    for round_ in range(rounds):
        if device == "cuda":
            torch.cuda._sleep(2_000_000)  # the launches queue up meanwhile, so that no gap between them is timed
        # Not in a fixed cycle: what ran just before leaves its output in the caches, and would always be the same.
        for step, name in enumerate(order.sample(names, len(names))):
            start = mark()
            calls[name]((round_ * len(names) + step) % len(sets))
            marks[name].append((start, mark()))
        if device == "cuda":
            torch.cuda.synchronize()
    medians = {name: statistics.median(microseconds(*pair) for pair in marks[name]) for name in names}
    if device == "cuda":
        medians[FLOOR] = max(medians[FLOOR], row.flops / CUDA_FLOPS * 1e6)
    return medians


def floor(rows: list[Row], device: str) -> str:
    """What the floor is, in words: `time of ...` on the axis of a plot."""
    copy = "copying as many bytes"
    if device == "cuda" and any(row.flops for row in rows):
        return f"the slower of {copy} and the multiply-adds at {CUDA_FLOPS / 1e12:g} TFLOP/s"
    return copy


def machine(device: str) -> dict:
    facts = {
        "date": datetime.date.today().isoformat(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "customops": customops.__version__,
    }
    if device == "cuda":
        query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader", "--id=0"]
        driver = subprocess.run(query, capture_output=True, text=True, check=False).stdout.strip()
        library = customops._cuda.load()
        return facts | {"device": torch.cuda.get_device_name(), "driver": driver, "library": library}
    names = [
        line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line
    ]
    return facts | {
        "device": names[0],
        "threads": torch.get_num_threads(),
        "capability": torch.ops.customops._cpu_capability(),
    }


def save(name: str, about: str, facts: dict, rows: list[dict]) -> None:
    """Writes results/other/<name>.json, a table that `make figures` puts on a page of docs/."""
    entries = ",\n".join(f"  {json.dumps(row)}" for row in rows)
    head = json.dumps({"about": about} | facts, indent=1).removesuffix("\n}")
    path = RESULTS / "other" / f"{name}.json"
    path.write_text(f'{head},\n "rows": [\n{entries}\n ]\n}}\n')
    print(f"{path} is written; `make figures` brings tables and plots up to date")


def table(result: dict) -> str:
    """Microseconds of everything; in brackets, how many times the floor."""
    peers = [name for name in result["rows"][0]["us"] if name != FLOOR]
    widths = [max(len(row["name"]) for row in result["rows"]) + 2, 10, *[max(len(p), 14) + 2 for p in peers]]
    lines = ["".join(text.ljust(width) for text, width in zip(["", "floor", *peers], widths, strict=True))]
    for row in result["rows"]:
        floor = row["us"][FLOOR]
        us = [row["us"].get(p) for p in peers]  # None: that peer cannot do this row
        cells = [row["name"], f"{floor:.1f}", *("-" if t is None else f"{t:.1f} ({t / floor:.2f})" for t in us)]
        lines.append("".join(text.ljust(width) for text, width in zip(cells, widths, strict=True)))
    return "\n".join(lines)


def slower(result: dict) -> str:
    """The rows in which a peer takes less than 99 % of our time."""
    lines = []
    for row in result["rows"]:
        us = {name: t for name, t in row["us"].items() if name != FLOOR}
        ours, best = us.pop("customops"), min(us, key=us.get, default=None)
        if best and us[best] < 0.99 * ours:
            lines.append(f"  {row['name']}: {us[best] / ours:.2f} ({best})")
    return "\n".join(
        [f"slower than the best peer by more than 1 %: {len(lines)} of {len(result['rows'])} rows", *lines]
    )


def main(op: str, rows: Callable[[str], list[Row]], output: Path = RESULTS) -> None:
    parser = argparse.ArgumentParser(description=f"Times {op} beside its peers.")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--output", type=Path, default=output)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--rows", default="", help="only rows whose name contains this")
    args = parser.parse_args()
    chosen = [row for row in rows(args.device) if args.rows in row.name]
    result = {"op": op} | machine(args.device) | {"floor": floor(chosen, args.device), "rows": []}
    print(f"{op} on {result['device']}, torch {result['torch']}: microseconds (times the floor)", flush=True)
    for row in chosen:
        us = measure(row, args.device, args.rounds)
        result["rows"].append({"name": row.name, "bytes": row.bytes, "us": {k: round(v, 2) for k, v in us.items()}})
    print(table(result), slower(result), sep="\n", flush=True)
    args.output.mkdir(parents=True, exist_ok=True)
    (args.output / f"{op}-{args.device}.json").write_text(json.dumps(result, indent=1) + "\n")
