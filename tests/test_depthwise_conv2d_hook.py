"""depthwise_conv2d through torch's op that csrc/depthwise_conv2d_hook.h fills, and with CUSTOMOPS_TORCH_HOOK=0 without it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from common import DTYPES, python
from depthwise import (
    HOOK,
    Record,
    image,
    memory_formats,
    opened,  # noqa: F401
    randn,
)
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.autograd.forward_ad import dual_level, make_dual, unpack_dual

from customops import depthwise_conv2d

HERE = Path(__file__).parent
pytestmark = pytest.mark.skipif(os.environ.get("CUSTOMOPS_TORCH_HOOK") == "0", reason="the hook is switched off")


@memory_formats
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("stride", "padding", "dilation"), [(1, "same", 1), ((1, 2), (0, 1), (2, 1))])
def test_torchs_hook_computes_the_same(stride, padding, dilation, dtype, memory_format, device):
    """Training goes through nodes of the autograd graph in C++; other callers through those in Python."""
    x = image((2, 20, 9, 10), dtype, device, memory_format).requires_grad_()
    inputs = (x, randn(20, 1, 3, 5, dtype=dtype, device=device, seed=1).requires_grad_(), None)
    for bias in (None, randn(20, dtype=dtype, device=device, seed=2).requires_grad_()):
        inputs = (*inputs[:2], bias)
        leaves = [t for t in inputs if t is not None]
        hooked = depthwise_conv2d(*inputs, stride, padding, dilation)
        with Record() as record:
            python = depthwise_conv2d(*inputs, stride, padding, dilation)
        assert type(hooked.grad_fn).__name__ == HOOK != type(python.grad_fn).__name__
        assert "customops::_depthwise_conv2d" in record.calls
        assert torch.equal(hooked, python)
        grad = torch.randn_like(hooked)
        for create_graph in (False, True):
            gradients = [torch.autograd.grad(y, leaves, grad, True, create_graph) for y in (hooked, python)]
            for ours, theirs in zip(*gradients, strict=True):
                assert torch.equal(ours, theirs)
                assert ours.stride() == theirs.stride()
                assert ours.requires_grad == theirs.requires_grad


def test_where_torchs_hook_is_not_taken(device, monkeypatch):
    x, weight = randn(1, 3, 6, 6, device=device).requires_grad_(), randn(3, 1, 4, 4, device=device).requires_grad_()
    expected = depthwise_conv2d(x, weight)
    assert type(expected.grad_fn).__name__ == HOOK

    class Called(Exception):
        pass

    def hook(*args):
        raise Called

    module = sys.modules["customops.depthwise_conv2d"]
    monkeypatch.setattr(module, "_hook", hook)
    with pytest.raises(Called):
        depthwise_conv2d(x, weight)
    depthwise_conv2d(x, weight.detach())  # torch's node would keep x for nothing
    depthwise_conv2d(x, weight, padding="same")  # one zero more after the image than before it
    depthwise_conv2d(x.to("meta"), weight.to("meta"))

    class Tagged(torch.Tensor):
        pass

    bias = torch.zeros(3, device=device)
    for arguments in (
        (x.as_subclass(Tagged), weight),
        (x, weight.as_subclass(Tagged)),
        (x, weight, bias.as_subclass(Tagged)),
    ):
        assert torch.equal(depthwise_conv2d(*arguments), expected)
    with torch.no_grad():
        assert torch.equal(depthwise_conv2d(x, weight), expected)
    with Record():
        assert torch.equal(depthwise_conv2d(x, weight), expected)
    with dual_level():
        tangent = unpack_dual(depthwise_conv2d(make_dual(x, x.detach()), weight)).tangent
        torch.testing.assert_close(tangent, expected)
    torch.testing.assert_close(torch.func.vmap(lambda x: depthwise_conv2d(x, weight))(x[None]), expected[None])

    def empty(*args):
        raise NotImplementedError

    for hook in (None, empty):  # another torch; the first call on CUDA
        monkeypatch.setattr(module, "_hook", hook)
        ours = depthwise_conv2d(x, weight)
        assert torch.equal(ours, expected)
        assert type(ours.grad_fn).__name__ == "depthwise_conv2dBackward"


def test_only_the_known_torch_is_borrowed_from():
    module = sys.modules["customops.depthwise_conv2d"]
    assert module._borrow(module._BORROWED) is torch._mps_convolution
    for name in module._BORROWED:
        assert module._borrow(module._BORROWED | {name: "(Tensor self) -> Tensor"}) is None
    assert module._borrow({"no_such_op": "()"}) is None


def test_a_tangent_comes_through_the_backward_of_torchs_hook(device):
    """The gradients are linear in the output's gradient, so that its tangent gives their tangents."""
    x, weight = randn(1, 3, 6, 6, device=device).requires_grad_(), randn(3, 1, 3, 3, device=device).requires_grad_()
    y = depthwise_conv2d(x, weight)
    assert type(y.grad_fn).__name__ == HOOK
    grad, tangent = torch.randn_like(y), torch.randn_like(y)
    expected = torch.autograd.grad(y, (x, weight), tangent, retain_graph=True)
    with dual_level():
        duals = torch.autograd.grad(y, (x, weight), make_dual(grad, tangent))
        for dual, theirs in zip(duals, expected, strict=True):
            assert torch.equal(unpack_dual(dual).tangent, theirs)


def test_a_traced_backward_of_torchs_hook_computes_nothing(device):
    """It calls our ops, which have fake kernels: compiled autograd traces a backward whose forward was eager."""
    x, weight, bias = (randn(*shape, device=device).requires_grad_() for shape in ((2, 8, 6, 6), (8, 1, 3, 3), (8,)))
    y = depthwise_conv2d(x, weight, bias)
    assert type(y.grad_fn).__name__ == HOOK
    with FakeTensorMode(allow_non_fake_inputs=True):
        gradients = torch.autograd.grad(y, (x, weight, bias), torch.empty(y.shape, device=device))
    for gradient, input_ in zip(gradients, (x, weight, bias), strict=True):
        assert isinstance(gradient, FakeTensor)
        assert gradient.shape == input_.shape


def test_torchs_hook_takes_depthwise_convolutions_only(device):
    x = randn(1, 4, 6, 6, device=device)
    with pytest.raises(
        RuntimeError, match=r"_mps_convolution: customops computes depthwise .*, and got .* and 2 groups"
    ):
        torch._mps_convolution(x, randn(4, 2, 3, 3, device=device), None, (0, 0), (1, 1), (1, 1), 2)
    with pytest.raises(RuntimeError, match="output_mask must have 3 flags, got 1"):
        torch.ops.aten.mps_convolution_backward(
            x, x, randn(4, 1, 3, 3, device=device), (1, 1), (1, 1), (1, 1), 4, [True]
        )


FILLED = """
import torch
from customops import depthwise_conv2d
x, weight = (torch.ones(shape, device="{device}", requires_grad=True) for shape in ((1, 2, 5, 5), (2, 1, 3, 3)))
for _ in range(2):  # the first call on CUDA opens its library
    y = depthwise_conv2d(x, weight)
    torch.autograd.grad(y.sum(), (x, weight))
has = torch._C._dispatch_has_kernel_for_dispatch_key
keys = [prefix + "{device}".upper() for prefix in ("", "Autograd")]
print(any(has("aten::" + op, key) for op in ("_mps_convolution", "mps_convolution_backward") for key in keys))
print(type(y.grad_fn).__name__)
"""


@pytest.mark.parametrize(("value", "expected"), [("0", ["False", "depthwise_conv2dBackward"]), ("1", ["True", HOOK])])
def test_the_variable_decides_whether_torchs_op_is_filled(value, expected, device):
    run = python(FILLED.format(device=device), CUSTOMOPS_TORCH_HOOK=value)
    assert run.stdout.split() == expected, run.stderr


def test_derivatives_without_the_hook(device):
    files = [HERE / f"test_depthwise_conv2d{part}.py" for part in ("_calls", "_training")]
    which = "test_derivatives or only_what_is_needed or third_derivative or inference_mode or autocast"
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--device={device}", "-k", which, *files],
        env=os.environ | {"CUSTOMOPS_TORCH_HOOK": "0"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout
    assert " passed" in run.stdout
    assert "skipped" not in run.stdout.splitlines()[-1]
