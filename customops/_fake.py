"""What stands in for kernels in Python: fake kernels, with the checks of csrc/check.h again, and the first CUDA call.

tests/test_bad_inputs.py compares these checks with those in C++, message by message.
"""

import math
from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor

from customops import _cuda

MOST = 2**31  # of strides, factors and padding, so that sums and products of these and of sizes fit into 64 bits
MOST_SPAN = 2**60  # of sizes times these
_DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)

F = TypeVar("F", bound=Callable[..., object])


def fake(*ops: str) -> Callable[[F], F]:
    """Registers a function as the fake kernel of some ops; their CUDA kernels will be looked for upon first use."""

    def register(f: F) -> F:
        for op in ops:
            torch.library.register_fake(f"customops::{op}", f)
            _cuda.on_first_use(op)
        return f

    return register


def not_tensors(op: str, **given: object) -> TypeError:
    """The error for arguments of which one is no tensor: it names the first."""
    name, value = next((name, value) for name, value in given.items() if not isinstance(value, Tensor))
    return TypeError(f"{op}: {name} must be a Tensor, got {type(value).__name__}")


def check_dtype(op: str, name: str, t: Tensor) -> None:
    torch._check(
        t.dtype in _DTYPES, lambda: f"{op}: {name} must be float32, float64, float16 or bfloat16, got {t.dtype}"
    )


def check_same(op: str, like_name: str, like: Tensor, name: str, t: Tensor) -> None:
    """``t`` has to match ``like`` in dtype, device and shape."""
    expected = f"{op}: {name} must {{}} of {like_name}, {{}}, got {{}}"
    torch._check(t.dtype == like.dtype, lambda: expected.format("have the dtype", like.dtype, t.dtype))
    torch._check(t.device == like.device, lambda: expected.format("be on the device", like.device, t.device))
    shapes = expected.format("have the shape", tuple(like.shape), tuple(t.shape))
    shapes += " (expand it first: this op does not broadcast)"
    torch._check(t.dim() == like.dim(), lambda: shapes)
    for a, b in zip(like.shape, t.shape, strict=True):
        torch._check(a == b, lambda: shapes)


def known(*numbers: int) -> bool:
    """Whether these are numbers and not symbols of a graph, whose values the kernels check when it runs."""
    return all(isinstance(number, int) for number in numbers)


def check_numel(op: str, *sizes: int) -> None:
    """A result of these sizes can be addressed."""
    if known(*sizes):  # an empty tensor has strides as well
        torch._check(
            math.prod(max(size, 1) for size in sizes) <= (2**63 - 1) // 8,
            lambda: f"{op}: a result of shape {tuple(sizes)} is more than memory can hold",
        )


def check_fits(op: str, name: str, value: float, dtype: torch.dtype) -> None:
    """``value`` becomes a float32 for every dtype but float64. A number that only a graph's run will know passes here."""
    if dtype == torch.float64 or isinstance(value, torch.SymFloat):
        return
    fits = not torch.finfo(torch.float32).max < abs(value) < math.inf
    torch._check(
        fits,
        lambda: f"{op}: {name} must fit into float32, the type of the arithmetic for {dtype}, got {value:g}",
    )
