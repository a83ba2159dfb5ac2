"""What the tests of depthwise_conv2d share: torch's answer, and images."""

import pytest
import torch
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from customops import depthwise_conv2d

FORMATS = [torch.contiguous_format, torch.channels_last]
memory_formats = pytest.mark.parametrize("memory_format", FORMATS, ids=["nchw", "nhwc"])
HOOK = "MpsConvolutionBackward0"  # of torch's op that csrc/depthwise_conv2d_hook.h fills: its node in the graph


class Record(TorchDispatchMode):
    """The arguments of all operators that are called, by name."""

    def __init__(self):
        super().__init__()
        self.calls = {}

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.calls[function.name()] = args
        return function(*args, **(kwargs or {}))


@pytest.fixture(scope="module", autouse=True)
def opened(device):
    """CUDA's library: the first call opens it, and only later ones go through torch's hook."""
    one = torch.ones(1, 1, 1, 1, device=device)
    depthwise_conv2d(one, one)


def reference(x, weight, bias=None, stride=1, padding=0, dilation=1):
    """torch's own convolution in float64, on the CPU: its CUDA one may round its products to TensorFloat-32."""
    x, weight = x.double().cpu(), weight.double().cpu()
    bias = None if bias is None else bias.double().cpu()
    return F.conv2d(x, weight, bias, stride, padding, dilation, groups=len(weight))


def randn(*shape, dtype=torch.float32, device="cpu", seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(device, dtype)


def image(shape, dtype, device, memory_format, seed=0):
    return randn(*shape, dtype=dtype, device=device, seed=seed).contiguous(memory_format=memory_format)


def assert_close(actual, expected64):
    """Rounded once to a narrow dtype; the arithmetic in float32 adds some units in the last place of float32."""
    expected64 = expected64.to(actual.device)
    scale = max(float(expected64.detach().abs().max()), 1) if expected64.numel() else 1
    slack = {torch.float64: 1e-13, torch.float32: 1e-5}.get(actual.dtype, 3e-6)
    rtol = torch.finfo(actual.dtype).eps
    torch.testing.assert_close(actual.double(), expected64, rtol=rtol, atol=slack * scale)
