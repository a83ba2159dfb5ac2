"""Where the time of depthwise_conv2d's kernels goes, by the GPU's own counters: a line for each kernel of each row.

    python benchmarks/counters.py [--rows="k5 s2"] [--rows=...] [--save]

--save also writes results/other/counters.json, the table of docs/depthwise-limits.md: of each call its longest kernel.
Rows are those of benchmarks/depthwise_conv2d.py. Needs Nsight Compute (`ncu`) on the PATH, and the right to read counters.
Percentages are of what the GPU could do in the same time; the stalls are the two of ten reasons for which warps wait
most, in cycles an issued instruction.
"""

import argparse
import csv
import re
import shutil
import subprocess
import sys
from typing import NamedTuple

import depthwise_conv2d
import harness
import torch

STALL = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
REASONS = (
    "barrier", "dispatch_stall", "lg_throttle", "long_scoreboard", "math_pipe_throttle", "mio_throttle", "no_instruction",
    "not_selected", "short_scoreboard", "wait",
)  # fmt: skip
METRICS = {
    "us": "gpu__time_duration.sum",
    "DRAM %": "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "issue %": "smsp__issue_active.avg.pct_of_peak_sustained_active",
    "FMA %": "sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_active",
    "shared %": "l1tex__data_pipe_lsu_wavefronts_mem_shared.avg.pct_of_peak_sustained_elapsed",
    "warps %": "sm__warps_active.avg.pct_of_peak_sustained_active",
} | {reason: STALL.format(reason) for reason in REASONS}
SEPARATOR = "spin_kernel"  # torch.cuda._sleep's, launched before each row


def wanted(texts: list[str]) -> list:
    return [row for row in depthwise_conv2d.rows("cuda") if any(text in row.name for text in texts)]


def launch(rows: list) -> None:
    """What ncu watches: each row once, after a call that it does not see."""
    for row in rows:
        inputs = row.make()
        row.peers["customops"](*inputs)
        torch.cuda.synchronize()
        torch.cuda.cudart().cudaProfilerStart()
        torch.cuda._sleep(1)
        row.peers["customops"](*inputs)
        torch.cuda.synchronize()
        torch.cuda.cudart().cudaProfilerStop()


def short(kernel: str) -> str:
    """`pixels` of "void customops::cuda::(anonymous namespace)::pixels<c10::Half, ...>(...)"."""
    name = re.sub(r"\(anonymous namespace\)::|<unnamed>::|^void ", "", kernel)
    return name.split("<")[0].split("(")[0].split("::")[-1]


class Kernel(NamedTuple):
    name: str
    values: dict[str, float]  # by name of METRICS

    @property
    def stalls(self) -> str:
        worst = sorted(REASONS, key=self.values.__getitem__, reverse=True)[:2]
        return ", ".join(f"{reason} {self.values[reason]:.1f}" for reason in worst)


def kernel_of(record: dict[str, str], units: dict[str, str]) -> Kernel:
    values = {name: float(record[metric].replace(",", "")) for name, metric in METRICS.items()}
    values["us"] *= {"n": 1e-3, "u": 1, "m": 1e3}[units[METRICS["us"]][0]]  # ns or nsecond, and so on
    return Kernel(short(record["Kernel Name"]), values)


def kernels(text: str, rows: list[str]) -> dict[str, list[Kernel]]:
    """The kernels of each row, from ncu's comma-separated values."""
    units, *records = csv.DictReader(line for line in text.splitlines() if line.startswith('"'))
    found, names = {}, iter(rows)
    for record in records:
        if SEPARATOR in record["Kernel Name"]:
            of_row = found[next(names)] = []
        else:
            of_row.append(kernel_of(record, units))
    return found


def saved(name: str, kernels: list[Kernel]) -> dict:
    """The line of a call in counters.json."""
    longest = max(kernels, key=lambda kernel: kernel.values["us"])
    columns = {"memory": "DRAM %", "issue": "issue %", "multiply_add": "FMA %", "shared": "shared %"}
    percentages = {key: round(longest.values[column]) for key, column in columns.items()}
    us = round(longest.values["us"], 1)
    return {"name": name, "kernel": longest.name, "us": us, **percentages, "stalls": longest.stalls}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", action="append", help="only rows whose name contains this; may be given again")
    parser.add_argument("--save", action="store_true", help="write results/other/counters.json, too")
    parser.add_argument("--watched", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    texts = args.rows or [""]
    rows = wanted(texts)
    if not rows:
        sys.exit(f"no row's name contains {' or '.join(texts)}")
    if args.watched:
        launch(rows)
        return
    if shutil.which("ncu") is None:
        sys.exit("needs Nsight Compute: ncu is not on the PATH (NVIDIA's CUDA toolkit has it)")
    command = ["ncu", "--csv", "--page=raw", "--profile-from-start=off", "--clock-control=none"]
    command += ["--metrics", ",".join(METRICS.values()), sys.executable, __file__, "--watched"]
    command += [f"--rows={text}" for text in texts]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode or '\n"' not in run.stdout:
        sys.exit(f"ncu failed:\n{run.stdout}{run.stderr}")
    shown = [name for name in METRICS if name not in REASONS]
    print(" " * 18 + "".join(f"{name:>9s}" for name in shown) + "   stalls")
    found = kernels(run.stdout, [row.name for row in rows])
    for name, of_row in found.items():
        print(name)
        for kernel in of_row:
            numbers = "".join(f"{kernel.values[column]:9.1f}" for column in shown)
            print(f"  {kernel.name:16s}{numbers}   {kernel.stalls}")
    if args.save:
        about = "benchmarks/counters.py: the longest kernel of each call, under Nsight Compute"
        lines = [saved(name, of_row) for name, of_row in found.items()]
        harness.save("counters", about, harness.machine("cuda"), lines)


if __name__ == "__main__":
    main()
