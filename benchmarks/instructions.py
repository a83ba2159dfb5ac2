"""Instructions that the library executes for one output in float32, counted by qemu: for NEON beside AVX2, no such CPU needed.

    qemu-aarch64-static -d exec,nochain,in_asm -dfilter RANGE -D LOG python benchmarks/instructions.py count LOG FILE
    python benchmarks/instructions.py show LOG FILE

The first, on either machine's Python with its wheel, makes the calls and notes in FILE where in qemu's log each begins and ends;
with - for LOG, and without a log, it prints RANGE, the library's addresses (`setarch -R` keeps them). The second prints, for each
call, all instructions of the library for an output, and those in blocks that use vector registers. Each call is made with one
image and with two, and the difference taken, so that what a call costs once does not count. Code of the C library does not.
"""

import collections
import json
import re
import sys
from pathlib import Path

VECTOR = re.compile(rb"%ymm|\bv\d+\.|\bq\d+")
BLOCK = re.compile(rb"IN: [^\n]*\n((?:0x[^\n]*\n)+)")
EXECUTED = re.compile(rb"Trace \d+: 0x[0-9a-f]+ \[[0-9a-f]+/([0-9a-f]+)/")


def library_range() -> str:
    """The addresses of the CPU library in this process, as qemu's -dfilter takes them."""
    lines = [line for line in Path("/proc/self/maps").read_text().splitlines() if "customops/_cpu.so" in line]
    pairs = [[int(number, 16) for number in line.split()[0].split("-")] for line in lines]
    return f"{min(pair[0] for pair in pairs):#x}..{max(pair[1] for pair in pairs):#x}"


def calls():
    """(name, function that makes the call for n images and returns its number of outputs)."""
    import torch

    import customops

    def ramp(*shape, last=False):
        made = torch.linspace(-3, 3, int(torch.tensor(shape).prod())).reshape(shape)
        return made.contiguous(memory_format=torch.channels_last) if last else made

    for act in ("relu", "tanh", "sigmoid", "elu", "softplus", "swish"):
        yield f"bias_act {act}", lambda n, act=act: customops.bias_act(ramp(n, 8, 64, 64), ramp(8), act=act)
    filter_x = torch.tensor([1.0, 3, 3, 1]) / 8
    for up, down in ((1, 1), (2, 1), (1, 2)):
        yield (
            f"upfirdn2d up {up}, down {down}, channels_last",
            lambda n, up=up, down=down: customops.upfirdn2d(
                ramp(n, 16, 64, 64, last=True), filter_x, up=up, down=down, padding=2
            ),
        )
    for last in (False, True):
        for taps, stride in ((3, 1), (3, 2), (5, 1), (7, 1), (7, 2)):
            weight = ramp(16, 1, taps, taps)
            yield (
                f"depthwise_conv2d {taps}x{taps}, stride {stride}, {'channels_last' if last else 'contiguous'}",
                lambda n, last=last, weight=weight, taps=taps, stride=stride: customops.depthwise_conv2d(
                    ramp(n, 16, 56, 56, last=last), weight, stride=stride, padding=taps // 2
                ),
            )


def count(log: str, file: str) -> None:
    import torch

    import customops

    torch.set_num_threads(1)
    customops._loader.load()
    if log == "-":
        return print(library_range())
    with open(file, "w") as out:
        for name, call in calls():
            call(1)
            for images in (1, 2):
                begin = Path(log).stat().st_size
                outputs = call(images).numel()
                print(json.dumps([name, images, outputs, begin, Path(log).stat().st_size]), file=out, flush=True)


def shown(log: bytes, notes: list[list]) -> dict[str, tuple[float, float]]:
    """Call -> instructions for an output: all, and those of blocks that use vector registers."""
    every, vector = {}, {}
    for block in BLOCK.finditer(log):
        lines = block[1].splitlines()
        at = int(lines[0].split(b":")[0], 16)
        every[at] = len(lines)
        vector[at] = len(lines) if VECTOR.search(block[1]) else 0
    sums: dict[str, dict[int, tuple[int, int, int]]] = collections.defaultdict(dict)
    for name, images, outputs, begin, end in notes:
        executed = collections.Counter(int(at, 16) for at in EXECUTED.findall(log[begin:end]))
        totals = [sum(size[at] * times for at, times in executed.items()) for size in (every, vector)]
        sums[name][images] = (totals[0], totals[1], outputs)
    found = {}
    for name, by_images in sums.items():
        more = [two - one for one, two in zip(by_images[1], by_images[2], strict=True)]
        found[name] = (more[0] / more[2], more[1] / more[2])
    return found


def main() -> None:
    if len(sys.argv) != 4 or sys.argv[1] not in ("count", "show"):
        sys.exit(__doc__)
    if sys.argv[1] == "count":
        return count(*sys.argv[2:])
    notes = [json.loads(line) for line in Path(sys.argv[3]).read_text().splitlines()]
    for name, (every, vector) in shown(Path(sys.argv[2]).read_bytes(), notes).items():
        print(f"{name:60} {every:8.2f} {vector:8.2f}")


if __name__ == "__main__":
    main()
