"""What a call costs before any work is done: 4-element CPU tensors, ours and torch.add side by side.

    python benchmarks/overhead.py        with customops installed; takes about 10 seconds

Rounds of the peers are interleaved; the table shows medians in microseconds and the ratio to torch.add in the same mode.
"""

import statistics
import subprocess
import sys
import time

import torch

import customops

CALLS, ROUNDS = 5000, 21


class FunctionOfAdd(torch.autograd.Function):
    """The least that a hand-written autograd.Function can cost: torch.add is all it calls."""

    @staticmethod
    def forward(ctx, a, b):
        return torch.add(a, b)

    @staticmethod
    def backward(ctx, grad):
        return grad, grad


def medians(peers):
    times = {name: [] for name in peers}
    for _ in range(ROUNDS):
        for name, call in peers.items():
            start = time.perf_counter()
            for _ in range(CALLS):
                call()
            times[name].append((time.perf_counter() - start) / CALLS * 1e6)
    return {name: statistics.median(values) for name, values in times.items()}


def import_milliseconds():
    code = "import time, torch; t = time.perf_counter(); import customops; print((time.perf_counter() - t) * 1e3)"
    runs = [float(subprocess.check_output([sys.executable, "-c", code])) for _ in range(5)]
    return statistics.median(runs)


def main():
    torch.set_num_threads(1)
    a, b = torch.randn(2, 4)
    with_grad = a.clone().requires_grad_()
    print(f"torch {torch.__version__}, Python {sys.version.split()[0]}")
    print(f"import customops, after import torch: {import_milliseconds():.1f} ms")
    for mode, x in (("no gradient needed", a), ("gradient needed", with_grad)):
        peers = {
            "torch.add": lambda x=x: torch.add(x, b),
            "customops.add2": lambda x=x: customops.add2(x, b),
            "torch.add(b, a, alpha=2)": lambda x=x: torch.add(b, x, alpha=2.0),
            "customops.axpy": lambda x=x: customops.axpy(x, b),
            "customops.flatten_copy": lambda x=x: customops.flatten_copy(x),
        }
        if x.requires_grad:
            peers["autograd.Function around torch.add"] = lambda x=x: FunctionOfAdd.apply(x, b)
        result = medians(peers)
        print(f"{mode}:")
        for name, microseconds in result.items():
            print(f"  {name:36} {microseconds:6.2f} us  {microseconds / result['torch.add']:5.2f} x")


if __name__ == "__main__":
    main()
