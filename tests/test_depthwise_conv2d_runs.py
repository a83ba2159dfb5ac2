"""depthwise_conv2d of little work, for which CUDA has fwd_runs and fwd_channels; on other devices their values alone."""

import pytest
import torch
from depthwise import assert_all, assert_chosen, image, opened, randn, size_that_chooses  # noqa: F401

from customops import depthwise_conv2d

DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16]


@pytest.mark.parametrize("dtype", DTYPES[1:])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize(
    ("shape", "kernel", "padding"),
    [
        ((1, 24, 28, 28), 3, 1),
        ((2, 31, 13, 17), 3, 1),  # rows that no run divides
        ((1, 16, 57, 31), 3, 0),
        ((3, 20, 7, 7), 3, 4),  # padding wider than the window
        ((1, 33, 21, 30), 4, 1),
        ((1, 24, 28, 28), 5, 2),
        ((2, 17, 11, 33), 5, (1, 3)),
        ((1, 24, 28, 28), 7, 3),
        ((1, 15, 9, 41), 7, (6, 2)),
        ((8, 1, 57, 61), 3, 1),  # one channel
    ],
)
def test_runs_that_share_rows(shape, kernel, padding, stride, dtype, device):
    directions = ["fwd", "dgrad"] if stride == 1 else ["fwd"]
    assert_chosen("fwd_runs", directions, dtype, "nchw", shape, (kernel, stride, padding), device, steps=(1, 1))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("shape", "kernel", "stride", "padding", "dilation"),
    [
        ((1, 40, 28, 28), 2, 2, 0, 1),
        ((1, 40, 27, 31), 2, (1, 3), (1, 0), (2, 1)),
        ((1, 24, 28, 28), 3, 3, 1, 1),
        ((1, 32, 28, 28), 3, 1, 2, 2),
        ((2, 17, 23, 19), 3, (2, 1), (5, 2), (3, 4)),
        ((1, 31, 33, 35), 4, 4, 0, 1),
        ((1, 12, 31, 29), 5, (3, 2), 2, (1, 2)),
    ],
)
def test_runs_that_share_nothing(shape, kernel, stride, padding, dilation, dtype, device):
    window = (kernel, stride, padding, dilation)
    assert_chosen("fwd_runs", ["fwd"], dtype, "nchw", shape, window, device, steps=(1, 1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_runs_of_an_image_that_is_part_of_another(dtype, device):
    images = randn(2 * 24 * 28 * 28 + 1, dtype=dtype, device=device)[1:].reshape(2, 24, 28, 28)
    for x in (images[:1], images[1:]):  # neither at a multiple of 16 bytes
        assert_all(x, randn(24, 1, 3, 3, dtype=dtype, device=device), None, 2, 1)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("shape", "kernel", "stride", "padding", "dilation"),
    [
        ((64, 107, 15, 15), (2, 2), 4, 1, 1),  # a thread has four groups of channels
        ((64, 461, 15, 15), (1, 3), (1, 4), 0, 1),
        ((64, 106, 15, 15), (2, 2), 4, 1, 1),  # channels by two for 16 bits
        ((16, 1219, 9, 9), (1, 3), (1, 4), 0, 1),  # several tiles of channels
        ((128, 225, 1, 98), (1, 2), 2, 0, 1),
        ((64, 53, 26, 31), (1, 4), (2, 3), (0, 1), (3, 2)),  # one group
        ((64, 107, 31, 13), (3, 3), (4, 2), (2, 0), (1, 3)),
        ((64, 91, 15, 15), (1, 10), (1, 3), (0, 4), (3, 1)),
    ],
)
def test_channels_of_dgrad_at_a_stride(shape, kernel, stride, padding, dilation, dtype, device):
    window = (kernel, stride, padding, dilation)
    assert_chosen("fwd_channels", ["dgrad"], dtype, "nhwc", shape, window, device, steps=(8, 4))


@pytest.mark.parametrize(
    ("shape", "kernel", "dtype"),
    [
        ((64, 387, 15, 15), (4, 6), torch.float32),
        ((64, 387, 15, 15), (4, 6), torch.float16),
        ((64, 770, 28, 28), (3, 4), torch.float16),
        ((64, 770, 28, 28), (3, 4), torch.bfloat16),
        ((16, 386, 56, 56), (3, 4), torch.float64),
    ],
)
def test_channels_whose_taps_would_fill_shared_memory(shape, kernel, dtype, device):
    """48 KB, in which a block has other things, too."""
    window = (kernel, 2, (kernel[0] // 2, kernel[1] // 2))
    assert_chosen("fwd_channels", ["dgrad"], dtype, "nhwc", shape, window, device, steps=(8, 0))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("channels", [49, 114])
@pytest.mark.parametrize(("size", "stride"), [((15, 15), 1), ((31, 33), 2)])
def test_channels_of_forward(channels, size, stride, dtype, device):
    """Whichever kernel is chosen for these: fwd_channels is for some of the sizes."""
    x = image((64, channels, *size), dtype, device, torch.channels_last)
    weight, bias = (randn(channels, *rest, dtype=dtype, device=device, seed=1) for rest in ((1, 2, 2), ()))
    assert_all(x, weight, bias, stride)


@pytest.mark.parametrize("dtype", DTYPES[1:])
@pytest.mark.parametrize(("kernel", "stride"), [(3, 1), (3, 2), (4, 1), (5, 1), (5, 2), (7, 1), (7, 2)])
def test_infinities_beside_runs_that_share_rows(kernel, stride, dtype, device):
    """They reach the outputs whose windows hold them, and no others of the run."""
    window = kernel, stride, kernel // 2
    shape = size_that_chooses("fwd_runs", ["fwd"], dtype, "nchw", (1, 24, 28, 28), *window, steps=(1, 1))
    x = torch.ones(shape, dtype=dtype, device=device)
    x[:, ::2, 9, 11], x[:, 1::2, 10, -1] = torch.inf, torch.nan
    weight = torch.ones(shape[1], 1, kernel, kernel, dtype=dtype, device=device)
    y = depthwise_conv2d(x, weight, None, *window[1:]).cpu().double()
    expected = torch.nn.functional.conv2d(x.double().cpu(), weight.double().cpu(), None, *window[1:], groups=shape[1])
    torch.testing.assert_close(y, expected, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    ("size", "kernel", "stride", "padding", "dilation", "channels"),
    [
        ((10, 10), (2, 2), 1, 0, 2, 114),  # channels by two for 16 bits, and one by one below
        ((10, 10), (2, 2), 1, 0, 2, 117),
        ((18, 12), (2, 3), 1, 0, 1, 117),
        ((24, 1), (3, 1), 1, (3, 0), (3, 1), 114),
        ((24, 1), (3, 1), 1, (3, 0), (3, 1), 117),
    ],
)
def test_channels_of_dgrad_at_stride_1(size, kernel, stride, padding, dilation, channels, dtype, device):
    window = (kernel, stride, padding, dilation)
    assert_chosen("fwd_channels", ["dgrad"], dtype, "nhwc", (64, channels, *size), window, device, steps=(8, 4))
