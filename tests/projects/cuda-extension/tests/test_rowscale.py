import pytest
import torch

try:
    from rowscale import rowscale
except (
    ImportError
) as error:  # built without aten = "stable", the module needs libc10_cuda.so, and a CPU build of torch has none
    if torch.version.cuda is not None or "libc10_cuda.so" not in str(error):
        raise
    pytest.skip("this torch is built without CUDA", allow_module_level=True)

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (37, 1000)])
def test_values(device, dtype, shape):
    x, factors = torch.randn(shape, dtype=dtype, device=device), torch.randn(shape[0], dtype=dtype, device=device)
    torch.testing.assert_close(rowscale(x, factors), factors[:, None] * x)


def test_transposed():
    x = torch.randn(5, 9).t()
    torch.testing.assert_close(rowscale(x, torch.arange(9.0)), torch.arange(9.0)[:, None] * x)


def test_wrong_factors():
    with pytest.raises(RuntimeError, match=r"factors must have shape \(4\)"):
        rowscale(torch.ones(4, 2), torch.ones(3))
