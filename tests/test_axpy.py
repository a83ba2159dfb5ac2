import struct

import pytest
import torch
from common import (
    COMPILE_BACKENDS,
    DTYPES,
    LAYOUTS,
    OPCHECK_DTYPE,
    SAME_SHAPE,
    assert_matches,
    compiled_in_one_graph,
    large,
    make,
)
from torch.autograd import gradcheck, gradgradcheck

import customops
from customops import axpy


def test_the_tutorial(device):
    """z = 2x + y on the tutorial's own numbers, as function and as module."""
    for op in (customops.axpy, customops.nn.Axpy()):
        x, y = (
            torch.tensor([1.0, 2.0, 3.0], requires_grad=True, device=device),
            torch.tensor([4.0, 5.0, 6.0], requires_grad=True, device=device),
        )
        z = op(x, y)
        z.sum().backward()
        assert z.tolist() == [6, 9, 12]
        assert x.grad.tolist() == [2, 2, 2]
        assert y.grad.tolist() == [1, 1, 1]


@pytest.mark.parametrize("alpha", [2.0, -0.3, 0.0])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_matches_float64(layout, dtype, alpha, device):
    x, y = make(layout, dtype, device, 0), make(layout, dtype, device, 1)
    assert_matches(customops.axpy(x, y, alpha), alpha * x.double() + y.double(), x)


@pytest.mark.parametrize("layout_y", SAME_SHAPE)
@pytest.mark.parametrize("layout_x", SAME_SHAPE)
def test_mixed_layouts(layout_x, layout_y, device):
    x, y = make(layout_x, torch.float32, device, 0), make(layout_y, torch.float32, device, 1)
    assert_matches(customops.axpy(x, y), 2 * x.double() + y.double(), x)


@pytest.mark.parametrize("dtype", DTYPES)
def test_large(dtype, device):
    x, y = large(dtype, device, 0), large(dtype, device, 1)
    assert_matches(customops.axpy(x, y, 0.7), 0.7 * x.double() + y.double(), x)


def test_alpha_is_double_for_float64(device):
    x, y = torch.ones(1, dtype=torch.float64, device=device), torch.zeros(1, dtype=torch.float64, device=device)
    assert customops.axpy(x, y, 1 + 2**-50).item() == 1 + 2**-50


@pytest.mark.parametrize("needs", [(True, True), (True, False), (False, True)])
def test_derivatives(needs, device):
    inputs = [make("transposed", torch.float64, device, i, (1, 2, 3, 2)).requires_grad_(n) for i, n in enumerate(needs)]
    assert gradcheck(lambda x, y: customops.axpy(x, y, -1.7), inputs)
    assert gradgradcheck(lambda x, y: customops.axpy(x, y, -1.7), inputs)


@pytest.mark.parametrize("requires_grad", [False, True])
def test_opcheck(requires_grad, device):
    x = make("channels_last", OPCHECK_DTYPE, device, 0).requires_grad_(requires_grad)
    y = make("sliced", OPCHECK_DTYPE, device, 1).requires_grad_(requires_grad)
    torch.library.opcheck(torch.ops.customops.axpy.default, (x, y, 0.5))
    torch.library.opcheck(torch.ops.customops._axpy.default, (x.detach(), y.detach(), 0.5))


@pytest.mark.compiled
@pytest.mark.parametrize("backend", COMPILE_BACKENDS)
@pytest.mark.parametrize("dynamic", [False, True])
def test_compile(backend, dynamic, device):
    module = compiled_in_one_graph(customops.nn.Axpy(-3.0), backend, dynamic)
    for n in (5, 6):
        x, y = (torch.randn(n, 4, requires_grad=True, device=device) for _ in range(2))
        module(x, y).sum().backward()
        torch.testing.assert_close(x.grad, torch.full_like(x, -3))
        with torch.no_grad():
            torch.testing.assert_close(module(x, y), -3 * x + y)


def test_autocast_widens_mixed_inputs(device):
    x, y = make("contiguous", torch.float16, device, 0), make("contiguous", torch.float32, device, 1)
    with torch.autocast(device, dtype=torch.float16):
        assert_matches(customops.axpy(x, y), 2 * x.double() + y.double(), y)


def test_alpha_of_float64_need_not_fit_into_float32(device):
    x, y = torch.ones(2, 1, device=device, dtype=torch.float64)
    assert axpy(x, y, 1e300).item() == 1e300
    assert axpy(x.to("meta"), y.to("meta"), 1e300).shape == (1,)


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_nan_stays_one(dtype, device):
    """All bits of this NaN's payload are set: rounding it like a number would make it a zero."""
    (nan,) = struct.unpack("<d", b"\xff" * 7 + b"\x7f")
    assert (
        customops.axpy(torch.ones(20, dtype=dtype, device=device), torch.ones(20, dtype=dtype, device=device), nan)
        .isnan()
        .all()
    )


def test_module_shows_alpha():
    assert repr(customops.nn.Axpy(0.5)) == "Axpy(alpha=0.5)"
    assert customops.nn.Axpy().state_dict() == {}


def test_forward_mode_and_functorch(device):
    a, b, t = torch.randn(3, 2, 2, dtype=torch.float64, device=device)
    tangent = torch.func.jvp(lambda a: customops.axpy(a, b, 3.0), (a,), (t,))[1]
    torch.testing.assert_close(tangent, 3 * t)
    torch.testing.assert_close(torch.func.grad(lambda a: (customops.axpy(a, b, 3.0) * t).sum())(a), 3 * t)
    torch.testing.assert_close(torch.func.vmap(lambda a, b: customops.axpy(a, b, 3.0))(a, b), 3 * a + b)
    assert gradcheck(
        lambda a: customops.axpy(a, b, 3.0), a.clone().requires_grad_(), check_forward_ad=True, check_batched_grad=True
    )
