"""What depthwise_conv2d does on CPUs alone: instruction sets, and whose memory it touches."""

import itertools
import sys

import pytest
import torch
from common import INSTRUCTION_SETS, in_forks, python
from depthwise import (
    assert_close,
    image,
    opened,  # noqa: F401
    randn,
)


def test_other_machines(device):
    """The same comparisons with instruction sets that this machine has not chosen: that happens once a process."""
    if device != "cpu":
        pytest.skip("the CPU's instruction sets")
    order, chosen = INSTRUCTION_SETS, torch.ops.customops._cpu_capability()
    others = [one for one in order if one != chosen]
    code = """
for memory_format in tests.FORMATS:
    for dtype in tests.DTYPES:
        tests.test_common_kernels(5, 1, dtype, memory_format, "cpu")
        tests.test_common_kernels(3, 2, dtype, memory_format, "cpu")
    for channels in range(1, 9):
        tests.test_any_number_of_channels(channels, memory_format, "cpu")
    for channels in (1, 3, 8):
        tests.test_few_channels_under_windows_that_leave_short_rows(channels, memory_format, "cpu")
    for channels in (2, 3, 5):
        tests.test_large_images_of_few_channels(channels, memory_format, "cpu")
        tests.test_images_that_are_only_multiplied(channels, memory_format, "cpu")
        tests.test_many_images_of_few_channels(21, channels, memory_format, "cpu")
    tests.test_many_images_of_few_channels(16, 20, memory_format, "cpu")
for dtype in tests.DTYPES:
    tests.test_an_image_has_the_same_bits_alone(dtype, "cpu")
    for column in tests.COLUMNS:
        tests.test_columns_of_taps(*column, dtype, "cpu")
tests.test_random_arguments("cpu")
print(tests.ops._cpu_capability())
"""
    choose = "os.environ['CUSTOMOPS_CPU_CAPABILITY'] = {!r}\n"
    start = "import test_depthwise_conv2d as tests"
    run = python(in_forks(start, [choose.format(one) + code for one in others]), PYTHONPATH=":".join(sys.path))
    assert len(run.stdout.split()) == len(others), run.stderr
    for one, got in zip(others, run.stdout.split(), strict=True):
        assert got == one or (got == chosen and order.index(one) > order.index(chosen))  # what the machine lacks


def test_reads_nothing_beyond_its_inputs(device):
    """Inputs between two pages that nobody may read: registers are wider than the pixels and rows that they hold."""
    if device != "cpu":
        pytest.skip("compute-sanitizer looks for that on GPUs")
    code = """
import ctypes, itertools, mmap
import torch
from depthwise import FORMATS, randn
ops = torch.ops.customops

def guarded(t, at_end):
    page = mmap.PAGESIZE
    room = -(-t.nbytes // page) * page
    memory = mmap.mmap(-1, room + 2 * page)
    begin = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for at in (begin, begin + page + room):
        assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(at), ctypes.c_size_t(page), 0) == 0
    flat = torch.frombuffer(memory, dtype=t.dtype, count=t.numel(), offset=page + (room - t.nbytes if at_end else 0))
    return torch.as_strided(flat, t.shape, t.stride()).copy_(t)

problems = list(itertools.product(
    (1, 3, 4, 7, 9, 13, 15, 16, 17, 24, 33),
    ((2, 12, 13, (3, 3), 1, (1, 1)), (2, 12, 13, (3, 3), 2, (1, 1)), (2, 12, 13, (7, 7), 1, (1, 1)),
     (17, 12, 13, (1, 1), 1, (0, 0)), (2, 12, 13, (5, 1), 1, (2, 0))),
))
# Rows shorter than a register, of which only the last one is copied.
problems += itertools.product((64, 72), [(2, 7, w, (3, 3), 2, (1, 1)) for w in (13, 14)])
problems += itertools.product(
    (5, 6, 7, 9, 15), [(batch, h, w, (3, 3), 2, (p, p)) for batch, h in ((2, 4), (3, 1)) for w in (1, 2, 3) for p in (1, 2)]
)
for dtype, memory_format, at_end in itertools.product((torch.float32, torch.bfloat16), FORMATS, (False, True)):
    for channels, (batch, h, w, kernel, stride, pad) in problems:
        x = randn(batch, channels, h, w, dtype=dtype).contiguous(memory_format=memory_format)
        weight = randn(channels, 1, *kernel, dtype=dtype)
        grad = torch.nn.functional.conv2d(x.double(), weight.double(), None, stride, pad, groups=channels)
        grad = grad.to(dtype).contiguous(memory_format=memory_format)
        rest = (stride, stride, *pad, 1, 1)
        last = memory_format == torch.channels_last
        for run, inputs in (
            (
                lambda x, k: ops._depthwise_conv2d(x, k, None, stride, stride, pad[0], pad[0], pad[1], pad[1], 1, 1),
                (x, weight),
            ),
            (lambda g, k: ops._depthwise_conv2d_grad_input(g, k, h, w, *rest, last), (grad, weight)),
            (lambda g, x: ops._depthwise_conv2d_grad_weight(g, x, *kernel, *rest), (grad, x)),
        ):
            assert torch.equal(run(*inputs), run(*(guarded(t, at_end) for t in inputs)))
print("read")
"""
    uses = [f"os.environ['CUSTOMOPS_CPU_CAPABILITY'] = {one!r}\n{code}" for one in INSTRUCTION_SETS]
    run = python(in_forks("import customops", uses), PYTHONPATH=":".join(sys.path))
    assert run.stdout.split() == ["read"] * len(INSTRUCTION_SETS), run.stderr


# Weights that repeat after one register or several; with and without a part of a register at the end; one strip and several.
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    "shape", [(1, 8, 61, 60), (3, 3, 33, 47), (7, 17, 31, 19), (40, 61, 5, 5), (5, 96, 27, 30), (33, 5, 1, 101)]
)
def test_one_tap_over_one_flat_array(shape, dtype):
    ops = torch.ops.customops
    for direction in ("fwd", "dgrad"):
        problem = [*shape, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1]
        chosen = ops._depthwise_conv2d_explain(direction, "cpu", problem, str(dtype).removeprefix("torch."))
        assert chosen.startswith("fwd_scale:")
    torch.manual_seed(0)
    x = torch.randn(shape, dtype=dtype).contiguous(memory_format=torch.channels_last)
    weight, bias = torch.randn(shape[1], 1, 1, 1, dtype=dtype), torch.randn(shape[1], dtype=dtype)
    for b in (None, bias):
        y = ops._depthwise_conv2d(x, weight, b, 1, 1, 0, 0, 0, 0, 1, 1)
        exact = x.double() * weight.double().view(-1, 1, 1) + (0 if b is None else b.double().view(-1, 1, 1))
        assert y.is_contiguous(memory_format=torch.channels_last)
        assert_close(y, exact)
    dx = ops._depthwise_conv2d_grad_input(x, weight, *shape[2:], 1, 1, 0, 0, 1, 1, True)
    assert_close(dx, x.double() * weight.double().view(-1, 1, 1))


# Kernels of rows, of pixels in place, of tiles and of one tap. Large images are parts of their own, and so are few.
@pytest.mark.parametrize(
    ("shape", "kernel", "stride", "memory_format", "together"),
    [
        ((64, 32, 5, 5), 3, 1, torch.channels_last, True),
        ((64, 64, 7, 7), 3, 2, torch.channels_last, True),
        ((64, 8, 5, 5), 3, 1, torch.channels_last, True),
        ((64, 2, 8, 8), 1, 1, torch.contiguous_format, True),
        ((64, 32, 20, 20), 3, 1, torch.channels_last, False),
        ((16, 32, 5, 5), 3, 1, torch.channels_last, False),
        ((16, 64, 7, 7), 3, 2, torch.channels_last, False),
    ],
)
def test_small_images_are_summed_together(shape, kernel, stride, memory_format, together):
    """To add a part in float64 costs more than its products, so it has four images, summed in float32: 2^24 + 1 is 2^24."""
    pad = kernel // 2
    x = torch.zeros(shape).contiguous(memory_format=memory_format)
    out = [(size + 2 * pad - kernel) // stride + 1 for size in shape[2:]]
    grad = torch.zeros(*shape[:2], *out).contiguous(memory_format=memory_format)
    x[1, :, 0, 0], x[2, :, 0, 0], x[3, :, 0, 0] = 2**24, 1, -(2**24)
    grad[1:4, :, 0, 0] = 1
    rest = (kernel, kernel, stride, stride, pad, pad, 1, 1)
    weight = torch.ops.customops._depthwise_conv2d_grad_weight(grad, x, *rest)
    assert (weight[:, 0, pad, pad] == (0 if together else 1)).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("stride", [1, 2])
def test_infinities_meet_no_rows_around_small_images(stride, dtype):
    """Rows of zeros around images, whose products with infinities are none of the sums."""
    channels = 40
    x = torch.randn(20, channels, 7, 7).to(dtype).contiguous(memory_format=torch.channels_last)
    size = (7 - 1) // stride + 1
    grad = torch.randn(20, channels, size, size).to(dtype).contiguous(memory_format=torch.channels_last)
    grad[1, 3, 0, 0], x[2, 1, 0, 0], grad[3, 39, -1, -1] = float("inf"), float("nan"), float("-inf")

    def meetings(x, grad):
        shape = (channels, 1, 3, 3)
        return torch.nn.grad.conv2d_weight(x.double(), shape, grad.double(), stride, 1, groups=channels)

    bad = meetings(~x.isfinite(), torch.ones_like(grad)) + meetings(torch.ones_like(x), ~grad.isfinite()) > 0
    assert 0 < bad[3].sum() < 9
    actual = torch.ops.customops._depthwise_conv2d_grad_weight(grad, x, 3, 3, stride, stride, 1, 1, 1, 1)
    assert torch.equal(actual.isfinite(), ~bad)


# Where several rows of outputs are summed at once, all rows of taps are, with rows of zeros outside of the image.
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("shape", "kernel", "stride", "pads", "dilation"),  # pads: top, bottom, left, right
    [
        ((9, 40, 12, 12), (3, 3), (2, 2), (2, 2, 2, 2), (2, 2)),
        ((9, 150, 9, 9), (3, 3), (2, 2), (4, 4, 1, 1), (4, 1)),  # rows of taps that meet no row of some outputs
        ((9, 40, 11, 12), (3, 5), (1, 2), (0, 3, 3, 0), (2, 1)),
        ((9, 70, 11, 8), (4, 2), (2, 2), (3, 0, 0, 1), (1, 3)),
        ((9, 300, 7, 7), (5, 5), (2, 2), (0, 4, 0, 4), (1, 1)),
        ((9, 40, 6, 3), (3, 5), (1, 2), (1, 1, 2, 2), (1, 1)),  # fewer outputs of a row than taps
        ((9, 300, 9, 3), (5, 5), (2, 3), (2, 2, 2, 1), (1, 1)),
        ((9, 40, 8, 2), (3, 3), (2, 2), (1, 0, 1, 0), (1, 1)),
        ((9, 9, 38, 10), (2, 2), (1, 1), (0, 0, 0, 0), (1, 1)),  # pixels that are parts of registers
        ((9, 12, 12, 12), (3, 3), (2, 2), (1, 1, 1, 1), (1, 1)),
        ((3, 15, 9, 11), (3, 2), (2, 1), (1, 1, 0, 1), (2, 1)),
    ],
)
def test_weight_gradients_of_several_rows_at_once(shape, kernel, stride, pads, dilation, dtype):
    top, bottom, left, right = pads
    problem = [*shape, *kernel, *stride, *pads, *dilation, 1]
    chosen = torch.ops.customops._depthwise_conv2d_explain("wgrad", "cpu", problem, str(dtype).removeprefix("torch."))
    fewest = {"avx2": 3, "avx512": 5, "avx512_bf16": 5}.get(torch.ops.customops._cpu_capability(), 0)
    assert chosen.startswith("wgrad_pixels:") == (kernel[0] <= fewest)
    x = torch.randn(shape).to(dtype).contiguous(memory_format=torch.channels_last)
    padded = torch.nn.functional.pad(x.double(), (left, right, top, bottom))
    size = [
        (n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(padded.shape[2:], kernel, stride, dilation, strict=True)
    ]
    grad = torch.randn(*shape[:2], *size).to(dtype).contiguous(memory_format=torch.channels_last)
    actual = torch.ops.customops._depthwise_conv2d_grad_weight(grad, x, *kernel, *stride, top, left, *dilation)
    exact = torch.nn.grad.conv2d_weight(
        padded, (shape[1], 1, *kernel), grad.double(), stride, 0, dilation, groups=shape[1]
    )
    assert_close(actual, exact)


# Channels of a row, together, fill registers that those of a pixel do not; and the rest of a row overlaps a register.
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    ("shape", "taps", "stride", "pads", "dilation"),  # pads: top, bottom
    [
        ((3, 24, 19, 19), 11, 1, (5, 5), 1),
        ((3, 20, 40, 13), 11, 1, (5, 5), 1),  # all taps at once
        ((2, 20, 70, 31), 13, 1, (6, 2), 2),  # twice, and outputs in chunks
        ((5, 10, 9, 7), 3, 1, (0, 2), 1),
        ((4, 12, 31, 5), 5, 2, (9, 1), 3),
        ((2, 21, 14, 11), 14, 1, (12, 13), 1),  # some outputs meet one tap
        ((19, 9, 12, 3), 2, 1, (1, 0), 1),
        ((1, 20, 13, 300), 5, 1, (4, 4), 1),  # several tiles of a row
        ((300, 20, 24, 20), 3, 1, (1, 1), 1),  # far images: whole rows
    ],
)
def test_weight_gradients_of_rows_as_pixels(shape, taps, stride, pads, dilation, dtype):
    problem = [*shape, taps, 1, stride, 1, *pads, 0, 0, dilation, 1, 1]
    chosen = torch.ops.customops._depthwise_conv2d_explain("wgrad", "cpu", problem, str(dtype).removeprefix("torch."))
    if torch.ops.customops._cpu_capability().startswith("avx512") and dtype != torch.float64:
        assert chosen.endswith("as pixels of more channels")
    x = randn(*shape, dtype=dtype).contiguous(memory_format=torch.channels_last)
    padded = torch.nn.functional.pad(x.double(), (0, 0, *pads))
    rows = (padded.shape[2] - dilation * (taps - 1) - 1) // stride + 1
    grad = randn(*shape[:2], rows, shape[3], dtype=dtype, seed=1).contiguous(memory_format=torch.channels_last)
    steps = (stride, 1), (0, 0), (dilation, 1)
    exact = torch.nn.grad.conv2d_weight(padded, (shape[1], 1, taps, 1), grad.double(), *steps, shape[1])
    actual = [
        torch.ops.customops._depthwise_conv2d_grad_weight(grad, x, taps, 1, stride, 1, pads[0], 0, dilation, 1, float32)
        for float32 in ((False, True) if dtype.itemsize == 2 else (False,))
    ]
    for result in actual:
        assert_close(result, exact)


# One column of outputs, under a row of taps at a stride: in the buffer, columns of all phases are neighbours.
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize(("stride", "dilation"), [(3, 1), (2, 1), (1, 3), (4, 3)])
def test_taps_of_several_phases_side_by_side(stride, dilation, memory_format, dtype):
    for channels, width, taps, pad in itertools.product((16, 40), (9, 17), (14, 21, 28), (2, 6)):
        short = max(dilation * (taps - 1) + 1 - width - pad, 0)  # of padding on the right
        x = image(
            (1, channels, 16, width), dtype, "cpu", memory_format
        )  # in several strips: else planes are buffered whole
        weight = randn(channels, 1, 1, taps, dtype=dtype, seed=1)
        padded = torch.nn.functional.pad(x.double(), (pad, short))
        exact = torch.nn.functional.conv2d(padded, weight.double(), None, (1, stride), 0, (1, dilation), channels)
        arguments = (1, stride, 0, 0, pad, short, 1, dilation)
        assert_close(torch.ops.customops._depthwise_conv2d(x, weight, None, *arguments), exact)


# bfloat16, two rows of outputs at a time: the last one alone, rows outside of the image, and 32 channels of an end.
@pytest.mark.parametrize(
    ("shape", "stride", "pads"),  # pads: top, bottom, left, right
    [
        ((3, 32, 9, 9), (1, 1), (1, 1, 1, 1)),
        ((2, 61, 8, 17), (1, 1), (2, 2, 2, 2)),
        ((2, 61, 17, 8), (2, 2), (1, 1, 1, 1)),
        ((5, 95, 4, 1), (1, 1), (0, 1, 2, 1)),  # a column of pixels
        ((5, 40, 5, 2), (3, 2), (2, 1, 2, 2)),
        ((1, 33, 90, 91), (1, 1), (1, 1, 0, 0)),  # two rows are as many as stay near
        ((40, 300, 7, 7), (2, 2), (1, 1, 1, 1)),
        ((1, 32, 4, 700), (1, 2), (0, 0, 1, 1)),
        ((1, 33, 3, 1600), (1, 1), (1, 1, 1, 1)),  # more outputs of a row than are summed in float32
        ((2, 40, 5, 6), (1, 1), (4, 5, 5, 4)),  # outputs that meet no pixel
        ((2, 40, 5, 6), (2, 2), (4, 5, 5, 4)),
    ],
)
def test_weight_gradients_of_pairs_of_rows(shape, stride, pads):
    top, bottom, left, right = pads
    x = randn(*shape, dtype=torch.bfloat16).contiguous(memory_format=torch.channels_last)
    padded = torch.nn.functional.pad(x.double(), (left, right, top, bottom))
    size = [(n - 3) // s + 1 for n, s in zip(padded.shape[2:], stride, strict=True)]
    grad = randn(*shape[:2], *size, dtype=x.dtype, seed=1).contiguous(memory_format=torch.channels_last)
    exact = torch.nn.grad.conv2d_weight(padded, (shape[1], 1, 3, 3), grad.double(), stride, 0, 1, shape[1])
    problem = [*shape, 3, 3, *stride, *pads, 1, 1, 1]
    chosen = torch.ops.customops._depthwise_conv2d_explain("wgrad", "cpu", problem, "bfloat16")
    has_pairs = torch.ops.customops._cpu_capability() == "avx512_bf16"
    assert chosen.endswith("two rows at a time") == has_pairs
    for float32 in (False, True):
        arguments = (grad, x, 3, 3, *stride, top, left, 1, 1, float32)
        assert_close(torch.ops.customops._depthwise_conv2d_grad_weight(*arguments), exact)


def test_weight_gradients_of_rows_as_pixels_beside_infinities():
    x, grad = (randn(4, 24, 19, 7, seed=seed).contiguous(memory_format=torch.channels_last) for seed in range(2))
    x[1, 3, 0, 2], x[2, 5, 18, 6] = torch.inf, torch.nan
    actual = torch.ops.customops._depthwise_conv2d_grad_weight(grad, x, 11, 1, 1, 1, 5, 0, 1, 1, False)
    bad = torch.zeros(24, 1, 11, 1, dtype=torch.bool)
    bad[3, 0, :6], bad[5, 0, 5:] = True, True  # the taps that read the first row, and the last one
    assert torch.equal(~actual.isfinite(), bad)
    exact = torch.nn.grad.conv2d_weight(x.double(), (24, 1, 11, 1), grad.double(), 1, (5, 0), 1, 24)
    assert_close(actual[~bad], exact[~bad])


# Pixels of 4096 bytes are read by shorter blocks or, where rows are long and windows large, from a buffer.
@pytest.mark.parametrize(("dtype", "channels"), [(torch.float32, 1024), (torch.bfloat16, 2048)])
@pytest.mark.parametrize(
    ("shape", "kernel", "stride"),
    [
        ((1, 27), (1, 4), 1),
        ((1, 40), (1, 7), 1),
        ((1, 40), (1, 11), 1),
        ((3, 9), (3, 3), 1),
        ((3, 13), (3, 3), 1),
        ((5, 27), (3, 3), 2),
        ((9, 14), (5, 5), 1),
    ],
)
def test_pixels_that_share_a_set_of_the_l1_cache(shape, kernel, stride, dtype, channels):
    x = torch.randn(2, channels, *shape).to(dtype).contiguous(memory_format=torch.channels_last)
    weight, pad = torch.randn(channels, 1, *kernel).to(dtype), (kernel[0] // 2, kernel[1] // 2)
    x64, weight64 = x.double().requires_grad_(), weight.double()
    exact = torch.nn.functional.conv2d(x64, weight64, None, stride, pad, 1, channels)
    y = torch.ops.customops._depthwise_conv2d(x, weight, None, stride, stride, pad[0], pad[0], pad[1], pad[1], 1, 1)
    assert_close(y, exact.detach())
    grad = torch.randn_like(y)
    dx = torch.ops.customops._depthwise_conv2d_grad_input(grad, weight, *shape, stride, stride, *pad, 1, 1, True)
    assert_close(dx, torch.autograd.grad(exact, x64, grad.double())[0])


# Windows of three at a stride of 2, of four registers of channels at a time, then of one; rows of four outputs and fewer.
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("channels", [64, 72, 112, 1024])
def test_three_taps_at_a_stride_of_2(channels, dtype):
    for height, width in itertools.product((1, 3, 5), (*range(1, 20), 31)):
        for pad, step in ((0, 1), (1, 2), (2, 2)):
            if width + 2 * pad < 3 or (channels == 1024 and width % 4):
                continue
            x = torch.randn(2, channels, 6, width).to(dtype).contiguous(memory_format=torch.channels_last)
            weight, bias = torch.randn(channels, 1, height, 3).to(dtype), torch.randn(channels).to(dtype)
            y = torch.ops.customops._depthwise_conv2d(x, weight, bias, step, 2, 2, 2, pad, pad, 1, 1)
            exact = torch.nn.functional.conv2d(
                x.double(), weight.double(), bias.double(), (step, 2), (2, pad), 1, channels
            )
            assert_close(y, exact)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_three_taps_at_a_stride_of_2_over_images_beyond_the_caches(dtype):
    x = torch.randn(6, 80, 113, 97).to(dtype).contiguous(memory_format=torch.channels_last)
    weight = torch.randn(80, 1, 3, 3).to(dtype)
    y = torch.ops.customops._depthwise_conv2d(x, weight, None, 2, 2, 1, 1, 1, 1, 1, 1)
    assert_close(y, torch.nn.functional.conv2d(x.double(), weight.double(), None, 2, 1, 1, 80))


# The last pixels of a row have no room for whole registers behind them.
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("channels", "stride"), [(9, 1), (5, 2), (7, 2)])
def test_rows_of_any_length_whose_pixels_are_parts_of_registers(channels, stride, dtype):
    weight = torch.randn(channels, 1, 3, 3).to(dtype)
    for batch, width in itertools.product((1, 3), (*range(1, 34), 57)):
        x = torch.randn(batch, channels, 4, width).to(dtype).contiguous(memory_format=torch.channels_last)
        y = torch.ops.customops._depthwise_conv2d(x, weight, None, stride, stride, 1, 1, 1, 1, 1, 1)
        assert_close(y, torch.nn.functional.conv2d(x.double(), weight.double(), None, stride, 1, 1, channels))


@pytest.mark.parametrize("channels", [5, 7, 8])
@pytest.mark.parametrize(("kernel", "stride"), [((3, 3), 2), ((1, 6), 4), ((2, 2), (1, 3))])
def test_few_channels_of_bfloat16_at_a_stride(channels, kernel, stride):
    x = torch.randn(3, channels, 23, 31).bfloat16().contiguous(memory_format=torch.channels_last)
    weight = torch.randn(channels, 1, *kernel).bfloat16()
    steps = stride if isinstance(stride, tuple) else (stride, stride)
    y = torch.ops.customops._depthwise_conv2d(x, weight, None, *steps, 0, 0, 0, 0, 1, 1)
    assert_close(y, torch.nn.functional.conv2d(x.double(), weight.double(), None, stride, 0, 1, channels))
