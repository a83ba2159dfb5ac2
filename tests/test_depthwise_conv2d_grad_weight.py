"""The gradient of depthwise_conv2d's weight by tensor cores, and long sums."""

import pytest
import torch
from depthwise import (
    assert_close,
    image,
    kernel_of,
    memory_formats,
    opened,  # noqa: F401
    pair,
    randn,
    size_that_chooses,
)
from torch.nn import functional as F

from customops import depthwise_conv2d

ops = torch.ops.customops


# Of the weight's gradient by tensor cores: a plane a warp, odd widths, channels and batches that fill no block, rows and
# columns that take several warps, blocks or patches, and a sum too long for them.
@memory_formats
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    ("shape", "kernels", "stride", "padding"),
    [
        ((5, 6, 14, 14), (5, 7), 1, "same"),
        ((70, 24, 14, 14), (5, 7), 1, "same"),
        ((3, 5, 13, 9), (5, 7), 1, "same"),
        ((2, 40, 11, 12), (5, 7), 1, 0),
        ((2, 8, 10, 16), (5, 7), 1, (4, 6)),
        ((2, 8, 12, 12), (5, 7), 1, (1, 0)),
        ((2, 16, 56, 44), (5, 7), 1, "same"),
        ((2, 24, 40, 60), (7,), 1, "same"),
        ((1, 8, 150, 20), (5, 7), 1, 3),
        ((4, 63, 57, 57), (5, 7), 1, "same"),
        ((1, 5, 15, 15), (5, 7), 1, "same"),
        ((2, 16, 30, 130), (7,), 1, 1),
        ((3, 24, 15, 22), (7,), 2, 3),
        ((2, 8, 70, 33), (7,), 2, 2),
        ((2, 24, 14, 14), (7,), 2, (3, 0)),
        ((1, 1, 1500, 1500), (5,), 1, "same"),
        # Small images, also of channels that are no multiple of four.
        ((64, 96, 7, 7), (7,), 1, "same"),
        ((116, 150, 7, 6), (7,), 1, 3),
        ((33, 50, 14, 13), (7,), 1, 3),
        # Two channels a thread of wgrad_direct, in tiles of four and of seven rows.
        ((2100, 130, 3, 3), (5,), 2, 2),
        ((2100, 130, 13, 1), (5,), 2, 2),
    ],
)
def test_weight_gradients_of_16_bit_images(shape, kernels, stride, padding, dtype, memory_format, device):
    x = image(shape, dtype, device, memory_format)
    for kernel in kernels:
        weight = randn(shape[1], 1, kernel, kernel, dtype=dtype, device=device).requires_grad_()
        y = depthwise_conv2d(x, weight, None, stride, padding)
        grad = image(y.shape, dtype, device, memory_format, seed=3)
        (actual,) = torch.autograd.grad(y, weight, grad)
        pad = padding if padding != "same" else kernel // 2
        expected = torch.nn.grad.conv2d_weight(
            x.double().cpu(), weight.shape, grad.double().cpu(), stride, pad, groups=shape[1]
        )
        assert_close(actual, expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    ("shape", "padding"),
    [
        ((116, 151, 7, 6), (3, 3)),
        ((33, 51, 14, 13), (3, 3)),
        ((30, 17, 16, 16), (1, 3)),
        ((30, 33, 16, 21), (3, 0)),
        ((30, 33, 22, 21), (0, 0)),  # two patches
        ((600, 3, 9, 9), (6, 5)),
    ],
)
def test_weight_gradients_of_odd_channels(shape, padding, dtype, device):
    """The kernel on tensor cores copies the aligned 16 bytes around them."""
    shape = size_that_chooses("wgrad_mma_pixels", ["wgrad"], dtype, "nhwc", shape, 7, 1, padding)
    test_weight_gradients_of_16_bit_images(shape, (7,), 1, padding, dtype, torch.channels_last, device)


# Pixels a dilation apart are images of their own: of unequal sizes, without padding or with much, for few pixels and many.
@memory_formats
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("shape", "dilation", "padding"),
    [
        ((1, 88, 28, 28), 4, 4),
        ((1, 13, 28, 28), 4, 4),
        ((2, 24, 33, 21), 2, (2, 1)),
        ((3, 7, 9, 40), (1, 3), (1, 6)),
        ((2, 10, 12, 13), (5, 4), 0),
        ((2, 10, 12, 13), (3, 4), 0),
        ((9, 64, 40, 40), 2, 2),
    ],
)
def test_weight_gradients_at_a_dilation(shape, dilation, padding, dtype, memory_format, device):
    x = image(shape, dtype, device, memory_format)
    weight = randn(shape[1], 1, 3, 3, dtype=dtype, device=device).requires_grad_()
    y = depthwise_conv2d(x, weight, None, 1, padding, dilation)
    grad = image(y.shape, dtype, device, memory_format, seed=3)
    (actual,) = torch.autograd.grad(y, weight, grad)
    exact = x.double().cpu(), weight.shape, grad.double().cpu()
    assert_close(actual, torch.nn.grad.conv2d_weight(*exact, 1, padding, dilation, shape[1]))


# One block has all pixels of its channels: each of its threads one walk, or several; and a few more than it takes.
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("shape", "kernel", "stride"),
    [
        ((1, 64, 9, 14), (4, 4), 2),
        ((15, 33, 6, 6), (5, 5), 2),
        ((1, 130, 8, 187), (1, 17), (1, 3)),
        ((1, 40, 30, 30), (4, 4), 1),
        ((16, 12, 17, 17), (4, 4), 1),
        ((16, 12, 17, 9), (4, 4), 1),
    ],
)
def test_weight_gradients_of_few_pixels(shape, kernel, stride, dtype, device):
    x = image(shape, dtype, device, torch.channels_last)
    weight = randn(shape[1], 1, *kernel, dtype=dtype, device=device).requires_grad_()
    y = depthwise_conv2d(x, weight, None, stride)
    grad = image(y.shape, dtype, device, torch.channels_last, seed=3)
    (actual,) = torch.autograd.grad(y, weight, grad)
    exact = x.double().cpu(), weight.shape, grad.double().cpu()
    assert_close(actual, torch.nn.grad.conv2d_weight(*exact, stride, groups=shape[1]))


def assert_weight_gradient(x, grad, other, kernel, numbers):
    """Right for both gradients, the same bits each time, and infinite only in taps that meet an infinity."""
    channels, dtype, (stride_h, stride_w, *padding, dilation_h, dilation_w) = x.shape[1], x.dtype, numbers

    def exact(x, grad):
        size = (channels, 1, *kernel)
        return torch.nn.grad.conv2d_weight(
            x.double().cpu(),
            size,
            grad.double().cpu(),
            (stride_h, stride_w),
            padding,
            (dilation_h, dilation_w),
            channels,
        )

    first = ops._depthwise_conv2d_grad_weight(grad, x, *kernel, *numbers)
    assert_close(first, exact(x, grad))
    wide = ops._depthwise_conv2d_grad_weight(grad, x, *kernel, *numbers, True)
    assert wide.dtype == torch.promote_types(dtype, torch.float32)
    layout = "nchw" if x.is_contiguous() else "nhwc"
    strides, dilations = (stride_h, stride_w), (dilation_h, dilation_w)
    chosen = kernel_of("wgrad", x.device.type, dtype, layout, x.shape, kernel, strides, tuple(padding), dilations)
    if chosen == "wgrad_torch":  # which rounds, so that another kernel computes the wide one
        assert_close(wide, exact(x, grad))
    else:
        assert torch.equal(wide.to(dtype), first)
    second = ops._depthwise_conv2d_grad_weight(other, x, *kernel, *numbers)
    assert_close(second, exact(x, other))
    for _ in range(20):  # not what the call before left in memory
        assert torch.equal(ops._depthwise_conv2d_grad_weight(grad, x, *kernel, *numbers), first)
        assert torch.equal(ops._depthwise_conv2d_grad_weight(other, x, *kernel, *numbers), second)
    grad[0, 1, 0, 0], x[-1, 3, -1, -1] = float("inf"), float("nan")
    bad = exact(~x.isfinite(), torch.ones_like(grad)) + exact(torch.ones_like(x), ~grad.isfinite()) > 0
    assert 0 < bad.sum() < bad.numel()
    actual = ops._depthwise_conv2d_grad_weight(grad, x, *kernel, *numbers).cpu()
    assert torch.equal(actual.isfinite(), ~bad)
    assert_close(actual[~bad], exact(*(t.masked_fill(~t.isfinite(), 0) for t in (x, grad)))[~bad])


@memory_formats
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("shape", "kernel", "stride", "padding", "dilation"),
    [
        ((3, 9, 42, 28), (4, 4), 2, (2, 2), 1),
        ((3, 10, 42, 28), (4, 4), 2, (2, 2), 1),  # two channels a thread
        ((2, 6, 60, 67), (7, 1), 2, (3, 0), 1),
        ((2, 6, 9, 61), (1, 3), 1, (0, 0), 9),  # nine residues, of four or five outputs
        ((3, 9, 37, 68), (1, 5), 3, (0, 2), 2),
        ((3, 33, 25, 58), (4, 4), 2, (2, 2), 2),  # clusters of 4, not of 8
        ((1, 53, 52, 56), (4, 4), 2, (1, 1), 1),
    ],
)
def test_weight_gradients_by_clusters_of_blocks(shape, kernel, stride, padding, dilation, dtype, memory_format, device):
    """
    Sums of a cluster of blocks, or of blocks that a second kernel adds up: right, the same bits each time, and infinite
    only in taps that meet an infinity. On an H100 or H200 most in float32 are those of clusters.
    """
    numbers = (stride, stride, *padding, dilation, dilation)
    if memory_format == torch.channels_last:
        shape = size_that_chooses("wgrad_sliding", ["wgrad"], dtype, "nhwc", shape, kernel, stride, padding, dilation)
    x = image(shape, dtype, device, memory_format)
    out = F.conv2d(x[:1, :1].cpu().double(), torch.ones(1, 1, *kernel).double(), None, stride, padding, dilation).shape
    grad = image((*shape[:2], *out[2:]), dtype, device, memory_format, seed=3)
    assert_weight_gradient(x, grad, image(grad.shape, dtype, device, memory_format, seed=4), kernel, numbers)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize(
    ("shape", "kernel", "stride", "padding", "dilation"),
    [
        ((1, 480, 18, 14), (2, 2), 3, 2, 2),  # one block has all outputs of its channels
        ((8, 663, 23, 6), (1, 2), 1, (0, 1), 3),  # clusters; odd channels
        ((164, 18, 7, 7), (1, 3), 3, 0, 1),  # a second kernel adds up splits
        ((3, 112, 14, 14), (5, 5), 2, 2, 1),  # a last group of fewer taps
        ((1, 225, 65, 5), (7, 1), 3, (3, 0), 1),
        ((2, 26, 32, 32), (2, 2), 4, 0, 4),
        ((5, 94, 40, 5), (10, 1), 4, 0, 1),
    ],
)
def test_weight_gradients_of_few_outputs(shape, kernel, stride, padding, dilation, dtype, device):
    """By wgrad_points on GPUs. Comments are about float32 on an H200."""
    shape = size_that_chooses("wgrad_points", ["wgrad"], dtype, "nhwc", shape, kernel, stride, padding, dilation)
    x = image(shape, dtype, device, torch.channels_last)
    out = F.conv2d(x[:1, :1].cpu().double(), torch.ones(1, 1, *kernel).double(), None, stride, padding, dilation).shape
    grad, other = (image((*shape[:2], *out[2:]), dtype, device, torch.channels_last, seed=seed) for seed in (3, 4))
    assert_weight_gradient(x, grad, other, kernel, (stride, stride, *pair(padding), dilation, dilation))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    ("kernel", "stride", "shape", "padding"),
    [
        (5, 1, (46, 495, 7, 7), (2, 2)),  # odd planes: runs of channels start anywhere in 16 bytes; rounds of images
        (5, 1, (262, 79, 6, 10), (0, 2)),  # splits of three rounds; a last block of fewer planes
        (5, 1, (28, 63, 7, 29), (3, 1)),  # four accesses wide; splits; parts of planes
        (5, 1, (6, 192, 8, 14), (4, 4)),
        (5, 1, (3, 1100, 5, 5), (2, 0)),
        (5, 1, (34, 191, 8, 7), (3, 3)),  # the most threads; splits; a last block of fewer planes
        (5, 1, (2, 453, 4, 4), (3, 1)),  # windows larger than images
        (5, 2, (15, 512, 14, 14), (2, 2)),
        (5, 2, (46, 495, 7, 7), (2, 2)),
        (5, 2, (21, 315, 6, 10), (0, 2)),
        (5, 2, (120, 39, 8, 21), (4, 0)),  # splits
        (5, 2, (20, 333, 8, 6), (4, 2)),  # the most threads
        (5, 2, (26, 117, 4, 31), (3, 4)),  # three accesses wide
        (5, 2, (1, 255, 3, 3), (2, 2)),  # windows larger than images
        (3, 2, (46, 495, 7, 7), (2, 2)),
        (3, 2, (58, 448, 10, 14), (0, 0)),  # a last column that no tap meets
        (3, 2, (28, 384, 7, 14), (2, 2)),  # the most threads
        (3, 2, (170, 512, 4, 3), (2, 1)),  # three rounds of images
        (3, 2, (37, 15, 12, 18), (0, 0)),  # the most threads, for parts of planes
        (3, 2, (132, 216, 8, 7), (2, 2)),  # splits
    ],
)
def test_weight_gradients_of_whole_planes(kernel, stride, shape, padding, dtype, device):
    """Every kernel that wgrad_whole_planes has, on GPUs. Comments on blocks are about sizes that choose it themselves."""
    window, steps = (kernel, stride, padding), (1, 2)
    shape = size_that_chooses("wgrad_whole_planes", ["wgrad"], dtype, "nchw", shape, *window, steps=steps)
    x = image(shape, dtype, device, torch.contiguous_format)
    size = [(n + 2 * p - kernel) // stride + 1 for n, p in zip(shape[2:], padding, strict=True)]
    grad, other = (image((*shape[:2], *size), dtype, device, torch.contiguous_format, seed=seed) for seed in (3, 4))
    assert_weight_gradient(x, grad, other, (kernel, kernel), (stride, stride, *padding, 1, 1))


# Small images of many channels: on CPUs all rows of one are summed at once, in several tiles of channels, of which the
# last are no register; the last image is summed row by row. At a stride tiles have few channels, or
# more where images are many.
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize(
    ("shape", "kernel", "stride", "padding"),
    [
        ((5, 150, 7, 7), (3, 3), 1, 1),
        ((3, 70, 14, 14), (3, 3), 1, 1),  # as large as an image is taken whole
        ((3, 85, 4, 9), (5, 5), 1, 2),
        ((3, 85, 4, 9), (4, 5), (2, 1), (1, 2)),
        ((70, 33, 3, 2), (7, 7), 1, 3),
        ((2, 64, 12, 13), (1, 3), 1, 0),
        ((9, 520, 8, 9), (3, 3), 2, 1),
        ((9, 500, 9, 9), (5, 4), 2, 0),
        ((21, 1536, 7, 7), (3, 3), 2, 1),
        ((33, 41, 14, 7), (3, 3), 2, 1),  # several rows at once, a part of the tile's at the end
        ((20, 300, 6, 6), (5, 5), 2, 2),
        ((5, 200, 9, 9), (4, 3), (3, 2), (3, 1)),
        ((130, 33, 14, 14), (5, 5), (3, 4), 4),
    ],
)
def test_weight_gradients_of_small_images(shape, kernel, stride, padding, dtype, device):
    x = image(shape, dtype, device, torch.channels_last)
    weight = randn(shape[1], 1, *kernel, dtype=dtype, device=device).requires_grad_()
    y = depthwise_conv2d(x, weight, None, stride, padding)
    grad = image(y.shape, dtype, device, torch.channels_last, seed=3)
    (actual,) = torch.autograd.grad(y, weight, grad)
    exact = x.double().cpu(), weight.shape, grad.double().cpu()
    assert_close(actual, torch.nn.grad.conv2d_weight(*exact, stride, padding, groups=shape[1]))


@memory_formats
@pytest.mark.parametrize(
    ("size", "kernel", "stride", "top", "bottom"),
    [(14, 5, 1, 2, 4), (14, 5, 1, 2, 5), (14, 5, 1, 2, 9), (14, 7, 1, 3, 12), (32, 7, 2, 0, 9)],
)
def test_weight_gradients_with_much_padding_below(size, kernel, stride, top, bottom, memory_format, device):
    """As `padding` cannot ask for, but the ops beneath it."""
    x = image((2, 16, size, size), torch.float16, device, memory_format)
    out_h, out_w = ((size + pads - kernel) // stride + 1 for pads in (top + bottom, 6))
    grad = image((2, 16, out_h, out_w), torch.float16, device, memory_format, seed=1)
    actual = ops._depthwise_conv2d_grad_weight(grad, x, kernel, kernel, stride, stride, top, 3, 1, 1)
    padded = F.pad(x.double().cpu(), (3, 3, top, bottom))
    expected = torch.nn.grad.conv2d_weight(padded, (16, 1, kernel, kernel), grad.double().cpu(), stride, groups=16)
    assert_close(actual, expected)


@memory_formats
@pytest.mark.parametrize(
    ("channels", "size", "kernel", "stride"),
    [(24, 14, 5, 1), (24, 12, 7, 1), (19, 12, 7, 1), (24, 40, 7, 1), (24, 40, 7, 2)],
)
def test_infinities_in_weight_gradients_of_16_bit_images(channels, size, kernel, stride, memory_format, device):
    """Each only in the taps that meet it, however the others are summed."""
    by_pixels = stride == 2 and memory_format == torch.channels_last  # wgrad_pixels, without tensor cores on any GPU
    if device == "cuda" and (by_pixels or torch.cuda.get_device_capability() < (8, 0)):
        pytest.skip("without tensor cores for this, kernels multiply with the zeros around the images, too")
    middle, batch = kernel // 2, 40
    if not by_pixels:
        problem, least = ((batch, channels, size, size), kernel, stride, middle), (3, 18)
        chosen = "wgrad_mma_*"
        batch, channels, *_ = size_that_chooses(chosen, ["wgrad"], "bfloat16", memory_format, *problem, least=least)
    x = image((batch, channels, size, size), torch.bfloat16, device, memory_format)
    numbers = (kernel, kernel, stride, stride, middle, middle, 1, 1)
    grad = image((batch, channels, *2 * ((size - 1) // stride + 1,)), torch.bfloat16, device, memory_format, seed=1)
    x[2, 1, 0, 0], x[0, 17, 1, -1], grad[1, 3, 0, 0] = float("inf"), float("nan"), float("-inf")

    def meetings(x, grad):
        shape = (channels, 1, kernel, kernel)
        return torch.nn.grad.conv2d_weight(
            x.cpu().double(), shape, grad.cpu().double(), stride, middle, groups=channels
        )

    bad_x, bad_grad = ~x.isfinite(), ~grad.isfinite()
    bad = meetings(bad_x, torch.ones_like(grad)) + meetings(torch.ones_like(x), bad_grad) > 0
    assert 0 < bad[1].sum() < kernel**2
    actual = ops._depthwise_conv2d_grad_weight(grad, x, *numbers)
    assert torch.equal(actual.isfinite().cpu(), ~bad)
    assert torch.equal(actual[[1, 3]].isinf().cpu(), bad[[1, 3]])
    assert torch.equal(actual[17].isnan().cpu(), bad[17])
    expected = meetings(*(t.masked_fill(~t.isfinite(), 0) for t in (x, grad)))
    assert_close(actual.cpu()[~bad], expected[~bad])


def test_long_sums_keep_their_precision(device):
    """2 million products a tap: one sum in float32 would lose three digits."""
    x = torch.ones(32, 2, 256, 256, device=device)
    dw = ops._depthwise_conv2d_grad_weight(x, x, 1, 1, 1, 1, 0, 0, 1, 1)
    assert dw.flatten().tolist() == [2**21] * 2
    x = torch.rand(32, 2, 256, 256, device=device) + 0.5
    for y in (x, x.contiguous(memory_format=torch.channels_last)):
        dw = ops._depthwise_conv2d_grad_weight(y, y, 3, 3, 1, 1, 1, 1, 1, 1)
        torch.testing.assert_close(dw[:, 0, 1, 1].double(), x.double().square().sum((0, 2, 3)), rtol=1e-6, atol=0)


@memory_formats
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize(
    ("shape", "stride", "padding"),
    [
        ((5, 70, 7, 9), 1, 0),
        ((2, 24, 33, 32), 2, 1),
        ((1, 16, 300, 300), 1, 0),
        ((2, 3, 130, 131), (2, 3), (1, 2)),
        ((3, 2, 64, 64), 1, 0),
        ((1, 1, 1, 70_000), 1, 0),
        ((40, 300, 3, 3), 3, 4),
        ((40, 47, 6, 6), 2, 0),
        ((5, 21, 63, 1), (3, 4), 0),
        ((7, 227, 6, 27), 1, 0),
        ((3, 61, 151, 153), 1, 0),
    ],
)
def test_weight_gradients_of_one_tap(shape, stride, padding, dtype, memory_format, device):
    """A warp a channel, a block, and several; by vectors, of several pixels too, and where outputs lie on padding."""
    x = image(shape, dtype, device, memory_format)
    weight = randn(shape[1], 1, 1, 1, dtype=dtype, device=device).requires_grad_()
    y = depthwise_conv2d(x, weight, None, stride, padding)
    grad = image(y.shape, dtype, device, memory_format, seed=3)
    (actual,) = torch.autograd.grad(y, weight, grad)
    exact = x.double().cpu(), weight.shape, grad.double().cpu()
    assert_close(actual, torch.nn.grad.conv2d_weight(*exact, stride, padding, groups=shape[1]))


@memory_formats
@pytest.mark.parametrize("shape", [(7, 29, 6, 27), (3, 61, 151, 153)])
def test_infinities_in_weight_gradients_of_one_tap(shape, memory_format, device):
    """Vectors that two channels or the end of the images share, and pixels that are computed together."""
    for dtype in (torch.float16, torch.float32):
        x, grad = (image(shape, dtype, device, memory_format, seed=seed) for seed in (1, 2))
        finite = ops._depthwise_conv2d_grad_weight(grad, x, 1, 1, 1, 1, 0, 0, 1, 1)
        x[1, 3, 0, 0], x[-1, -1, -1, -1], grad[0, 8, -1, -1] = float("inf"), float("nan"), float("-inf")
        actual = ops._depthwise_conv2d_grad_weight(grad, x, 1, 1, 1, 1, 0, 0, 1, 1)
        seen = torch.zeros(shape[1], dtype=torch.bool, device=device)
        seen[[3, 8, shape[1] - 1]] = True
        assert torch.equal(actual.isfinite().flatten(), ~seen)
        assert torch.equal(actual[~seen], finite[~seen])


# As much as tensor cores are given, more in one image, and more in one split of a batch if nothing held it back.
@pytest.mark.parametrize(("batch", "channels", "size"), [(1, 1, 350), (1, 1, 700), (4, 660, 350)])
def test_long_sums_of_products_of_16_bit_numbers(batch, channels, size, device):
    """Tensor cores round sums towards zero: numbers of one sign must not show it."""
    shape, channels = (batch, 1, size, size), channels if device == "cuda" else 1
    x, grad = (randn(*shape, dtype=torch.float16, device=device, seed=seed).abs() for seed in (1, 2))
    alike = (t.expand(-1, channels, -1, -1).contiguous() for t in (grad, x))
    actual = ops._depthwise_conv2d_grad_weight(*alike, 5, 5, 1, 1, 2, 2, 1, 1, True)
    expected = torch.nn.grad.conv2d_weight(x.double().cpu(), (1, 1, 5, 5), grad.double().cpu(), 1, 2)
    assert actual.dtype == torch.float32
    torch.testing.assert_close(actual.double().cpu(), expected.expand_as(actual), rtol=2e-4, atol=0)
