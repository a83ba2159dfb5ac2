"""GPU time of a training step of three blocks, before and after customops.replace_depthwise, with no host in the way.

    python benchmarks/blocks.py [--save]

A Conformer's convolution module (1x31 over 800 frames), a Mamba-style causal 1x4 over 1,024 samples, and a MobileNet
block at dilation 2 as segmentation networks use it; float32, float16 and bfloat16, contiguous and channels_last. Forward
and backward are one CUDA graph; torch has cuDNN's benchmark mode on. Prints medians in microseconds of rounds in turn;
--save writes results/other/blocks.json, a table of docs/performance.md.
"""

import argparse
import copy
import statistics

import harness
import torch
from torch import nn

import customops

ROUNDS, REPLAYS = 15, 10


class Mamba(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.conv = nn.Conv2d(width, width, (1, 4), padding=(0, 3), groups=width)

    def forward(self, x):
        return nn.functional.silu(self.conv(x)[..., : x.shape[-1]])


def conformer(width: int) -> nn.Module:
    depthwise = nn.Conv2d(width, width, (1, 31), padding=(0, 15), groups=width)
    return nn.Sequential(
        nn.Conv2d(width, 2 * width, 1),
        nn.GLU(1),
        depthwise,
        nn.BatchNorm2d(width),
        nn.SiLU(),
        nn.Conv2d(width, width, 1),
    )


def dilated_mobilenet(width: int) -> nn.Module:
    depthwise = nn.Conv2d(6 * width, 6 * width, 3, padding=2, dilation=2, groups=6 * width, bias=False)
    act = nn.ReLU6
    expand, project = nn.Conv2d(width, 6 * width, 1, bias=False), nn.Conv2d(6 * width, width, 1, bias=False)
    norms = nn.BatchNorm2d(6 * width), nn.BatchNorm2d(6 * width), nn.BatchNorm2d(width)
    return nn.Sequential(expand, norms[0], act(), depthwise, norms[1], act(), project, norms[2])


BLOCKS = {
    "conformer": (conformer, 256, (16, 256, 1, 800)),
    "mamba": (Mamba, 1536, (8, 1536, 1, 1024)),
    "dilated mobilenet": (dilated_mobilenet, 160, (16, 160, 33, 33)),
}


def captured(model: nn.Module, x: torch.Tensor) -> torch.cuda.CUDAGraph:
    """A graph of a forward and a backward pass."""

    def step():
        model.zero_grad(set_to_none=False)
        model(x).square().mean().backward()

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        step()
    return graph


def microseconds(graph: torch.cuda.CUDAGraph) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(REPLAYS):
        graph.replay()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) * 1e3 / REPLAYS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--save", action="store_true")
    save, rows = parser.parse_args().save, []
    torch.backends.cudnn.benchmark = True
    for name, (block, width, size) in BLOCKS.items():
        for dtype in (torch.float32, torch.float16, torch.bfloat16):
            for layout in (torch.contiguous_format, torch.channels_last):
                torch.manual_seed(0)
                theirs = block(width).cuda().to(dtype).to(memory_format=layout)
                ours = customops.replace_depthwise(copy.deepcopy(theirs))
                x = torch.randn(size, device="cuda", dtype=dtype).contiguous(memory_format=layout).requires_grad_()
                graphs = [captured(model, x) for model in (theirs, ours)]
                rounds = [[microseconds(graph) for graph in graphs] for _ in range(ROUNDS)]
                before, after = (statistics.median(times) for times in zip(*rounds, strict=True))
                kind = {"dtype": str(dtype)[6:], "format": "nhwc" if layout == torch.channels_last else "nchw"}
                rows.append({"block": name, **kind, "torch": round(before, 1), "customops": round(after, 1)})
                print(*rows[-1].values(), f"{before / after:.2f} times as fast")
    if save:
        about = "benchmarks/blocks.py: microseconds of a forward and a backward pass of a block, as one CUDA graph"
        harness.save("blocks", about, harness.machine("cuda"), rows)


if __name__ == "__main__":
    main()
