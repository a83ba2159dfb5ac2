"""bias_act: bias, activation, gain and clamp in one pass, y = clip(act(x + b) * gain, -clamp, clamp)."""

import math
from collections.abc import Callable
from typing import NoReturn, Protocol

import torch
from torch import Tensor

from customops._autocast import follow
from customops._autograd import Context, differentiable, forward_mode
from customops._fake import check_dtype, check_fits, check_same, fake, not_tensors

_Settings = tuple[int, str, float, float, float]  # dim, act, alpha, gain, clamp
_Op = Callable[[Tensor, Tensor | None, int, str, float, float, float], Tensor]

_plain: _Op = torch.ops.customops._bias_act.default

_SQRT2 = 2**0.5
# act -> default gain, which keeps the variance of a unit-variance input about the same
_GAINS = {"linear": 1.0, "relu": _SQRT2, "lrelu": _SQRT2, "tanh": 1.0, "sigmoid": 1.0, "elu": 1.0, "selu": 1.0,
          "softplus": 1.0, "swish": _SQRT2}  # fmt: skip
_STRAIGHT = ("linear", "relu", "lrelu")  # their second derivative is zero


def bias_act(
    x: Tensor,
    b: Tensor | None = None,
    dim: int = 1,
    act: str = "linear",
    alpha: float | None = None,
    gain: float | None = None,
    clamp: float | None = None,
) -> Tensor:
    """Returns ``clip(act(x + b) * gain, -clamp, clamp)`` with ``b`` along dimension ``dim`` of ``x``.

    The op between the convolutions of StyleGAN2 (https://arxiv.org/abs/1912.04958, appendix B). Differentiable twice in
    ``x`` and ``b``; any number of times where ``act`` is linear, relu or lrelu. Where ``|y|`` would exceed ``clamp`` the
    gradient is zero, at ``clamp`` itself it passes, as :func:`torch.clamp` has it up to 2.13. Of the activations only one tensor is kept
    for the backward: ``y`` where the slope follows from it, otherwise ``x``. Under autocast ``b`` is cast to ``x``'s
    dtype.

    Args:
        x: float32, float64, float16 or bfloat16, any shape, any strides.
        b: shape ``(x.shape[dim],)``, like ``x`` in dtype and device; None for no bias.
        dim: the dimension of ``x`` that ``b`` belongs to; without ``b`` it means nothing.
        act: linear, relu, lrelu, tanh, sigmoid, elu, selu, softplus or swish.
        alpha: slope of lrelu for negative numbers, 0.2 by default; the others have none.
        gain: factor after the activation; by default sqrt(2) for relu, lrelu and swish, 1 for the others.
        clamp: largest magnitude of an output; None or a negative number for no limit.

    Returns:
        A new tensor of ``x``'s dtype and shape, laid out like ``torch.empty_like(x)``; float16 and bfloat16 are
        computed in float32 and rounded once. NaN stays NaN.

    Raises:
        RuntimeError: dtype not supported; dtype, device or shape of ``b`` does not fit ``x``; ``dim`` or ``act`` is
            unknown; ``alpha``, ``gain`` or ``clamp`` too large for float32, except for float64 inputs.
        TypeError: an argument that is no tensor.

    Examples:
        >>> import torch, customops
        >>> x, b = torch.tensor([[-1.0, 2.0]]), torch.tensor([0.0, 1.0])
        >>> customops.bias_act(x, b, act="relu", gain=1.0, clamp=2.5)
        tensor([[0.0000, 2.5000]])
    """
    if not (isinstance(x, Tensor) and (b is None or isinstance(b, Tensor))):
        raise not_tensors("bias_act", x=x, b=b)
    if alpha is None:
        alpha = 0.2 if act == "lrelu" else 0.0
    if gain is None:
        gain = _GAINS.get(act, 1.0)
    if clamp is None:
        clamp = -1.0
    if b is None:
        needed = x.requires_grad
    else:
        if b.dtype != x.dtype:
            b = follow(x, b)
        needed = x.requires_grad or b.requires_grad
    if (needed and torch.is_grad_enabled()) or forward_mode():
        return _differentiable(x, b, dim, act, alpha, gain, clamp)
    return _plain(x, b, dim, act, alpha, gain, clamp)


def fused_leaky_relu(
    input: Tensor, bias: Tensor | None = None, negative_slope: float = 0.2, scale: float = _SQRT2
) -> Tensor:
    """Returns ``leaky_relu(input + bias) * scale``: :func:`bias_act` by the name and arguments that many models use.

    Args:
        input: at least 2 dimensions if there is a bias; see ``x`` of :func:`bias_act`.
        bias: shape ``(input.shape[1],)``, or None.
        negative_slope: factor for negative numbers.
        scale: factor for all.

    Examples:
        >>> import torch, customops
        >>> customops.fused_leaky_relu(torch.tensor([[-1.0, 2.0]]), torch.zeros(2), scale=1.0)
        tensor([[-0.2000,  2.0000]])
    """
    return bias_act(input, bias, 1, "lrelu", negative_slope, scale)


def _from_y(act: str, alpha: float, gain: float, clamp: float) -> bool:
    """Whether the slope follows from y as well as from x.

    Not where a clamp hides on which side of its edge x was, nor for swish, which is not monotonic. A gain below 1 could
    round a small positive y to zero, a large one could make it infinite.
    """
    return clamp < 0 and 1 <= gain <= 16 and act not in ("linear", "swish") and (act != "lrelu" or alpha >= 0)


def _sources(
    x: Tensor, b: Tensor | None, y: Tensor, act: str, alpha: float, gain: float, clamp: float
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """What the backward needs of x, b and y: the others are None."""
    if _from_y(act, alpha, gain, clamp):
        return None, None, y
    return (None, None, None) if act == "linear" and clamp < 0 else (x, b, None)


def _check_setting(act: str, alpha: float, gain: float, clamp: float, dtype: torch.dtype) -> None:
    for name, value in (("alpha", alpha), ("gain", gain)):
        check_fits("bias_act", name, value, dtype)
    if not isinstance(clamp, torch.SymFloat):
        check_fits("bias_act", "clamp", max(clamp, -1.0), dtype)
        torch._check(not math.isnan(clamp), lambda: "bias_act: clamp must be a number, got nan")
    *names, last = _GAINS
    torch._check(act in _GAINS, lambda: f"bias_act: act must be {', '.join(names)} or {last}, got {act}")


def _check_bias(x: Tensor, b: Tensor | None, dim: int) -> None:
    if b is None:
        return
    torch._check(b.dtype == x.dtype, lambda: f"bias_act: b must have the dtype of x, {x.dtype}, got {b.dtype}")
    torch._check(b.device == x.device, lambda: f"bias_act: b must be on the device of x, {x.device}, got {b.device}")
    _check_dim(x, dim)
    shapes = f"bias_act: b must have shape (C,) with C = {{}}, the size of x along dim {dim}, got {{}}"
    torch._check(b.dim() == 1, lambda: shapes.format(x.shape[dim], tuple(b.shape)))
    torch._check(b.shape[0] == x.shape[dim], lambda: shapes.format(x.shape[dim], tuple(b.shape)))


def _check_dim(x: Tensor, dim: int) -> None:
    torch._check(
        -x.dim() <= dim < x.dim(),
        lambda: f"bias_act: dim must be from {-x.dim()} to {x.dim() - 1} for x of shape {tuple(x.shape)}, got {dim}",
    )


@fake("bias_act", "_bias_act")
def _fake(x: Tensor, b: Tensor | None, dim: int, act: str, alpha: float, gain: float, clamp: float) -> Tensor:
    check_dtype("bias_act", "x", x)
    _check_setting(act, alpha, gain, clamp, x.dtype)
    _check_bias(x, b, dim)
    return torch.empty_like(x)


@fake("_bias_act_backward")
def _fake_backward(
    grad: Tensor,
    x: Tensor | None,
    b: Tensor | None,
    y: Tensor | None,
    dim: int,
    act: str,
    alpha: float,
    gain: float,
    clamp: float,
    sum: bool,
) -> tuple[Tensor, Tensor]:
    check_dtype("bias_act", "grad", grad)
    like = x if x is not None else y if y is not None else grad
    check_same("bias_act", "grad", grad, "y" if x is None else "x", like)
    _check_setting(act, alpha, gain, clamp, grad.dtype)
    sloped = act != "linear" or clamp >= 0
    torch._check(not (sloped and like is grad), lambda: f"bias_act: {act} needs x or y for its slope")
    _check_bias(like, b, dim)
    if sum:
        _check_dim(like, dim)
    return torch.empty_like(like), grad.new_empty(grad.shape[dim] if sum else 0)


@fake("_bias_act_double_backward")
def _fake_double_backward(
    grad2: Tensor,
    grad: Tensor,
    x: Tensor | None,
    b: Tensor | None,
    y: Tensor | None,
    dim: int,
    act: str,
    alpha: float,
    gain: float,
    clamp: float,
    sum: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    check_dtype("bias_act", "grad", grad)
    _check_setting(act, alpha, gain, clamp, grad.dtype)
    torch._check(act not in _STRAIGHT, lambda: f"bias_act: {act} has no curvature")
    torch._check(x is not None or y is not None, lambda: f"bias_act: {act} needs x or y for its slope")
    check_same("bias_act", "grad", grad, "grad2", grad2)
    dx, db = _fake_backward(grad, x, b, y, dim, act, alpha, gain, clamp, sum)
    return dx, torch.empty_like(dx), db


def _along(b: Tensor, like: Tensor, dim: int) -> Tensor:
    """b as a view that broadcasts over ``like``."""
    return b.view([-1 if d == dim % like.dim() else 1 for d in range(like.dim())])


def _plus(a: Tensor | None, b: Tensor | None, like: Tensor, dim: int) -> Tensor | None:
    """a + b along dim in the shape of ``like``, where None counts as zero; None if both are."""
    if b is None:
        return a
    b = _along(b, like, dim)
    return b.expand_as(like) if a is None else a + b


class _Context(Context, Protocol):
    saved_tensors: tuple[Tensor | None, Tensor | None, Tensor | None]  # x, b, y
    settings: _Settings


class _ForwardMode(_Context, Protocol):
    saved_tensors: tuple[Tensor, Tensor | None, None]


def _setup_context(
    ctx: _Context, inputs: tuple[Tensor, Tensor | None, int, str, float, float, float], output: Tensor
) -> None:
    x, b = inputs[:2]
    ctx.settings = inputs[2:]
    ctx.set_materialize_grads(False)  # a double backward that needs only the gradient of grad comes by here with none
    if forward_mode():  # a tangent is computed before anything else could be freed
        _save(ctx, x, b, None)
    else:
        _save(ctx, *_sources(x, b, output, *ctx.settings[1:]))


def _save(ctx: Context, *tensors: Tensor | None) -> None:
    ctx.save_for_backward(*tensors)
    if forward_mode():  # what ctx.saved_tensors gives to a jvp
        ctx.save_for_forward(*tensors)


def _backward(ctx: _Context, grad: Tensor | None) -> tuple[Tensor | None, ...]:
    if grad is None:
        return (None,) * 7
    x, b, y = ctx.saved_tensors
    dim, act, alpha, gain, clamp = ctx.settings
    dx, db = _first(grad, x, b, y, dim, act, alpha, gain, clamp, ctx.needs_input_grad[1])
    return dx, db if ctx.needs_input_grad[1] else None, None, None, None, None, None


def _jvp(ctx: _ForwardMode, tx: Tensor | None, tb: Tensor | None, *_: object) -> Tensor:
    x, b, _y = ctx.saved_tensors
    moved = _plus(tx, tb, x, ctx.settings[0])
    assert moved is not None  # torch asks only where an input has a tangent
    return _first(moved, x, b, None, *ctx.settings, False)[0]


_differentiable: _Op = differentiable("bias_act", _backward, _jvp, _setup_context)


# The backward, of (grad, x, b, y, dim, act, alpha, gain, clamp, sum).


_Optional = Tensor | None
_First = Callable[
    [Tensor, _Optional, _Optional, _Optional, int, str, float, float, float, bool],
    tuple[Tensor, Tensor],
]
_Second = Callable[
    [Tensor, Tensor, _Optional, _Optional, _Optional, int, str, float, float, float, bool],
    tuple[Tensor, Tensor, Tensor],
]


class _FirstContext(Context, Protocol):
    saved_tensors: tuple[Tensor, Tensor | None, Tensor | None, Tensor | None]  # grad, x, b, y
    settings: _Settings
    sum: bool


def _first_setup(
    ctx: _FirstContext,
    inputs: tuple[Tensor, _Optional, _Optional, _Optional, int, str, float, float, float, bool],
    output: tuple[Tensor, Tensor],
) -> None:
    grad, x, b, y = inputs[:4]
    ctx.settings, ctx.sum = inputs[4:9], inputs[9]
    ctx.set_materialize_grads(False)
    _save(ctx, grad, x, b, y)


def _first_backward(ctx: _FirstContext, ddx: Tensor | None, ddb: Tensor | None) -> tuple[Tensor | None, ...]:
    grad, x, b, y = ctx.saved_tensors
    settings, sum = ctx.settings, ctx.sum
    dim, act = settings[:2]
    grad2 = _plus(ddx, ddb if sum else None, grad, dim)
    none = (None,) * 6
    if grad2 is None:
        return None, None, None, None, *none
    if act in _STRAIGHT:
        return _first(grad2, x, b, y, *settings, False)[0], None, None, None, *none
    needs_b = b is not None and ctx.needs_input_grad[2]
    dgrad, dref, db = _second(grad2, grad, x, b, y, *settings, needs_b)
    return dgrad, *((None, None, dref) if x is None else (dref, db if needs_b else None, None)), *none


def _first_jvp(
    ctx: _FirstContext, tgrad: Tensor | None, tx: Tensor | None, tb: Tensor | None, ty: Tensor | None, *_: object
) -> tuple[Tensor, Tensor]:
    grad, x, b, y = ctx.saved_tensors
    settings, sum = ctx.settings, ctx.sum
    dim, act = settings[:2]
    moved = None if act in _STRAIGHT else ty if x is None else _plus(tx, tb, x, dim)
    dx = None if tgrad is None else _first(tgrad, x, b, y, *settings, False)[0]
    if moved is not None:
        bent = _second(moved, grad, x, b, y, *settings, False)[1]
        dx = bent if dx is None else dx + bent
    if dx is None:
        dx = torch.zeros_like(grad)
    return dx, dx.sum([d for d in range(dx.dim()) if d != dim % dx.dim()]) if sum else dx.new_empty(0)


_first: _First = differentiable("_bias_act_backward", _first_backward, _first_jvp, _first_setup)


# The double backward, of (grad2, grad, x, b, y, dim, act, alpha, gain, clamp, sum): here it ends.


def _no_third(ctx: Context, *_: object) -> NoReturn:
    raise NotImplementedError("bias_act: only linear, relu and lrelu have derivatives of third order")


_second: _Second = differentiable("_bias_act_double_backward", _no_third, _no_third)
