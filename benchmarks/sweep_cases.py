"""Draws problems for benchmarks/sweep.py: of published networks' layers more than half, the others at random.

Problem number i of a seed depends on these two and on the device alone. Nothing here imports torch.
"""

import math
import random
import re
from typing import NamedTuple

DIRECTIONS = ("fwd", "dgrad", "wgrad")
DTYPES = ("float32", "float16", "bfloat16", "float64")
DTYPE_WEIGHTS = (35, 28, 27, 10)
LAYOUTS = ("nchw", "nhwc")
PUBLISHED_SHARE = 0.6
ATTEMPTS = 1000


class Limits(NamedTuple):
    """What a device gets: elements of the larger image, and multiply-adds, which are dearer in float64."""

    fewest: float
    most: float
    work: float
    work64: float


LIMITS = {
    "cuda": Limits(2**16, 2**26, 3e9, 3e8),
    "cpu": Limits(2**14, 2**22, 4e7, 6e6),
    "test": Limits(2**10, 2**15, 4e6, 4e6),
}


class Problem(NamedTuple):
    name: str  # of the network, or "random"
    dtype: str
    layout: str
    shape: tuple[int, int, int, int]
    kernel: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int] = (0, 0)
    dilation: tuple[int, int] = (1, 1)

    @property
    def span(self) -> tuple[int, int]:
        """Pixels from the first tap to the last."""
        return tuple(d * (k - 1) + 1 for k, d in zip(self.kernel, self.dilation, strict=True))

    @property
    def out(self) -> tuple[int, int]:
        axes = zip(self.shape[2:], self.padding, self.span, self.stride, strict=True)
        return tuple((size + 2 * pad - span) // stride + 1 for size, pad, span, stride in axes)

    @property
    def elements(self) -> int:
        """Of the larger of input and output."""
        return math.prod(self.shape[:2]) * max(math.prod(self.shape[2:]), math.prod(self.out))

    @property
    def work(self) -> int:
        """Multiply-adds of any direction, those with padding included."""
        return math.prod(self.shape[:2]) * math.prod(self.out) * math.prod(self.kernel)

    def valid(self) -> bool:
        """Whether there is an output, and the padding is smaller than the window."""
        fits = all(pad < span for pad, span in zip(self.padding, self.span, strict=True))
        positive = min(*self.shape, *self.kernel, *self.stride, *self.dilation) >= 1
        return positive and fits and min(self.out) >= 1

    def sensible(self) -> bool:
        """Whether each tap meets the image for some output. For others oneDNN was seen to compile without an end."""
        axes = zip(self.shape[2:], self.out, self.stride, self.padding, self.span, strict=True)
        return all(span <= size + pad and pad <= (out - 1) * stride for size, out, stride, pad, span in axes)

    def __str__(self) -> str:
        pairs = (self.kernel, self.stride, self.padding, self.dilation)
        rest = " ".join(f"{letter}{y}x{x}" for letter, (y, x) in zip("kspd", pairs, strict=True))
        return f"{self.dtype} {self.layout} {'x'.join(map(str, self.shape))} {rest}"


def parse(line: str) -> tuple[str, Problem]:
    """(direction, problem) of a line that sweep.py printed."""
    pair = r"(\d+)x(\d+)"
    pattern = rf"({'|'.join(DIRECTIONS)}) ({'|'.join(DTYPES)}) ({'|'.join(LAYOUTS)}) {pair}x{pair} "
    pattern += " ".join(letter + pair for letter in "kspd")
    match = re.fullmatch(pattern, line.strip())
    if match is None:
        raise ValueError(f"not a case such as 'fwd float32 nchw 8x96x56x56 k7x7 s1x1 p3x3 d1x1': {line!r}")
    direction, dtype, layout, *numbers = match.groups()
    n = list(map(int, numbers))
    pairs = [tuple(n[i : i + 2]) for i in range(4, len(n), 2)]
    problem = Problem("replayed", dtype, layout, tuple(n[:4]), *pairs)
    if not problem.valid():
        raise ValueError(f"no valid problem: {line!r}")
    return direction, problem


class Layer(NamedTuple):
    """What a network has: one of each tuple is drawn; `pad` is 'same' or 'causal', for half the kernel or all of it."""

    kernels: tuple[tuple[int, int], ...]
    channels: tuple[int, ...]
    sizes: tuple[int, ...]
    strides: tuple[int, ...] = (1,)
    dilations: tuple[int, ...] = (1,)
    pad: str = "same"
    high: bool = True  # else images one pixel high


PUBLISHED = {
    "conformer": Layer(((1, 15), (1, 31)), (144, 176, 256, 512), (200, 400, 800, 1600), high=False),
    "mamba": Layer(((1, 4),), (768, 1536, 2048, 5120), (256, 1024, 2048, 4096), pad="causal", high=False),
    "deeplab": Layer(((3, 3),), (256, 512, 728, 960), (28, 33, 65), dilations=(2, 4)),
    "inceptionnext": Layer(((1, 11), (11, 1)), (12, 24, 48, 96), (56, 28, 14, 7)),
    "convnext": Layer(((7, 7),), (96, 192, 384, 768), (56, 28, 14, 7)),
    "fastvit": Layer(((7, 7),), (64, 76, 128, 256), (64, 32, 16), strides=(2,)),
    "slak": Layer(((5, 51), (51, 5)), (124, 249, 499, 998), (56, 28, 14, 7)),
    "replknet": Layer(((31, 31), (29, 29), (27, 27), (13, 13)), (128, 256, 512, 1024), (56, 28, 14, 7)),
    "mobilenetv4": Layer(((3, 3), (5, 5)), (32, 96, 192, 480, 960), (112, 56, 28, 14, 7), strides=(1, 2)),
    "efficientnetv2": Layer(((3, 3), (5, 5)), (96, 256, 640, 960, 1536), (28, 14, 7), strides=(1, 2)),
    "blurpool": Layer(((3, 3), (4, 4), (5, 5)), (64, 128, 256, 512), (112, 56, 28, 14), strides=(2,)),
}


def draw(seed: int, index: int, device: str) -> Problem:
    """Problem number `index` of a sweep on that device."""
    rng, limits = random.Random(f"{seed} {index}"), LIMITS[device]
    for _ in range(ATTEMPTS):
        problem = _published(rng) if rng.random() < PUBLISHED_SHARE else _random(rng)
        problem = _sized(rng, problem, limits)
        if problem is not None:
            return problem
    raise RuntimeError(f"no problem number {index} of seed {seed} within {ATTEMPTS} attempts")


def _format(rng: random.Random) -> tuple[str, str]:
    return rng.choices(DTYPES, DTYPE_WEIGHTS)[0], rng.choice(LAYOUTS)


def _about(rng: random.Random, number: int, spread: float) -> int:
    return max(1, round(number * math.exp(rng.uniform(-spread, spread))))


def _channels(rng: random.Random, number: int) -> int:
    """As published, or multiples of 8 around that, or any number around that."""
    kind, near = rng.random(), _about(rng, number, 0.5)
    return number if kind < 0.5 else max(8, near // 8 * 8) if kind < 0.8 else near


def _published(rng: random.Random) -> Problem:
    name = rng.choice(list(PUBLISHED))
    layer = PUBLISHED[name]
    kernel, dilation = rng.choice(layer.kernels), (rng.choice(layer.dilations),) * 2
    if not layer.high:
        dilation = (1, dilation[1])
    size = rng.choice(layer.sizes)
    width = size if rng.random() < 0.6 else _about(rng, size, 0.4)
    height = 1 if not layer.high else width if rng.random() < 0.8 else _about(rng, size, 0.4)
    pads = [d * (k - 1) // (2 if layer.pad == "same" else 1) for k, d in zip(kernel, dilation, strict=True)]
    shape = (1, _channels(rng, rng.choice(layer.channels)), height, width)
    return Problem(name, *_format(rng), shape, kernel, (rng.choice(layer.strides),) * 2, tuple(pads), dilation)


def _log_uniform(rng: random.Random, low: float, high: float) -> int:
    return min(int(high), int(math.exp(rng.uniform(math.log(low), math.log(high + 1)))))


def _kernel(rng: random.Random) -> tuple[int, int]:
    size = _log_uniform(rng, 1, 51)
    kind = rng.choice(("square", "square", "even", "row", "column", "rectangle"))
    if kind == "square":
        return size, size
    if kind == "even":
        return (size + size % 2,) * 2
    if kind == "row":
        return 1, size
    if kind == "column":
        return size, 1
    return size, _log_uniform(rng, 1, 51)


def _unlike(rng: random.Random, ones: float) -> tuple[int, int]:
    """1 with that probability; or the same number from 2 to 4 along both axes, or two from 1 to 4."""
    if rng.random() < ones:
        return 1, 1
    return (rng.randint(2, 4),) * 2 if rng.random() < 0.5 else (rng.randint(1, 4), rng.randint(1, 4))


def _random(rng: random.Random) -> Problem:
    kernel, stride, dilation, thin = _kernel(rng), _unlike(rng, 0.5), _unlike(rng, 0.6), rng.random()
    if thin < 0.24 and rng.random() < 0.8:
        kernel = (1, max(kernel)) if thin < 0.12 else (max(kernel), 1)
    spans = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    kind = rng.choice(("none", "same", "same", "any"))
    amounts = {"none": lambda s: 0, "same": lambda s: (s - 1) // 2, "any": lambda s: rng.randint(0, s - 1)}
    pads = tuple(map(amounts[kind], spans))
    size = _log_uniform(rng, 4, 300)
    height, width = (size, size) if rng.random() < 0.5 else (size, _log_uniform(rng, 4, 300))
    if thin < 0.12:
        height, width = 1, size * rng.randint(1, 16)
    elif thin < 0.24:
        height, width = size * rng.randint(1, 16), 1
    return Problem(
        "random", *_format(rng), (1, _log_uniform(rng, 1, 2048), height, width), kernel, stride, pads, dilation
    )


def _sized(rng: random.Random, problem: Problem, limits: Limits) -> Problem | None:
    """With a batch that makes it as large as a number drawn between the limits, if there is one."""
    if not problem.valid() or not (problem.sensible() or problem.name in PUBLISHED):
        return None
    wanted = math.exp(rng.uniform(math.log(limits.fewest), math.log(limits.most)))
    work = limits.work64 if problem.dtype == "float64" else limits.work
    one = problem.elements
    if one > wanted and one > limits.fewest * 4:  # fewer channels rather than larger images
        channels = max(1, int(problem.shape[1] * wanted / one))
        if channels > 8 and rng.random() < 0.7:
            channels -= channels % 8
        problem = problem._replace(shape=(1, channels, *problem.shape[2:]))
        one = problem.elements
    batch = min(max(1, int(wanted / one)), int(work / problem.work), 1024)
    problem = problem._replace(shape=(batch, *problem.shape[1:]))
    return problem if batch >= 1 and limits.fewest <= problem.elements <= limits.most else None
