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
