"""Times every kernel that can compute a problem, beside torch's: what the forests of measured.h are fitted to.

    python benchmarks/candidates.py --cases 300 --seed 1 --seconds 500 --output FILE
    python benchmarks/candidates.py --replay CASES --output FILE

Problems are those of sweep_cases.py. Needs a build of csrc/cuda/depthwise_conv2d.cu with -DCUSTOMOPS_FORCE_KERNEL, in
which the environment variable of that name decides which kernel runs. One line of JSON a problem and direction.
"""

import argparse
import json
import math
import os
import time
from collections.abc import Iterator
from pathlib import Path

import sweep_cases
import sweep_timing
import torch
from harness import machine

import customops

FORWARD = (
    "small",
    "mma",
    "planes",
    "large",
    "pixels",
    "direct",
    "channels",
    "columns",
    "mma_lines",
    "mma_pixels",
    "dense_rows",
    "rows",
    "runs",
    "simple",
    "sliding",
    "torch",
    "cudnn",
)
WGRAD = (
    "small",
    "mma_planes",
    "mma_pixels",
    "mma_windows",
    "mma_lines",
    "planes",
    "whole_planes",
    "pixels",
    "direct",
    "large",
    "rows",
    "correlation",
    "points",
    "scale",
    "sliding",
    "torch",
)
KERNELS = [*(f"fwd_{name}" for name in FORWARD), *(f"wgrad_{name}" for name in WGRAD)]
VARIABLE = "CUSTOMOPS_FORCE_KERNEL"


def forced(call: sweep_timing.Call, kernel: str) -> sweep_timing.Call:
    def run(*tensors):
        os.environ[VARIABLE] = kernel
        try:
            return call(*tensors)
        finally:
            os.environ[VARIABLE] = ""

    return run


# As may_copy_to_planes of takes.h says.
NOT_AFTER_A_COPY = (
    "fwd_cudnn",
    "fwd_columns",
    "fwd_mma_lines",
    "fwd_mma_pixels",
    "fwd_dense_rows",
    "fwd_runs",
    "fwd_whole_planes",
    "wgrad_torch",
    "wgrad_whole_planes",
)


def candidates(direction: str, problem: sweep_cases.Problem) -> list[str]:
    kernels = [name for name in KERNELS if name.startswith("wgrad") == (direction == "wgrad")]
    if problem.layout == "nhwc":
        kernels += [f"planes:{k}" for k in kernels if k not in NOT_AFTER_A_COPY]
    return kernels


def computes(kernel: str, direction: str, problem: sweep_cases.Problem) -> bool:
    """Whether that kernel can compute it: tried with one image."""
    if kernel.startswith("wgrad") != (direction == "wgrad"):
        return False
    one = problem._replace(shape=(1, *problem.shape[1:]))
    try:
        forced(sweep_timing.ours(direction, one), kernel)(*sweep_timing.inputs(one, "cuda"))
    except RuntimeError as error:
        if "forced" not in str(error):
            raise
        return False
    return True


def measure(direction: str, problem: sweep_cases.Problem) -> dict[str, float]:
    sets = sweep_timing.input_sets(problem, "cuda")
    first = sets[0]
    call = sweep_timing.ours(direction, problem)
    expected, calls = call(*first), {sweep_timing.OURS: call}
    for kernel in candidates(direction, problem):
        try:
            result = forced(call, kernel)(*first)
        except RuntimeError as error:
            if "forced" not in str(error):
                print(f"FAILED {kernel}: {str(error)[:200]}", direction, problem, flush=True)
            continue
        difference, largest = (result - expected).abs().max().item(), expected.abs().max().item()
        if not difference <= 0.02 * largest or result.stride() != expected.stride():
            print(
                f"WRONG {kernel}: {difference} of {largest}, strides {result.stride()}", direction, problem, flush=True
            )
            continue
        calls[kernel] = forced(call, kernel)
    calls |= {
        name: sweep_timing.theirs(direction, problem, flags) for name, flags in sweep_timing.PEERS["cuda"].items()
    }
    return sweep_timing.medians(sweep_timing.GraphTimer(calls, sets), sweep_timing.ROUNDS)


def problems(args: argparse.Namespace) -> Iterator[tuple[str, sweep_cases.Problem]]:
    """Directions and problems, drawn at random or read from a file."""
    if args.replay:
        yield from (sweep_cases.parse(line) for line in args.replay.read_text().splitlines())
        return
    for index in range(args.cases):
        problem = sweep_cases.draw(args.seed, index, "cuda")
        yield from ((direction, problem) for direction in sweep_cases.DIRECTIONS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--replay", metavar="CASES", type=Path, help="a file of cases, one a line, in place of --cases")
    parser.add_argument("--seconds", type=float, default=math.inf)
    parser.add_argument("--only", metavar="KERNEL", help="problems that this kernel can compute, and no others")
    parser.add_argument("--output", type=Path, required=True)
    args = parser.parse_args()
    customops._cuda.load()
    sweep_timing.set_precision()
    end = time.monotonic() + args.seconds
    with args.output.open("w") as file:
        facts = {"replayed": args.replay.name} if args.replay else {"seed": args.seed}
        file.write(json.dumps(facts | machine("cuda") | {"kernels": KERNELS}) + "\n")
        for number, (direction, problem) in enumerate(problems(args)):
            if time.monotonic() > end:
                print(f"stopped before problem {number}")
                return
            if args.only and not computes(args.only, direction, problem):
                continue
            case = {"case": f"{direction} {problem}", "class": problem.name}
            try:
                us = measure(direction, problem)
            except RuntimeError as error:
                print("FAILED", case, error, flush=True)
                continue
            kernel = sweep_timing.kernel(direction, problem, "cuda")
            file.write(json.dumps(case | {"kernel": kernel, "us": us}) + "\n")
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
