"""What a call costs before any work is done: 4-element CPU tensors, ours and torch.add side by side.

    python benchmarks/overhead.py [--save]       with customops installed; takes about 20 seconds

--save also writes results/other/overhead.json, the table of docs/performance.md.
Then depthwise_conv2d in training, on an image of 4 x 4: through torch's op that csrc/depthwise_conv2d_hook.h fills, and
what takes its place with CUSTOMOPS_TORCH_HOOK=0.

Rounds of the peers are interleaved; the table shows medians in microseconds and the ratio to torch.add in the same mode.
"""

import argparse
import statistics
import subprocess
import sys
import time

import harness
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


def medians(peers, calls=CALLS):
    times = {name: [] for name in peers}
    for _ in range(ROUNDS):
        for name, call in peers.items():
            start = time.perf_counter()
            for _ in range(calls):
                call()
            times[name].append((time.perf_counter() - start) / calls * 1e6)
    return {name: statistics.median(values) for name, values in times.items()}


def import_milliseconds():
    code = "import time, torch; t = time.perf_counter(); import customops; print((time.perf_counter() - t) * 1e3)"
    runs = [float(subprocess.check_output([sys.executable, "-c", code])) for _ in range(5)]
    return statistics.median(runs)


def depthwise():
    """Peers of a training step of depthwise_conv2d: {name: call of (x, weight, bias)}."""
    depthwise_conv2d, plain = customops.depthwise_conv2d, torch.ops.customops.depthwise_conv2d.default
    module = sys.modules["customops.depthwise_conv2d"]
    hook = module._hook

    def without_hook(*inputs):
        module._hook = None
        y = depthwise_conv2d(*inputs, padding=1)
        module._hook = hook
        return y

    return {
        "through torch's op": lambda *inputs: depthwise_conv2d(*inputs, padding=1),
        "CUSTOMOPS_TORCH_HOOK=0": without_hook,
        "torch.library.register_autograd": lambda *inputs: plain(*inputs, *(1,) * 8),
        "torch": lambda *inputs: torch.nn.functional.conv2d(*inputs, padding=1, groups=4),
    }


def training_steps():
    """Prints what depthwise_conv2d costs on an image of 4 x 4."""
    inputs = [torch.randn(shape, requires_grad=True) for shape in ((1, 4, 4, 4), (4, 1, 3, 3), (4,))]
    grad = torch.randn(1, 4, 4, 4)
    for mode, f in (
        ("forward", lambda conv: conv(*inputs)),
        ("forward and backward", lambda conv: torch.autograd.grad(conv(*inputs), inputs, grad)),
    ):
        result = medians({name: lambda f=f, conv=conv: f(conv) for name, conv in depthwise().items()}, CALLS // 10)
        print(f"depthwise_conv2d, {mode}:")
        for name, microseconds in result.items():
            print(f"  {name:36} {microseconds:6.2f} us")


# call -> the call of torch's that does the same
PEERS = {"customops.add2(a, b)": "torch.add(a, b)", "customops.axpy(a, b)": "torch.add(b, a, alpha=2)"}


def calls(x, b):
    """{name: call} with nothing to do, but for x's gradient if it needs one."""
    found = {
        "torch.add(a, b)": lambda: torch.add(x, b),
        "customops.add2(a, b)": lambda: customops.add2(x, b),
        "torch.add(b, a, alpha=2)": lambda: torch.add(b, x, alpha=2.0),
        "customops.axpy(a, b)": lambda: customops.axpy(x, b),
        "customops.flatten_copy(a)": lambda: customops.flatten_copy(x),
    }
    if x.requires_grad:
        found["autograd.Function around torch.add"] = lambda: FunctionOfAdd.apply(x, b)
    return found


def rows_of(plain, gradient):
    """Lines of the table, from the medians of both modes."""
    rounded = [{name: round(us, 2) for name, us in mode.items()} for mode in (plain, gradient)]
    return [
        {"call": call, "plain": rounded[0].get(call), "gradient": us, "peer": PEERS.get(call)}
        for call, us in rounded[1].items()
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--save", action="store_true", help="write results/other/overhead.json, too")
    args = parser.parse_args()
    torch.set_num_threads(1)
    a, b = torch.randn(2, 4)
    print(f"torch {torch.__version__}, Python {sys.version.split()[0]}")
    print(f"import customops, after import torch: {import_milliseconds():.1f} ms")
    training_steps()
    found = {}
    for mode, x in (("no gradient needed", a), ("gradient needed", a.clone().requires_grad_())):
        result = found[mode] = medians(calls(x, b))
        print(f"{mode}:")
        for name, microseconds in result.items():
            print(f"  {name:36} {microseconds:6.2f} us  {microseconds / result['torch.add(a, b)']:5.2f} x")
    if args.save:
        about = "benchmarks/overhead.py: microseconds of a call on 4-element CPU tensors"
        harness.save("overhead", about, harness.machine("cpu"), rows_of(*found.values()))


if __name__ == "__main__":
    main()
