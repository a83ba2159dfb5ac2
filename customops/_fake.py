"""What stands in for kernels in Python: fake kernels, with the checks of csrc/check.h again, and the first CUDA call."""

from collections.abc import Callable

import torch
from torch import Tensor

from customops import _cuda

_DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


def fake(*ops: str) -> Callable:
    """Registers a function as the fake kernel of some ops; their CUDA kernels will be looked for upon first use."""

    def register(f: Callable) -> Callable:
        for op in ops:
            torch.library.register_fake(f"customops::{op}", f)
            _cuda.on_first_use(op)
        return f

    return register


def check_dtype(op: str, name: str, t: Tensor) -> None:
    torch._check(
        t.dtype in _DTYPES, lambda: f"{op}: {name} must be float32, float64, float16 or bfloat16, got {t.dtype}"
    )


def check_same(op: str, like_name: str, like: Tensor, name: str, t: Tensor) -> None:
    """``t`` has to match ``like`` in dtype, device and shape."""
    expected = f"{op}: {name} must have the {{}} of {like_name}, {{}}, got {{}}"
    torch._check(t.dtype == like.dtype, lambda: expected.format("dtype", like.dtype, t.dtype))
    torch._check(t.device == like.device, lambda: expected.format("device", like.device, t.device))
    shapes = expected.format("shape", tuple(like.shape), tuple(t.shape))
    torch._check(t.dim() == like.dim(), lambda: shapes)
    for a, b in zip(like.shape, t.shape, strict=True):
        torch._check(a == b, lambda: shapes)
