import myops
import pytest
import torch

DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() and hasattr(torch.ops.myops, "swish") else [])


@pytest.fixture(params=DEVICES)
def device(request):
    return request.param


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(), (0,), (7,), (3, 5, 130)])
def test_values(device, dtype, shape):
    x = torch.randn(shape, dtype=dtype, device=device) * 4
    torch.testing.assert_close(myops.swish(x), torch.nn.functional.silu(x.double()).to(dtype))


def test_views(device):
    x = torch.randn(6, 8, dtype=torch.float64, device=device).t()[1:]
    torch.testing.assert_close(myops.swish(x), torch.nn.functional.silu(x))


def test_gradient(device):
    x = torch.randn(3, 5, dtype=torch.float64, device=device, requires_grad=True)
    torch.autograd.gradcheck(myops.swish, x)


def test_registration(device):
    x = torch.randn(4, device=device, requires_grad=True)
    torch.library.opcheck(torch.ops.myops.swish.default, (x,))


def test_other_dtypes_are_refused(device):
    with pytest.raises(RuntimeError, match="swish: x must be float32 or float64"):
        myops.swish(torch.ones(3, dtype=torch.int32, device=device))
