"""Prints a hash of what every op computes in float32, and one in bfloat16, one line a call: the same bits, the same lines.

CUSTOMOPS_COMPILER=jit python tests/ways/results.py
"""

import hashlib
import sys
from pathlib import Path

import torch

import customops

sys.path.insert(0, str(Path(__file__).parents[1]))
from common import LAYOUTS, make


def calls(layout):
    """(name, result) of forward passes on tensors of some layout."""
    a, b = (make(layout, torch.float32, "cpu", seed) for seed in (0, 1))
    channels = a.shape[1] if a.dim() > 1 else 0
    bias = torch.randn(channels, generator=torch.Generator().manual_seed(3)) if channels else None
    yield "add2", customops.add2(a, b)
    yield "axpy", customops.axpy(a, b, 0.7)
    yield "flatten_copy", customops.flatten_copy(a)
    for act in ("linear", "relu", "lrelu", "tanh", "sigmoid", "elu", "selu", "softplus", "swish"):
        yield f"bias_act {act}", customops.bias_act(3 * a, bias, act=act, gain=1.3, clamp=2.0)
    if a.dim() == 4 and a.numel():
        for taps in ((1, 3, 3, 1), [[1, 2], [3, 4], [5, 7]]):
            for up, down in ((1, 1), (2, 1), (1, 2), (3, 2)):
                f = customops.setup_filter(taps)
                yield f"upfirdn2d {taps} {up} {down}", customops.upfirdn2d(a, f, up, down, 4, gain=1.7)
    if a.dim() == 4 and a.numel() and hasattr(customops, "depthwise_conv2d"):
        weight = torch.randn(channels, 1, 3, 3, generator=torch.Generator().manual_seed(4))
        for stride in (1, 2):
            yield f"depthwise_conv2d {stride}", customops.depthwise_conv2d(a, weight, bias, stride=stride, padding=1)
        wide = a.repeat(1, 20, 1, 1).bfloat16()
        kernels = torch.randn(wide.shape[1], 1, 5, 5, generator=torch.Generator().manual_seed(5)).bfloat16()
        yield "depthwise_conv2d bfloat16", customops.depthwise_conv2d(wide, kernels, padding=2).float()


def main():
    print(customops._loader.load(), file=sys.stderr)
    print("capability", torch.ops.customops._cpu_capability())
    for layout in LAYOUTS:
        for name, result in calls(layout):
            print(layout, name, hashlib.sha256(result.contiguous().numpy().tobytes()).hexdigest()[:20])


if __name__ == "__main__":
    main()
