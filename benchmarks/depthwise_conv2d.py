"""depthwise_conv2d, forward and both gradients, against torch's own depthwise convolution on the same inputs.

    python benchmarks/depthwise_conv2d.py [--device=cpu] [--rows=k7]

Peers: eager torch, with cuDNN's benchmark mode off and on, and with cuDNN off (torch's native kernel); where COMPILE=1 is
set, also torch.compile in mode max-autotune, forward only: it takes minutes. Rows are N x C x size, both memory formats; --rows chooses those whose
title contains a text. The floor is max(a copy of as many bytes, multiply-adds at 67 TFLOP/s, the H200's rate for float32).
"""

import os

import harness
import torch
from elementwise import NAMES
from harness import Row
from torch.nn import functional as F

import customops

# batch, channels, height = width, kernel, stride; padding is kernel // 2
CUDA = [
    (256, 16, 112, 3, 1),
    (128, 96, 112, 3, 2),
    (512, 480, 14, 5, 1),
    (512, 672, 14, 5, 2),
    (128, 96, 56, 7, 1),
    (64, 192, 56, 7, 1),
    (256, 768, 14, 7, 1),
    (64, 128, 56, 31, 1),
    (64, 1024, 7, 13, 1),
]
CPU = [(8, 3, 224, 3, 1), (8, 16, 112, 3, 1), (8, 480, 14, 5, 1), (8, 96, 56, 7, 1)]
FORMATS = {"nchw": torch.contiguous_format, "nhwc": torch.channels_last}
MODES = {
    "torch": {"enabled": True, "benchmark": False},
    "torch, cudnn.benchmark": {"enabled": True, "benchmark": True},
    "torch, no cuDNN": {"enabled": False},
}


def ours(kind, stride, padding, shape, kernel, last):
    """The op that a forward or backward calls, by itself."""
    steps, pads, ones = (stride, stride), (padding, padding), (1, 1)
    ops = torch.ops.customops
    if kind == "fwd":
        return lambda x, w, g: customops.depthwise_conv2d(x, w, None, stride, padding)
    if kind == "dgrad":
        return lambda x, w, g: ops._depthwise_conv2d_grad_input(g, w, *shape[2:], *steps, *pads, *ones, last)
    return lambda x, w, g: ops._depthwise_conv2d_grad_weight(g, x, kernel, kernel, *steps, *pads, *ones)


def theirs(kind, stride, padding, channels, flags):
    mask = [kind == "dgrad", kind == "wgrad", False]
    both = [stride, stride], [padding, padding], [1, 1]

    def run(x, w, g):
        with torch.backends.cudnn.flags(**flags):
            if kind == "fwd":
                return F.conv2d(x, w, None, stride, padding, 1, channels)
            return torch.ops.aten.convolution_backward(g, x, w, None, *both, False, [0, 0], channels, mask)

    return run


def rows(device):
    if device == "cuda":
        return rows_of(CUDA, (torch.float32, torch.float16, torch.bfloat16), device)
    return rows_of(CPU, (torch.float32, torch.bfloat16, torch.float64), device)


def rows_of(shapes, dtypes, device):
    found = []
    for n, c, size, kernel, stride in shapes:
        padding, out = kernel // 2, (size + 2 * (kernel // 2) - kernel) // stride + 1
        for dtype in dtypes:
            for layout, memory_format in FORMATS.items():
                for kind in ("fwd", "dgrad", "wgrad"):
                    last = layout == "nhwc"
                    peers = {"customops": ours(kind, stride, padding, (n, c, size, size), kernel, last)}
                    for name, flags in MODES.items() if device == "cuda" else [("torch", {"enabled": True})]:
                        peers[name] = theirs(kind, stride, padding, c, flags)
                    if os.environ.get("COMPILE") and kind == "fwd":
                        plain = theirs(kind, stride, padding, c, MODES["torch, cudnn.benchmark"])
                        peers["torch, compiled"] = torch.compile(
                            plain, dynamic=False, mode="max-autotune-no-cudagraphs"
                        )

                    def make(n=n, c=c, size=size, out=out, kernel=kernel, dtype=dtype, memory_format=memory_format):
                        def images(size):
                            t = torch.randn(n, c, size, size, device=device, dtype=dtype)
                            return t.contiguous(memory_format=memory_format)

                        return images(size), torch.randn(c, 1, kernel, kernel, device=device, dtype=dtype), images(out)

                    title = (
                        f"{n}x{c}x{size} k{kernel}{f' s{stride}' if stride > 1 else ''} {NAMES[dtype]} {layout} {kind}"
                    )
                    flops = 2 * kernel * kernel * n * c * out * out
                    found.append(Row(title, n * c * (size * size + out * out) * dtype.itemsize, make, peers, flops))
    return found


if __name__ == "__main__":
    harness.main("depthwise_conv2d", rows)
