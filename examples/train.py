"""Trains a small depthwise-separable CNN that uses the ops, with a library built in any of the three ways.

    python examples/train.py --compiler jit --steps 200 --plot loss.png

The task is made up: tell the direction of a sine grating in noise. Same seed, same machine, same losses, whichever way the
library was built. Shows a bar if tqdm is installed, plots the loss if matplotlib is.
"""

import argparse
import sys

import torch
import torch.nn.functional as F
from torch import nn


def depthwise(channels, stride):
    """A 3 x 3 convolution of each channel by itself."""
    import customops

    if hasattr(customops.nn, "DepthwiseConv2d"):
        return customops.nn.DepthwiseConv2d(channels, 3, stride=stride, padding=1, bias=False)
    return nn.Conv2d(channels, channels, 3, stride=stride, padding=1, groups=channels, bias=False)


class Block(nn.Module):
    """Depthwise, then pointwise convolution, then bias and activation in one pass; the shortcut is an axpy."""

    def __init__(self, channels):
        import customops

        super().__init__()
        self.depthwise, self.pointwise = depthwise(channels, 1), nn.Conv2d(channels, channels, 1, bias=False)
        self.act, self.shortcut = customops.nn.FusedLeakyReLU(channels), customops.nn.Axpy(0.5)

    def forward(self, x):
        return self.shortcut(self.act(self.pointwise(self.depthwise(x))), x)


def model(classes, channels=16):
    import customops

    return nn.Sequential(
        nn.Conv2d(1, channels, 3, padding=1, bias=False),
        customops.nn.BiasAct(channels, act="swish"),
        Block(channels),
        customops.nn.Downsample2d(),
        Block(channels),
        customops.nn.Downsample2d(),
        nn.Flatten(2),
    ), nn.Linear(channels, classes)


def batch(size, classes, generator, device, pixels=16):
    """(images, labels): gratings of one of `classes` directions, with noise."""
    labels = torch.randint(classes, (size,), generator=generator)
    angle = labels * torch.pi / classes
    y, x = torch.meshgrid(*[torch.arange(pixels) * 0.9] * 2, indexing="ij")
    phase = torch.rand(size, 1, 1, generator=generator) * 2 * torch.pi
    wave = torch.sin(angle.cos()[:, None, None] * x + angle.sin()[:, None, None] * y + phase)
    noisy = wave + 0.5 * torch.randn(size, pixels, pixels, generator=generator)
    return noisy[:, None].to(device), labels.to(device)


def train(steps, device="cpu", seed=0, classes=8):
    """The loss of every step."""
    torch.manual_seed(seed)
    body, head = model(classes)
    network = nn.ModuleList([body, head]).to(device)
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
    generator = torch.Generator().manual_seed(seed)
    losses = []
    for step in progress(steps):
        images, labels = batch(64, classes, generator, device)
        loss = F.cross_entropy(head(body(images).mean(2)), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        progress.note(step, losses[-1])
    return losses


class progress:
    """for step in progress(steps): tqdm's bar, or a plain one."""

    bar = None

    def __init__(self, steps):
        self.steps = range(steps)

    def __iter__(self):
        try:
            from tqdm import tqdm
        except ModuleNotFoundError:
            progress.bar = None
            yield from self.steps
            print(file=sys.stderr)
        else:
            progress.bar = tqdm(self.steps)
            yield from progress.bar

    @classmethod
    def note(cls, step, loss):
        if cls.bar is not None:
            cls.bar.set_postfix(loss=f"{loss:.3f}")
        elif step % 10 == 0:
            print(f"\rstep {step}: loss {loss:.3f} ", end="", file=sys.stderr, flush=True)


def plot(losses, path):
    try:
        from matplotlib import pyplot
    except ModuleNotFoundError:
        print("no plot: pip install matplotlib", file=sys.stderr)
        return
    pyplot.plot(losses)
    pyplot.xlabel("step")
    pyplot.ylabel("cross entropy")
    pyplot.savefig(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--compiler", choices=("auto", "setuptools", "jit", "cmake"), default="auto")
    parser.add_argument("--library", help="libcustomops.so, for --compiler cmake")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--plot", metavar="FILE", help="draw the loss")
    args = parser.parse_args()

    import customops

    print(f"library: {customops.load(args.compiler, args.library)}")
    losses = train(args.steps, args.device)
    print(f"loss: {losses[0]:.9g} at first, {losses[-1]:.9g} after {args.steps} steps")
    if args.plot:
        plot(losses, args.plot)


if __name__ == "__main__":
    main()
