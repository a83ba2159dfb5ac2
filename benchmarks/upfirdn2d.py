"""upfirdn2d, forward and backward, against what torch offers: zero-stuff, pad, depthwise convolution, eager and compiled.

Rows: the blur after a transposed convolution, halving, doubling, doubling of RGB, and the long separable filters.
"""

import harness
import torch
import torch._functorch.config
from elementwise import NAMES
from harness import Row, compiled
from torch.nn import functional as F

import customops

# A backward is timed alone, again and again over one graph; a compiled one must not write over what it saved, then.
torch._functorch.config.donated_buffer = False

BINOMIAL = customops.setup_filter([1, 3, 3, 1])
SYM6 = customops.setup_filter(
    [0.0154, 0.0035, -0.1180, -0.0483, 0.4911, 0.7876, 0.3379, -0.0726, -0.0211, 0.0447, 0.0018, -0.0078]
)
# name -> (shape of x, filter, up, down, padding)
CASES = {
    "blur 4x4": ((4, 32, 1025, 1025), BINOMIAL, 1, 1, (1, 1, 1, 1)),
    "down 2, 4x4": ((4, 32, 1024, 1024), BINOMIAL, 1, 2, (1, 1, 1, 1)),
    "up 2, 4x4": ((8, 128, 256, 256), BINOMIAL, 2, 1, (2, 1, 2, 1)),
    "RGB up 2, 4x4": ((4, 3, 512, 512), BINOMIAL, 2, 1, (2, 1, 2, 1)),
    "up 2, 12 separable": ((8, 128, 256, 256), SYM6, 2, 1, (6, 5, 6, 5)),
    "down 2, 12 separable": ((4, 32, 1024, 1024), SYM6, 1, 2, (5, 5, 5, 5)),
}


def convolution(f, up, down, padding):
    """The same in torch's own ops; a separable filter as two convolutions."""

    def run(x):
        n, c, h, w = x.shape
        if up > 1:
            x = F.pad(x.reshape(n, c, h, 1, w, 1), (0, up - 1, 0, 0, 0, up - 1)).reshape(n, c, h * up, w * up)
        x = F.pad(x, padding)
        weight = f.to(x.dtype).flip(list(range(f.dim())))
        if weight.dim() == 2:
            return F.conv2d(x, weight.expand(c, 1, -1, -1), stride=down, groups=c)
        x = F.conv2d(x, weight[None].expand(c, 1, -1, -1), stride=(1, down), groups=c)
        return F.conv2d(x, weight[:, None].expand(c, 1, -1, -1), stride=(down, 1), groups=c)

    return run


class Backward:
    """Runs f once for each input, its backward every time."""

    def __init__(self, f):
        self.f, self.outputs = f, {}

    def __call__(self, x):
        if id(x) not in self.outputs:
            y = self.f(x)
            self.outputs[id(x)] = y, torch.ones_like(y)
        y, gradient = self.outputs[id(x)]
        return torch.autograd.grad(y, x, gradient, retain_graph=True)


def rows(device):
    found = []
    for name, (shape, f, up, down, padding) in CASES.items():
        if device == "cpu":
            shape = (1, *shape[1:])
        f = f.to(device)
        plain = convolution(f, up, down, padding)
        peers = {
            "customops": lambda x, a=(f, up, down, padding): customops.upfirdn2d(x, *a),
            "F.conv2d": plain,
            "F.conv2d, compiled": compiled(plain),
        }
        height, width = ((s * up + sum(padding[:2]) - f.shape[0]) // down + 1 for s in shape[2:])
        elements = shape[0] * shape[1] * (shape[2] * shape[3] + height * width)
        for dtype in (torch.float32, torch.float16) if device == "cuda" else (torch.float32,):
            for backward in (False, True):

                def make(shape=shape, dtype=dtype, backward=backward):
                    return (torch.randn(shape, device=device).to(dtype).requires_grad_(backward),)

                calls = {k: Backward(peer) for k, peer in peers.items()} if backward else peers
                title = f"{name} {NAMES[dtype]} {'bwd' if backward else 'fwd'}"
                found.append(Row(title, elements * dtype.itemsize, make, calls))
    return found


if __name__ == "__main__":
    harness.main("upfirdn2d", rows)
