"""What opening the library costs over `import torch`: python benchmarks/load.py [--rounds=15]

New processes, each timed from inside, the ways in turn; quoted are medians in milliseconds. The just-in-time library is
compiled before the first round, so this is every start but the first.
"""

import argparse
import statistics
import subprocess
import sys

WAYS = {
    "import customops": "import customops",
    "prebuilt, first op": "import customops; customops.load('setuptools')",
    "just in time, first op": "import customops; customops.jit.load()",
}
PROGRAM = "import torch, time; start = time.perf_counter(); {}; print(1e3 * (time.perf_counter() - start))"


def measure(code: str) -> float:
    run = subprocess.run([sys.executable, "-c", PROGRAM.format(code)], stdout=subprocess.PIPE, text=True, check=True)
    return float(run.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    measure(WAYS["just in time, first op"])
    times = {name: [] for name in WAYS}
    for _ in range(rounds):
        for name, code in WAYS.items():
            times[name].append(measure(code))
    for name, values in times.items():
        print(f"{name:24}{statistics.median(values):8.0f}   (from {min(values):.0f} to {max(values):.0f})")


if __name__ == "__main__":
    main()
