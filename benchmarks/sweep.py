"""depthwise_conv2d against torch's best over problems drawn at random: how often, and where, it is slower.

    python benchmarks/sweep.py --cases 300 --seed 1 --seconds 500 [--device cpu|cuda] [--output FOLDER]
    python benchmarks/sweep.py --replay "fwd float32 nchw 8x96x56x56 k7x7 s1x1 p3x3 d1x1"

Problems are those of sweep_cases.py; each is run forward, for the gradient of its input (dgrad) and for that of its
weight (wgrad). On CUDA torch's best is the fastest of cuDNN, cuDNN in benchmark mode and the native kernel, all without
TensorFloat-32, as ours, and all in CUDA graphs, so that the host does not count. On the CPU it is eager torch. Cases
below 0.97 of torch's speed are timed again, with more rounds, and the second result counts. Values are checked against
float64; a wrong one makes the exit status 1. Results go to FOLDER/<device>-<seed>.json, one case a line;
with CUSTOMOPS_BENCHMARK=1 in the environment, to FOLDER/<device>-<seed>-benchmark.json.

A sweep that ran out of time goes on with `--first K`: the file keeps its cases before number K. Where a call does not
return, the sweep starts anew behind it: oneDNN 3.x compiles some bfloat16 kernels without an end.
"""

import argparse
import json
import math
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import sweep_cases
import sweep_timing
import torch
from harness import RESULTS, machine

import customops

SECOND_LOOK = 0.97
HUNG_SECONDS = {"cpu": 20, "cuda": 60}
WORST = 20


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=100, help="problems, each in all directions")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=math.inf, help="stop after so many")
    parser.add_argument("--first", type=int, default=0, help="the number of the first problem")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--directions", nargs="+", choices=sweep_cases.DIRECTIONS, default=sweep_cases.DIRECTIONS)
    parser.add_argument("--output", type=Path, default=RESULTS / "sweep")
    parser.add_argument("--explain", action="store_true", help="name the kernels that were chosen")
    parser.add_argument("--replay", help="run this case alone")
    return parser.parse_args()


def text(case: dict, device: str, explain: bool) -> str:
    """One line, with what replays the case."""
    replay = f'python benchmarks/sweep.py --device {device} --replay "{case["case"]}"'
    if case.get("ratio") is None:
        return f"{'':58}{replay}"
    us = case["us"]
    peer = min((name for name in us if name != sweep_timing.OURS), key=us.get)
    line = f"{case['ratio']:7.3f}  ours {us[sweep_timing.OURS]:9.1f} us, {peer} {us[peer]:.1f} us"
    kernel = f"  {case['kernel'] or '?'}" if explain and "kernel" in case else ""
    return f"{line:<58}{kernel}  {replay}"


def run(direction: str, problem: sweep_cases.Problem, device: str) -> dict:
    kernel = sweep_timing.kernel(direction, problem, device)
    chosen = {} if kernel is None else {"kernel": kernel}
    return chosen | sweep_timing.measure(direction, problem, device, SECOND_LOOK)


def sweep(args: argparse.Namespace, cases: list[dict], hung: Callable[[dict], None]) -> int:
    """Appends to `cases`; returns the number of the first problem that was not run in all directions."""
    start = time.monotonic()
    for index in range(args.first, args.first + args.cases):
        problem = sweep_cases.draw(args.seed, index, args.device)
        for direction in args.directions:
            if time.monotonic() - start > args.seconds:
                return index
            case = {"index": index, "case": f"{direction} {problem}", "class": problem.name}
            watch = threading.Timer(HUNG_SECONDS[args.device], hung, [case])
            watch.start()
            try:
                case |= run(direction, problem, args.device)
            except RuntimeError as error:
                case["error"] = f"failed: {error}"
            finally:
                watch.cancel()
            cases.append(case)
            if "error" in case:
                print(f"WRONG: {case['error']}", text(case, args.device, args.explain), sep="\n", flush=True)
                if not sweep_timing.usable(args.device):
                    return index
            if args.device == "cuda":
                torch.cuda.empty_cache()  # the pool of this case's graphs
    return args.first + args.cases


def share(ratios: list[float], bound: float) -> str:
    below = sum(ratio < bound for ratio in ratios)
    return f"{below} below {bound} ({100 * below / len(ratios):.1f} %)"


def summary(cases: list[dict], device: str, explain: bool) -> str:
    lines = []
    for direction in sweep_cases.DIRECTIONS:
        rated = [case for case in cases if case["case"].split()[0] == direction and case.get("ratio") is not None]
        if not rated:
            continue
        ratios = [case["ratio"] for case in rated]
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        lines.append(
            f"{direction}: {len(ratios)} cases, geometric mean of torch's best / ours {mean:.2f}, least "
            f"{min(ratios):.3f}, {share(ratios, 1.0)}, {share(ratios, 0.95)}"
        )
        lines += [text(case, device, explain) for case in sorted(rated, key=lambda case: case["ratio"])[:WORST]]
    return "\n".join(lines)


def read(path: Path) -> list[dict]:
    return json.loads(path.read_text())["cases"] if path.exists() else []


def write(path: Path, facts: dict, cases: list[dict]) -> None:
    head = json.dumps(facts, indent=1).removesuffix("\n}")
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'{head},\n "cases": [\n{lines}\n]}}\n')


def go_on(args: argparse.Namespace, first: int, seconds: float) -> None:
    """Replaces this process, whose main thread does not return."""
    numbers = {"cases": args.first + args.cases - first, "first": first, "seconds": args.seconds - seconds}
    options = numbers | {"seed": args.seed, "device": args.device, "output": args.output}
    command = [sys.executable, __file__, *(f"--{name}={value}" for name, value in options.items())]
    command += ["--directions", *args.directions, *(["--explain"] if args.explain else [])]
    os.execv(command[0], command)


def main() -> int:
    args = arguments()
    if args.device == "cuda":
        customops._cuda.load()
    if args.replay:
        direction, problem = sweep_cases.parse(args.replay)
        case = {"case": f"{direction} {problem}"} | run(direction, problem, args.device)
        print(json.dumps(case), text(case, args.device, True), sep="\n")
        return 1 if "error" in case else 0
    facts = {"op": "depthwise_conv2d", "seed": args.seed} | machine(args.device)
    benchmark = args.device == "cuda" and os.environ.get("CUSTOMOPS_BENCHMARK") == "1"
    if benchmark:
        facts["benchmark"] = True
    path = args.output / f"{args.device}-{args.seed}{'-benchmark' * benchmark}.json"
    cases = [case for case in read(path) if case["index"] < args.first] if args.first else []
    start = time.monotonic()

    def hung(case: dict) -> None:
        who = sweep_timing.running["name"]
        write(
            path, facts, [*cases, case | {"error" if who == sweep_timing.OURS else "skipped": f"{who} did not return"}]
        )
        print(f"HUNG in {who}:", text(case, args.device, False), sep="\n", flush=True)
        go_on(args, case["index"] + 1, time.monotonic() - start)

    end = sweep(args, cases, hung)
    seconds, count = time.monotonic() - start, sum(case["index"] >= args.first for case in cases)
    print(f"{count} of {args.cases * len(args.directions)} cases in {seconds:.0f} s")
    if end < args.first + args.cases:
        print(f"not complete: go on with --first {end}")
    write(path, facts | {"seconds": round(seconds)}, cases)
    print(summary(cases, args.device, args.explain), path, sep="\n")
    return 1 if any("error" in case for case in cases) else 0


if __name__ == "__main__":
    sys.exit(main())
