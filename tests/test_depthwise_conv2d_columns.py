"""depthwise_conv2d of contiguous images of any width, for which CUDA has fwd_columns; on other devices their values alone."""

import pytest
import torch
from depthwise import assert_all, image, opened, randn, size_that_chooses  # noqa: F401

from customops import depthwise_conv2d

DTYPES = [torch.float32, torch.float16, torch.bfloat16]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("shape", "kernel", "stride", "padding", "dilation"),
    [
        ((400, 7, 23, 21), 3, 1, 2, 2),  # a block has three planes, the last one has one
        ((37, 33, 33, 33), 3, 1, 4, 4),
        ((6, 21, 57, 65), 3, 1, (2, 3), (2, 3)),
        ((128, 33, 13, 13), 3, 1, 12, 12),  # an output shares rows with no other
        ((16, 40, 19, 19), 7, 1, 6, 2),
        ((1, 3, 700, 301), 3, 1, 3, 3),  # a block has some rows of a plane
        ((4, 9, 131, 219), 5, 1, 4, 2),
        ((2, 1, 640, 333), 2, 1, 1, 4),  # one channel
        ((128, 61, 23, 23), 5, 2, 2, 1),
        ((16, 31, 41, 23), 7, 2, 3, 1),
        ((32, 61, 35, 35), 2, 2, 0, 1),
        ((13, 4, 260, 133), 7, 2, 6, 1),
        ((16, 6, 219, 131), 3, (2, 1), 1, 1),
        ((12, 40, 31, 37), 6, (2, 3), (3, 2), 1),
        ((96, 51, 27, 29), 3, 2, 2, 4),  # a stride that divides the dilation
        ((96, 51, 27, 29), 3, 4, 2, 2),  # and the other way round
        ((24, 7, 47, 45), 4, 3, 3, 3),
        ((6, 20, 40, 131), 3, 1, (50, 2), 2),  # blocks with nothing but padding
        ((8, 9, 31, 131), 5, 2, (40, 2), 1),
        ((64, 33, 3, 3), 3, 1, 9, 2),  # padding wider than the image
    ],
)
def test_columns(shape, kernel, stride, padding, dilation, dtype, device):
    directions = ["fwd", "dgrad"] if stride == 1 else ["fwd"]
    window = kernel, stride, padding, dilation
    shape = size_that_chooses("fwd_columns", directions, dtype, "nchw", shape, *window, steps=(1, 2))
    x = image(shape, dtype, device, torch.contiguous_format)
    weight, bias = (randn(shape[1], *rest, dtype=dtype, device=device, seed=1) for rest in ((1, kernel, kernel), ()))
    y = assert_all(x, weight, bias, *window[1:])
    if device == "cuda" and dtype != torch.float32:
        assert torch.equal(depthwise_conv2d(x, weight.float(), bias.float(), *window[1:]), y)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("dtype", DTYPES)
def test_infinities_beside_columns(dtype, stride, device):
    """Rows lie in shared memory without padding: the pixels before and behind a row are its neighbours'."""
    window = 3, stride, 4 // stride, 4 // stride
    shape = size_that_chooses("fwd_columns", ["fwd"], dtype, "nchw", (64, 64, 33, 33), *window)
    x = torch.zeros(shape, dtype=dtype, device=device)
    x[:, ::2], x[..., 1::2, -1], x[..., 5, 5] = torch.inf, torch.nan, 1
    weight = torch.ones(shape[1], 1, 3, 3, dtype=dtype, device=device)
    y = depthwise_conv2d(x, weight, None, *window[1:]).cpu()
    expected = torch.nn.functional.conv2d(x.double().cpu(), weight.double().cpu(), None, *window[1:], groups=shape[1])
    torch.testing.assert_close(y.double(), expected, equal_nan=True)
    assert y[:, 1::2, :, 0].isfinite().all()
