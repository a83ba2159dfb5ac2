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


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_matches_float64(layout, dtype, device):
    a, b = make(layout, dtype, device, 0), make(layout, dtype, device, 1)
    assert_matches(customops.add2(a, b), a.double() + b.double(), a)


@pytest.mark.parametrize("layout_b", SAME_SHAPE)
@pytest.mark.parametrize("layout_a", SAME_SHAPE)
def test_mixed_layouts(layout_a, layout_b, device):
    a, b = make(layout_a, torch.float32, device, 0), make(layout_b, torch.float32, device, 1)
    assert_matches(customops.add2(a, b), a.double() + b.double(), a)


@pytest.mark.parametrize("dtype", DTYPES)
def test_large(dtype, device):
    a, b = large(dtype, device, 0), large(dtype, device, 1)
    assert_matches(customops.add2(a, b), a.double() + b.double(), a)


@pytest.mark.parametrize("dtype", DTYPES)
def test_special_values(dtype, device):
    special = torch.tensor(
        [float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1e-7, 6e4], dtype=dtype, device=device
    )
    a, b = (t.reshape(-1).contiguous() for t in torch.meshgrid(special, special, indexing="ij"))
    torch.testing.assert_close(customops.add2(a, b), a + b, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", DTYPES)
def test_rounds_like_torch_to_the_last_bit(dtype, device):
    """One addition, one rounding, ties to even: there is only one right answer."""
    eps = torch.finfo(dtype).eps
    ties = 1 + eps * torch.arange(64, dtype=torch.float64, device=device)
    a = torch.cat([make("contiguous", dtype, device, 0).flatten(), ties.to(dtype)])
    b = torch.cat([make("contiguous", dtype, device, 1).flatten(), torch.full_like(ties, eps / 2).to(dtype)])
    assert torch.equal(customops.add2(a, b), a + b)


@pytest.mark.parametrize("needs", [(True, True), (True, False), (False, True)])
def test_derivatives(needs, device):
    inputs = [make("transposed", torch.float64, device, i, (1, 2, 3, 2)).requires_grad_(n) for i, n in enumerate(needs)]
    assert gradcheck(customops.add2, inputs)
    assert gradgradcheck(customops.add2, inputs)


@pytest.mark.parametrize("requires_grad", [False, True])
def test_opcheck(requires_grad, device):
    a = make("channels_last", OPCHECK_DTYPE, device, 0).requires_grad_(requires_grad)
    b = make("sliced", OPCHECK_DTYPE, device, 1).requires_grad_(requires_grad)
    torch.library.opcheck(torch.ops.customops.add2.default, (a, b))
    torch.library.opcheck(torch.ops.customops._add2.default, (a.detach(), b.detach()))


@pytest.mark.compiled
@pytest.mark.parametrize("backend", COMPILE_BACKENDS)
@pytest.mark.parametrize("dynamic", [False, True])
def test_compile(backend, dynamic, device):
    compiled = compiled_in_one_graph(lambda a, b: customops.add2(a, b) * 3, backend, dynamic)
    for n in (5, 6):
        a, b = (torch.randn(n, 4, requires_grad=True, device=device) for _ in range(2))
        compiled(a, b).sum().backward()
        torch.testing.assert_close(a.grad, torch.full_like(a, 3))
        with torch.no_grad():
            torch.testing.assert_close(compiled(a, b), (a + b) * 3)


def test_autocast_widens_mixed_inputs(device):
    a, b = make("contiguous", torch.bfloat16, device, 0), make("contiguous", torch.float32, device, 1)
    with torch.autocast(device, dtype=torch.bfloat16):
        assert_matches(customops.add2(a, b), a.double() + b.double(), b)


def test_never_aliases(device):
    a = torch.ones(3, device=device)
    customops.add2(a, torch.zeros(3, device=device)).add_(1)
    assert a.tolist() == [1, 1, 1]


def test_forward_mode_and_functorch(device):
    a, b, t = torch.randn(3, 2, 2, dtype=torch.float64, device=device)
    tangent = torch.func.jvp(lambda a: customops.add2(a, b), (a,), (t,))[1]
    torch.testing.assert_close(tangent, t)
    torch.testing.assert_close(torch.func.grad(lambda a: (customops.add2(a, b) * t).sum())(a), t)
    torch.testing.assert_close(torch.func.vmap(lambda a, b: customops.add2(a, b))(a, b), a + b)
    assert gradcheck(
        lambda a: customops.add2(a, b), a.clone().requires_grad_(), check_forward_ad=True, check_batched_grad=True
    )
