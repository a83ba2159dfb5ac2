import random

import pytest
import torch
from common import COMPILE_BACKENDS, DTYPES, OPCHECK_DTYPE, SAME_SHAPE, compiled_in_one_graph, make
from depthwise import (
    FORMATS,
    assert_close,
    image,
    memory_formats,
    opened,  # noqa: F401
    randn,
    reference,
)
from torch.autograd import gradcheck, gradgradcheck
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
    for dtype in (torch.float32, torch.bfloat16):
        x = image((2, channels, 9, 11), dtype, device, memory_format)
        weight = randn(channels, 1, 3, 3, dtype=dtype, device=device, seed=1)
        assert_all(x, weight, randn(channels, dtype=dtype, device=device, seed=2), padding=1)


@memory_formats
@pytest.mark.parametrize("channels", [2, 3, 4, 5, 12])
def test_large_images_of_few_channels(channels, memory_format, device):
    for kernel, stride, width in ((3, 1, 130), (3, 2, 131), (4, 3, 57), (2, (1, 3), 56)):
        x = image((1, channels, 97, width), torch.float32, device, memory_format)
        weight = randn(channels, 1, kernel, kernel, device=device, seed=1)
        assert_all(x, weight, randn(channels, device=device, seed=2), stride, kernel // 2)


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
@pytest.mark.parametrize("size", [(7, 7), (8, 8), (16, 5), (1, 3)])
@pytest.mark.parametrize("kernel", [(3, 3), (2, 4), (4, 3), (13, 13), (15, 1)])
def test_small_images(kernel, size, memory_format, device):
    """Wider and narrower than the kernel, odd and even numbers of elements, more images than a warp has lanes."""
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        for batch, channels in ((35, 6), (3, 7), (70, 1)):
            x = image((batch, channels, *size), dtype, device, memory_format)
            weight, bias = (randn(channels, *rest, dtype=dtype, device=device, seed=1) for rest in ((1, *kernel), ()))
            assert_all(x, weight, bias, 1, (kernel[0] // 2, kernel[1] // 2))


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
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_tensors_at_any_address(dtype, memory_format, device):
    """As views of one flat buffer are, which optimizers and sharded models make of their parameters."""

    def unaligned(t):
        shifted = torch.empty(t.numel() + 1, dtype=t.dtype, device=device)[1:]
        return torch.as_strided(shifted, t.shape, t.stride(), shifted.storage_offset()).copy_(t)

    x, weight = (
        image((2, 8, 9, 11), dtype, device, memory_format),
        randn(8, 1, 3, 3, dtype=dtype, device=device, seed=1),
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
@pytest.mark.parametrize("channels", [8, 58])
@pytest.mark.parametrize("padding", [(0, 0), (0, 1), (1, 3), (5, 2), (13, 17)])
def test_paddings_at_stride_2(padding, channels, dtype, memory_format, device):
    for size in ((9, 14), (12, 7)):
        x = image((2, channels, *size), dtype, device, memory_format)
        for kernel in (3, 5):
            weight = randn(channels, 1, kernel, kernel, dtype=dtype, device=device, seed=1)
            assert_all(x, weight, None, 2, padding)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("stride", "padding"), [(1, 1), (2, 1), (2, 0)])
@pytest.mark.parametrize(("channels", "kernel"), [(58, 3), (129, 5)])
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
@pytest.mark.parametrize(("batch", "width"), [(1, 40), (1, 7), (9, 7), (9, 8)])
def test_infinities_and_nan_stay_where_they_belong(batch, width, memory_format, device):
    """Zeros of the padding meet no number, and no number meets another channel's."""
    for channels in (3, 13, 20):
        x = image((batch, channels, 6, width), torch.float32, device, memory_format)
        x[0, 1, 2, -1], x[0, 2, 0, 0] = float("inf"), float("nan")
        weight_grad = ops._depthwise_conv2d_grad_weight(torch.ones_like(x), x, 3, 3, 1, 1, 1, 1, 1, 1).cpu()
        assert weight_grad[0].isfinite().all()
        assert weight_grad[3:].isfinite().all()
        exact = device == "cpu" or (batch > 1 and memory_format == torch.contiguous_format)
        if exact:  # the other CUDA kernels multiply with the zeros around the images, too
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
        ((2, 16, 30, 130), (7,), 1, 1),
        ((3, 24, 15, 22), (7,), 2, 3),
        ((2, 8, 70, 33), (7,), 2, 2),
        ((2, 24, 14, 14), (7,), 2, (3, 0)),
        ((1, 1, 1500, 1500), (5,), 1, "same"),
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
@pytest.mark.parametrize(("size", "kernel", "stride"), [(14, 5, 1), (12, 7, 1), (40, 7, 1), (40, 7, 2)])
def test_infinities_in_weight_gradients_of_16_bit_images(size, kernel, stride, memory_format, device):
    """Each only in the taps that meet it, however the others are summed."""
    if device == "cuda" and torch.cuda.get_device_capability() < (8, 0):
        pytest.skip("without tensor cores for this, kernels multiply with the zeros around the images, too")
    x = image((3, 24, size, size), torch.bfloat16, device, memory_format)
    middle = kernel // 2
    numbers = (kernel, kernel, stride, stride, middle, middle, 1, 1)
    grad = image((3, 24, *2 * ((size - 1) // stride + 1,)), torch.bfloat16, device, memory_format, seed=1)
    x[2, 1, 0, 0], x[0, 17, 1, -1], grad[1, 3, 0, 0] = float("inf"), float("nan"), float("-inf")

    def meetings(x, grad):
        shape = (24, 1, kernel, kernel)
        return torch.nn.grad.conv2d_weight(x.cpu().double(), shape, grad.cpu().double(), stride, middle, groups=24)

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


@pytest.mark.parametrize(
    ("kernel", "arguments"),
    [
        ((3, 3), ()),
        ((3, 3), (1, 1)),
        ((2, 3), (2, (1, 2))),
        ((3, 2), ((1, 3), (2, 0), 2)),
        ((3, 1), ((3, 2), 1, (1, 2))),
        ((2, 2), (1, "same")),
    ],
)
def test_derivatives(kernel, arguments, device):
    for memory_format in FORMATS:
        x = image((2, 3, 5, 6), torch.float64, device, memory_format).requires_grad_()
        weight = randn(3, 1, *kernel, dtype=torch.float64, device=device, seed=1).requires_grad_()
        bias = randn(3, dtype=torch.float64, device=device, seed=2).requires_grad_()
        op = lambda x, weight, bias: depthwise_conv2d(x, weight, bias, *arguments)  # noqa: E731
        assert gradcheck(op, (x, weight, bias), check_forward_ad=True, fast_mode=True)
        assert gradgradcheck(op, (x, weight, bias), check_fwd_over_rev=True, fast_mode=True)
    assert gradcheck(op, (x, weight, bias), check_batched_grad=True)
    assert gradgradcheck(op, (x, weight, bias))


def test_third_derivative(device):
    x, weight = (
        randn(*shape, dtype=torch.float64, device=device).requires_grad_() for shape in ((1, 2, 6, 5), (2, 1, 3, 3))
    )

    def third(conv, x, weight):
        y = conv(x.square(), weight.square())
        for _ in range(3):
            gx, gw = torch.autograd.grad(y.square().sum(), (x, weight), create_graph=True)
            y = gx.mean() * gw
        return y.detach().cpu()

    ours = third(lambda x, weight: depthwise_conv2d(x, weight, None, 2, 1), x, weight)
    theirs = third(
        lambda x, weight: F.conv2d(x, weight, None, 2, 1, 1, 2),
        *(t.detach().cpu().requires_grad_() for t in (x, weight)),
    )
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=0)


@pytest.mark.parametrize("requires_grad", [False, True])
def test_opcheck(requires_grad, device):
    weight, bias = randn(3, 1, 3, 2, dtype=OPCHECK_DTYPE, device=device), randn(3, dtype=OPCHECK_DTYPE, device=device)
    for layout in ("contiguous", "channels_last", "sliced"):
        x = make(layout, OPCHECK_DTYPE, device, shape=(2, 3, 8, 9))
        for numbers in ((1, 1, 0, 0, 0, 0, 1, 1), (2, 1, 1, 2, 3, 0, 1, 2)):
            inputs = [t.detach().requires_grad_(requires_grad) for t in (x, weight, bias)]
            torch.library.opcheck(ops.depthwise_conv2d.default, (*inputs, *numbers))
            if requires_grad:  # the others have no autograd
                continue
            torch.library.opcheck(ops._depthwise_conv2d.default, (x, weight.float(), None, *numbers))
            grad = (
                torch.randn_like(depthwise_conv2d(x, weight))
                if numbers[0] == 1
                else ops._depthwise_conv2d(x, weight, None, *numbers)
            )
            steps = (*numbers[:2], numbers[2], numbers[4], *numbers[6:])
            torch.library.opcheck(
                ops._depthwise_conv2d_grad_input.default, (grad, weight, 8, 9, *steps, layout == "channels_last")
            )
            torch.library.opcheck(
                ops._depthwise_conv2d_gradients.default, (grad, x, weight.float(), *steps, True, True, True)
            )
            for float32 in (False, True):
                torch.library.opcheck(ops._depthwise_conv2d_grad_weight.default, (grad, x, 3, 2, *steps, float32))


@pytest.mark.compiled
@pytest.mark.parametrize("backend", COMPILE_BACKENDS)
@pytest.mark.parametrize("dynamic", [False, True])
@memory_formats
def test_compile(memory_format, backend, dynamic, device):
    """In float64: compilers add up in another order, and sums that cancel out show that in float32."""
    options = {"dtype": torch.float64, "device": device}
    weight = torch.randn(3, 1, 3, 2, **options, requires_grad=True)
    bias = torch.randn(3, **options, requires_grad=True)

    def op(x):
        x = depthwise_conv2d(x, weight, bias, 1, "same")
        return depthwise_conv2d(x, weight, None, (2, 1), (1, 2), (1, 2)) * 2

    compiled = compiled_in_one_graph(op, backend, dynamic)
    for size in ((8, 9), (11, 14)):
        x = torch.randn(2, 3, *size, **options).contiguous(memory_format=memory_format).requires_grad_()
        y = compiled(x)
        torch.testing.assert_close(y, op(x))
        assert y.stride() == op(x).stride()
        ours = torch.autograd.grad(y.square().sum(), (x, weight, bias))
        theirs = torch.autograd.grad(op(x).square().sum(), (x, weight, bias))
        for a, b in zip(ours, theirs, strict=True):
            torch.testing.assert_close(a, b)
        with torch.no_grad():
            torch.testing.assert_close(compiled(x), op(x))


@pytest.mark.compiled
def test_compile_is_not_repeated_for_every_size(device):
    weight, graphs = torch.randn(3, 1, 3, 3, device=device), []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph

    op = compiled_in_one_graph(lambda x: depthwise_conv2d(x, weight, None, 2, 1), backend, True)
    for size in (16, 20, 33):
        op(torch.randn(2, 3, size, size + 1, device=device))
    assert len(graphs) == 1


def test_forward_mode_and_functorch(device):
    x, tx = randn(2, 2, 3, 5, 6, dtype=torch.float64, device=device)
    w, tw = randn(2, 3, 1, 3, 2, dtype=torch.float64, device=device, seed=1)
    b, tb = randn(2, 3, dtype=torch.float64, device=device, seed=2)
    op = lambda x, w, b: depthwise_conv2d(x, w, b, 2, 1)  # noqa: E731
    tangent = op(tx, w, tb) + op(x, tw, None)
    torch.testing.assert_close(torch.func.jvp(op, (x, w, b), (tx, tw, tb))[1], tangent)
    torch.testing.assert_close(torch.func.jvp(lambda b: op(x, w, b), (b,), (tb,))[1], op(torch.zeros_like(x), w, tb))
    torch.testing.assert_close(torch.func.jvp(lambda w: op(x, w, b), (w,), (tw,))[1], op(x, tw, None))
    loss = lambda x, w, b: op(x, w, b).square().sum()  # noqa: E731
    leaves = [t.clone().requires_grad_() for t in (x, w, b)]
    expected = torch.autograd.grad(loss(*leaves), leaves)
    for ours, theirs in zip(torch.func.grad(loss, (0, 1, 2))(x, w, b), expected, strict=True):
        torch.testing.assert_close(ours, theirs)
    ws, xs = torch.stack([w, tw]), torch.stack([x, tx])
    torch.testing.assert_close(
        torch.func.vmap(op)(xs, ws, torch.stack([b, tb])), torch.stack([op(x, w, b), op(tx, tw, tb)])
    )
    per_sample = torch.func.vmap(torch.func.grad(loss, 1), (0, None, None))(xs, w, b)
    torch.testing.assert_close(per_sample[1], torch.func.grad(loss, 1)(tx, w, b))
    hessian = torch.func.hessian(lambda w: loss(x[:1, :1], w, None))(w[:1])
    torch.testing.assert_close(hessian, torch.func.jacrev(torch.func.grad(lambda w: loss(x[:1, :1], w, None)))(w[:1]))


ONES, WEIGHT = torch.ones(2, 3, 4, 5), torch.ones(3, 1, 3, 3)


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("meta", [False, True])
@pytest.mark.parametrize(
    ("x", "weight", "arguments", "message"),
    [
        (ONES[0, 0], WEIGHT, (), r"x must have shape \(N, C, H, W\), got \(4, 5\)"),
        (ONES.int(), WEIGHT.int(), (), "x must be float32, float64, float16 or bfloat16, got"),
        (ONES[:, :, :0], WEIGHT, (), r"x must have at least one pixel, got shape \(2, 3, 0, 5\)"),
        (ONES, WEIGHT.double(), (), "weight must have the dtype of x, torch.float32, got torch.float64"),
        (ONES, WEIGHT.half(), (), "weight must have the dtype of x, torch.float32, got torch.float16"),
        (ONES.half(), WEIGHT.bfloat16(), (), "weight must have the dtype of x, torch.float16, or torch.float32, got torch.bf"),
        (ONES.half(), WEIGHT, (torch.ones(3).double(),), "bias must have the dtype of x, torch.float16, or torch.float32, got"),
        (ONES, WEIGHT[:2], (), r"weight must have shape \(C, 1, kH, kW\) with C = 3, got \(2, 1, 3, 3\)"),
        (ONES, WEIGHT[:, 0], (), r"weight must have shape \(C, 1, kH, kW\) with C = 3, got \(3, 3, 3\)"),
        (ONES, WEIGHT[:, 0], (None, 1, "same"), r"weight must have shape \(C, 1, kH, kW\) with C = 3, got \(3, 3, 3\)"),
        (ONES, WEIGHT.expand(3, 3, 3, 3), (), r"weight must have shape .* C = 3, got \(3, 3, 3, 3\)"),
        (ONES, WEIGHT[..., :0], (), r"weight must have shape .* C = 3, got \(3, 1, 3, 0\)"),
        (ONES, WEIGHT, (torch.ones(2),), r"bias must have shape \(C,\) with C = 3, got \(2,\)"),
        (ONES, WEIGHT, (torch.ones(3, 1),), r"bias must have shape \(C,\) with C = 3, got \(3, 1\)"),
        (ONES, WEIGHT, (torch.ones(3).half(),), "bias must have the dtype of x, torch.float32, got torch.float16"),
        (ONES, WEIGHT, (None, 0), "stride must be at least 1, got 0 along y"),
        (ONES, WEIGHT, (None, (1, -1)), "stride must be at least 1, got -1 along x"),
        (ONES, WEIGHT, (None, 1, 0, (1, 0)), "dilation must be at least 1, got 0 along x"),
        (ONES, WEIGHT, (None, 1, (1, -1)), "padding must not be negative, got -1 along x"),
        (ONES, WEIGHT, (None, 1, 0, 2), r"must fit into the padded image along y, got 4 \+ padding 0 \+ 0 = 4 pixels .* spans 5"),
        (ONES, WEIGHT, (None, 1, (1, 0), (1, 3)), r"along x, got 5 \+ padding 0 \+ 0 = 5 pixels for a kernel that spans 7"),
    ],
)  # fmt: skip
def test_bad_input(x, weight, arguments, message, requires_grad, meta, device):
    where = "meta" if meta else device
    x, weight, *arguments = [a.to(where) if isinstance(a, torch.Tensor) else a for a in (x, weight, *arguments)]
    if requires_grad and x.is_floating_point():
        x, weight = x.clone().requires_grad_(), weight.clone().requires_grad_()
    with pytest.raises(RuntimeError, match="depthwise_conv2d: .*" + message):
        depthwise_conv2d(x, weight, *arguments)


@pytest.mark.parametrize("meta", [False, True])
def test_bad_input_of_the_gradients(meta, device):
    where = "meta" if meta else device
    x, weight = ONES.to(where), WEIGHT.to(where)
    with pytest.raises(RuntimeError, match=r"grad_input: grad must have at least 3 pixels along y, .* got 2"):
        ops._depthwise_conv2d_grad_input(x[:, :, :2], weight, 4, 5, 1, 1, 1, 1, 1, 1, False)
    with pytest.raises(RuntimeError, match="grad_input: weight must have the dtype of grad"):
        ops._depthwise_conv2d_grad_input(x, weight.double(), 4, 5, 1, 1, 1, 1, 1, 1, False)
    with pytest.raises(
        RuntimeError, match=r"grad_weight: grad must have shape \(N, C, oH, oW\) with N = 2 and C = 3, got"
    ):
        ops._depthwise_conv2d_grad_weight(x[:1], x, 3, 3, 1, 1, 1, 1, 1, 1)
    with pytest.raises(
        RuntimeError, match="grad_weight: image and kernel must have at least one pixel along x, got 5 and 0"
    ):
        ops._depthwise_conv2d_grad_weight(x, x, 3, 0, 1, 1, 1, 1, 1, 1)


def test_bad_arguments(device):
    x, weight = ONES.to(device), WEIGHT.to(device)
    with pytest.raises(ValueError, match=r"stride must be a number or a pair, got \[1, 2, 3\]"):
        depthwise_conv2d(x, weight, None, [1, 2, 3])
    with pytest.raises(ValueError, match="dilation must be a number or a pair, got 'same'"):
        depthwise_conv2d(x, weight, None, dilation="same")
    with pytest.raises(ValueError, match="padding must be a number, a pair, 'same' or 'valid', got 'full'"):
        depthwise_conv2d(x, weight, padding="full")
    with pytest.raises(ValueError, match=r"padding='same' needs a stride of 1, got \(1, 2\)"):
        depthwise_conv2d(x, weight, None, (1, 2), "same")
    with pytest.raises(RuntimeError, match="weight must be on the device of x"):
        depthwise_conv2d(x, weight.to("meta"))
    with pytest.raises(NotImplementedError, match=r"depthwise_conv2d: expected dense tensors .*, got torch.sparse_coo"):
        depthwise_conv2d(x.to_sparse().requires_grad_(), weight.clone().requires_grad_())
    with pytest.raises(
        RuntimeError, match=r"_depthwise_conv2d.* Expected a value of type 'int' for argument 'stride_h'"
    ):
        depthwise_conv2d(x.clone().requires_grad_(), weight.clone().requires_grad_(), None, (1.5, 1))
    with pytest.raises(RuntimeError, match="output_mask must have 3 flags, got 1"):
        torch.ops.aten.mps_convolution_backward(x, x, weight, (1, 1), (1, 1), (1, 1), 3, [True])
    with pytest.raises(
        RuntimeError, match=r"stride, dilation and padding must be at most 2\^31, got 1, 4611686018427387904"
    ):
        depthwise_conv2d(x, weight, None, dilation=(2**62, 1))
    # torch's modules keep a tuple of one number as it is.
    assert torch.equal(depthwise_conv2d(x, weight, None, (1,), (1,), (1,)), depthwise_conv2d(x, weight, None, 1, 1, 1))
