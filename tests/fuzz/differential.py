"""Random calls of every op on the CPU, forward and gradients, against torch in float64.

python tests/fuzz/differential.py --seconds 60 [--seed 1]        # docker/sanitize_cpu.py runs it under ASan and UBSan
python tests/fuzz/differential.py --seed 1 --case 4711           # one of them again, as a failure says
"""

import argparse
import mmap
import os
import random
import sys
import time
from collections import Counter
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import depthwise
import test_bias_act
import test_upfirdn2d
from common import DTYPES, SAME_SHAPE
from depthwise import randn

import customops


def tensor(rng, shape, dtype):
    """In a layout of tests/common.py: strided, expanded, misaligned, ..."""
    made = randn(*shape, dtype=dtype, seed=rng.randrange(2**31))
    return SAME_SHAPE[rng.choice([*SAME_SHAPE])](made) if made.numel() and made.dim() == 4 else made


def image_shape(rng, most=24):
    return (
        rng.randint(0, 3),
        rng.choice([1, 2, 3, 4, 7, 8, 16, 17, 33, 40]),
        rng.randint(1, most),
        rng.randint(1, most),
    )


def compare(function, expected, inputs, rng, close):
    """Values and gradients of `inputs`."""
    ours = [t.detach().requires_grad_() for t in inputs]
    theirs = [t.detach().double().requires_grad_() for t in inputs]
    y, y64 = function(*ours), expected(*theirs)
    close(y, y64)
    grad = randn(*y64.shape, dtype=y.dtype, seed=rng.randrange(2**31))
    got = torch.autograd.grad(y, ours, grad)
    for one, other in zip(got, torch.autograd.grad(y64, theirs, grad.double()), strict=True):
        close(one, other)


def add2(rng, dtype):
    shape = image_shape(rng, 60)
    tensors = [tensor(rng, shape, dtype) for _ in range(2)]
    compare(customops.add2, torch.add, tensors, rng, depthwise.assert_close)


def axpy(rng, dtype):
    shape, alpha = image_shape(rng, 60), rng.uniform(-3, 3)
    tensors = [tensor(rng, shape, dtype) for _ in range(2)]
    compare(lambda x, y: customops.axpy(x, y, alpha), lambda x, y: alpha * x + y, tensors, rng, depthwise.assert_close)


def flatten_copy(rng, dtype):
    x = tensor(rng, image_shape(rng, 60), dtype)
    compare(customops.flatten_copy, torch.flatten, [x], rng, depthwise.assert_close)


def bias_act(rng, dtype):
    x, dim = tensor(rng, image_shape(rng, 40), dtype), rng.randint(-4, 3)
    b = randn(x.shape[dim], dtype=dtype, seed=rng.randrange(2**31)) if rng.random() < 0.7 else None
    # In the layout of the output: where only the gradient is read (act="linear"), the result has its layout.
    grad = torch.empty_like(x).copy_(randn(*x.shape, dtype=dtype, seed=rng.randrange(2**31)))
    options = test_bias_act.OPTIONS[rng.choice([*test_bias_act.OPTIONS])]
    test_bias_act.check(x, b, grad, dim, any_size=True, act=rng.choice([*test_bias_act.ACTS]), **options)


def upfirdn2d(rng, dtype):
    taps = rng.choice([None, (rng.randint(1, 14),), (rng.randint(1, 8), rng.randint(1, 8))])
    f = None if taps is None else randn(*taps, seed=rng.randrange(2**31))
    wide, high = (1, 1) if f is None else (f.shape[-1], f.shape[0])
    up, down = ((rng.randint(1, 4), rng.randint(1, 4)) for _ in range(2))
    n, c, h, w = image_shape(rng)
    # The reference crops before it pads: no more than there is.
    most = [min(2, size * step // 2) for size, step in ((w, up[0]), (w, up[0]), (h, up[1]), (h, up[1]))]
    padding = [rng.randint(-crop, 12) for crop in most]
    for axis, size, need in ((0, w * up[0], wide), (2, h * up[1], high)):
        padding[axis] += max(0, need - size - padding[axis] - padding[axis + 1])
    arguments = (up, down, padding, rng.random() < 0.5, rng.choice([1, 0.5, -2.0]))
    compare(
        lambda x: customops.upfirdn2d(x, f, *arguments),
        lambda x: test_upfirdn2d.reference(x, f, *arguments),
        [tensor(rng, (max(n, 1), c, h, w), dtype)],
        rng,
        test_upfirdn2d.assert_close,
    )


def depthwise_conv2d(rng, dtype):
    n, c, *sizes = image_shape(rng)
    taps = [rng.choice([1, 2, 3, 3, 4, 5, 5, 7, 9, 13, 21]) for _ in range(2)]
    stride, dilation = ([rng.choice([1, 1, 2, 3]) for _ in range(2)] for _ in range(2))
    padding = [rng.randint(0, 6) for _ in range(2)]
    spans = [d * (k - 1) + 1 for k, d in zip(taps, dilation, strict=True)]
    sizes = [max(size, span - 2 * pad) for size, span, pad in zip(sizes, spans, padding, strict=True)]
    inputs = [tensor(rng, (max(n, 1), c, *sizes), dtype), randn(c, 1, *taps, dtype=dtype, seed=rng.randrange(2**31))]
    if rng.random() < 0.5:
        inputs.append(randn(c, dtype=dtype, seed=rng.randrange(2**31)))
    geometry = {"stride": tuple(stride), "padding": tuple(padding), "dilation": tuple(dilation)}
    compare(
        lambda x, weight, bias=None: customops.depthwise_conv2d(x, weight, bias, **geometry),
        lambda x, weight, bias=None: depthwise.reference(x, weight, bias, **geometry),
        inputs,
        rng,
        depthwise.assert_close,
    )


OPS = [add2, axpy, flatten_copy, bias_act, upfirdn2d, depthwise_conv2d]
WEIGHTS = [1, 1, 1, 3, 6, 8]  # as many kernels have they
SECONDS_BETWEEN_LINES = 30


def run(seed: int, case: int) -> str:
    """The op of the case; the first cases are one of each op, however few calls an emulated machine gets done."""
    rng = random.Random(f"{seed}-{case}")
    (op,) = rng.choices(OPS, WEIGHTS) if case >= len(OPS) else (OPS[case],)
    op(rng, rng.choice(DTYPES))
    return op.__name__


def work(seed: int, seconds: float, case: mmap.mmap) -> None:
    capability = torch.ops.customops._cpu_capability()
    began = said = time.monotonic()
    done = Counter()
    while done.total() < len(OPS) or time.monotonic() < began + seconds:
        case[:8] = done.total().to_bytes(8, "little")
        done[run(seed, done.total())] += 1
        if time.monotonic() > said + SECONDS_BETWEEN_LINES:
            said = time.monotonic()
            print(f"{capability}: {done.total()} calls after {said - began:.0f} of {seconds:.0f} s", flush=True)
    print(f"{capability}: {done.total()} calls with their gradients, no difference: {dict(done)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case", type=int, help="run this one alone")
    args = parser.parse_args()
    missing = {op.__name__ for op in OPS} ^ set(customops.OPS)
    if missing:
        sys.exit(f"error: tests/fuzz/differential.py and customops.OPS differ in {', '.join(sorted(missing))}")
    if args.case is not None:
        print(run(args.seed, args.case))
        return
    case = mmap.mmap(-1, 8)  # shared: a sanitizer ends the process that works without a word about the case
    worker = os.fork()
    if worker == 0:
        return work(args.seed, args.seconds, case)
    if os.waitpid(worker, 0)[1]:
        number = int.from_bytes(case[:8], "little")
        sys.exit(f"error: python tests/fuzz/differential.py --seed {args.seed} --case {number} fails again")


if __name__ == "__main__":
    main()
