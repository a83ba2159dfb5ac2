"""depthwise_conv2d and its gradients against torch's convolution in float64, over shapes and arguments."""

import itertools
import math
import random

import pytest
import torch
from common import DTYPES, SAME_SHAPE, make
from depthwise import (
    FORMATS,
    assert_close,
    image,
    memory_formats,
    opened,  # noqa: F401
    randn,
    reference,
)
from torch.nn import functional as F

from customops import depthwise_conv2d

ops = torch.ops.customops


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


@memory_formats
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("kernel", [1, 2, 3, 5, 7])
def test_common_kernels(kernel, stride, dtype, memory_format, device):
    for channels, size in ((8, (19, 23)), (40, (7, 7)), (3, (14, 130))):
        x = image((2, channels, *size), dtype, device, memory_format)
        weight, bias = (
            randn(channels, *rest, dtype=dtype, device=device, seed=1) for rest in ((1, kernel, kernel), ())
        )
        assert_all(x, weight, bias, stride, kernel // 2)


@memory_formats
@pytest.mark.parametrize("channels", [1, 2, 3, 5, 6, 7, 8, 12, 15, 17, 33, 65, 72, 130, 240, 1000])
def test_any_number_of_channels(channels, memory_format, device):
    dtypes = torch.float32, torch.bfloat16, torch.float16
    for i, (kernel, stride) in enumerate([(3, 1), (3, 2), (5, 1), (5, 2)]):
        for dtype in (dtypes[i % 3], dtypes[(i + 1) % 3]):
            x = image((2, channels, 9, 11), dtype, device, memory_format)
            weight = randn(channels, 1, kernel, kernel, dtype=dtype, device=device, seed=1)
            assert_all(x, weight, randn(channels, dtype=dtype, device=device, seed=2), stride, kernel // 2)


@memory_formats
@pytest.mark.parametrize("channels", [1, 3, 7, 12, 20])
@pytest.mark.parametrize("batch", [16, 21, 67])
def test_many_images_of_few_channels(batch, channels, memory_format, device):
    """A CPU takes several contiguous images for one of more channels."""
    for dtype, kernel, stride, dilation in (
        (torch.float32, 3, 2, 1), (torch.bfloat16, (2, 3), 3, 1), (torch.float16, 2, 1, 2), (torch.float64, 1, 2, 1)
    ):  # fmt: skip
        x = image((batch, channels, 9, 10), dtype, device, memory_format)
        weight = randn(channels, 1, *(kernel if isinstance(kernel, tuple) else (kernel,) * 2), dtype=dtype,
                       device=device, seed=1)  # fmt: skip
        assert_all(x, weight, randn(channels, dtype=dtype, device=device, seed=2), stride, 0, dilation)


@pytest.mark.parametrize("dtype", DTYPES)
def test_an_image_has_the_same_bits_alone(dtype, device):
    """Kernels of many images add in the order of those of one."""
    if device != "cpu":
        pytest.skip("GPUs have kernels for few outputs, with an order of their own")
    for channels, kernel, stride, dilation in itertools.product(
        (1, 3, 6), ((1, 1), (4, 4), (2, 5), (1, 8), (3, 15)), (1, 2, 3), (1, (1, 2))
    ):
        x = image((32, channels, 13, 34), dtype, device, torch.contiguous_format).requires_grad_()
        weight = randn(channels, 1, *kernel, dtype=dtype, device=device, seed=1)
        many, one = (depthwise_conv2d(x[:n], weight, None, stride, (0, 3), dilation) for n in (32, 1))
        assert torch.equal(many[:1], one)
        grads = [torch.autograd.grad(y, x, torch.ones_like(y))[0][:1] for y in (many, one)]
        assert torch.equal(*grads)


@memory_formats
@pytest.mark.parametrize("channels", [2, 3, 4, 5, 12])
def test_large_images_of_few_channels(channels, memory_format, device):
    for kernel, stride, width in ((3, 1, 130), (3, 2, 131), (4, 3, 57), (2, (1, 3), 56)):
        x = image((1, channels, 97, width), torch.float32, device, memory_format)
        weight = randn(channels, 1, kernel, kernel, device=device, seed=1)
        assert_all(x, weight, randn(channels, device=device, seed=2), stride, kernel // 2)


@memory_formats
@pytest.mark.parametrize("channels", [1, 3, 8, 17, 100])
def test_images_that_are_only_multiplied(channels, memory_format, device):
    """One tap: rows of small images are computed as one row, those of large ones some at a time."""
    for shape, dtype in (((20, channels, 5, 11), torch.float32), ((17, channels, 58, 1), torch.bfloat16), ((3, channels, 61, 3), torch.float64),
                         ((2, channels, 60, 31), torch.float32), ((1, channels, 53, 47), torch.float16)):  # fmt: skip
        x = image(shape, dtype, device, memory_format)
        weight = randn(channels, 1, 1, 1, dtype=dtype, device=device, seed=1)
        assert_all(x, weight, randn(channels, dtype=dtype, device=device, seed=2), 1, 0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("size", [(5, 5), (6, 6), (7, 7), (1, 5), (4, 6), (2, 7)])
@pytest.mark.parametrize("channels", [34, 37])
def test_whole_small_channels_last_images(channels, size, stride, dtype, device):
    """A thread of the CUDA kernel fwd_direct has an image of one channel or two."""
    outputs = channels * ((size[0] - 1) // stride + 1) * ((size[1] - 1) // stride + 1)
    batch = 1_000_000 // outputs + 1 if device == "cuda" else 3  # so many outputs of channels_last are not for cuDNN
    x = image((batch, channels, *size), dtype, device, torch.channels_last)
    if device == "cuda":
        problem = [*x.shape, 3, 3, stride, stride, 1, 1, 1, 1, 1, 1, 1]
        for direction in ("fwd", "dgrad")[: 3 - stride]:  # dgrad at stride 2 has tiles
            chosen = ops._depthwise_conv2d_explain(direction, "cuda", problem, str(dtype).removeprefix("torch."))
            assert chosen.startswith("fwd_direct:")
    weight, bias = (randn(channels, *rest, dtype=dtype, device=device, seed=1) for rest in ((1, 3, 3), ()))
    y = assert_all(x, weight, bias, stride, 1)
    assert_all(x, weight, None, stride, 1)
    if device == "cuda":
        assert torch.equal(depthwise_conv2d(x, weight.float(), bias.float(), stride, 1), y)
        part = randn(channels * 9 + 1, dtype=dtype, device=device)[1:].view_as(weight).copy_(weight)  # not aligned
        assert torch.equal(depthwise_conv2d(x, part, bias, stride, 1), y)
        x[0, 1, 0, 3], x[-1, 2, -1, -1] = float("inf"), float("nan")
        seen = F.conv2d((~x.isfinite()).float(), torch.ones_like(weight).float(), None, stride, 1, 1, channels) > 0.5
        now = depthwise_conv2d(x, weight, bias, stride, 1)
        assert torch.equal(~now.isfinite(), seen)
        assert torch.equal(now[~seen], y[~seen])


@memory_formats
@pytest.mark.parametrize("channels", [1, 2, 3, 8, 61])
@pytest.mark.parametrize(("stride", "padding"), [(2, 0), ((1, 3), (2, 0)), ((4, 3), (1, 2)), (1, (0, 1)), (1, 0)])
def test_one_tap_of_many_outputs(stride, padding, channels, memory_format, device):
    """A thread of the CUDA kernel computes neighbours in memory, in several pixels, rows, planes or images."""
    outputs = F.conv2d(torch.ones(1, 1, 23, 5), torch.ones(1, 1, 1, 1), None, stride, padding).numel()
    batch = 2 if device == "cpu" else 2**18 // (channels * outputs) + 1  # from 2^18 outputs on, a thread has several
    for dtype in (torch.float32, torch.bfloat16, torch.float64):
        x = image((batch, channels, 23, 5), dtype, device, memory_format)
        weight, bias = (randn(channels, *rest, dtype=dtype, device=device, seed=1) for rest in ((1, 1, 1), ()))
        assert_all(x, weight, bias, stride, padding)
        assert_all(x, weight, None, stride, padding)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_vectors_of_outputs_that_gather_pixels(dtype, device):
    """So many outputs of contiguous images, one tap and a stride, that a thread of the CUDA kernel computes vectors."""
    x = image((1025 if device == "cuda" else 2, 3, 41, 17), dtype, device, torch.contiguous_format)
    assert_all(x, randn(3, 1, 1, 1, dtype=dtype, device=device, seed=1), None, (1, 2))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    ("shape", "kernel", "stride", "padding", "dilation"),
    [
        ((300, 1, 10, 10), (4, 4), 1, 0, 1),
        ((301, 1, 21, 21), (4, 4), (2, 1), 1, 1),
        ((61, 1, 39, 4), (4, 4), 1, 1, 1),
        ((37, 1, 61, 43), (4, 4), (4, 2), 1, 1),
        ((2, 1, 99, 99), (4, 4), 1, 1, 1),
        ((100, 1, 37, 37), (8, 8), 4, (6, 1), 1),
        ((3, 152, 1, 166), (1, 15), 1, (0, 7), 1),
        ((5, 3, 17, 19), (3, 6), (2, 3), (1, 2), 2),
        ((9, 7, 5, 5), (8, 4), 3, (7, 9), 1),
        ((1, 5, 37, 99), (1, 7), 2, (2, 6), 1),
        ((1, 31, 99, 37), (4, 8), 2, (3, 10), 2),
        ((2, 7, 13, 9), (4, 15), 1, (0, 17), 2),
        ((3, 5, 9, 37), (8, 5), 1, (7, 2), 1),
        ((5, 9, 1, 60), (3, 6), 2, (1, 0), 1),
        ((3, 3, 13, 7), (2, 4), 3, (0, 6), 1),
        ((9, 7, 7, 5), (2, 15), 1, (1, 15), 1),
        ((9, 5, 37, 19), (4, 4), (2, 1), (5, 2), 1),
    ],
)
def test_small_contiguous_images(shape, kernel, stride, padding, dilation, dtype, device):
    """Several planes a block of the CUDA kernel, or some rows of one; windows of padding alone."""
    x = image(shape, dtype, device, torch.contiguous_format)
    weight, bias = (randn(shape[1], *rest, dtype=dtype, device=device, seed=1) for rest in ((1, *kernel), ()))
    y = assert_all(x, weight, bias, stride, padding, dilation)
    x[0, 0, 0, 3], x[-1, -1, -1, -1] = float("inf"), float("nan")
    arguments = stride, padding, dilation
    seen = F.conv2d((~x.isfinite()).float(), torch.ones_like(weight).float(), None, *arguments, shape[1]) > 0.5
    now = depthwise_conv2d(x, weight, bias, *arguments)
    assert torch.equal(now.isfinite(), ~seen)
    assert torch.equal(now[~seen], y[~seen])


@memory_formats
@pytest.mark.parametrize("channels", [3, 8, 20, 70])
def test_windows_wider_or_higher_than_images(channels, memory_format, device):
    """Taps that read only padding are left out."""
    for kernel, shape, dtype in (((29, 29), (9, 17), torch.float32), ((23, 1), (31, 9), torch.bfloat16),
                                 ((2, 31), (5, 19), torch.float16), ((5, 16), (6, 40), torch.bfloat16),
                                 ((1, 15), (1, 8), torch.float64), ((1, 4), (3, 50), torch.bfloat16)):  # fmt: skip
        x = image((3, channels, *shape), dtype, device, memory_format)
        weight = randn(channels, 1, *kernel, dtype=dtype, device=device, seed=1)
        assert_all(x, weight, randn(channels, dtype=dtype, device=device, seed=2), 1, tuple(k // 2 for k in kernel))


@memory_formats
@pytest.mark.parametrize(("kernel", "size", "stride", "padding", "dilation"), [
    ((5, 51), (7, 7), 1, (2, 25), 1), ((29, 29), (7, 9), 1, (14, 14), 1), ((24, 9), (7, 6), 1, (12, 4), 1),
    ((31, 7), (9, 9), (2, 1), (15, 3), 1), ((9, 40), (8, 8), 1, (8, 60), (2, 3)),
])  # fmt: skip
def test_many_outputs_of_windows_larger_than_the_image(kernel, size, stride, padding, dilation, memory_format, device):
    """The CUDA ops copy the part of the weight that meets a pixel; a float32 one for 16-bit images too."""
    for dtype in (torch.float32, torch.float16):
        x = image((64, 240, *size), dtype, device, memory_format)
        weight = randn(240, 1, *kernel, dtype=dtype, device=device, seed=1)
        y = assert_all(x, weight, randn(240, dtype=dtype, device=device, seed=2), stride, padding, dilation)
    bias = randn(240, dtype=dtype, device=device, seed=2)
    with torch.no_grad():
        assert torch.equal(depthwise_conv2d(x, weight.float(), bias.float(), stride, padding, dilation), y)


@memory_formats
@pytest.mark.parametrize(("channels", "width", "stride"), [(12, 9, 8), (3, 31, 30), (3, 1001, 500), (1, 1001, 1000)])
def test_strides_that_leave_one_pixel(channels, width, stride, memory_format, device):
    """Rows are put together from phases, most of which have fewer pixels than the first."""
    x = image((1, channels, 3, width), torch.float32, device, memory_format)
    weight = randn(channels, 1, 1, 1, device=device, seed=1)
    for _ in range(20):  # the allocator of the CPU notices what is written beyond the end of its memory
        assert_all(x, weight, None, (1, stride))


@memory_formats
@pytest.mark.parametrize(
    ("channels", "kernel", "dtype"),
    [(124, 3, torch.float32), (62, 5, torch.float32), (24, 7, torch.float32), (72, 5, torch.bfloat16)],
)
def test_tiles_that_channels_do_not_fill(channels, kernel, dtype, memory_format, device):
    x = image((2, channels, 15, 17), dtype, device, memory_format)
    weight = randn(channels, 1, kernel, kernel, dtype=dtype, device=device, seed=1)
    assert_all(x, weight, None, padding=kernel // 2)


def test_channels_beyond_a_register_round_alike(device):
    """Down to numbers that some machines take for zero: the same pixels and taps give the same bits in each channel."""
    for memory_format in FORMATS:
        x = image((1, 1, 9, 11), torch.bfloat16, device, torch.contiguous_format).expand(1, 20, 9, 11)
        x = x.contiguous(memory_format=memory_format)
        for kernel, scale in ((1, 1.0), (3, 1.0), (1, 2.0**-128), (3, 2.0**-128)):
            weight = randn(1, 1, kernel, kernel, dtype=torch.bfloat16, device=device, seed=1).expand(20, -1, -1, -1)
            y = depthwise_conv2d(x * scale, weight.contiguous(), padding=kernel // 2)
            assert torch.equal(y, y[:, :1].expand_as(y))


@memory_formats
@pytest.mark.parametrize("dilation", [1, 2, (1, 3), (4, 1)])
@pytest.mark.parametrize("stride", [1, 2, 3, (2, 1), (1, 4), (5, 7)])
@pytest.mark.parametrize("kernel", [(3, 3), (1, 4), (5, 2), (6, 6)])
def test_strides_and_dilations(kernel, stride, dilation, memory_format, device):
    for channels, padding in ((5, (4, 7)), (20, (9, 3))):
        x = image((2, channels, 25, 31), torch.float64, device, memory_format)
        assert_all(
            x, randn(channels, 1, *kernel, dtype=torch.float64, device=device, seed=1), None, stride, padding, dilation
        )


@memory_formats
@pytest.mark.parametrize("channels", [7, 8])
@pytest.mark.parametrize(
    ("kernel", "stride", "dilation"),
    [((1, 2), (2, 3), (1, 2)), ((2, 2), 4, 2), ((3, 1), (5, 1), (3, 1)), ((1, 5), 3, 4), ((4, 1), 3, 6)],
)
def test_few_taps_of_many_outputs(kernel, stride, dilation, channels, memory_format, device):
    """Most phases of a stride meet one tap or none; a thread of the CUDA kernel computes one channel or four."""
    for dtype in (torch.float32, torch.bfloat16):
        x = image((4, channels, 95, 101), dtype, device, memory_format)
        weight, bias = (randn(channels, *rest, dtype=dtype, device=device, seed=1) for rest in ((1, *kernel), ()))
        assert_all(x, weight, bias, stride, (1, 0), dilation)


def test_strides_whose_square_is_beyond_32_bits(device):
    """Of one channel, which no kernel of torch computes for us. The inverse of the dilation is large, too."""
    x = image((1, 1, 1, 400_020), torch.float32, device, torch.contiguous_format)
    assert_all(x, randn(1, 1, 1, 3, device=device, seed=1), None, (1, 200_003), 0, (1, 3))


@memory_formats
@pytest.mark.parametrize("size", [(15, 15), (16, 15), (8, 9), (20, 7)])
def test_gradients_a_few_rows_high(size, memory_format, device):
    """Tiles of four rows of wgrad_direct cover them with fewer rows than those of seven."""
    for channels, kernel, dtype in ((16, 3, torch.float16), (17, 3, torch.float32), (16, 5, torch.float32)):
        x = image((9, channels, *size), dtype, device, memory_format)
        weight = randn(channels, 1, kernel, kernel, dtype=dtype, device=device, seed=1)
        assert_all(x, weight, None, 2, kernel // 2)


@memory_formats
@pytest.mark.parametrize("kernel", [(1, 1), (2, 2), (3, 4), (5, 5), (6, 1)])
@pytest.mark.parametrize("dilation", [1, 2, (3, 1)])
@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
def test_same_and_valid(kernel, dilation, memory_format, device):
    x = image((2, 6, 17, 18), torch.float64, device, memory_format)
    weight = randn(6, 1, *kernel, dtype=torch.float64, device=device, seed=1)
    assert assert_all(x, weight, None, 1, "same", dilation).shape == x.shape
    assert_all(x, weight, None, (2, 1), "valid", dilation)


@memory_formats
@pytest.mark.parametrize("kernel", [9, 13, 31, (31, 1), (1, 51), (3, 30)])
def test_large_kernels(kernel, memory_format, device):
    kernel = (kernel, kernel) if isinstance(kernel, int) else kernel
    for dtype in (torch.float32, torch.float16):
        for size in ((14, 14), (40, 37)):
            x = image((1, 10, *size), dtype, device, memory_format)
            weight = randn(10, 1, *kernel, dtype=dtype, device=device, seed=1)
            assert_all(x, weight, None, 1, (kernel[0] // 2, kernel[1] // 2))


@memory_formats
@pytest.mark.parametrize(
    ("size", "kernel", "stride", "padding", "dilation"),
    [
        ((28, 28), (14, 14), 1, "same", 1),
        ((61, 9), (40, 1), 1, "same", 1),
        ((9, 61), (1, 50), 1, "same", 1),
        ((30, 33), (22, 4), 1, "same", (1, 2)),
        ((25, 25), (8, 8), 1, "same", 3),
        ((30, 17), (22, 6), (2, 3), (11, 3), 1),
        ((5, 6), (22, 23), 2, 11, 1),
    ],
)
@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
def test_many_taps_of_few_outputs(size, kernel, stride, padding, dilation, memory_format, device):
    """Threads of the CUDA kernels share an output's taps; paddings that differ are not for torch's kernels."""
    for dtype in (torch.float32, torch.float16, torch.float64):
        for channels in (3, 8):
            x = image((2, channels, *size), dtype, device, memory_format)
            weight, bias = (randn(channels, *rest, dtype=dtype, device=device, seed=1) for rest in ((1, *kernel), ()))
            assert_all(x, weight, bias, stride, padding, dilation)


@memory_formats
@pytest.mark.parametrize("size", [(7, 7), (8, 8), (16, 5), (1, 3)])
@pytest.mark.parametrize("kernel", [(3, 3), (2, 4), (4, 3), (13, 13), (15, 1)])
def test_small_images(kernel, size, memory_format, device):
    """Wider and narrower than the kernel, odd and even numbers of elements, more images than a warp has lanes."""
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        for batch, channels in ((35, 6), (3, 7), (70, 1)):
            x = image((batch, channels, *size), dtype, device, memory_format)
            weight, bias = (randn(channels, *rest, dtype=dtype, device=device, seed=1) for rest in ((1, *kernel), ()))
            assert_all(x, weight, bias, 1, (kernel[0] // 2, kernel[1] // 2))


@pytest.mark.parametrize(
    ("shape", "kernel", "padding"),
    [
        ((8, 272, 1, 200), (1, 15), (0, 7)),  # a thread takes one channel
        ((2, 512, 1, 700), (1, 31), (0, 15)),  # two of 16 bits
        ((17, 578, 1, 1970), (1, 11), (0, 5)),  # two in float32, and two tiles a block
        ((3, 37, 40, 33), (11, 1), (5, 0)),
        ((8, 48, 40, 33), (3, 11), (1, 12)),
        ((4, 96, 56, 56), (1, 11), (0, 5)),
    ],
)
def test_runs_of_taps_over_channels_last_images(shape, kernel, padding, device):
    """Tiles of a CUDA kernel: along either axis, odd channels, windows of nothing but padding."""
    if device == "cpu":
        pytest.skip("tiles of a CUDA kernel")
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        for direction in ("fwd", "dgrad"):
            pads = [padding[0], padding[0], padding[1], padding[1]]
            problem = [*shape, *kernel, 1, 1, *pads, 1, 1, 1]
            chosen = ops._depthwise_conv2d_explain(direction, "cuda", problem, str(dtype).removeprefix("torch."))
            assert chosen.startswith("fwd_sliding:")
        x = image(shape, dtype, device, torch.channels_last)
        weight, bias = (
            randn(shape[1], *rest, dtype=dtype, device=device, seed=seed) for seed, rest in ((1, (1, *kernel)), (2, ()))
        )
        y = assert_all(x, weight, bias, 1, padding)
        assert torch.equal(depthwise_conv2d(x, weight.float(), bias.float(), padding=padding), y)
        x[0, 1, 0, 3], x[-1, 2, -1, -1] = float("inf"), float("nan")
        seen = F.conv2d((~x.isfinite()).float(), torch.ones_like(weight).float(), None, 1, padding, 1, shape[1]) > 0.5
        now = depthwise_conv2d(x, weight, bias, padding=padding)
        assert torch.equal(now.isfinite(), ~seen)
        assert torch.equal(now[~seen], y[~seen])


def test_many_channels_of_small_images(device):
    """More work than there are blocks: one of the CUDA kernel for grad_weight goes through several times 32 images."""
    x = image((70, 2100, 7, 7), torch.float32, device, torch.contiguous_format)
    assert_all(x, randn(2100, 1, 3, 3, device=device, seed=1), padding=1)


@memory_formats
@pytest.mark.parametrize("padding", [(0, 20), (20, 0), (13, 17)])
def test_padding_beyond_the_kernel(padding, memory_format, device):
    """Outputs that see nothing but zeros, and gradients from there, which go nowhere."""
    x, weight = image((2, 18, 6, 5), torch.float32, device, memory_format), randn(18, 1, 3, 3, device=device, seed=1)
    for stride in (1, 3):
        assert_all(x, weight, randn(18, device=device), stride, padding)


@memory_formats
@pytest.mark.parametrize("size", [(1, 1), (1, 200), (200, 1), (300, 3), (3, 1030), (64, 64)])
def test_sizes(size, memory_format, device):
    """Tiles of one pixel, several tiles, and parts of one."""
    for channels in (3, 16):
        x = image((1, channels, *size), torch.float32, device, memory_format)
        for kernel, stride in ((3, 1), (5, 2), (7, 1)):
            assert_all(x, randn(channels, 1, kernel, kernel, device=device, seed=1), None, stride, kernel // 2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("size", [(7, 7), (14, 14)])
def test_large_batches(size, stride, dtype, device):
    """A block of the CUDA kernels goes through several images, and keeps its shared memory all the way."""
    for channels, batch in ((1, 5000), (40, 200)) if device == "cuda" else ((1, 300), (40, 20)):
        x = image((batch, channels, *size), dtype, device, torch.contiguous_format)
        for kernel in (3, 5, 7):
            assert_all(
                x, randn(channels, 1, kernel, kernel, device=device, seed=1).to(dtype), None, stride, kernel // 2
            )


@pytest.mark.parametrize("width", [70, 128, 251, 264, 1447])
@pytest.mark.parametrize(
    ("taps", "height", "stride", "padding"),
    [(2, 1, 1, (0, 1)), (4, 1, 1, (0, 3)), (15, 5, (2, 1), (2, 7)), (31, 1, 1, (0, 15)), (64, 3, 1, (0, 63))],
)
def test_long_rows(taps, height, stride, padding, width, device):
    """
    A warp of the CUDA kernel goes on from one row to the next, aligned or not; some rows are outside of the image.
    Few 16-bit numbers are divided among more threads.
    """
    for dtype, numbers in ((torch.float32, 140_000), (torch.float16, 140_000), (torch.bfloat16, 300_000)):
        x = image((numbers // (7 * height * width) + 1, 7, height, width), dtype, device, torch.contiguous_format)
        weight, bias = (randn(7, *rest, dtype=dtype, device=device, seed=1) for rest in ((1, 1, taps), ()))
        assert_all(x, weight, bias, stride, padding)


# Of CUDA, a warp has groups of two rows, or three; rows are whole groups of four outputs or not, some beyond the image.
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    ("taps", "shape", "top"),
    [
        (31, (100, 7, 1, 121), 0),
        (63, (200, 7, 1, 64), 0),
        (63, (9, 129, 1, 65), 0),
        (63, (100, 7, 1, 120), 0),
        (63, (2, 37, 3, 121), 1),
        (64, (200, 7, 1, 65), 0),
    ],
)
def test_few_outputs_of_long_rows(taps, shape, top, dtype, device):
    padding = (top, taps // 2)
    if device == "cuda":
        problem = [*shape, 1, taps, 1, 1, top, top, taps // 2, taps // 2, 1, 1, 0]
        for direction in ("fwd", "dgrad"):
            chosen = ops._depthwise_conv2d_explain(direction, "cuda", problem, str(dtype).removeprefix("torch."))
            assert chosen.startswith("fwd_dense_rows:")
    x = image(shape, dtype, device, torch.contiguous_format)
    numbers = (((shape[1], 1, 1, taps), 1), ((shape[1],), 2))
    weight, bias = (randn(*size, dtype=dtype, device=device, seed=seed) for size, seed in numbers)
    y = assert_all(x, weight, bias, 1, padding)
    if device == "cuda":
        assert torch.equal(depthwise_conv2d(x, weight.float(), bias.float(), padding=padding), y)


# On CUDA two rows may share a vector of outputs, and samples begin anywhere in one; few outputs have vectors of 8 bytes,
# many of 16.
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    ("taps", "shape", "stride", "padding"),
    [
        (4, (5, 243, 1, 333), 1, 3),
        (4, (3, 200, 1, 333), 1, 3),  # few outputs in float32, too
        (4, (7, 102, 1, 565), 1, 0),
        (4, (12, 102, 1, 565), 1, 0),  # many in 16 bits, too
        (3, (6, 585, 2, 66), 1, 1),
        (3, (9, 585, 2, 66), 1, 1),
        (3, (2, 175, 7, 207), 2, 1),
        (3, (6, 175, 7, 207), 2, 1),
        (2, (21, 126, 2, 68), 1, 1),
    ],
)
def test_few_taps_of_rows(taps, shape, stride, padding, dtype, device):
    if device == "cuda":
        problem = [*shape, 1, taps, stride, 1, 0, 0, padding, padding, 1, 1, 0]
        name = str(dtype).removeprefix("torch.")
        for direction in ("fwd",) if stride > 1 or dtype == torch.float16 else ("fwd", "dgrad"):
            chosen = ops._depthwise_conv2d_explain(direction, "cuda", problem, name)
            assert chosen.startswith("fwd_few_taps:")
    weight, bias = (randn(shape[1], *rest, dtype=dtype, device=device, seed=1) for rest in ((1, 1, taps), ()))
    for offset in (0, 3):  # not aligned
        x = torch.empty(math.prod(shape) + offset, dtype=dtype, device=device)[offset:].view(shape)
        x.copy_(image(shape, dtype, device, torch.contiguous_format))
        assert_all(x, weight, bias, (stride, 1), (0, padding))


def test_infinities_beside_few_taps_of_rows(device):
    """What lies beside a row, in memory or as padding, is not part of its sums."""
    x = torch.zeros(1, 400, 1, 257, device=device)
    x[:, ::2], x[..., 128] = torch.inf, 1
    problem = [*x.shape, 1, 3, 1, 1, 0, 0, 1, 1, 1, 1, 0]
    assert ops._depthwise_conv2d_explain("fwd", "cuda", problem, "float32").startswith("fwd_few_taps:")
    y = depthwise_conv2d(x, torch.ones(400, 1, 1, 3, device=device), padding=(0, 1))
    assert y[:, ::2].isinf().all()
    assert (y[:, 1::2].sum(dim=-1) == 3).all()


@pytest.mark.parametrize("width", [255, 256, 320, 384, 512, 1024])
@pytest.mark.parametrize("kernel", [3, 5])
def test_wide_images_at_stride_2(kernel, width, device):
    x = image((1, 2, 6, width), torch.float32, device, torch.contiguous_format)
    weight = randn(2, 1, kernel, kernel, device=device, seed=1)
    for padding in (kernel // 2, kernel // 2 + 1):
        assert_all(x, weight, None, 2, padding)


@pytest.mark.parametrize("size", [(14, 14), (16, 16), (40, 16), (33, 14), (18, 14), (20, 15), (17, 15), (15, 8)])
@pytest.mark.parametrize("kernel", [5, 7, 9])
def test_narrow_images_of_16_bit_numbers(kernel, size, device):
    """One warp of the CUDA kernel stores all of a plane, or 16 rows of it, by vectors or element by element."""
    for dtype in (torch.float16, torch.bfloat16):
        x = image((3, 5, *size), dtype, device, torch.contiguous_format)
        weight, bias = (randn(5, *rest, dtype=dtype, device=device, seed=1) for rest in ((1, kernel, kernel), ()))
        assert_all(x, weight, bias, 1, kernel // 2)


# Sizes for which an H200 copies into shared memory: with fwd_planes, wgrad_planes, wgrad_mma_planes, fwd_mma
# and fwd_pixels.
@pytest.mark.parametrize(
    ("shape", "kernel", "stride", "memory_format"),
    [
        ((64, 96, 15, 15), 3, 1, torch.contiguous_format),
        ((16, 96, 61, 43), 5, 2, torch.contiguous_format),
        ((64, 127, 15, 15), 5, 2, torch.contiguous_format),
        ((64, 96, 17, 31), 5, 2, torch.contiguous_format),
        ((1, 13, 15, 15), 5, 1, torch.contiguous_format),
        ((16, 13, 15, 15), 7, 1, torch.contiguous_format),
        ((4, 127, 15, 15), 7, 2, torch.channels_last),
    ],
)
def test_odd_rows_of_16_bit_numbers(shape, kernel, stride, memory_format, device):
    """CUDA's asynchronous copies take four bytes or more: such rows are read element by element, many by one thread."""
    x = image(shape, torch.float16, device, memory_format)
    weight = randn(x.shape[1], 1, kernel, kernel, dtype=torch.float16, device=device, seed=1)
    assert_all(x, weight, None, stride, kernel // 2)


# (channels, size, kernel, stride, padding) of the depthwise layers of published networks, as oneDNN's benchmark lists
# them: MobileNet, MobileNetV2, MnasNet and EfficientNet, ShuffleNet, Xception, ResNeXt's widest, FaceNet-like odd ones.
NETWORKS = [
    (32, 112, 3, 1, 1),
    (64, 112, 3, 2, 1),
    (96, 112, 3, 2, 1),
    (144, 56, 3, 1, 1),
    (144, 56, 5, 2, 2),
    (192, 28, 3, 2, 1),
    (240, 28, 5, 1, 2),
    (576, 14, 3, 1, 1),
    (672, 14, 5, 2, 2),
    (960, 7, 3, 1, 1),
    (1024, 7, 7, 1, 0),
    (1152, 7, 5, 1, 2),
    (728, 19, 3, 1, 1),
    (58, 28, 3, 1, 1),
    (512, 7, 7, 1, 3),
    (128, 37, 3, 2, 0),
]


@memory_formats
@pytest.mark.parametrize(("channels", "size", "kernel", "stride", "padding"), NETWORKS)
def test_layers_of_networks(channels, size, kernel, stride, padding, memory_format, device):
    for dtype in (torch.float32, torch.bfloat16):
        x = image((1, channels, size, size), dtype, device, memory_format)
        weight = randn(channels, 1, kernel, kernel, dtype=dtype, device=device, seed=1)
        assert_all(x, weight, None, stride, padding)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", SAME_SHAPE)
def test_layouts(layout, dtype, device):
    x = make(layout, dtype, device)
    wide = randn(2 * x.shape[1], 1, 4, 6, dtype=dtype, device=device, seed=1)
    bias = randn(2 * x.shape[1], dtype=dtype, device=device, seed=2)[::2]
    for weight in (wide[::2, :, :3, 1:4], wide[::2, :, 1:4, :3].transpose(2, 3), wide[::2, :, :1, :1].expand(-1, -1, 3, 3),
                   wide[:1, :, :3, :3].expand(x.shape[1], -1, -1, -1)):  # fmt: skip
        for stride in (1, 2):
            assert_all(x, weight, bias, stride, 1)


@memory_formats
@pytest.mark.parametrize("channels", [6, 8])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_tensors_at_any_address(dtype, channels, memory_format, device):
    """As views of one flat buffer are, which optimizers and sharded models make of their parameters."""

    def unaligned(t):
        shifted = torch.empty(t.numel() + 1, dtype=t.dtype, device=device)[1:]
        return torch.as_strided(shifted, t.shape, t.stride(), shifted.storage_offset()).copy_(t)

    x, weight = (
        image((2, channels, 9, 11), dtype, device, memory_format),
        randn(channels, 1, 3, 3, dtype=dtype, device=device, seed=1),
    )
    for stride in (1, 2):
        y = assert_all(x, unaligned(weight), unaligned(weight[:, 0, 0, 0].clone()), stride, 1)
        assert_all(unaligned(x), weight, None, stride, 1)
        inputs = [t.detach().requires_grad_() for t in (x, weight)]
        grads = [
            torch.autograd.grad(depthwise_conv2d(*inputs, None, stride, 1), inputs, grad)
            for grad in (y.detach(), unaligned(y.detach()))
        ]
        torch.testing.assert_close(*grads)


@memory_formats
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("channels", [8, 57, 58])
@pytest.mark.parametrize("padding", [(0, 0), (0, 1), (1, 3), (5, 2), (13, 17)])
def test_paddings_at_stride_2(padding, channels, dtype, memory_format, device):
    for size in ((9, 14), (12, 7)):
        x = image((2, channels, *size), dtype, device, memory_format)
        for kernel in (3, 5):
            weight = randn(channels, 1, kernel, kernel, dtype=dtype, device=device, seed=1)
            assert_all(x, weight, None, 2, padding)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("stride", "padding"), [(1, 1), (2, 1), (2, 0)])
@pytest.mark.parametrize(("channels", "kernel"), [(65, 3), (130, 3), (257, 5)])
def test_many_pixels_of_channels_that_no_thread_shares_evenly(channels, kernel, stride, padding, dtype, device):
    x = image((4, channels, 57, 66), dtype, device, torch.channels_last)
    weight = randn(channels, 1, kernel, kernel, dtype=dtype, device=device, seed=1)
    assert_all(x, weight, None, stride, padding + kernel // 2 - 1)


def test_one_pixel_keeps_its_memory_format(device):
    weight = torch.randn(5, 1, 3, 3, device=device)
    x = torch.randn(2, 5, 1, 1, device=device)
    assert depthwise_conv2d(x, weight, padding=2).is_contiguous()
    last = torch.empty_like(x, memory_format=torch.channels_last)
    assert depthwise_conv2d(last, weight, padding=2).is_contiguous(memory_format=torch.channels_last)


def test_without_a_batch(device):
    x, weight = randn(6, 9, 8, device=device), randn(6, 1, 3, 3, device=device)
    assert torch.equal(depthwise_conv2d(x, weight, stride=2), depthwise_conv2d(x[None], weight, stride=2)[0])


@memory_formats
@pytest.mark.parametrize("shape", [(0, 3, 4, 5), (2, 0, 4, 5), (0, 40, 4, 5)])
def test_empty_batch(shape, memory_format, device):
    x = torch.ones(shape, device=device).contiguous(memory_format=memory_format).requires_grad_()
    weight = torch.ones(shape[1], 1, 3, 2, device=device, requires_grad=True)
    bias = torch.ones(shape[1], device=device, requires_grad=True)
    out = depthwise_conv2d(x, weight, bias, padding=1)
    assert out.shape == (*shape[:2], 4, 6)
    out.sum().backward()
    assert x.grad.shape == x.shape
    assert torch.equal(weight.grad, torch.zeros_like(weight))
    assert torch.equal(bias.grad, torch.zeros_like(bias))


@memory_formats
@pytest.mark.parametrize(
    ("batch", "width"), [(1, 40), (1, 7), (9, 7), (9, 8), (1000, 7), (1000, 8), (5000, 7), (5000, 8)]
)
def test_infinities_and_nan_stay_where_they_belong(batch, width, memory_format, device):
    """Zeros of the padding meet no number, and no number meets another channel's."""
    for channels in (3, 13, 20):
        x = image((batch, channels, 6, width), torch.float32, device, memory_format)
        x[0, 1, 2, -1], x[0, 2, 0, 0] = float("inf"), float("nan")
        weight_grad = ops._depthwise_conv2d_grad_weight(torch.ones_like(x), x, 3, 3, 1, 1, 1, 1, 1, 1).cpu()
        assert weight_grad[0].isfinite().all()
        assert weight_grad[3:].isfinite().all()
        if device == "cpu":  # most CUDA kernels multiply with the zeros around the images
            assert torch.equal(weight_grad[1, 0].isfinite(), torch.tensor([[True, False, False]] * 3))
            assert torch.equal(weight_grad[2, 0].isnan().nonzero(), torch.tensor([[0, 0], [0, 1], [1, 0], [1, 1]]))
        weight = torch.ones(channels, 1, 3, 3, device=device)
        weight[0] = float("inf")
        y = depthwise_conv2d(x, weight, padding=1).cpu()
        expected = torch.zeros(6, width, dtype=torch.bool)
        expected[1:4, -2:] = True
        assert torch.equal(y[0, 1].isinf(), expected)
        assert torch.equal(y[0, 2].isnan().nonzero(), torch.tensor([[0, 0], [0, 1], [1, 0], [1, 1]]))
        assert y[0, 3:].isfinite().all()


def test_infinities_and_nan_in_gradients_of_windows_wider_than_images(device):
    """wgrad_small, which on GPUs computes this, multiplies with no zeros around the images."""
    x = image((64, 1024, 7, 7), torch.float32, device, torch.contiguous_format)
    problem = [*x.shape, 13, 13, 1, 1, 6, 6, 6, 6, 1, 1, 0]
    assert ops._depthwise_conv2d_explain("wgrad", "cuda", problem, "float32").startswith("wgrad_small:")
    x[0, 1, 2, -1], x[0, 2, 0, 0] = float("inf"), float("nan")
    weight_grad = ops._depthwise_conv2d_grad_weight(torch.ones_like(x), x, 13, 13, 1, 1, 6, 6, 1, 1).cpu()
    assert weight_grad[0].isfinite().all()
    assert weight_grad[3:].isfinite().all()
    for channel, taps in ((1, (slice(2, 9), slice(6, 13))), (2, (slice(0, 7), slice(0, 7)))):
        meet = torch.zeros(13, 13, dtype=torch.bool)
        meet[taps] = True
        assert torch.equal(~weight_grad[channel, 0].isfinite(), meet)


@memory_formats
@pytest.mark.parametrize("size", [(14, 14), (18, 14), (33, 40)])
@pytest.mark.parametrize("kernel", [5, 9])
def test_infinities_and_nan_in_16_bit_images(kernel, size, memory_format, device):
    """Only the outputs that see them, although tensor cores multiply all of a row by zeros."""
    x = image((2, 9, *size), torch.float16, device, memory_format)
    x[0, 1, 2, -1], x[1, 2, 0, 0] = float("inf"), float("nan")
    weight = randn(9, 1, kernel, kernel, dtype=torch.float16, device=device, seed=1)
    y = depthwise_conv2d(x, weight, padding=kernel // 2).cpu()
    bad = (
        F.conv2d((~x.isfinite()).double().cpu(), torch.ones(9, 1, kernel, kernel).double(), None, 1, kernel // 2, 1, 9)
        > 0
    )
    assert torch.equal(y.isfinite(), ~bad)
    assert torch.equal(y[0].isinf(), bad[0])
    assert torch.equal(y[1].isnan(), bad[1])
    finite = x.double().cpu().masked_fill(~x.isfinite().cpu(), 0)
    assert_close(y[~bad], F.conv2d(finite, weight.double().cpu(), None, 1, kernel // 2, 1, 9)[~bad])


@memory_formats
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("shape", "kernel", "stride"), [((9, 40, 30, 33), 5, 1), ((40, 3, 50, 20), 3, 2), ((64, 96, 7, 7), 7, 1)]
)
def test_same_bits_every_time(shape, kernel, stride, dtype, memory_format, device):
    x = image(shape, dtype, device, memory_format)
    weight = randn(shape[1], 1, kernel, kernel, dtype=dtype, device=device)
    numbers = (stride, stride, kernel // 2, kernel // 2, 1, 1)
    grad = torch.randn_like(depthwise_conv2d(x, weight, None, stride, kernel // 2))

    def all_three():
        return (
            depthwise_conv2d(x, weight, None, stride, kernel // 2),
            ops._depthwise_conv2d_grad_input(grad, weight, *shape[2:], *numbers, memory_format == torch.channels_last),
            ops._depthwise_conv2d_grad_weight(grad, x, kernel, kernel, *numbers),
        )

    first, before = all_three(), torch.get_num_threads()
    try:
        for threads in (before, 1, 3):
            torch.set_num_threads(threads)
            assert all(torch.equal(a, b) for a, b in zip(first, all_three(), strict=True))
    finally:
        torch.set_num_threads(before)


def test_random_arguments(device):
    chance = random.Random(0)
    for case in range(250):
        kernel, stride, padding = (
            [chance.randint(low, high) for _ in range(2)] for low, high in ((1, 8), (1, 4), (0, 5))
        )
        dilation = [chance.choice([1, 1, 2, 3]) for _ in range(2)]
        least = [d * (k - 1) + 1 - 2 * p for k, d, p in zip(kernel, dilation, padding, strict=True)]
        size = [max(chance.randint(1, 30), least[0]), max(chance.randint(1, 90), least[1])]
        channels, dtype = chance.choice([1, 2, 3, 8, 9, 16, 20, 33]), chance.choice(DTYPES)
        x = make(
            chance.choice(["contiguous", "channels_last", "sliced"]),
            dtype,
            device,
            case,
            (chance.randint(1, 3), channels, *size),
        )
        weight = randn(channels, 1, *kernel, dtype=dtype, device=device, seed=case)
        bias = randn(channels, dtype=dtype, device=device, seed=case) if chance.random() < 0.5 else None
        assert_all(x, weight, bias, stride, padding, dilation)
