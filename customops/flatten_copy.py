"""flatten_copy: the elements of a tensor, in row-major order, as a new 1-D tensor."""

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from customops._autograd import Context, differentiable, forward_mode
from customops._fake import check_dtype, fake, not_tensors

_plain: Callable[[Tensor], Tensor] = torch.ops.customops._flatten_copy.default


def flatten_copy(x: Tensor) -> Tensor:
    """Returns a contiguous 1-D copy of ``x``; unlike ``x.flatten()`` it never aliases ``x``.

    Differentiable any number of times: the gradient passes through in ``x``'s shape.

    Args:
        x: float32, float64, float16 or bfloat16, any shape, any strides.

    Returns:
        A new tensor of shape ``(x.numel(),)`` and ``x``'s dtype.

    Raises:
        RuntimeError: dtype not supported.
        TypeError: an argument that is no tensor.

    Examples:
        >>> import torch, customops
        >>> customops.flatten_copy(torch.arange(6.0).view(2, 3).t())
        tensor([0., 3., 1., 4., 2., 5.])
    """
    if not isinstance(x, Tensor):
        raise not_tensors("flatten_copy", x=x)
    if (torch.is_grad_enabled() and x.requires_grad) or forward_mode():
        return _differentiable(x)
    return _plain(x)


def install_tensor_methods() -> None:
    """Adds ``Tensor.flatten_copy()``, the method variant of the op. Opt-in, because it changes ``torch.Tensor``."""
    Tensor.flatten_copy = flatten_copy  # type: ignore[attr-defined]  # torch's stubs cannot know it


@fake("flatten_copy", "_flatten_copy")
def _fake(x: Tensor) -> Tensor:
    check_dtype("flatten_copy", "x", x)
    return x.new_empty(x.numel())


class _Context(Context, Protocol):
    shape: torch.Size


def _setup_context(ctx: _Context, inputs: tuple[Tensor], output: Tensor) -> None:
    ctx.shape = inputs[0].shape


def _backward(ctx: _Context, grad: Tensor) -> Tensor:
    return grad.reshape(ctx.shape)


def _jvp(ctx: _Context, x: Tensor) -> Tensor:
    return flatten_copy(x)


_differentiable: Callable[[Tensor], Tensor] = differentiable("flatten_copy", _backward, _jvp, _setup_context)
