"""swish for PyTorch: myops.swish(x)."""

from pathlib import Path

import torch

for _library in ("_cpu.so", "_cuda.so"):  # a wheel for the CPU has the first only
    if (_path := Path(__file__).with_name(_library)).exists():
        torch.ops.load_library(_path)


@torch.library.register_fake("myops::swish")
def _(x):
    return torch.empty_like(x, memory_format=torch.contiguous_format)


@torch.library.register_fake("myops::swish_backward")
def _(grad, x):
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def _save(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


def _backward(ctx, grad):
    (x,) = ctx.saved_tensors
    return torch.ops.myops.swish_backward(grad, x)


torch.library.register_autograd("myops::swish", _backward, setup_context=_save)


def swish(x: torch.Tensor) -> torch.Tensor:
    """x * sigmoid(x), elementwise. float32 or float64, on a CPU or a CUDA device; differentiable once."""
    return torch.ops.myops.swish(x)
