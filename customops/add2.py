"""add2: the sum of two tensors."""

from collections.abc import Callable

import torch
from torch import Tensor

from customops._autocast import promote
from customops._autograd import Context, differentiable, forward_mode
from customops._fake import check_dtype, check_same, fake, not_tensors

_plain: Callable[[Tensor, Tensor], Tensor] = torch.ops.customops._add2.default


def add2(a: Tensor, b: Tensor) -> Tensor:
    """Returns ``a + b``.

    Differentiable any number of times. Under autocast, inputs of different dtypes are cast to the wider one.

    Args:
        a: float32, float64, float16 or bfloat16, any shape, any strides.
        b: like ``a`` in dtype, device and shape; its strides may differ.

    Returns:
        A new tensor of ``a``'s dtype and shape, laid out like ``torch.empty_like(a)``; float16 and bfloat16 are added
        in float32 and rounded once.

    Raises:
        RuntimeError: dtype not supported; dtype, device or shape of ``b`` differs from ``a``'s.
        TypeError: an argument that is no tensor.

    Examples:
        >>> import torch, customops
        >>> customops.add2(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]))
        tensor([4., 6.])
    """
    if not (isinstance(a, Tensor) and isinstance(b, Tensor)):
        raise not_tensors("add2", a=a, b=b)
    if a.dtype != b.dtype:
        a, b = promote(a, b)
    if (torch.is_grad_enabled() and (a.requires_grad or b.requires_grad)) or forward_mode():
        return _differentiable(a, b)
    return _plain(a, b)


@fake("add2", "_add2")
def _fake(a: Tensor, b: Tensor) -> Tensor:
    check_dtype("add2", "a", a)
    check_same("add2", "a", a, "b", b)
    return torch.empty_like(a)


def _backward(ctx: Context, grad: Tensor) -> tuple[Tensor, Tensor]:
    return grad, grad


def _jvp(ctx: Context, a: Tensor | None, b: Tensor | None) -> Tensor | None:
    return b if a is None else a if b is None else add2(a, b)


_differentiable: Callable[[Tensor, Tensor], Tensor] = differentiable("add2", _backward, _jvp)
