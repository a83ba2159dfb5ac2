"""depthwise_conv2d of contiguous images of any width, for which CUDA has fwd_columns; on other devices their values alone."""

import pytest
import torch
from depthwise import assert_all, assert_chosen, image, kernel_of, opened, randn, size_that_chooses  # noqa: F401

from customops import depthwise_conv2d

DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16]


def assert_columns(directions, shape, window, dtype, device, steps=(1, 2), kernel="fwd_columns"):
    assert_chosen(kernel, directions, dtype, "nchw", shape, window, device, steps=steps)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("shape", "kernel", "stride", "padding", "dilation"),
    [
        ((400, 7, 23, 21), 3, 1, 2, 2),  # a block has three planes, the last one has one
        ((37, 33, 33, 33), 3, 1, 4, 4),
        ((6, 21, 57, 65), 3, 1, (2, 3), (2, 3)),
        ((128, 33, 13, 13), 3, 1, 12, 12),  # an output shares rows with no other
        ((16, 40, 19, 19), 7, 1, 6, 2),
        ((4, 9, 131, 219), 5, 1, 4, 2),
        ((64, 2, 237, 107), 5, 1, 2, 1),
        ((12, 40, 31, 37), 6, (2, 3), (3, 2), 1),
        ((6, 20, 40, 131), 3, 1, (50, 2), 2),  # blocks with nothing but padding
        ((481, 17, 13, 65), 5, 2, (40, 2), 1),
    ],
)
def test_columns(shape, kernel, stride, padding, dilation, dtype, device):
    directions = ["fwd", "dgrad"] if stride == 1 else ["fwd"]
    assert_columns(directions, shape, (kernel, stride, padding, dilation), dtype, device)


# others: what is chosen instead for dtypes for which no size like that one chooses fwd_columns.
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("shape", "kernel", "stride", "padding", "dilation", "others"),
    [
        ((1, 3, 700, 301), 3, 1, 3, 3, {torch.float64: "fwd_runs"}),  # a block has some rows of a plane
        ((308, 280, 3, 3), 3, 1, 9, 2, {torch.float32: "fwd_runs"}),  # padding wider than the image
        ((16, 31, 41, 23), 7, 2, 3, 1, dict.fromkeys(DTYPES[1:], "fwd_runs")),
        ((449, 4, 93, 47), 7, 2, 6, 1, dict.fromkeys(DTYPES[1:3], "fwd_runs")),
        ((128, 61, 23, 23), 5, 2, 2, 1, {torch.float16: "fwd_runs"}),
        ((32, 61, 35, 35), 2, 2, 0, 1, dict.fromkeys(DTYPES, "fwd_runs")),
        ((16, 6, 219, 131), 3, (2, 1), 1, 1, {torch.float32: "fwd_runs"}),
        ((96, 51, 27, 29), 3, 2, 2, 4, dict.fromkeys(DTYPES[:2], "fwd_runs")),  # a stride that divides the dilation
        ((96, 51, 27, 29), 7, 4, 3, 2, dict.fromkeys(DTYPES[:2], "fwd_sliding")),  # and the other way round
        ((473, 6, 48, 57), 5, 3, 3, 3, {torch.float64: "fwd_runs"}),
        ((16, 12, 57, 131), (1, 5), (3, 1), (0, 2), (1, 2), {torch.float64: "fwd_torch"}),  # every third row
    ],
)
def test_columns_for_some_dtypes(shape, kernel, stride, padding, dilation, others, dtype, device):
    window, chosen = (kernel, stride, padding, dilation), others.get(dtype, "fwd_columns")
    directions = ["fwd", "dgrad"] if stride == 1 and dtype not in others else ["fwd"]
    assert_columns(directions, shape, window, dtype, device, kernel=chosen)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("shape", "kernel", "stride", "padding", "dilation"),
    [
        ((64, 31, 57, 57), (7, 1), 1, (3, 0), 1),
        ((64, 31, 57, 57), (2, 1), 1, 0, 1),
        ((16, 64, 45, 131), (5, 1), 1, (4, 0), (2, 1)),
        ((64, 31, 57, 57), (3, 1), (2, 1), (1, 0), 1),
        ((64, 31, 57, 57), (5, 1), (2, 1), (2, 0), 1),
        ((64, 12, 57, 55), (1, 7), 1, (0, 3), 1),
        ((16, 12, 57, 131), (1, 2), (1, 2), 0, 1),
    ],
)
def test_columns_under_one_row_or_column_of_taps(shape, kernel, stride, padding, dilation, dtype, device):
    directions = ["fwd", "dgrad"] if stride == 1 else ["fwd"]
    assert_columns(directions, shape, (kernel, stride, padding, dilation), dtype, device)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("shape", "kernel", "stride", "padding", "dilation"),
    [
        ((64, 31, 57, 57), 7, 2, 3, 1),  # three or four taps along an axis
        ((64, 31, 57, 55), 4, 2, 1, 1),
        ((32, 31, 132, 132), 5, 2, 0, 1),  # the last row and column are under no window
        ((32, 31, 131, 131), 2, 3, 0, 1),  # some pixels under no window
        ((64, 31, 57, 57), (7, 5), (2, 3), (2, 4), 1),
        ((64, 31, 57, 57), 3, (1, 2), 1, 1),
        ((64, 31, 57, 57), (5, 4), (2, 1), 2, 1),
        ((64, 31, 57, 57), 4, 2, 3, 2),  # a stride that divides the dilation: one phase has all taps
        ((64, 31, 57, 57), 5, 2, 6, 3),
        ((64, 31, 57, 57), 4, 4, 3, 2),
    ],
)
def test_columns_of_gradients_at_a_stride(shape, kernel, stride, padding, dilation, dtype, device):
    assert_columns(["dgrad"], shape, (kernel, stride, padding, dilation), dtype, device)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("dtype", DTYPES)
def test_infinities_beside_columns(dtype, stride, device):
    """Rows lie in shared memory without padding: the pixels before and behind a row are its neighbours'."""
    window = 3, stride, 4 // stride, 4 // stride
    kernel = "fwd_runs" if dtype in DTYPES[:2] and stride == 2 else "fwd_columns"
    shape = size_that_chooses(kernel, ["fwd"], dtype, "nchw", (64, 64, 33, 33), *window)
    x = torch.zeros(shape, dtype=dtype, device=device)
    x[:, ::2], x[..., 1::2, -1], x[..., 5, 5] = torch.inf, torch.nan, 1
    weight = torch.ones(shape[1], 1, 3, 3, dtype=dtype, device=device)
    y = depthwise_conv2d(x, weight, None, *window[1:]).cpu()
    expected = torch.nn.functional.conv2d(x.double().cpu(), weight.double().cpu(), None, *window[1:], groups=shape[1])
    torch.testing.assert_close(y.double(), expected, equal_nan=True)
    assert y[:, 1::2, :, 0].isfinite().all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_infinities_beside_columns_of_gradients_at_a_stride(dtype, device):
    """A thread's code has four taps along an axis, and half of the outputs have three: the fourth would meet a pixel."""
    window = 7, 2, 3
    shape = size_that_chooses("fwd_columns", ["dgrad"], dtype, "nchw", (64, 31, 57, 57), *window)
    x = torch.zeros(shape, dtype=dtype, device=device, requires_grad=True)
    weight = torch.ones(shape[1], 1, 7, 7, dtype=dtype, device=device)
    y = depthwise_conv2d(x, weight, None, *window[1:])
    grad = torch.zeros_like(y)
    grad[..., 10, 10], grad[:, ::2] = torch.inf, 1
    (actual,) = torch.autograd.grad(y, x, grad)
    expected = torch.nn.grad.conv2d_input(
        shape, weight.double().cpu(), grad.double().cpu(), window[1], window[2], groups=shape[1]
    )
    torch.testing.assert_close(actual.double().cpu(), expected, equal_nan=True)
    assert (actual.isinf().sum((2, 3)) == 7 * 7).any()


@pytest.mark.parametrize("dilation", [(3, 1), (2, 1)])
def test_gradients_at_a_large_stride_have_another_kernel(dilation, device):
    """Whose positions need more than 32 bits."""
    shape, window = (1, 2, 100_009, 8), (3, (100_000, 1), (0, 1), dilation)
    assert kernel_of("dgrad", "cuda", torch.float32, "nchw", shape, *window) != "fwd_columns"
    x = image(shape, torch.float32, device, torch.contiguous_format)
    assert_all(x, randn(2, 1, 3, 3, device=device, seed=1), None, *window[1:])
