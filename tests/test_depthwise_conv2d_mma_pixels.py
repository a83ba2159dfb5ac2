"""depthwise_conv2d of 16-bit channels_last images, for which CUDA has fwd_mma_pixels; on other devices their values alone."""

import pytest
import torch
from depthwise import assert_chosen, assert_close, image, opened, randn, size_that_chooses  # noqa: F401
from torch.nn import functional as F

from customops import depthwise_conv2d

DTYPES = [torch.float16, torch.bfloat16]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("shape", "kernel", "stride", "padding"),
    [
        ((256, 96, 14, 14), 7, 1, 3),
        ((600, 40, 7, 7), 7, 1, 3),  # a block has one team; the last block's channels are fewer
        ((9, 72, 61, 57), 7, 1, 3),  # several blocks along both axes
        ((1, 328, 28, 28), 7, 1, 3),  # one image, and small blocks
        ((30, 104, 33, 18), 7, 1, (0, 5)),
        ((30, 136, 18, 33), 5, 1, (4, 1)),
        ((606, 256, 14, 14), 5, 1, 2),
    ],
)
def test_at_stride_1(shape, kernel, stride, padding, dtype, device):
    assert_chosen("fwd_mma_pixels", ["fwd", "dgrad"], dtype, "nhwc", shape, (kernel, stride, padding), device)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("directions", "shape", "kernel", "padding"),
    [
        (["fwd"], (131, 96, 28, 28), 5, 2),
        (["fwd"], (9, 128, 107, 61), 5, 1),
        (["fwd"], (869, 104, 10, 10), 5, 2),
        (["dgrad"], (63, 56, 32, 32), 7, 3),
        (["dgrad"], (300, 136, 17, 21), 7, 3),
        (["dgrad"], (20, 104, 50, 37), 7, (5, 1)),
    ],
)
def test_at_stride_2(directions, shape, kernel, padding, dtype, device):
    assert_chosen("fwd_mma_pixels", directions, dtype, "nhwc", shape, (kernel, 2, padding), device)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("kernel", "stride"), [(5, 1), (5, 2), (7, 1)])
def test_infinities_beside_channels_and_padding(kernel, stride, dtype, device):
    """Zeros meet all pixels of eight channels and four rows, and pixels around the image are zeros; neither is added."""
    window = kernel, stride, kernel // 2
    shape = size_that_chooses("fwd_mma_pixels", ["fwd"], dtype, "nhwc", (200, 88, 14, 19), *window)
    shape = (min(shape[0], 8 if device == "cpu" else shape[0]), *shape[1:])
    x = image(shape, dtype, device, torch.channels_last).abs()
    x[0, 1, 2, -1], x[1, 2, 0, 0], x[-1, -1, -1, -1] = torch.inf, torch.nan, torch.inf
    weight = randn(shape[1], 1, kernel, kernel, dtype=dtype, device=device, seed=1).abs() + 0.1
    if device == "cuda":  # CPUs multiply a weight with the zeros around the image
        weight[9] = torch.inf
    y = depthwise_conv2d(x, weight, None, *window[1:]).cpu()
    ones = torch.ones_like(weight, dtype=torch.float64, device="cpu")
    meets = [
        F.conv2d(where.double().cpu(), ones, None, *window[1:], groups=shape[1]) > 0 for where in (x.isinf(), x.isnan())
    ]
    meets[0][:, 9] |= weight[9].isinf().all().item()  # whatever the pixels
    assert torch.equal(y.isinf(), meets[0])
    assert torch.equal(y.isnan(), meets[1])
    weight = weight.nan_to_num(0, 0)
    expected = F.conv2d(x.nan_to_num(0, 0).double().cpu(), weight.double().cpu(), None, *window[1:], groups=shape[1])
    finite = y.isfinite()
    assert_close(y[finite], expected[finite])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("kernel", "stride"), [(5, 1), (7, 1), (7, 2)])
def test_infinities_in_gradients(kernel, stride, dtype, device):
    window = kernel, stride, kernel // 2
    shape = size_that_chooses("fwd_mma_pixels", ["dgrad"], dtype, "nhwc", (200, 88, 28, 29), *window)
    shape = (min(shape[0], 8 if device == "cpu" else shape[0]), *shape[1:])
    x = image(shape, dtype, device, torch.channels_last).requires_grad_()
    weight = torch.ones(shape[1], 1, kernel, kernel, dtype=dtype, device=device)
    y = depthwise_conv2d(x, weight, None, *window[1:])
    grad = torch.zeros_like(y)
    grad[0, 3, 1, 1], grad[-1, -1, -1, -1], grad[1, 8, 0, 0] = torch.inf, torch.nan, 1
    (actual,) = torch.autograd.grad(y, x, grad)
    expected = torch.nn.grad.conv2d_input(
        shape, weight.double().cpu(), grad.double().cpu(), *window[1:], groups=shape[1]
    )
    torch.testing.assert_close(actual.double().cpu(), expected, equal_nan=True)
