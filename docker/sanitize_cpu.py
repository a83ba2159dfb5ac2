"""The CPU library under ASan and UBSan: `make sanitize-cpu [SECONDS=20]`. Requires g++ with its sanitizers on this machine.

Random calls against float64 torch for SECONDS on every instruction set that this machine has, then the op tests, one in ONE_IN=20,
and the sources of tests/ways/aten_stable, built with aten_stable's headers. With --only-aten: these alone.
The first error of memory or arithmetic ends the process that made it. With --quick, as the gate runs it: the baseline's
instructions alone, which compile in a tenth of the time, and no op tests. Objects stay in .cache/sanitize, by what they are made from.
"""

import argparse
import os
import subprocess
import time
from pathlib import Path

import children
import cpu_library
from common import CACHE, ROOT, Failure, environment, main_guard, virtual_environment

FOLDER = CACHE / "sanitize"
SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer", "-g1"]
# Vectors of the wider instruction sets are passed between functions that are inlined from -O1 on: without, they get lost.
FULL, QUICK = ["-O1"], ["-O0", "-DCUSTOMOPS_ONLY_BASELINE", "-DCUSTOMOPS_EVERY_LOOP"]
WITHOUT_KERNELS = (
    "test_cuda.py",
    "test_loader.py",
    "test_report.py",
)  # but dozens of processes, each slow to start here
CAPABILITIES = ("baseline", "avx2", "avx512", "avx512_bf16")  # csrc/cpu/capability.cpp takes the best below


def compile_library(tools: Path, level: list[str]) -> Path:
    """All sources of the CPU's library, those that changed since the last time compiled again."""
    site = subprocess.run(
        [tools / "python", "-c", "import torch; print(torch.__path__[0])"], capture_output=True, text=True, check=True
    ).stdout.strip()
    # libstdc++ stays shared here: the sanitizers watch what it throws.
    return cpu_library.compile_library(
        "g++", [*level, *SANITIZERS], Path(site), FOLDER, SANITIZERS, left_out=("static-libstdc++", "strip")
    )


def sanitized(tools: Path, library: Path) -> dict[str, str]:
    """The environment in which an ordinary Python opens that library."""
    names = ("libasan.so", "libubsan.so", "libstdc++.so.6")  # the last: ASan looks for its __cxa_throw when it starts
    found = [
        subprocess.run(["g++", f"-print-file-name={name}"], capture_output=True, text=True, check=True).stdout.strip()
        for name in names
    ]
    missing = [path for path in found if not os.path.isabs(path)]
    if missing:
        raise Failure(f"g++ has no {', '.join(missing)}: install the sanitizers of its version (libasan, libubsan)")
    return environment(
        tools,
        LD_PRELOAD=" ".join(found),
        # Python and torch are not instrumented and leave things behind; what is too large to allocate gives null.
        ASAN_OPTIONS="detect_leaks=0:allocator_may_return_null=1:max_allocation_size_mb=100000",
        UBSAN_OPTIONS="print_stacktrace=1",
        CUSTOMOPS_COMPILER="cmake",
        CUSTOMOPS_LIBRARY=str(library),
        OMP_WAIT_POLICY="passive",  # threads that wait must not spin on the cores of others
        PYTHONPATH=str(ROOT),
        PYTHONDONTWRITEBYTECODE="1",
    )


def check_aten_stable(tools: Path) -> None:
    """The calls of tests/ways/aten_calls.py, with headers and sources instrumented."""
    ways, modules = ROOT / "tests/ways", FOLDER / "aten_stable"
    build = (
        "import sys, pathlib; import aten_builds as builds; folder, *options = sys.argv[1:]\n"
        "for name in builds.PROJECTS: builds.compile_stable(name, pathlib.Path(folder), *options)"
    )
    env = environment(tools, PYTHONPATH=str(ways), PYTHONDONTWRITEBYTECODE="1")
    children.run([tools / "python", "-c", build, modules, *SANITIZERS], env=env)
    results = modules / "results.pt"
    children.run([tools / "python", ways / "aten_calls.py", modules, results], env=sanitized(tools, modules))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=20, help="of random calls on each instruction set")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--one-in", type=int, default=1, metavar="N", help="of the op tests, every N-th alone; 0: none")
    parser.add_argument("--quick", action="store_true", help="the baseline alone, without the op tests")
    parser.add_argument("--only-aten", action="store_true", help="the sources built with aten_stable's headers alone")
    args = parser.parse_args()
    tools = virtual_environment("ways")
    if args.only_aten:
        return check_aten_stable(tools)
    began = time.monotonic()
    library = compile_library(tools, QUICK if args.quick else FULL)
    print(f"==> compiled in {time.monotonic() - began:.0f} s", flush=True)
    env = sanitized(tools, library)
    ask = "import torch, customops; customops.load(); print(torch.ops.customops._cpu_capability())"
    for capability in CAPABILITIES[:1] if args.quick else CAPABILITIES:
        limited = env | {"CUSTOMOPS_CPU_CAPABILITY": capability}
        got = subprocess.run([tools / "python", "-c", ask], env=limited, capture_output=True, text=True, check=False)
        if got.returncode:
            raise Failure(f"the sanitized library cannot be opened: {got.stderr.strip()[-400:]}")
        if got.stdout.strip() != capability:
            print(f"{capability}: not on this machine", flush=True)
            continue
        children.run(
            [tools / "python", ROOT / "tests/fuzz/differential.py", f"--seconds={args.seconds}", f"--seed={args.seed}"],
            env=limited,
        )
    if not args.quick and args.one_in:
        print("==> the op tests" + f", one in {args.one_in}" * (args.one_in > 1), flush=True)
        suite = [path for path in sorted(ROOT.glob("tests/test_*.py")) if path.name not in WITHOUT_KERNELS]
        children.run(
            [tools / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not compiled", f"--one-in={args.one_in}", *suite],
            env=env,
        )  # fmt: skip
    if not args.quick:
        check_aten_stable(tools)


if __name__ == "__main__":
    main_guard(main)
