import pytest
import torch
from softclip import softclip


@pytest.mark.parametrize("limit", [0.5, 3.0])
def test_values(limit):
    x = torch.linspace(-9, 9, 10_001, dtype=torch.float64)
    torch.testing.assert_close(softclip(x, limit), limit * torch.tanh(x / limit))


def test_gradient():
    x = torch.randn(7, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: softclip(x, 1.5), x)


def test_bad_limit():
    with pytest.raises(RuntimeError, match="limit must be positive"):
        softclip(torch.ones(1), -1.0)
