"""axpy: a scaled tensor plus another, z = alpha * x + y."""

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from customops._autocast import promote
from customops._autograd import Context, differentiable, forward_mode
from customops._fake import check_dtype, check_fits, check_same, fake, not_tensors

_plain: Callable[[Tensor, Tensor, float], Tensor] = torch.ops.customops._axpy.default


def axpy(x: Tensor, y: Tensor, alpha: float = 2.0) -> Tensor:
    """Returns ``alpha * x + y``; the name is BLAS's (https://www.netlib.org/blas/, level 1).

    Differentiable any number of times in ``x`` and ``y``, not in ``alpha``. Under autocast, inputs of different dtypes
    are cast to the wider one.

    Args:
        x: float32, float64, float16 or bfloat16, any shape, any strides.
        y: like ``x`` in dtype, device and shape; its strides may differ.
        alpha: the factor, a Python number; no derivative goes to it.

    Returns:
        A new tensor of ``x``'s dtype and shape, laid out like ``torch.empty_like(x)``; float16 and bfloat16 are
        computed in float32 and rounded once.

    Raises:
        RuntimeError: dtype not supported; dtype, device or shape of ``y`` differs from ``x``'s; alpha too large for
            float32, except for float64 inputs.
        TypeError: an argument that is no tensor.

    Examples:
        >>> import torch, customops
        >>> customops.axpy(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]), alpha=10.0)
        tensor([13., 24.])
    """
    if not (isinstance(x, Tensor) and isinstance(y, Tensor)):
        raise not_tensors("axpy", x=x, y=y)
    if x.dtype != y.dtype:
        x, y = promote(x, y)
    if (torch.is_grad_enabled() and (x.requires_grad or y.requires_grad)) or forward_mode():
        return _differentiable(x, y, alpha)
    return _plain(x, y, alpha)


@fake("axpy", "_axpy")
def _fake(x: Tensor, y: Tensor, alpha: float = 2.0) -> Tensor:
    check_dtype("axpy", "x", x)
    check_same("axpy", "x", x, "y", y)
    check_fits("axpy", "alpha", alpha, x.dtype)
    return torch.empty_like(x)


class _Context(Context, Protocol):
    alpha: float


def _setup_context(ctx: _Context, inputs: tuple[Tensor, Tensor, float], output: Tensor) -> None:
    ctx.alpha = inputs[2]


def _backward(ctx: _Context, grad: Tensor) -> tuple[Tensor | None, Tensor, None]:
    return grad * ctx.alpha if ctx.needs_input_grad[0] else None, grad, None


def _jvp(ctx: _Context, x: Tensor | None, y: Tensor | None, _alpha: None) -> Tensor | None:
    return y if x is None else x * ctx.alpha if y is None else axpy(x, y, ctx.alpha)


_differentiable: Callable[[Tensor, Tensor, float], Tensor] = differentiable("axpy", _backward, _jvp, _setup_context)
