"""Trains a StyleGAN2 generator block twice, eagerly and compiled, and compares the losses:

    python examples/generator_block.py [--device=cuda] [--channels=256] [--size=64] [--steps=20]

A block (Karras et al. 2020, https://arxiv.org/abs/1912.04958, figure 2) doubles the image: a modulated convolution that
upsamples, a blur, noise, bias and activation; a second modulated convolution; and a modulated 1x1 convolution to RGB, added to
the doubled RGB image of the block before.
"""

import argparse
import sys

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import customops


class ModulatedConv2d(nn.Module):
    """A convolution whose input channels are scaled by a style, per sample, and whose outputs are normalised again."""

    def __init__(
        self, in_channels: int, out_channels: int, size: int, style: int, up: int = 1, demodulate: bool = True
    ):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(out_channels, in_channels, size, size))
        self.style = nn.Linear(style, in_channels)
        nn.init.ones_(self.style.bias)
        self.register_buffer("filter", customops.setup_filter([1, 3, 3, 1]))
        self.up, self.demodulate = up, demodulate
        self.scale = (in_channels * size**2) ** -0.5

    def forward(self, x: Tensor, w: Tensor) -> Tensor:
        n, c, height, width = x.shape
        weight = self.scale * self.weight * self.style(w).view(n, 1, c, 1, 1)  # (N, out, in, k, k)
        if self.demodulate:
            weight = weight * (weight.square().sum([2, 3, 4], keepdim=True) + 1e-8).rsqrt()
        x = x.reshape(1, n * c, height, width)
        if self.up == 1:
            x = F.conv2d(x, weight.flatten(0, 1), padding=weight.shape[-1] // 2, groups=n)
        else:
            x = F.conv_transpose2d(x, weight.transpose(1, 2).flatten(0, 1), stride=self.up, groups=n)
            x = customops.upfirdn2d(x, self.filter, padding=[1, 1, 1, 1], gain=self.up**2)
        return x.unflatten(1, (n, -1))[0]


class GeneratorBlock(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, style: int):
        super().__init__()
        self.conv0 = ModulatedConv2d(in_channels, out_channels, 3, style, up=2)
        self.conv1 = ModulatedConv2d(out_channels, out_channels, 3, style)
        self.to_rgb = ModulatedConv2d(out_channels, 3, 1, style, demodulate=False)
        self.noise = nn.Parameter(torch.full((2,), 0.1))
        self.act0, self.act1 = (customops.nn.BiasAct(out_channels, act="lrelu", clamp=256) for _ in range(2))
        self.rgb = customops.nn.BiasAct(3, clamp=256)
        self.upsample = customops.nn.Upsample2d([1, 3, 3, 1])

    def forward(self, x: Tensor, rgb: Tensor, w: Tensor, noise: Tensor) -> Tensor:
        x = self.act0(self.conv0(x, w) + self.noise[0] * noise[0])
        x = self.act1(self.conv1(x, w) + self.noise[1] * noise[1])
        return self.upsample(rgb) + self.rgb(self.to_rgb(x, w))


def train(device: str, channels: int, size: int, steps: int, compiled: bool) -> list[float]:
    """The loss before each step; everything random comes from one seed."""
    torch.manual_seed(0)
    batch, style = 4, 512
    block = GeneratorBlock(channels, channels // 2, style).to(device)
    # Not Adam: it divides gradients by their own size, and rounding errors would grow to a part in a thousand.
    optimizer = torch.optim.SGD(block.parameters(), lr=0.1, momentum=0.9)
    x, rgb, w = torch.randn(batch, channels, size, size), torch.randn(batch, 3, size, size), torch.randn(batch, style)
    noise, target = torch.randn(2, batch, 1, 2 * size, 2 * size), torch.randn(batch, 3, 2 * size, 2 * size)
    x, rgb, w, noise, target = (t.to(device) for t in (x, rgb, w, noise, target))
    forward = torch.compile(block, fullgraph=True) if compiled else block
    losses = []
    for _ in range(steps):
        loss = F.mse_loss(forward(x, rgb, w, noise), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--channels", type=int, default=256)
    parser.add_argument(
        "--size", type=int, default=64, help="of the input image, in pixels; the output's is twice that"
    )
    parser.add_argument("--steps", type=int, default=20)
    args = parser.parse_args()
    runs = [train(args.device, args.channels, args.size, args.steps, compiled) for compiled in (False, True)]
    print("step   eager      compiled")
    for step, (eager, compiled) in enumerate(zip(*runs, strict=True)):
        print(f"{step:4}   {eager:.6f}   {compiled:.6f}")
    worst = max(abs(a - b) / abs(a) for a, b in zip(*runs, strict=True))
    print(f"largest relative difference: {worst:.1e}")
    if not worst < 1e-4:
        sys.exit("error: the compiled block does not train like the eager one")


if __name__ == "__main__":
    main()
