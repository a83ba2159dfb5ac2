"""depthwise_conv2d and both gradients over geometries drawn as benchmarks/sweep.py draws them, but small."""

import sys
from pathlib import Path

import pytest
import torch
from depthwise import FORMATS, assert_close, image, randn, reference

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
if not BENCHMARKS.is_dir():  # the tests of a wheel come without the rest of the checkout
    pytest.skip("no benchmarks here", allow_module_level=True)
sys.path.append(str(BENCHMARKS))
import sweep_cases  # noqa: E402

SEED, COUNT, AT_A_TIME = 11, 240, 20


def check(problem, device):
    memory_format = FORMATS[problem.layout == "nhwc"]
    dtype, (top, left) = getattr(torch, problem.dtype), problem.padding
    x = image(problem.shape, dtype, device, memory_format)
    weight = randn(problem.shape[1], 1, *problem.kernel, dtype=dtype, device=device, seed=1)
    expected_x, expected_weight = x.double().cpu().requires_grad_(), weight.double().cpu().requires_grad_()
    geometry = (problem.stride, problem.padding, problem.dilation)
    expected = reference(expected_x, expected_weight, None, *geometry)
    grad = image(expected.shape, dtype, device, memory_format, seed=2)
    gradients = torch.autograd.grad(expected, (expected_x, expected_weight), grad.double().cpu())
    ops, arguments = torch.ops.customops, (*problem.stride, *problem.padding, *problem.dilation)
    y = ops._depthwise_conv2d(x, weight, None, *problem.stride, top, top, left, left, *problem.dilation)
    last = problem.layout == "nhwc" and problem.shape[1] > 1
    assert_close(y, expected)
    assert_close(ops._depthwise_conv2d_grad_input(grad, weight, *x.shape[2:], *arguments, last), gradients[0])
    assert_close(ops._depthwise_conv2d_grad_weight(grad, x, *problem.kernel, *arguments), gradients[1])


@pytest.mark.parametrize("first", range(0, COUNT, AT_A_TIME))
def test_random_geometry(device, first):
    for index in range(first, first + AT_A_TIME):
        problem = sweep_cases.draw(SEED, index, "test")
        try:
            check(problem, device)
        except (AssertionError, RuntimeError) as error:
            raise AssertionError(f"fwd, dgrad or wgrad {problem}") from error


def not_finite(tensor, count, seed):
    """`tensor` with infinities and NaN at random places, and where they are, as ones."""
    generator = torch.Generator().manual_seed(seed)
    places = torch.zeros(tensor.numel(), dtype=torch.float64)
    for value in (float("inf"), float("-inf"), float("nan"))[:count]:
        place = torch.randint(tensor.numel(), (), generator=generator)
        places[place] = 1
        tensor.permute(0, 2, 3, 1)[torch.unravel_index(place, tensor.permute(0, 2, 3, 1).shape)] = value
    return tensor, places.view(tensor.permute(0, 2, 3, 1).shape).permute(0, 3, 1, 2)


def check_spread(problem, device):
    """A result is not finite exactly where its window, or what its tap meets inside the images, holds such a number."""
    memory_format, dtype = FORMATS[problem.layout == "nhwc"], getattr(torch, problem.dtype)
    channels, (top, left) = problem.shape[1], problem.padding
    ones = torch.ones(channels, 1, *problem.kernel, dtype=torch.float64)
    weight = (torch.rand(ones.shape) + 0.5).to(device, dtype)  # without zeros
    geometry = {"stride": problem.stride, "padding": problem.padding, "dilation": problem.dilation, "groups": channels}
    x, bad_x = not_finite(image(problem.shape, dtype, device, memory_format), 3, 1)
    bad_y = torch.nn.functional.conv2d(bad_x, ones, **geometry)
    grad, bad_grad = not_finite(image(bad_y.shape, dtype, device, memory_format, seed=2), 2, 2)
    ops, arguments = torch.ops.customops, (*problem.stride, *problem.padding, *problem.dilation)
    last = problem.layout == "nhwc" and channels > 1
    expected_weight = sum(
        torch.nn.grad.conv2d_weight(a, ones.shape, b, **geometry)
        for a, b in ((bad_x, torch.ones_like(bad_y)), (torch.ones_like(bad_x), bad_grad))
    )
    spreads = device == "cuda" and dtype == torch.float32 and max(problem.kernel) > 7  # as the docstring says
    if not spreads:
        y = ops._depthwise_conv2d(x, weight, None, *problem.stride, top, top, left, left, *problem.dilation)
        assert torch.equal(y.isfinite().cpu(), bad_y == 0), "fwd"
        dx = ops._depthwise_conv2d_grad_input(grad, weight, *x.shape[2:], *arguments, last)
        assert torch.equal(dx.isfinite().cpu(), torch.nn.grad.conv2d_input(x.shape, ones, bad_grad, **geometry) == 0), (
            "dgrad"
        )
    finite = ops._depthwise_conv2d_grad_weight(grad, x, *problem.kernel, *arguments).isfinite().cpu()
    assert not finite[expected_weight > 0].any(), "wgrad"
    may_not_be = expected_weight > 0
    if device == "cuda":  # all taps of a channel, as the docstring says
        may_not_be = may_not_be.any(dim=(1, 2, 3), keepdim=True).expand_as(finite)
    assert finite[~may_not_be].all(), "wgrad"


@pytest.mark.parametrize("first", range(0, COUNT, AT_A_TIME))
def test_infinities_stay_in_their_windows(device, first):
    for index in range(first, first + AT_A_TIME):
        problem = sweep_cases.draw(SEED + 1, index, "test")
        try:
            check_spread(problem, device)
        except (AssertionError, RuntimeError) as error:
            raise AssertionError(f"{problem}: {error}") from error
