"""depthwise_conv2d and its gradients against torch's convolution in float64, over shapes and arguments."""

import itertools
import random

import pytest
import torch
from common import DTYPES, SAME_SHAPE, make
from depthwise import (
    FORMATS,
    assert_all,
    assert_close,
    image,
    memory_formats,
    opened,  # noqa: F401
    randn,
)
from torch.nn import functional as F

from customops import depthwise_conv2d

ops = torch.ops.customops


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


# Shape, taps, stride, padding, dilation: rows that fill registers and that do not; few images and many; taps side by side
# or parted by a stride or a dilation; windows that are mostly padding.
COLUMNS = [
    ((2, 24, 28, 28), 11, 1, 5, 1), ((2, 64, 20, 9), 3, 1, 1, 1), ((9, 3, 12, 6), 2, 1, 0, 1),
    ((2, 2, 6, 2), 4, 1, 3, 1),  # rows of less than a register
    ((3, 17, 19, 4), 7, 2, 2, 1), ((2, 12, 40, 11), 16, 3, 7, 1), ((2, 40, 31, 7), 5, 1, 4, 2),
    ((2, 5, 50, 13), 9, 1, 0, 3), ((2, 16, 10, 30), 19, 1, 12, 1),
    ((2, 33, 23, 8), 2, 3, 0, 1),  # pixels that no tap reads
]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("shape", "taps", "stride", "padding", "dilation"), COLUMNS)
def test_columns_of_taps(shape, taps, stride, padding, dilation, dtype, device):
    """A CPU treats rows of channels_last images as pixels of more channels."""
    window = (stride, 1), (padding, 0), (dilation, 1)
    x = image(shape, dtype, device, torch.channels_last)
    weight = randn(shape[1], 1, taps, 1, dtype=dtype, device=device, seed=1)
    bias = randn(shape[1], dtype=dtype, device=device, seed=2)
    many = assert_all(x, weight, bias, *window)
    if device == "cpu":
        one = x[:1].clone().requires_grad_()
        y = depthwise_conv2d(one, weight, bias, *window)
        assert torch.equal(many[:1], y)
        all_ = x.clone().requires_grad_()
        grads = [torch.autograd.grad(depthwise_conv2d(t, weight, bias, *window).sum(), t)[0] for t in (all_, one)]
        assert torch.equal(grads[0][:1], grads[1])


@memory_formats
@pytest.mark.parametrize("dtype", DTYPES)
def test_strides_along_one_pixel(dtype, memory_format, device):
    """Images one pixel wide are computed as rows, whatever stride they have along that pixel."""
    for taps, stride, padding, dilation in ((2, 2, 0, 4), (5, 1, 2, 1), (31, 1, 15, 1), (3, 3, 4, 2)):
        for batch, channels in ((3, 5), (40, 16)):
            for shape, along in (((75, 1), 0), ((1, 75), 1)):
                x = image((batch, channels, *shape), dtype, device, memory_format)
                kernel, window = [1, 1], [[4, 4], [0, 0], [2, 2]]
                kernel[along] = taps
                for values, value in zip(window, (stride, padding, dilation), strict=True):
                    values[along] = value
                weight = randn(channels, 1, *kernel, dtype=dtype, device=device, seed=1)
                assert_all(x, weight, randn(channels, dtype=dtype, device=device, seed=2), *map(tuple, window))


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
@pytest.mark.parametrize("channels", [1, 2, 3, 5, 8])
def test_few_channels_under_windows_that_leave_short_rows(channels, memory_format, device):
    """Of 40 pixels of a row, windows leave 21 outputs or fewer: registers end with each row."""
    for rows in (1, 3, 6, 12, 13):
        for kernel, stride, dtype in (((7, 20), (1, 1), torch.float32), ((4, 31), (1, 2), torch.bfloat16),
                                      ((9, 25), (2, 1), torch.float64), ((6, 33), (1, 1), torch.float16)):  # fmt: skip
            x = image((2, channels, kernel[0] + (rows - 1) * stride[0], 40), dtype, device, memory_format)
            weight = randn(channels, 1, *kernel, dtype=dtype, device=device, seed=1)
            assert_all(x, weight, randn(channels, dtype=dtype, device=device, seed=2), stride, 0)


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


def test_strides_whose_square_is_beyond_32_bits(device):
    """Of one channel, which no kernel of torch computes for us. The inverse of the dilation is large, too."""
    x = image((1, 1, 1, 400_020), torch.float32, device, torch.contiguous_format)
    assert_all(x, randn(1, 1, 1, 3, device=device, seed=1), None, (1, 200_003), 0, (1, 3))


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


# What CPUs prefetch of outputs: the next block, or a part of the next row where a stride scatters them; of inputs: the
# columns that taps read, of one phase or of several, and the next row that they read.
@pytest.mark.parametrize(
    ("batch", "kernel", "stride", "dilation", "dtype"),
    [
        (4, (3, 3), 1, 1, torch.float32),
        (7, (2, 1), 1, 1, torch.bfloat16),
        (4, (3, 3), 2, 1, torch.float32),
        (7, (1, 2), 2, 1, torch.bfloat16),
        (4, (2, 2), 3, 1, torch.float32),
        (4, (2, 3), 4, (1, 3), torch.float32),
        (4, (3, 2), (1, 3), 1, torch.float32),
    ],
)
def test_images_beyond_the_l2_cache(batch, kernel, stride, dilation, dtype, device):
    x = image((batch, 61, 40, 41), dtype, device, torch.channels_last)
    weight, bias = (randn(61, *rest, dtype=dtype, device=device, seed=1) for rest in ((1, *kernel), ()))
    assert_all(x, weight, bias, stride, 0, dilation)
