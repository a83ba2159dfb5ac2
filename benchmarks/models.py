"""Training steps of ConvNeXt-T and MobileNetV3-Large, before and after customops.replace_depthwise, on random images.

    python benchmarks/models.py [--batch=128] [--model=MobileNetV3-L] [--format=nhwc] [--dtype=fp16] [--graph] [--losses]
    python benchmarks/models.py --save

Prints images per second, forward and backward and step of SGD, of torch (cuDNN's benchmark mode on) and of ours, from the
median of rounds in which both take turns. With --graph the whole step is a CUDA graph, so that the GPU never waits for the
host. With --losses it trains 20 steps in float32 instead, both ways from the same weights on the same images, and prints
the largest relative difference of the losses. --save goes over everything, steps as CUDA graphs too, and writes
results/other/training.json, the table of docs/performance.md. Both networks are written here with plain torch modules, after
https://arxiv.org/abs/2201.03545 and https://arxiv.org/abs/1905.02244.
"""

import argparse
import copy
import statistics
import time
from collections.abc import Callable

import harness
import torch
from torch import nn
from torch.nn import functional as F

import customops

DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
FORMATS = {"nchw": torch.contiguous_format, "nhwc": torch.channels_last}


class LayerNorm2d(nn.LayerNorm):
    """LayerNorm over the channels of (N, C, H, W)."""

    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class ConvNeXtBlock(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width)
        self.expand, self.project = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.scale = nn.Parameter(torch.full((width,), 1e-6))

    def forward(self, x):
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        return x + (self.scale * self.project(F.gelu(self.expand(y)))).permute(0, 3, 1, 2)


def convnext_tiny(classes: int = 1000) -> nn.Module:
    widths, depths = (96, 192, 384, 768), (3, 3, 9, 3)
    layers = [nn.Conv2d(3, widths[0], 4, 4), LayerNorm2d(widths[0], eps=1e-6)]
    for i, (width, depth) in enumerate(zip(widths, depths, strict=True)):
        if i:
            layers += [LayerNorm2d(widths[i - 1], eps=1e-6), nn.Conv2d(widths[i - 1], width, 2, 2)]
        layers += [ConvNeXtBlock(width) for _ in range(depth)]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(widths[-1]), nn.Linear(widths[-1], classes)]
    return nn.Sequential(*layers, *head)


class SqueezeExcite(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        squeezed = (width // 4 + 7) // 8 * 8
        self.down, self.up = nn.Conv2d(width, squeezed, 1), nn.Conv2d(squeezed, width, 1)

    def forward(self, x):
        return x * F.hardsigmoid(self.up(F.relu(self.down(x.mean((2, 3), keepdim=True)))))


class InvertedResidual(nn.Module):
    def __init__(self, width: int, kernel: int, expanded: int, out: int, squeeze: bool, act: type, stride: int):
        super().__init__()
        layers = []
        if expanded != width:
            layers += [nn.Conv2d(width, expanded, 1, bias=False), nn.BatchNorm2d(expanded), act()]
        depthwise = nn.Conv2d(expanded, expanded, kernel, stride, kernel // 2, groups=expanded, bias=False)
        layers += [depthwise, nn.BatchNorm2d(expanded), act()]
        if squeeze:
            layers.append(SqueezeExcite(expanded))
        self.layers = nn.Sequential(*layers, nn.Conv2d(expanded, out, 1, bias=False), nn.BatchNorm2d(out))
        self.residual = stride == 1 and width == out

    def forward(self, x):
        return x + self.layers(x) if self.residual else self.layers(x)


# kernel, expanded, out, squeeze and excite, activation, stride
MOBILE = [
    (3, 16, 16, False, nn.ReLU, 1),
    (3, 64, 24, False, nn.ReLU, 2),
    (3, 72, 24, False, nn.ReLU, 1),
    (5, 72, 40, True, nn.ReLU, 2),
    (5, 120, 40, True, nn.ReLU, 1),
    (5, 120, 40, True, nn.ReLU, 1),
    (3, 240, 80, False, nn.Hardswish, 2),
    (3, 200, 80, False, nn.Hardswish, 1),
    (3, 184, 80, False, nn.Hardswish, 1),
    (3, 184, 80, False, nn.Hardswish, 1),
    (3, 480, 112, True, nn.Hardswish, 1),
    (3, 672, 112, True, nn.Hardswish, 1),
    (5, 672, 160, True, nn.Hardswish, 2),
    (5, 960, 160, True, nn.Hardswish, 1),
    (5, 960, 160, True, nn.Hardswish, 1),
]


def mobilenet_v3_large(classes: int = 1000) -> nn.Module:
    """Without dropout, so that two runs can be compared."""
    width, layers = 16, [nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.Hardswish()]
    for kernel, expanded, out, squeeze, act, stride in MOBILE:
        layers.append(InvertedResidual(width, kernel, expanded, out, squeeze, act, stride))
        width = out
    layers += [nn.Conv2d(width, 960, 1, bias=False), nn.BatchNorm2d(960), nn.Hardswish()]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(960, 1280), nn.Hardswish(), nn.Linear(1280, classes)]
    return nn.Sequential(*layers, *head)


MODELS = {"ConvNeXt-T": convnext_tiny, "MobileNetV3-L": mobilenet_v3_large}


def losses(model: nn.Module, steps: int, batch: int, size: int, device: str, rate: float = 0.01) -> list[float]:
    """Of `steps` steps of SGD from the weights that the model has, on images and labels that depend on nothing else."""
    generator = torch.Generator().manual_seed(1)
    optimizer, found = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9), []
    for _ in range(steps):
        images = torch.randn(batch, 3, size, size, generator=generator).to(device)
        labels = torch.randint(1000, (batch,), generator=generator).to(device)
        loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


def compare_losses(name: str, steps: int = 20, batch: int = 16, size: int = 224, device: str = "cuda") -> float:
    """The largest relative difference between the losses of torch and ours, in float32 without TF32."""
    torch.manual_seed(0)
    plain = MODELS[name]().to(device)
    replaced = customops.replace_depthwise(copy.deepcopy(plain)) or plain
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False, deterministic=True):
        theirs, ours = (losses(model, steps, batch, size, device) for model in (plain, replaced))
    return max(abs(a - b) / abs(a) for a, b in zip(theirs, ours, strict=True))


def captured(step: Callable) -> Callable:
    """The same as a CUDA graph."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):  # cuDNN chooses its algorithms
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()

    def replay(keep=step):  # what the step holds: the graph reads images and labels where they were
        graph.replay()

    return replay


def training_step(
    model: nn.Module, batch: int, size: int, dtype: torch.dtype, memory_format, device: str, graph: bool
) -> Callable:
    model = model.to(device, memory_format=memory_format)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    images = torch.randn(batch, 3, size, size, device=device).contiguous(memory_format=memory_format)
    labels = torch.randint(1000, (batch,), device=device)

    def step():
        optimizer.zero_grad()
        with torch.autocast(device, dtype, enabled=dtype != torch.float32, cache_enabled=not graph):
            loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()

    return captured(step) if graph else step


def medians(steps: list[Callable], device: str, rounds: int = 7, each: int = 4) -> list[float]:
    """Seconds of each step; they take turns, because the speed of a shared machine drifts."""

    def seconds(step, times):
        torch.cuda.synchronize() if device == "cuda" else None
        start = time.perf_counter()
        for _ in range(times):
            step()
        torch.cuda.synchronize() if device == "cuda" else None
        return (time.perf_counter() - start) / times

    for step in steps:
        seconds(step, 3)
    times = [[seconds(step, each) for step in steps] for _ in range(rounds)]
    return [statistics.median(column) for column in zip(*times, strict=True)]


def images_per_second(
    model: nn.Module, batch: int, size: int, dtype: torch.dtype, memory_format, device: str, graph: bool
) -> list[float]:
    """Of torch, and of ours."""
    models = (model, customops.replace_depthwise(copy.deepcopy(model)))
    steps = [training_step(one, batch, size, dtype, memory_format, device, graph) for one in models]
    return [batch / seconds for seconds in medians(steps, device)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--dtype", choices=DTYPES, action="append", help="float16 and bfloat16 through autocast")
    parser.add_argument("--graph", action="store_true", help="steps as CUDA graphs")
    parser.add_argument("--losses", action="store_true")
    parser.add_argument("--model", choices=MODELS, action="append")
    parser.add_argument("--format", choices=FORMATS, action="append")
    parser.add_argument("--save", action="store_true", help="everything, into results/other/training.json")
    args = parser.parse_args()
    if args.save and (args.graph or args.losses or args.model or args.format or args.dtype):
        parser.error("--save goes over everything: give it no --model, --format, --dtype, --graph or --losses")
    if args.save and args.device != "cuda":
        parser.error("--save needs a GPU: its table is of steps as CUDA graphs, too")
    rows = []
    torch.backends.cudnn.benchmark = True
    for name in args.model or MODELS:
        make = MODELS[name]
        if args.losses:
            difference = compare_losses(name, batch=min(args.batch, 16), size=args.size, device=args.device)
            print(f"{name:14s} 20 steps, losses differ by {difference:.1e}", flush=True)
            continue
        for dtype in args.dtype or DTYPES:
            for layout in args.format or FORMATS:
                for graph in (False, True) if args.save else (args.graph,):
                    arguments = (args.batch, args.size, DTYPES[dtype], FORMATS[layout], args.device, graph)
                    theirs, ours = map(round, images_per_second(make(), *arguments))
                    print(
                        f"{name:14s} {dtype} {layout}{' graph' * graph}: torch {theirs:6d}, customops {ours:6d} images/s "
                        f"({ours / theirs:.2f} x)",
                        flush=True,
                    )
                    key = {"model": name, "dtype": str(DTYPES[dtype]).removeprefix("torch."), "format": layout}
                    rows.append({**key, "graph": graph, "torch": theirs, "customops": ours})
    if args.save:
        about = "benchmarks/models.py --save: images per second of whole training steps, and of the same as CUDA graphs"
        harness.save("training", about, harness.machine(args.device) | {"batch": args.batch}, rows)


if __name__ == "__main__":
    main()
