"""Where the time of depthwise_conv2d's kernels goes, by the GPU's own counters: a line for each kernel of each row.

    python benchmarks/counters.py [--rows="k5 s2"] [--rows=...]

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

import depthwise_conv2d
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


def line(record: dict[str, str], units: dict[str, str]) -> str:
    values = {name: float(record[metric].replace(",", "")) for name, metric in METRICS.items()}
    values["us"] *= {"n": 1e-3, "u": 1, "m": 1e3}[units[METRICS["us"]][0]]  # ns or nsecond, and so on
    worst = sorted(REASONS, key=values.get, reverse=True)[:2]
    numbers = "".join(f"{values[name]:9.1f}" for name in METRICS if name not in REASONS)
    return f"  {short(record['Kernel Name']):16s}{numbers}   " + ", ".join(f"{r} {values[r]:.1f}" for r in worst)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", action="append", help="only rows whose name contains this; may be given again")
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
    lines = [text for text in run.stdout.splitlines() if text.startswith('"')]
    if run.returncode or not lines:
        sys.exit(f"ncu failed:\n{run.stdout}{run.stderr}")
    units, *records = csv.DictReader(lines)
    print(" " * 18 + "".join(f"{name:>9s}" for name in METRICS if name not in REASONS) + "   stalls")
    names = iter(rows)
    for record in records:
        if SEPARATOR in record["Kernel Name"]:
            print(next(names).name)
        else:
            print(line(record, units))


if __name__ == "__main__":
    main()
