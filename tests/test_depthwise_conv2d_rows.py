"""depthwise_conv2d of contiguous rows of samples, for which CUDA has fwd_dense_rows and fwd_mma_lines; on other devices their
values alone."""

import math

import pytest
import torch
from depthwise import assert_all, assert_close, image, opened, randn, size_that_chooses  # noqa: F401
from torch.nn import functional as F

from customops import depthwise_conv2d

HALF = [torch.float16, torch.bfloat16]
DTYPES = [torch.float32, *HALF]


def assert_rows(chosen, directions, shape, window, dtype, device, **sizes):
    """window: kernel, stride, padding. `directions` are those that have to choose the kernel."""
    shape = size_that_chooses(chosen, directions, dtype, "nchw", shape, *window, **sizes)
    weight, bias = (randn(shape[1], *rest, dtype=dtype, device=device, seed=1) for rest in ((1, *window[0]), ()))
    for offset in (0, 3):  # of the first sample: aligned or not
        x = torch.empty(math.prod(shape) + offset, dtype=dtype, device=device)[offset:].view(shape)
        x.copy_(image(shape, dtype, device, torch.contiguous_format))
        y = assert_all(x, weight, bias, *window[1:])
        if device == "cuda" and dtype.itemsize == 2:
            assert torch.equal(depthwise_conv2d(x, weight.float(), bias.float(), *window[1:]), y)


@pytest.mark.parametrize("width", [1, 3, 70, 128, 251, 264, 1447])
@pytest.mark.parametrize(
    ("taps", "height", "stride", "padding"),
    [(2, 1, 1, (0, 1)), (4, 1, 1, (0, 3)), (15, 5, (2, 1), (2, 7)), (31, 1, 1, (0, 15)), (64, 3, 1, (0, 63))],
)
def test_long_rows(taps, height, stride, padding, width, device):
    """Two rows may share a vector of outputs; some rows are outside of the image. So many rows only for a GPU's choice."""
    each = 7 * height * width * (1 if device == "cuda" else 32)
    for dtype, numbers in ((torch.float32, 140_000), (torch.float16, 140_000), (torch.bfloat16, 300_000)):
        x = image((numbers // each + 1, 7, height, width), dtype, device, torch.contiguous_format)
        weight, bias = (randn(7, *rest, dtype=dtype, device=device, seed=1) for rest in ((1, 1, taps), ()))
        assert_all(x, weight, bias, stride, padding)


# Groups of four taps, of eight and of 16; the last group may have fewer. Few outputs have smaller threads from nine taps on.
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("taps", "shape", "stride", "padding"),
    [
        (4, (5, 243, 1, 233), 1, 3),
        (3, (6, 585, 2, 66), 1, 1),
        (3, (2, 175, 7, 57), 2, 1),
        (2, (21, 126, 2, 68), 1, 1),
        (4, (5, 81, 3, 53), 1, (2, 3)),  # rows outside of the image
        (7, (5, 143, 3, 33), 1, 3),
        (8, (3, 129, 5, 27), 1, 7),
        (15, (3, 61, 11, 37), 1, 7),
        (11, (24, 129, 11, 37), 1, 5),  # many outputs
        (16, (5, 61, 11, 37), 1, 2),
        (31, (5, 61, 1, 37), 1, 15),  # two groups
    ],
)
def test_dense_rows(taps, shape, stride, padding, dtype, device):
    window = (1, taps), (stride, 1), padding if isinstance(padding, tuple) else (0, padding)
    directions = ["fwd"] if stride > 1 else ["fwd", "dgrad"]
    assert_rows("fwd_dense_rows", directions, shape, window, dtype, device, levels=[303_600])


@pytest.mark.parametrize(
    ("taps", "shape", "padding"),
    [
        (31, (4, 129, 1, 201), 15),
        (31, (24, 129, 1, 201), 15),  # many outputs
        (17, (24, 257, 1, 133), 8),
        (63, (8, 129, 1, 301), 31),
        (64, (8, 129, 1, 301), 70),  # outputs without a sample
    ],
)
def test_many_taps_of_dense_rows(taps, shape, padding, device):
    window = (1, taps), 1, (0, padding)
    assert_rows("fwd_dense_rows", ["fwd", "dgrad"], shape, window, torch.float32, device, levels=[303_600])


# Taps are two matrices, three or five; pieces of rows have up to four tiles of 128 outputs, or up to eight where rows are
# many.
@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize(
    ("taps", "shape", "stride", "padding", "level"),
    [
        (15, (9, 64, 1, 400), 1, 7, None),
        (15, (2, 176, 1, 1601), 1, 7, None),
        (15, (20, 129, 1, 1024), 1, 7, 2112 * 1024),
        (18, (40, 176, 1, 257), 1, 9, None),
        (31, (9, 129, 1, 201), 1, 15, None),
        (31, (20, 129, 1, 1063), 1, 15, 2112 * 1063),
        (31, (9, 129, 1, 1100), 1, 15, None),
        (31, (3, 144, 1, 800), 1, 35, None),  # outputs without a sample
        (31, (4, 144, 7, 203), (2, 1), (2, 15), None),  # rows outside of the image
        (63, (9, 129, 1, 301), 1, 31, None),
        (63, (20, 129, 1, 1024), 1, 31, 2112 * 1024),
        (64, (9, 129, 1, 640), 1, 0, None),
    ],
)
def test_products_of_rows(taps, shape, stride, padding, level, dtype, device):
    window = (1, taps), stride, padding if isinstance(padding, tuple) else (0, padding)
    directions = ["fwd"] if stride != 1 else ["fwd", "dgrad"]
    sizes = {"steps": (1, 2), "levels": [level] if level else []}
    assert_rows("fwd_mma_lines", directions, shape, window, dtype, device, **sizes)


def windows_of(bad, taps):
    """Where an output, or a gradient of the image, has a sample in its window that is not finite."""
    return F.conv2d(bad.float(), torch.ones(1, 1, 1, taps, device=bad.device), padding=(0, taps // 2)) > 0.5


@pytest.mark.parametrize(
    ("dtype", "chosen"), [(torch.float32, "fwd_dense_rows"), *((d, "fwd_mma_lines") for d in HALF)]
)
@pytest.mark.parametrize("taps", [15, 31])
def test_infinities_beside_rows(taps, dtype, chosen, device):
    """What lies beside a row, in memory or as padding, is not part of its sums; nor are taps that are not there."""
    padding = (0, taps // 2)
    shape = size_that_chooses(chosen, ["fwd", "dgrad"], dtype, "nchw", (9, 400, 1, 257), (1, taps), 1, padding)
    x, grad = (image(shape, dtype, device, torch.contiguous_format).roll(i, 0) for i in range(2))
    weight, bias = (randn(shape[1], *rest, dtype=dtype, device=device, seed=1) for rest in ((1, 1, taps), ()))
    for values in (x, grad):  # whole rows, and one number at each end and inside of others
        values[:, ::4] = torch.inf
        values[:, 1::4, :, 128], values[:, 2::4, :, 0], values[:, 3::4, :, -1] = torch.nan, -torch.inf, torch.inf
    clean_x, clean_grad = (torch.where(t.isfinite(), t, 0).double().cpu() for t in (x, grad))
    given = x.requires_grad_()
    y = depthwise_conv2d(given, weight, bias, padding=padding)
    (grad_x,) = torch.autograd.grad(y, given, grad)
    w = weight.double().cpu()
    expected = F.conv2d(clean_x, w, bias.double().cpu(), padding=padding, groups=shape[1])
    expected_grad = F.conv_transpose2d(clean_grad, w, padding=padding, groups=shape[1])
    for actual, values, reference in ((y.detach(), x.detach(), expected), (grad_x, grad, expected_grad)):
        bad = windows_of(~values.isfinite().reshape(-1, 1, *shape[2:]), taps).reshape(shape)
        assert 0.2 < bad.float().mean() < 0.6
        assert torch.equal(~actual.isfinite(), bad)
        assert_close(actual[~bad], reference[~bad.cpu()])
