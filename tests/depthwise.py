"""What the tests of depthwise_conv2d share: torch's answer, images, and sizes for which CUDA has a given kernel."""

import itertools
import math
from bisect import bisect
from collections import Counter
from fnmatch import fnmatchcase

import pytest
import torch
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from customops import depthwise_conv2d

FORMATS = [torch.contiguous_format, torch.channels_last]
memory_formats = pytest.mark.parametrize("memory_format", FORMATS, ids=["nchw", "nhwc"])
HOOK = "MpsConvolutionBackward0"  # of torch's op that csrc/depthwise_conv2d_hook.h fills: its node in the graph


class Record(TorchDispatchMode):
    """The arguments of all operators that are called, by name."""

    def __init__(self):
        super().__init__()
        self.calls = {}

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.calls[function.name()] = args
        return function(*args, **(kwargs or {}))


@pytest.fixture(scope="module", autouse=True)
def opened(device):
    """CUDA's library: the first call opens it, and only later ones go through torch's hook."""
    one = torch.ones(1, 1, 1, 1, device=device)
    depthwise_conv2d(one, one)


def reference(x, weight, bias=None, stride=1, padding=0, dilation=1):
    """torch's own convolution in float64, on the CPU: its CUDA one may round its products to TensorFloat-32."""
    x, weight = x.double().cpu(), weight.double().cpu()
    bias = None if bias is None else bias.double().cpu()
    return F.conv2d(x, weight, bias, stride, padding, dilation, groups=len(weight))


def randn(*shape, dtype=torch.float32, device="cpu", seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(device, dtype)


def image(shape, dtype, device, memory_format, seed=0):
    return randn(*shape, dtype=dtype, device=device, seed=seed).contiguous(memory_format=memory_format)


def assert_close(actual, expected64):
    """Rounded once to a narrow dtype; the arithmetic in float32 adds some units in the last place of float32."""
    expected64 = expected64.to(actual.device)
    scale = max(float(expected64.detach().abs().max()), 1) if expected64.numel() else 1
    slack = {torch.float64: 1e-13, torch.float32: 1e-5}.get(actual.dtype, 3e-6)
    rtol = torch.finfo(actual.dtype).eps
    torch.testing.assert_close(actual.double(), expected64, rtol=rtol, atol=slack * scale)


def assert_all(x, weight, bias=None, stride=1, padding=0, dilation=1):
    """The op and its three gradients against torch, and that they keep dtype and memory format."""
    inputs = [t for t in (x, weight, bias) if t is not None]
    ours = [t.detach().requires_grad_() for t in inputs]
    y = depthwise_conv2d(*ours, *(None,) * (3 - len(ours)), stride, padding, dilation)
    theirs = [t.detach().double().cpu().requires_grad_() for t in inputs]
    expected = reference(*theirs, *(None,) * (3 - len(theirs)), stride, padding, dilation)
    assert y.dtype == x.dtype
    assert_close(y.detach(), expected.detach())
    grad = randn(*y.shape, dtype=x.dtype, device=x.device, seed=3)
    if y.numel():
        grad = grad.as_strided(y.shape, y.stride()).copy_(randn(*y.shape, seed=4))
    gradients = torch.autograd.grad(y, ours, grad)
    for gradient, input_, oracle in zip(
        gradients, inputs, torch.autograd.grad(expected, theirs, grad.double().cpu()), strict=True
    ):
        assert gradient.dtype == x.dtype
        assert gradient.shape == input_.shape
        assert_close(gradient, oracle)
    if x.shape[1] > 1 and x.is_contiguous(memory_format=torch.channels_last) and not x.is_contiguous():
        assert y.is_contiguous(memory_format=torch.channels_last)
        assert gradients[0].is_contiguous(memory_format=torch.channels_last)
    elif x.is_contiguous():
        assert y.is_contiguous()
        assert gradients[0].is_contiguous()
    return y


def pair(value):
    return value if isinstance(value, tuple) else (value, value)


def explain(direction, device, dtype, layout, shape, kernel, stride=1, padding=0, dilation=1):
    """The kernel and why; dtype and layout may be torch's, or their names."""
    kernel, stride, (top, left), dilation = map(pair, (kernel, stride, padding, dilation))
    problem = [*shape, *kernel, *stride, top, top, left, left, *dilation, int(layout in ("nhwc", torch.channels_last))]
    return torch.ops.customops._depthwise_conv2d_explain(direction, device, problem, str(dtype).removeprefix("torch."))


def kernel_of(*arguments):
    """The kernel that `explain` names, such as "fwd_mma after a copy"."""
    return explain(*arguments).split(":")[0].removesuffix(" into contiguous images")


MOST = 2**23  # elements of an image or result that a test gets instead of its own; or twice as many as its own have
FACTORS = [2 ** (i / 8) for i in (*range(-48, -8, 4), *range(-8, 9), *range(12, 49, 4))]


def numbers_like(number, step, least):
    """`number`, and others from a 64th of it to 64 times as much."""
    if step == 0:
        return {number}
    others = {number + step * round((factor - 1) * number / step) for factor in FACTORS}
    return {number} | {other for other in others if other >= least}


def sizes_like(shape, out, steps, least, levels):
    """What size_that_chooses tries: `shape`, then others, the nearest first. out: height and width of a result.

    One channel stays one: to torch, that is no depthwise convolution.
    """
    steps = steps if shape[1] > 1 else (steps[0], 0)
    pixels, outputs = max(math.prod(shape[2:]), math.prod(out)), math.prod(out)
    most = max(MOST, 2 * math.prod(shape[:2]) * pixels)
    level = bisect(levels, math.prod(shape[:2]) * outputs)

    def distance(size):
        return sum(abs(math.log(n / m)) for n, m in zip(size, shape[:2], strict=True)), size

    for batch, channels in sorted(itertools.product(*map(numbers_like, shape[:2], steps, least)), key=distance):
        if batch * channels * pixels <= most and bisect(levels, batch * channels * outputs) == level:
            yield batch, channels, *shape[2:]


def size_that_chooses(chosen, directions, dtype, layout, shape, kernel, stride=1, padding=0, dilation=1, *,
                      steps=(1, 8), least=(1, 4), levels=(), device="cuda"):  # fmt: skip
    """`shape`, or the nearest size like it for which `explain` names the kernel `chosen` in all `directions`.

    CUDA's kernels are chosen by what was measured (csrc/cuda/depthwise_conv2d/measured.h), and each fit moves the sizes
    that choose one. So a test names a size with all that it is about, and gets one with the same pixels and window, of a
    batch and channels that leave the same remainders by `steps` (0: that are the same) and are at least `least`, with a
    number of outputs between the same two of `levels`. `device` is as `explain` has it: "cuda" is an H200, and no GPU is
    needed. `chosen` may have `*`.
    """
    kernel, stride, padding, dilation = window = tuple(map(pair, (kernel, stride, padding, dilation)))
    axes = zip(shape[2:], *window, strict=True)
    out = [(size + 2 * pad - d * (taps - 1) - 1) // step + 1 for size, taps, step, pad, d in axes]
    tried, named = [], Counter()
    for size in sizes_like(shape, out, steps, least, levels):
        names = [kernel_of(direction, device, dtype, layout, size, *window) for direction in directions]
        if all(fnmatchcase(name, chosen) for name in names):
            return size
        tried.append(size)
        named.update(names)
    raise AssertionError(
        f"no size like {shape} chooses {chosen} for {' and '.join(directions)} of {dtype} {layout} on {device}, kernel "
        f"{kernel}, stride {stride}, padding {padding}, dilation {dilation}: {len(tried)} sizes with {steps=}, {least=} "
        f"and {levels=} were tried, from {min(tried)} to {max(tried)}, and chose {dict(named.most_common())}. Unless "
        f"{chosen} should be chosen for some, name another size in the test or let it hold less; or remove the test and "
        "what it alone reaches"
    )


def assert_chosen(kernel, directions, dtype, layout, shape, window, device, **options):
    """window: kernel, stride, padding, dilation. `directions` are those that have to choose `kernel`, of a GPU as a rule:
    a CPU, to which that batch is no special one, then computes two images of it."""
    shape = size_that_chooses(kernel, directions, dtype, layout, shape, *window, **options)
    if device == "cpu" and options.get("device") != "cpu":
        shape = (min(shape[0], 2), *shape[1:])
    x = image(shape, dtype, device, FORMATS[layout == "nhwc"])
    weight, bias = (randn(shape[1], *rest, dtype=dtype, device=device, seed=1) for rest in ((1, *pair(window[0])), ()))
    y = assert_all(x, weight, bias, *window[1:])
    if device == "cuda" and dtype.itemsize == 2:
        assert torch.equal(depthwise_conv2d(x, weight.float(), bias.float(), *window[1:]), y)
