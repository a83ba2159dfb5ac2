"""``python -m customops explain depthwise_conv2d``: which kernels are chosen on a CPU or a GPU, and why. Needs no GPU."""

import argparse
from collections.abc import Callable

import torch

# (compute capability, multiprocessors, bytes of shared memory of a multiprocessor, and of a block), from NVIDIA's CUDA C++
# programming guide and data sheets.
GPUS = {
    "V100": (70, 80, 96 << 10, 96 << 10),
    "T4": (75, 40, 64 << 10, 64 << 10),
    "A100": (80, 108, 164 << 10, 163 << 10),
    "L4": (89, 58, 100 << 10, 99 << 10),
    "L40S": (89, 142, 100 << 10, 99 << 10),
    "H100": (90, 132, 228 << 10, 227 << 10),
    "H200": (90, 132, 228 << 10, 227 << 10),
    "B200": (100, 148, 228 << 10, 227 << 10),
}
DTYPES = ("float32", "float16", "bfloat16", "float64")
PASSES = {"fwd": "forward", "dgrad": "gradient of the input", "wgrad": "gradient of the weight"}


def numbers(count: int, least: int = 1) -> Callable[[str], tuple[int, ...]]:
    """A parser of `count` whole numbers from `least` on; of two, one stands for both."""

    def parse(text: str) -> tuple[int, ...]:
        try:
            values = tuple(int(word) for word in text.split(","))
        except ValueError:
            values = ()
        if count == 2 and len(values) == 1:
            values *= 2
        if len(values) != count or min(values) < least:
            example = "64,128,56,56" if count == 4 else "3 or 3,5"
            raise argparse.ArgumentTypeError(
                f"expected {count} whole numbers such as {example}, each at least {least}, got {text!r}"
            )
        return values

    return parse


def device_of(name: str) -> str:
    """The device as the op takes it: cpu, or cuda: and four numbers."""
    if name == "cpu":
        return name
    if name == "cuda":
        p = torch.cuda.get_device_properties(torch.cuda.current_device())
        a_block = getattr(p, "shared_memory_per_block_optin", 48 << 10)
        traits = (p.major * 10 + p.minor, p.multi_processor_count, p.shared_memory_per_multiprocessor, a_block)
    else:
        traits = GPUS[name]
    return "cuda:" + ",".join(map(str, traits))


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(prog="python -m customops explain", description=__doc__)
    result.add_argument("op", choices=("depthwise_conv2d",))
    result.add_argument("--shape", type=numbers(4), required=True, help="of the image: N,C,H,W")
    result.add_argument("--kernel", type=numbers(2), required=True, help="height,width, or one number for both")
    result.add_argument("--stride", type=numbers(2), default=(1, 1))
    result.add_argument("--padding", type=numbers(2, 0), default=(0, 0))
    result.add_argument("--dilation", type=numbers(2), default=(1, 1))
    result.add_argument("--dtype", choices=DTYPES, default="float32")
    result.add_argument("--channels-last", action="store_true")
    gpu = torch.cuda.is_available()
    result.add_argument("--device", choices=("cpu", "cuda", *GPUS), default="cuda" if gpu else "cpu")
    return result


def main(arguments: list[str]) -> None:
    options = parser()
    args = options.parse_args(arguments)
    if args.device == "cuda" and not torch.cuda.is_available():
        options.error(f"--device cuda: torch sees no GPU here; name one of {', '.join(GPUS)}")
    (top, left), channels_last = args.padding, int(args.channels_last)
    sides = (top, top, left, left)
    problem = [*args.shape, *args.kernel, *args.stride, *sides, *args.dilation, channels_last]
    explain = torch.ops.customops._depthwise_conv2d_explain
    for direction, name in PASSES.items():
        try:
            text = explain(direction, device_of(args.device), problem, args.dtype)
        except RuntimeError as error:
            text = str(error).splitlines()[0]
            fits = (
                "; raise --padding, or lower --kernel or --dilation" if "must fit into the padded image" in text else ""
            )
            options.error(text + fits)
        print(f"{name:<24}{text}")
