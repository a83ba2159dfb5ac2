"""Prints a hash of what every op computes in float32, and one in bfloat16, one line a call: the same bits, the same lines.

CUSTOMOPS_COMPILER=jit python tests/ways/results.py
"""

import hashlib
import importlib
import sys
from pathlib import Path

import torch

import customops

sys.path.insert(0, str(Path(__file__).parents[1]))
from common import LAYOUTS, make


def calls(layout):
    """(name, result) of forward passes on tensors of some layout."""
    a, b = (make(layout, torch.float32, "cpu", seed) for seed in (0, 1))
    for op in customops.OPS:
        yield from importlib.import_module(f"per_op.{op}").results(a, b)


def main():
    print(customops._loader.load(), file=sys.stderr)
    print("capability", torch.ops.customops._cpu_capability())
    for layout in LAYOUTS:
        for name, result in calls(layout):
            print(layout, name, hashlib.sha256(result.contiguous().numpy().tobytes()).hexdigest()[:20])


if __name__ == "__main__":
    main()
