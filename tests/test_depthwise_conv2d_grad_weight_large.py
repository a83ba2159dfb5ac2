"""The gradient of depthwise_conv2d's weight for windows of more than seven taps in a row or column, in 16 bits.

CUDA has wgrad_mma_windows and wgrad_mma_lines for them; on other devices their values alone.
"""

import pytest
import torch
from depthwise import assert_close, opened, pair, randn, size_that_chooses  # noqa: F401

ops = torch.ops.customops
dtypes = pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])


def gradient(grad, x, kernel, padding, wide=False):
    return ops._depthwise_conv2d_grad_weight(grad, x, *pair(kernel), 1, 1, *pair(padding), 1, 1, wide)


def reference(grad, x, kernel, padding):
    """Tap by tap in float64, from pixels alone: torch's own multiplies an infinity with the padding's zeros, too."""
    grad, x = grad.double().cpu(), x.double().cpu()
    (height, width), (top, left) = pair(kernel), pair(padding)
    total = torch.zeros(x.shape[1], 1, height, width, dtype=torch.float64)
    for ky in range(height):
        for kx in range(width):
            down, across = ky - top, kx - left
            y0, y1 = max(0, -down), min(grad.shape[2], x.shape[2] - down)
            x0, x1 = max(0, -across), min(grad.shape[3], x.shape[3] - across)
            if y0 < y1 and x0 < x1:
                pixels = x[..., y0 + down : y1 + down, x0 + across : x1 + across]
                total[:, 0, ky, kx] = (pixels * grad[..., y0:y1, x0:x1]).sum((0, 2, 3))
    return total


def problem(chosen, shape, kernel, padding, dtype, device, **options):
    """An image and a gradient for which CUDA chooses that kernel."""
    size = size_that_chooses(chosen, ["wgrad"], dtype, "nchw", shape, kernel, 1, padding, **options)
    if device == "cuda":
        shape = size
    out = [n + 2 * p - k + 1 for n, p, k in zip(shape[2:], pair(padding), pair(kernel), strict=True)]
    sizes = shape, (*shape[:2], *out)
    return [randn(*size, dtype=dtype, device=device, seed=seed) for seed, size in enumerate(sizes)]


def assert_gradient(chosen, shape, kernel, padding, dtype, device, **options):
    """Right in the image's dtype and in float32, and the same bits each time."""
    x, grad = problem(chosen, shape, kernel, padding, dtype, device, **options)
    expected = reference(grad, x, kernel, padding)
    narrow = gradient(grad, x, kernel, padding)
    assert narrow.dtype == dtype
    assert_close(narrow, expected)
    wide = gradient(grad, x, kernel, padding, True)
    assert wide.dtype == torch.float32
    assert_close(wide, expected)
    assert torch.equal(wide.to(dtype), narrow)
    gradient(grad.flip(0), x, kernel, padding)  # leaves other sums in memory
    assert torch.equal(gradient(grad, x, kernel, padding), narrow)


@dtypes
@pytest.mark.parametrize(
    ("shape", "kernel", "padding"),
    [
        ((3, 6, 28, 28), 9, 4),
        ((3, 5, 30, 26), 13, 6),
        ((2, 3, 40, 40), 31, 15),
        ((3, 9, 14, 14), 27, 13),
        ((2, 3, 45, 40), (5, 51), (2, 25)),
        ((2, 3, 40, 45), (51, 5), (25, 2)),
        ((3, 5, 170, 96), (100, 3), (50, 1)),  # bands of an image start above its first row
        ((3, 6, 20, 24), (8, 10), (4, 5)),
        ((3, 5, 57, 55), 11, 5),  # rows that start anywhere in an access
        ((2, 3, 33, 65), (15, 9), (7, 4)),
        ((2, 4, 40, 24), (12, 10), 0),
        ((1, 3, 12, 150), (9, 11), (4, 5)),  # warps share a row
        ((5, 4, 5, 6), (21, 19), (10, 9)),  # taps that meet no pixel
        ((5, 4, 9, 11), (21, 19), (20, 18)),  # a window wider than the image, and the most padding
    ],
)
def test_windows(shape, kernel, padding, dtype, device):
    assert_gradient("wgrad_mma_windows", shape, kernel, padding, dtype, device)


@dtypes
@pytest.mark.parametrize(
    ("shape", "kernel", "padding"),
    [
        ((3, 5, 1, 700), (1, 11), (0, 5)),
        ((2, 5, 9, 61), (1, 11), (0, 5)),
        ((2, 5, 61, 9), (11, 1), (5, 0)),
        ((4, 3, 1, 333), (1, 15), (0, 7)),
        ((3, 5, 12, 40), (1, 15), (0, 14)),
        ((3, 5, 6, 50), (1, 12), (0, 6)),
        ((3, 5, 50, 6), (12, 1), 0),
        ((2, 6, 1, 900), (1, 31), (0, 15)),
        ((2, 3, 20, 57), (1, 31), (0, 15)),
        ((2, 3, 57, 20), (31, 1), (15, 0)),
        ((9, 4, 14, 14), (1, 31), (0, 15)),  # taps that meet no pixel
        ((2, 3, 1, 640), (1, 118), (0, 59)),
        ((3, 2, 7, 120), (1, 118), (0, 59)),
        ((2, 3, 120, 7), (118, 1), (59, 0)),
    ],
)
def test_lines(shape, kernel, padding, dtype, device):
    assert_gradient("wgrad_mma_lines", shape, kernel, padding, dtype, device)


@dtypes
def test_a_tall_line_over_a_large_image(dtype, device):
    assert_gradient("wgrad_mma_lines", (3, 5, 170, 96), (100, 1), (50, 0), dtype, device)


@dtypes
@pytest.mark.parametrize(
    ("chosen", "shape", "kernel", "padding"),
    [
        ("wgrad_mma_windows", (1027, 9, 7, 7), (9, 8), 4),
        ("wgrad_mma_lines", (1027, 9, 7, 27), (1, 11), (0, 5)),
        ("wgrad_mma_lines", (1027, 9, 11, 5), (11, 1), (5, 0)),
    ],
)
def test_several_images_at_a_time(chosen, shape, kernel, padding, dtype, device):
    """And several channels; the last block has fewer of both."""
    assert_gradient(chosen, shape, kernel, padding, dtype, device, steps=(8, 4))


KERNELS = pytest.mark.parametrize(
    ("chosen", "shape", "kernel", "padding"),
    [
        ("wgrad_mma_windows", (3, 5, 24, 23), 9, 4),
        ("wgrad_mma_windows", (3, 5, 26, 32), (13, 11), (6, 10)),
        ("wgrad_mma_lines", (3, 5, 6, 40), (1, 15), (0, 7)),
        ("wgrad_mma_lines", (3, 5, 40, 6), (15, 1), (7, 0)),
    ],
)


@dtypes
@KERNELS
def test_much_padding_below(chosen, shape, kernel, padding, dtype, device):
    """As `padding` cannot ask for, but the op beneath it."""
    x, grad = problem(chosen, shape, kernel, padding, dtype, device)
    (top, left), kernels = pair(padding), []
    for below, right in ((7, 0), (0, 9), (40, 40)):
        below, right = (more if taps > 1 else 0 for more, taps in zip((below, right), pair(kernel), strict=True))
        size = *grad.shape[:2], grad.shape[2] + below, grad.shape[3] + right
        more = randn(*size, dtype=dtype, device=device, seed=2)
        assert_close(gradient(more, x, kernel, padding), reference(more, x, kernel, padding))
        sides = [*x.shape, *pair(kernel), 1, 1, top, top + below, left, left + right, 1, 1, 0]
        said = ops._depthwise_conv2d_explain("wgrad", "cuda", sides, str(dtype).removeprefix("torch."))
        kernels.append(said.split(":")[0])
    if device == "cuda":
        assert chosen in kernels


@dtypes
@KERNELS
def test_infinities_beside_padding(chosen, shape, kernel, padding, dtype, device):
    """Neither the zeros around images nor idle lines of matrices meet an infinity: other taps stay finite."""
    if device == "cuda" and torch.cuda.get_device_capability() < (8, 0):
        pytest.skip("without tensor cores for this, kernels multiply with the zeros around the images, too")
    x, grad = problem(chosen, shape, kernel, padding, dtype, device)
    x[0, 0, 0, 0], x[-1, 1, -1, -1] = torch.inf, torch.nan
    grad[0, 2, 0, -1], grad[-1, 3, -1, 0] = -torch.inf, torch.nan
    expected = reference(grad, x, kernel, padding)
    finite = expected.isfinite()
    for channel in range(4):
        assert 0 < finite[channel].sum() < finite[channel].numel()
    assert expected.isinf().any()
    for wide in (False, True):
        actual = gradient(grad, x, kernel, padding, wide).cpu()
        assert torch.equal(actual.isfinite(), finite)
        torch.testing.assert_close(actual[~finite].double(), expected[~finite], equal_nan=True)
        assert_close(actual[finite], expected[finite])


@KERNELS
def test_long_sums(chosen, shape, kernel, padding, device):
    """Tensor cores round towards zero: numbers of one sign must not show it."""
    shape = 96, 2, *shape[2:]
    x, grad = (t.abs() for t in problem(chosen, shape, kernel, padding, torch.bfloat16, device))
    expected = reference(grad, x, kernel, padding)
    torch.testing.assert_close(gradient(grad, x, kernel, padding, True).double().cpu(), expected, rtol=2e-4, atol=0)
