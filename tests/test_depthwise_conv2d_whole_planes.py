"""depthwise_conv2d of small images under large windows, for which CUDA has fwd_whole_planes; elsewhere values alone."""

import pytest
import torch
from depthwise import (  # noqa: F401
    assert_all,
    assert_chosen,
    explain,
    image,
    memory_formats,
    opened,
    randn,
    reference,
    size_that_chooses,
)

from customops import depthwise_conv2d

DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
LAYOUTS = {torch.contiguous_format: "nchw", torch.channels_last: "nhwc"}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize(
    ("shape", "kernel", "padding", "steps"),
    [
        ((5, 24, 14, 14), (31, 31), (15, 15), (1, 1)),
        ((9, 37, 7, 7), (13, 13), (6, 6), (1, 2)),  # an odd number of channels
        ((3, 40, 14, 14), (5, 51), (2, 25), (1, 1)),
        ((6, 20, 10, 9), (27, 27), (13, 13), (1, 1)),  # runs of five outputs
        ((4, 20, 11, 12), (29, 29), (14, 14), (1, 1)),  # of six; float64 has runs of five and seven
        ((11, 24, 8, 8), (13, 13), (6, 6), (4, 1)),  # of eight; a batch that is no multiple of four
        ((2, 12, 25, 28), (5, 51), (2, 25), (1, 1)),  # several runs a row
        ((1, 56, 13, 14), (27, 27), (13, 13), (0, 1)),  # one image
        ((7, 33, 9, 13), (17, 23), (8, 11), (1, 1)),
    ],
)
def test_chosen_for_large_windows(shape, kernel, padding, steps, layout, dtype, device):
    assert_chosen("fwd_whole_planes", ["fwd"], dtype, layout, shape, (kernel, 1, padding), device, steps=steps)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize(
    ("shape", "kernel", "padding"),
    [
        ((6, 40, 14, 14), (27, 27), (13, 13)),
        ((9, 40, 7, 7), (29, 29), (14, 14)),
        ((4, 64, 12, 14), (5, 51), (2, 25)),
    ],
)
def test_chosen_for_their_gradients(shape, kernel, padding, layout, dtype, device):
    assert_chosen("fwd_whole_planes", ["dgrad"], dtype, layout, shape, (kernel, 1, padding), device, steps=(1, 1))


@memory_formats
@pytest.mark.parametrize(
    ("shape", "kernel", "padding"),
    [
        ((40, 6, 32, 32), (32, 32), 0),  # one output of a whole image, and a gradient of whole images
        ((40, 6, 7, 7), (7, 7), 0),
        ((5, 6, 3, 4), (9, 9), (4, 17)),  # outputs of padding alone, and a negative padding of the gradient
        ((5, 6, 4, 3), (9, 9), (17, 4)),
        ((5, 6, 3, 4), (21, 25), (19, 23)),  # outputs at the edges meet two rows or columns
        ((3, 6, 32, 31), (5, 51), (2, 25)),
        ((3, 6, 1, 30), (1, 51), (0, 25)),
    ],
)
def test_sizes_at_the_ends(shape, kernel, padding, memory_format, device):
    """Whichever kernel is chosen for these: CUDA's by what was measured."""
    for dtype in (torch.float32, torch.bfloat16):
        x = image(shape, dtype, device, memory_format)
        weight, bias = (randn(shape[1], *rest, dtype=dtype, device=device, seed=1) for rest in ((1, *kernel), ()))
        assert_all(x, weight, bias, 1, padding)


@pytest.mark.parametrize("dtype", DTYPES)
@memory_formats
@pytest.mark.parametrize(
    ("size", "kernel", "padding"),
    [
        ((13, 13), (5, 51), (2, 25)),  # zeros behind each row in shared memory
        ((10, 9), (27, 27), (13, 13)),
        ((17, 13), (13, 15), (6, 7)),  # windows that do not hold the whole image
    ],
)
def test_infinities_reach_the_windows_that_hold_them(size, kernel, padding, memory_format, dtype, device):
    """Pixels beside a window are no part of a sum, and the other outputs keep their bits."""
    window = kernel, 1, padding
    layout = LAYOUTS[memory_format]
    shape = size_that_chooses("fwd_whole_planes", ["fwd"], dtype, layout, (6, 40, *size), *window, steps=(1, 1))
    x = image(shape, dtype, device, memory_format)
    weight, bias = (randn(shape[1], *rest, dtype=dtype, device=device, seed=1) for rest in ((1, *kernel), ()))
    before = depthwise_conv2d(x, weight, bias, *window[1:])
    x[:, ::3, 9, 7], x[:, 1::3, 8, -1] = torch.inf, torch.nan
    y, expected = depthwise_conv2d(x, weight, bias, *window[1:]), reference(x, weight, bias, *window[1:]).to(device)
    kept = expected.isfinite()
    assert not kept.all()
    assert torch.equal(y[kept], before[kept])
    assert torch.equal(y[~kept].double().nan_to_num(nan=7), expected[~kept].nan_to_num(nan=7))


def test_small_images_keep_all_taps():
    """The kernel skips taps that meet no pixel itself: no part of the weight is copied."""
    for shape, dropped in (((64, 512, 7, 7), False), ((64, 512, 7, 40), True)):
        assert ("meet a pixel" in explain("fwd", "cuda", "float32", "nhwc", shape, 29, 1, 14)) is dropped
