"""What the ops do under ``torch.autocast``."""

import torch
from torch import Tensor


def promote(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Brings two tensors of different dtypes to the wider one where autocast is on; leaves them alone elsewhere.

    This is what autocast does to torch's own elementwise ops of several inputs: they follow their inputs, and only
    mixed inputs are cast. Outside autocast the op itself refuses mixed dtypes, as a mistake.
    """
    if _mixes(a, b):
        wider = torch.promote_types(a.dtype, b.dtype)
        return a.to(wider), b.to(wider)
    return a, b


def follow(x: Tensor, parameter: Tensor) -> Tensor:
    """Brings a parameter to the dtype of the activations where autocast is on: they come in the dtype that it chose."""
    return parameter.to(x.dtype) if _mixes(x, parameter) else parameter


def lower(x: Tensor, weight: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor, Tensor | None]:
    """Brings tensors to the dtype of autocast where it is on, as it does to the inputs of torch's convolutions.

    float64 stays, and so does whatever isn't a floating-point number. So do float32 parameters beside a 16-bit ``x``: the
    kernels round them as they read them, which saves a cast, its memory and its place in the graph for each of them.
    """
    # By name, not by torch.amp.is_autocast_available: torch.compile of torch 2.11 cannot look into that.
    device = "cuda" if x.is_cuda else "cpu" if x.is_cpu else None
    if device is None or not torch.is_autocast_enabled(device):
        return x, weight, bias
    dtype = torch.get_autocast_dtype(device)
    kept: tuple[torch.dtype, ...] = (dtype, torch.float64)
    if x.dtype not in kept and x.is_floating_point():
        x = x.to(dtype)
    if x.dtype in (torch.bfloat16, torch.float16):
        kept = (*kept, torch.float32)
    if weight.dtype not in kept and weight.is_floating_point():
        weight = weight.to(dtype)
    if bias is not None and bias.dtype not in kept and bias.is_floating_point():
        bias = bias.to(dtype)
    return x, weight, bias


def _mixes(a: Tensor, b: Tensor) -> bool:
    device = a.device.type
    return (
        torch.amp.is_autocast_available(device)
        and torch.is_autocast_enabled(device)
        and a.is_floating_point()
        and b.is_floating_point()
    )
