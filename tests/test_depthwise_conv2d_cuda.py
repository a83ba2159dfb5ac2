"""depthwise_conv2d where CUDA's kernels divide their work in ways of their own; the same sizes on CPUs."""

import math

import pytest
import torch
from depthwise import (
    assert_all,
    assert_close,
    image,
    memory_formats,
    opened,  # noqa: F401
    randn,
    reference,
    size_that_chooses,
)
from torch.nn import functional as F

from customops import depthwise_conv2d

ops = torch.ops.customops


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("size", [(5, 5), (6, 6), (7, 7), (1, 5), (4, 6), (2, 7)])
@pytest.mark.parametrize("channels", [34, 37])
def test_whole_small_channels_last_images(channels, size, stride, dtype, device):
    """A thread of the CUDA kernel fwd_direct has an image of one channel or two."""
    outputs = channels * ((size[0] - 1) // stride + 1) * ((size[1] - 1) // stride + 1)
    batch = 1_000_000 // outputs + 1  # so many outputs of channels_last are not for cuDNN
    directions = ["fwd", "dgrad"][: 3 - stride]  # dgrad at stride 2 has tiles
    problem = (batch, channels, *size), 3, stride, 1
    batch, channels, *_ = size_that_chooses("fwd_direct", directions, dtype, "nhwc", *problem, levels=[1_000_000])
    x = image((batch if device == "cuda" else 3, channels, *size), dtype, device, torch.channels_last)
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
@pytest.mark.parametrize(("kernel", "size", "stride", "padding", "dilation"), [
    ((51, 5), (7, 33), 1, (25, 2), 1), ((29, 9), (7, 33), 1, (14, 4), 1), ((24, 9), (7, 36), 1, (12, 4), 1),
    ((31, 7), (9, 9), (2, 1), (15, 3), 1), ((9, 40), (8, 8), 1, (8, 60), (2, 3)),
])  # fmt: skip
def test_many_outputs_of_windows_larger_than_the_image(kernel, size, stride, padding, dilation, memory_format, device):
    """The CUDA ops copy the part of the weight that meets a pixel; a float32 one for 16-bit images too."""
    images = 64 if device == "cuda" else 2
    for dtype in (torch.float32, torch.float16):
        x = image((images, 240, *size), dtype, device, memory_format)
        weight = randn(240, 1, *kernel, dtype=dtype, device=device, seed=1)
        y = assert_all(x, weight, randn(240, dtype=dtype, device=device, seed=2), stride, padding, dilation)
    bias = randn(240, dtype=dtype, device=device, seed=2)
    with torch.no_grad():
        assert torch.equal(depthwise_conv2d(x, weight.float(), bias.float(), stride, padding, dilation), y)


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


@memory_formats
@pytest.mark.parametrize("size", [(15, 15), (16, 15), (8, 9), (20, 7)])
def test_gradients_a_few_rows_high(size, memory_format, device):
    """Tiles of four rows of wgrad_direct cover them with fewer rows than those of seven."""
    for channels, kernel, dtype in ((16, 3, torch.float16), (17, 3, torch.float32), (16, 5, torch.float32)):
        x = image((9, channels, *size), dtype, device, memory_format)
        weight = randn(channels, 1, kernel, kernel, dtype=dtype, device=device, seed=1)
        assert_all(x, weight, None, 2, kernel // 2)


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
    # Outputs from which on, on an H200, a thread takes two channels in 16 bits; in float32; and a block two tiles.
    window, levels = (kernel, 1, padding), [675_840, 3_244_032, 17_301_504]
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        size = size_that_chooses("fwd_sliding", ["fwd", "dgrad"], dtype, "nhwc", shape, *window, levels=levels)
        if device == "cpu":
            continue  # tiles of a CUDA kernel
        x = image(size, dtype, device, torch.channels_last)
        weight, bias = (
            randn(size[1], *rest, dtype=dtype, device=device, seed=seed) for seed, rest in ((1, (1, *kernel)), (2, ()))
        )
        y = assert_all(x, weight, bias, 1, padding)
        assert torch.equal(depthwise_conv2d(x, weight.float(), bias.float(), padding=padding), y)
        x[0, 1, 0, 3], x[-1, 2, -1, -1] = float("inf"), float("nan")
        seen = F.conv2d((~x.isfinite()).float(), torch.ones_like(weight).float(), None, 1, padding, 1, size[1]) > 0.5
        now = depthwise_conv2d(x, weight, bias, padding=padding)
        assert torch.equal(now.isfinite(), ~seen)
        assert torch.equal(now[~seen], y[~seen])


# A weight of float32 is rounded before the kernel.
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    ("shape", "kernel", "stride", "dilation"),
    [
        ((16, 66, 29, 23), 3, 1, 1),
        ((16, 64, 29, 23), 3, 2, 1),
        ((3, 64, 29, 23), 3, 1, 2),
        ((7, 35, 19, 23), 5, 1, 1),
        ((7, 34, 19, 23), 5, 2, 1),
    ],
)
def test_float32_weights_of_fwd_direct(shape, kernel, stride, dilation, dtype, device):
    padding, last = dilation * (kernel // 2), torch.channels_last
    window = kernel, stride, padding, dilation
    shape = size_that_chooses("fwd_direct", ["fwd", "dgrad"], dtype, "nhwc", shape, *window, steps=(1, 2))
    x, weight = image(shape, dtype, device, last), randn(shape[1], 1, kernel, kernel, device=device, seed=1)
    results = []
    for w in (weight, weight.to(dtype)):
        inputs = [t.detach().requires_grad_() for t in (x, w)]
        y = depthwise_conv2d(*inputs, None, *window[1:])
        results.append((y, torch.autograd.grad(y, inputs[0], image(y.shape, dtype, device, last, seed=3))[0]))
    assert all(map(torch.equal, *results))


def test_many_channels_of_small_images(device):
    """More work than there are blocks: one of the CUDA kernel for grad_weight goes through several times 32 images."""
    x = image((70, 2100, 7, 7), torch.float32, device, torch.contiguous_format)
    assert_all(x, randn(2100, 1, 3, 3, device=device, seed=1), padding=1)


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


# Sizes for which an H200 copies into shared memory: with fwd_planes, wgrad_planes, wgrad_mma_planes and
# fwd_mma.
@pytest.mark.parametrize(
    ("shape", "kernel", "stride", "memory_format"),
    [
        ((64, 96, 15, 15), 3, 1, torch.contiguous_format),
        ((16, 96, 61, 43), 5, 2, torch.contiguous_format),
        ((64, 127, 15, 15), 5, 2, torch.contiguous_format),
        ((64, 96, 17, 31), 5, 2, torch.contiguous_format),
        ((1, 13, 15, 15), 5, 1, torch.contiguous_format),
        ((16, 13, 15, 15), 7, 1, torch.contiguous_format),
    ],
)
def test_odd_rows_of_16_bit_numbers(shape, kernel, stride, memory_format, device):
    """CUDA's asynchronous copies take four bytes or more: such rows are read element by element, many by one thread."""
    x = image(shape, torch.float16, device, memory_format)
    weight = randn(x.shape[1], 1, kernel, kernel, dtype=torch.float16, device=device, seed=1)
    assert_all(x, weight, None, stride, kernel // 2)


def between_nan(shape, start, device, seed):
    """A channels_last image that starts so many elements after an aligned address, with NaN before and after it."""
    batch, channels, height, width = shape
    memory = torch.full((start + math.prod(shape) + 9,), math.nan, dtype=torch.bfloat16, device=device)
    view = memory[start : start + math.prod(shape)].view(batch, height, width, channels).permute(0, 3, 1, 2)
    return view.copy_(randn(*shape, seed=seed))


@pytest.mark.parametrize("start", [0, 3])
@pytest.mark.parametrize(
    ("chosen", "direction", "stride", "shape"),
    [
        ("fwd_pixels", "fwd", 1, (64, 61, 25, 31)),
        ("fwd_pixels", "fwd", 2, (64, 66, 25, 31)),
        ("fwd_pixels", "dgrad", 1, (64, 33, 31, 25)),
        ("fwd_pixels", "dgrad", 2, (64, 167, 29, 29)),
        ("wgrad_pixels", "wgrad", 2, (64, 87, 29, 29)),
        ("wgrad_mma_pixels", "wgrad", 1, (64, 151, 7, 9)),
        ("wgrad_mma_pixels", "wgrad", 1, (64, 45, 47, 45)),
        ("wgrad_mma_pixels", "wgrad", 1, (64, 50, 27, 33)),
    ],
)
def test_channels_that_aligned_accesses_do_not_divide(chosen, direction, stride, shape, start, device):
    """CUDA's kernels copy the aligned 16 bytes around such channels, and a block goes through several images."""
    size = size_that_chooses(chosen, [direction], torch.bfloat16, "nhwc", shape, 7, stride, 3, least=(64, 4))
    if device == "cpu":
        size = (3, size[1] % 8 + 16, *size[2:])
    x = between_nan(size, start, device, 0).requires_grad_()
    weight = randn(size[1], 1, 7, 7, dtype=torch.bfloat16, device=device, seed=1).requires_grad_()
    y = depthwise_conv2d(x, weight, None, stride, 3)
    grad = between_nan(y.shape, start, device, 2)
    theirs = [t.detach().double().cpu().requires_grad_() for t in (x, weight)]
    expected = reference(*theirs, None, stride, 3)
    assert_close(y.detach(), expected.detach())
    oracles = torch.autograd.grad(expected, theirs, grad.double().cpu())
    for gradient, oracle in zip(torch.autograd.grad(y, (x, weight), grad), oracles, strict=True):
        assert_close(gradient, oracle)


def test_infinities_and_nan_in_gradients_of_windows_wider_than_images(device):
    """wgrad_small, which on GPUs computes this, multiplies with no zeros around the images."""
    shape = size_that_chooses("wgrad_small", ["wgrad"], "float32", "nchw", (64, 1024, 7, 7), 13, 1, 6)
    x = image(shape, torch.float32, device, torch.contiguous_format)
    x[0, 1, 2, -1], x[0, 2, 0, 0] = float("inf"), float("nan")
    weight_grad = ops._depthwise_conv2d_grad_weight(torch.ones_like(x), x, 13, 13, 1, 1, 6, 6, 1, 1).cpu()
    assert weight_grad[0].isfinite().all()
    assert weight_grad[3:].isfinite().all()
    for channel, taps in ((1, (slice(2, 9), slice(6, 13))), (2, (slice(0, 7), slice(0, 7)))):
        meet = torch.zeros(13, 13, dtype=torch.bool)
        meet[taps] = True
        assert torch.equal(~weight_grad[channel, 0].isfinite(), meet)
