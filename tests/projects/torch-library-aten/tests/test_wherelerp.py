import pytest
import torch
from wherelerp import wherelerp


def inputs(shape, **options):
    return torch.randn(shape, **options), torch.randn(shape, **options), torch.rand(shape) < 0.5


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(), (0, 4), (6, 7)])
def test_values(dtype, shape):
    x, y, mask = inputs(shape, dtype=dtype)
    torch.testing.assert_close(wherelerp(x, y, mask, 0.3), torch.where(mask, torch.lerp(x, y, 0.3), x))


def test_gradient():
    x, y, mask = inputs((3, 4), dtype=torch.float64, requires_grad=True)
    torch.autograd.gradcheck(lambda x, y: wherelerp(x, y, mask, 0.3), (x, y))


def test_registration():
    x, y, mask = inputs((3, 4), requires_grad=True)
    torch.library.opcheck(torch.ops.wherelerp.wherelerp.default, (x, y, mask, 0.3))


def test_wrong_shape():
    with pytest.raises(RuntimeError, match="y must have the shape of x"):
        wherelerp(torch.ones(2), torch.ones(3), torch.ones(2, dtype=torch.bool), 0.5)
