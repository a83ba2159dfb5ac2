import pytest
import torch
from common import COMPILE_BACKENDS, DTYPES, LAYOUTS, OPCHECK_DTYPE, compiled_in_one_graph, make
from torch.autograd import gradcheck, gradgradcheck

import customops


def assert_flat_copy(x):
    out = customops.flatten_copy(x)
    assert out.dtype == x.dtype
    assert out.is_contiguous()
    torch.testing.assert_close(out, x.reshape(-1), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_matches_reshape(layout, dtype, device):
    assert_flat_copy(make(layout, dtype, device))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", ["contiguous", "channels_last", "transposed", "stepped", "expanded"])
def test_large(layout, dtype, device):
    assert_flat_copy(make(layout, dtype, device, shape=(5, 33, 67, 71)))


@pytest.mark.parametrize("shape", [(1, 1, 17, 65), (2, 1, 16, 64), (1, 3, 1, 300), (1, 1, 300, 1), (3, 2, 40, 129)])
def test_transposed_tiles_and_their_edges(shape, device):
    x = make("contiguous", torch.float32, device, shape=shape)
    for dims in [(0, 1, 3, 2), (3, 1, 2, 0), (0, 3, 1, 2), (2, 3, 0, 1)]:
        assert_flat_copy(x.permute(dims))
        assert_flat_copy(x.permute(dims)[..., 1:, 1:])


def test_more_than_64_dimensions(device):
    assert_flat_copy(torch.randn([1] * 98 + [2, 3], device=device).transpose(-1, -2))


@pytest.mark.parametrize("layout", ["contiguous", "channels_last", "expanded", "scalar", "empty"])
def test_never_aliases(layout, device):
    x = make(layout, torch.float32, device)
    before = x.clone()
    customops.flatten_copy(x).add_(1)
    torch.testing.assert_close(x, before)


def test_tensor_method(device):
    assert not hasattr(torch.Tensor, "flatten_copy")
    customops.install_tensor_methods()
    try:
        assert torch.ones(2, 3, device=device).flatten_copy().shape == (6,)
    finally:
        del torch.Tensor.flatten_copy


def test_derivatives(device):
    x = make("transposed", torch.float64, device, 0, (2, 1, 3, 2)).requires_grad_()
    assert gradcheck(customops.flatten_copy, x)
    assert gradgradcheck(customops.flatten_copy, x)


@pytest.mark.parametrize("requires_grad", [False, True])
def test_opcheck(requires_grad, device):
    x = make("channels_last", OPCHECK_DTYPE, device).requires_grad_(requires_grad)
    torch.library.opcheck(torch.ops.customops.flatten_copy.default, (x,))
    torch.library.opcheck(torch.ops.customops._flatten_copy.default, (x.detach(),))


@pytest.mark.compiled
@pytest.mark.parametrize("backend", COMPILE_BACKENDS)
@pytest.mark.parametrize("dynamic", [False, True])
def test_compile(backend, dynamic, device):
    compiled = compiled_in_one_graph(lambda x: customops.flatten_copy(x) * 3, backend, dynamic)
    for n in (5, 6):
        x = torch.randn(4, n, requires_grad=True, device=device)
        compiled(x.t()).sum().backward()
        torch.testing.assert_close(x.grad, torch.full_like(x, 3))
        with torch.no_grad():
            torch.testing.assert_close(compiled(x.t()), x.t().reshape(-1) * 3)


def test_autocast_keeps_the_dtype(device):
    with torch.autocast(device, dtype=torch.bfloat16):
        assert customops.flatten_copy(torch.ones(2, 2, device=device)).dtype == torch.float32


def test_forward_mode_and_functorch(device):
    a, t = torch.randn(2, 2, 2, dtype=torch.float64, device=device)
    tangent = torch.func.jvp(customops.flatten_copy, (a,), (t,))[1]
    torch.testing.assert_close(tangent, t.reshape(-1))
    torch.testing.assert_close(torch.func.grad(lambda a: (customops.flatten_copy(a) * t.reshape(-1)).sum())(a), t)
    torch.testing.assert_close(torch.func.vmap(customops.flatten_copy)(a), a)
    assert gradcheck(customops.flatten_copy, a.clone().requires_grad_(), check_forward_ad=True, check_batched_grad=True)
