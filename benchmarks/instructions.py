"""Instructions that the library executes for one output in float32, counted by qemu: for NEON beside AVX2, no such CPU needed.

    qemu-aarch64-static -d exec,nochain,in_asm -dfilter RANGE -D LOG python benchmarks/instructions.py count LOG FILE
    python benchmarks/instructions.py show LOG FILE
    python benchmarks/instructions.py save NEON AVX2 SCALAR    what `show` printed for each: writes results/other/instructions.json

The first, on either machine's Python with its wheel, makes the calls and notes in FILE where in qemu's log each begins and ends;
with - for LOG, and without a log, it prints RANGE, the library's addresses (`setarch -R` keeps them). The second prints, for each
call, all instructions of the library for an output, and those in blocks that use vector registers. Each call is made with some
images and with twice as many, and the difference taken, so that what a call costs once does not count. Code of the C library
does not. An output of the weight's gradient is a pixel of the output's gradient, which all taps are multiplied with.

SCALAR is csrc/ for aarch64 with CUSTOMOPS_NEON 0 in csrc/cpu/simd.h, compiled with -march=armv8-a+nosimd.
"""

import collections
import datetime
import functools
import json
import re
import sys
from pathlib import Path

RESULT = Path(__file__).parent / "results/other/instructions.json"
VECTOR = re.compile(rb"%ymm|\bv\d+\.|\bq\d+")
BLOCK = re.compile(rb"IN: [^\n]*\n((?:0x[^\n]*\n)+)")
EXECUTED = re.compile(rb"Trace \d+: 0x[0-9a-f]+ \[[0-9a-f]+/([0-9a-f]+)/")


def library_range() -> str:
    """The addresses of the CPU library in this process, as qemu's -dfilter takes them."""
    lines = [line for line in Path("/proc/self/maps").read_text().splitlines() if "customops/_cpu.so" in line]
    pairs = [[int(number, 16) for number in line.split()[0].split("-")] for line in lines]
    return f"{min(pair[0] for pair in pairs):#x}..{max(pair[1] for pair in pairs):#x}"


def calls():
    """(name, images, function that prepares the call for n images: the call returns its number of outputs)."""
    import torch

    import customops

    ops = torch.ops.customops

    def ramp(*shape, last=False):
        made = torch.linspace(-3, 3, int(torch.tensor(shape).prod())).reshape(shape)
        return made.contiguous(memory_format=torch.channels_last) if last else made

    def activation(n, act):
        x, b = ramp(n, 8, 64, 64), ramp(8)
        return lambda: customops.bias_act(x, b, act=act).numel()

    def activation_gradient(n, act):
        x, b = ramp(n, 8, 64, 64).requires_grad_(), ramp(8).requires_grad_()
        y = customops.bias_act(x, b, act=act)
        return lambda: torch.autograd.grad(y, (x, b), y.detach())[0].numel()

    def resampling(n, up, down):
        x, f = ramp(n, 16, 64, 64, last=True), torch.tensor([1.0, 3, 3, 1]) / 8
        return lambda: customops.upfirdn2d(x, f, up=up, down=down, padding=2).numel()

    def convolution(n, channels, taps, stride, last, direction):
        x, weight, pad = ramp(n, channels, 56, 56, last=last), ramp(channels, 1, taps, taps), taps // 2
        if direction == "forward":
            return lambda: customops.depthwise_conv2d(x, weight, stride=stride, padding=pad).numel()
        grad, window = ramp(n, channels, 56 // stride, 56 // stride, last=last), (stride, stride, pad, pad, 1, 1)
        if direction == "x":
            return lambda: ops._depthwise_conv2d_grad_input(grad, weight, 56, 56, *window, last).numel()
        return lambda: ops._depthwise_conv2d_grad_weight(grad, x, taps, taps, *window).numel() and grad.numel()

    for act in ("relu", "tanh", "sigmoid", "elu", "softplus", "swish"):
        yield f"bias_act {act}", 1, functools.partial(activation, act=act)
        yield f"bias_act {act}, gradients of x and b", 1, functools.partial(activation_gradient, act=act)
    for up, down in ((1, 1), (2, 1), (1, 2)):
        name = f"upfirdn2d up {up}, down {down}, channels_last"
        yield name, 1, functools.partial(resampling, up=up, down=down)
    for direction in ("forward", "x", "weight"):
        for channels, last in ((16, False), (16, True), (3, True), (2, False)):
            for taps, stride in ((3, 1), (3, 2), (5, 1), (5, 2), (7, 1), (7, 2)):
                # Of two channels, four images fill AVX2's registers: fewer may have another kernel than twice as many.
                images = 4 if channels == 2 else 1
                name = "depthwise_conv2d" if direction == "forward" else f"depthwise_conv2d, gradient of {direction}"
                name += f", {channels} channels, {taps}x{taps}, stride {stride}, {'channels_last' if last else 'contiguous'}"
                yield (
                    name,
                    images,
                    functools.partial(
                        convolution, channels=channels, taps=taps, stride=stride, last=last, direction=direction
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
        for name, images, prepare in calls():
            prepare(images)()
            for times in (1, 2):
                call = prepare(times * images)
                begin = Path(log).stat().st_size
                outputs = call()
                print(json.dumps([name, times, outputs, begin, Path(log).stat().st_size]), file=out, flush=True)


def shown(log: bytes, notes: list[list]) -> dict[str, tuple[float, float]]:
    """Call -> instructions for an output: all, and those of blocks that use vector registers."""
    every, vector = {}, {}
    for block in BLOCK.finditer(log):
        lines = block[1].splitlines()
        at = int(lines[0].split(b":")[0], 16)
        every[at] = len(lines)
        vector[at] = len(lines) if VECTOR.search(block[1]) else 0
    sums: dict[str, dict[int, tuple[int, int, int]]] = collections.defaultdict(dict)
    for name, times, outputs, begin, end in notes:
        executed = collections.Counter(int(at, 16) for at in EXECUTED.findall(log[begin:end]))
        totals = [sum(size[at] * number for at, number in executed.items()) for size in (every, vector)]
        sums[name][times] = (totals[0], totals[1], outputs)
    found = {}
    for name, by_times in sums.items():
        more = [two - one for one, two in zip(by_times[1], by_times[2], strict=True)]
        found[name] = (more[0] / more[2], more[1] / more[2])
    return found


def printed(file: str) -> dict[str, tuple[float, float]]:
    """What `show` printed."""
    rows = [line.rsplit(maxsplit=2) for line in Path(file).read_text().splitlines()]
    return {name.strip(): (float(every), float(vector)) for name, every, vector in rows}


def save(neon: str, avx2: str, scalar: str) -> None:
    facts = {
        "about": "benchmarks/instructions.py: instructions for an output of calls in float32, under qemu: all, and those of blocks "
        "that use vector registers",
        "date": f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}",
    }
    counts = {"neon": printed(neon), "avx2": printed(avx2), "scalar": printed(scalar)}
    rows = []
    for name in counts["neon"]:
        (neon_all, neon_vector), (avx2_all, avx2_vector), (scalar_all, _) = (found[name] for found in counts.values())
        row = {"call": name, "neon": neon_all, "avx2": avx2_all, "scalar": scalar_all}
        rows.append(row | {"neon_vector": neon_vector, "avx2_vector": avx2_vector})
    lines = ",\n".join(f"  {json.dumps(row)}" for row in rows)
    RESULT.write_text(json.dumps(facts, indent=1).removesuffix("\n}") + f',\n "rows": [\n{lines}\n ]\n}}\n')


def main() -> None:
    if len(sys.argv) != {"count": 4, "show": 4, "save": 5}.get(sys.argv[1] if len(sys.argv) > 1 else "", 0):
        sys.exit(__doc__)
    if sys.argv[1] == "count":
        return count(*sys.argv[2:])
    if sys.argv[1] == "save":
        return save(*sys.argv[2:])
    notes = [json.loads(line) for line in Path(sys.argv[3]).read_text().splitlines()]
    for name, (every, vector) in shown(Path(sys.argv[2]).read_bytes(), notes).items():
        print(f"{name:90} {every:8.2f} {vector:8.2f}")


if __name__ == "__main__":
    main()
