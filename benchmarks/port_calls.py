"""Sources of tests/, compiled against ATen and against aten_stable's headers: what a call on 4 elements costs.

    python benchmarks/port_calls.py [--json FILE]        needs torch, c++ and Python.h, not customops; takes about two minutes

Both builds have -O2 and are called in turns; medians of microseconds of CPU time. A torch.autograd.Function in Python that does nothing
stands beside them: `Function<T>::apply` is one of these under aten_stable, and a node of C++ under ATen.
"""

import argparse
import functools
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
from port import machine, microseconds, module, report

ROOT = Path(__file__).resolve().parents[1]
SAMPLES = ROOT / "tests/ways/aten_stable"
WAYS = ("aten", "aten_stable")
ATEN = """
import sys
from torch.utils import cpp_extension
name, folder, source = sys.argv[1:]
cpp_extension.load(name, [source], build_directory=folder, extra_cflags=["-O2", "-w"], is_python_module=False)
"""


class Empty(torch.autograd.Function):
    """The least that a Function of Python's costs."""

    @staticmethod
    def forward(ctx, x):
        return x.detach()

    @staticmethod
    def backward(ctx, grad):
        return grad


X, LEAF = torch.ones(2, 2), torch.ones(2, 2, requires_grad=True)
# The source, and a call of the module that it makes.
CALLS: dict[str, tuple[str, Callable]] = {
    "the size of a tensor": ("windows", lambda m: m.count(X)),
    "two calls of ATen's and a loop": ("windows", lambda m: m.forward(X, 2)),
    "a Function, not recorded": ("functions", lambda m: m.power(X, 2, 0.5)),
    "a Function, recorded": ("functions", lambda m: m.power(LEAF, 2, 0.5)),
    "a Function with its backward": ("functions", lambda m: m.power(LEAF, 2, 0.5).sum().backward()),
}


def build(name: str, way: str, folder: Path) -> Path:
    """The module's file."""
    source, own = SAMPLES / f"{name}.cpp", folder / name / way
    own.mkdir(parents=True)
    if way == "aten":
        subprocess.run([sys.executable, "-c", ATEN, name, own, source], env=os.environ | {"MAX_JOBS": "1"}, check=True)
        return own / f"{name}.so"
    # A process has one operator of a name: this build's get a namespace of their own.
    options = ["--option=-O2", f"--option=-Daten_stable_{name}=aten_stable_{name}_too"]
    command = [sys.executable, "-m", "aten_stable", "build", name, source, "--folder", own, *options]
    subprocess.run(command, cwd=ROOT, check=True)
    return own / f"{name}.py"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        sources = sorted({source for source, _ in CALLS.values()})
        modules = {(name, way): module(name, build(name, way, Path(folder))) for name in sources for way in WAYS}
        calls = {
            (what, way): functools.partial(call, modules[source, way])
            for what, (source, call) in CALLS.items()
            for way in WAYS
        }
        us = microseconds(calls | {"empty": lambda: Empty.apply(LEAF)})
    rows = [{"call": what, **{way: us[what, way] for way in WAYS}} for what in CALLS]
    facts = {"about": "benchmarks/port_calls.py: calls on 4 elements of the same sources against ATen and aten_stable", **machine(),
             "empty_function_us": us["empty"], "rows": rows}  # fmt: skip
    report(facts, given.json)


if __name__ == "__main__":
    main()
