"""Compares the kernels that ``explain`` names with those that a profiler sees, over problems drawn at random.

    python benchmarks/check_choice.py --cases 200 --seed 1 [--first 0]

Needs a GPU. Problems are those of sweep_cases.py, each in all three directions. A mismatch prints what was explained, what
ran, and the case as sweep.py takes it with --replay; the exit status is then 1. ``explain`` gets this GPU's own traits.
It takes the GPU's capability for that of the machine code: a library with older code alone may differ.
"""

import argparse
import re
import sys
from collections.abc import Iterable

import sweep_cases
import sweep_timing
import torch
from torch.profiler import ProfilerActivity, profile

import customops
from customops import _explain

# Kernels whose name is not that of their file; `large` belongs to a file a direction.
FILES = {
    "direct_images": "fwd_direct",
    "rows": "fwd_rows",
    "simple_spans": "fwd_simple",
    "sliding_planes": "fwd_sliding",
    "sliding_pixels": "fwd_sliding",
    "sliding_tiles": "fwd_sliding",
    "wgrad_scale_planes": "wgrad_scale",
    "wgrad_scale_pixels": "wgrad_scale",
}
HELPERS = {"add_splits", "hold_stream", "round_weight"}
NATIVE = re.compile(r"^(?!aten::).*conv_depthwise2d")  # torch's own kernels; cuDNN's have no common name, its ops have
CUDNN_OPS = {"aten::cudnn_convolution", "aten::cudnn_convolution_transpose"}
TORCH = {"fwd_torch", "fwd_cudnn", "wgrad_torch"}
COPIES = {"flat", "strided", "transposed"}  # of csrc/cuda/flatten_copy.cu, in the namespace above
# The function's own name comes first; template arguments, which may name types of the same namespaces, follow.
KERNEL = re.compile(
    r"customops::cuda::(depthwise::)?(?:\(anonymous namespace\)::|<unnamed>::|_GLOBAL__N_\w*::)?(\w+)\s*[<(]"
)


def ran(names: Iterable[str], direction: str) -> tuple[set[str], bool]:
    """Files whose kernels are among the demangled names, and whether images were copied."""
    files, copied = set(), False
    for name in names:
        if name.startswith("Memcpy DtoD"):
            copied = True
        if NATIVE.search(name):
            files.add("wgrad_torch" if direction == "wgrad" else "fwd_torch")
        if name in CUDNN_OPS:
            files.add("fwd_cudnn")
        if (match := KERNEL.search(name)) is None:
            continue
        inside, kernel = match.groups()
        if not inside:
            copied |= kernel in COPIES
        elif kernel == "large":
            files.add("wgrad_large" if direction == "wgrad" else "fwd_large")
        elif kernel not in HELPERS:
            files.add(FILES.get(kernel, kernel))
    return files, copied


def explained(direction: str, p: sweep_cases.Problem, device: str) -> tuple[set[str], bool]:
    """The same, as the op says."""
    (top, left), last = p.padding, int(p.layout == "nhwc")
    problem = [*p.shape, *p.kernel, *p.stride, top, top, left, left, *p.dilation, last]
    head = torch.ops.customops._depthwise_conv2d_explain(direction, device, problem, p.dtype).split(":")[0]
    return {head.split()[0]}, "copy" in head


def profiled(call: sweep_timing.Call, values: tuple) -> list[str]:
    """Names of what one call runs on the GPU. A profiler's first sessions may be empty: it gets three attempts."""
    for _ in range(3):
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as result:
            call(*values)
            torch.cuda.synchronize()
        names = [event.key for event in result.key_averages()]
        if any(KERNEL.search(name) or NATIVE.search(name) or name in CUDNN_OPS for name in names):
            return names
    return []


def check(direction: str, p: sweep_cases.Problem, device: str) -> str | None:
    """What differs, or None."""
    call, values = sweep_timing.ours(direction, p), sweep_timing.inputs(p, "cuda")
    call(*values)  # opens the library, sets attributes of kernels
    names = profiled(call, values)
    if not names:
        return "the profiler saw no convolution"
    seen, expected = ran(names, direction), explained(direction, p, device)
    return None if seen == expected else f"explained {text(*expected)}, ran {text(*seen)}"


def text(files: set[str], copied: bool) -> str:
    return (" and ".join(sorted(files)) or "no kernel") + (" after a copy" if copied else "")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=200, help="problems, each in all directions")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the number of the first problem")
    args = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("torch sees no GPU here: the kernels that run are compared on one")
    customops.load()
    device, mismatches, total = _explain.device_of("cuda"), 0, 0
    for index in range(args.first, args.first + args.cases):
        problem = sweep_cases.draw(args.seed, index, "cuda")
        for direction in sweep_cases.DIRECTIONS:
            total += 1
            if difference := check(direction, problem, device):
                mismatches += 1
                print(f'{difference}: --replay "{direction} {problem}"', flush=True)
    print(f"{total - mismatches} of {total} cases ran what explain says, on {device}")
    return 1 if mismatches or not total else 0


if __name__ == "__main__":
    sys.exit(main())
