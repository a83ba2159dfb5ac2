"""upfirdn2d: insert zeros, pad, filter and downsample images, in one pass."""

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor

from customops._autograd import Context, differentiable, forward_mode
from customops._fake import MOST, MOST_SPAN, check_dtype, check_fits, check_numel, fake, known, not_tensors


class _Op(Protocol):
    """(x, f, up_x, up_y, down_x, down_y, pad_x0, pad_x1, pad_y0, pad_y1, flip_filter, gain), as in csrc/library.cpp."""

    def __call__(self, x: Tensor, f: Tensor | None, *arguments: float) -> Tensor: ...


_plain: _Op = torch.ops.customops._upfirdn2d.default


def upfirdn2d(
    x: Tensor,
    f: Tensor | None,
    up: int | Sequence[int] = 1,
    down: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    flip_filter: bool = False,
    gain: float = 1,
) -> Tensor:
    """Upsamples, pads, filters and downsamples images, like ``scipy.signal.upfirdn`` along both axes.

    In this order: puts ``up - 1`` zeros after every pixel; pads with zeros, or crops where the padding is negative;
    convolves with ``f``, valid positions only; multiplies by ``gain``; keeps every ``down``-th sample from the first.
    Along x that gives ``(W * up + px0 + px1 - fw) // down + 1`` columns. Differentiable any number of times in ``x``.
    The result has ``x``'s dtype whether or not autocast is on.

    Args:
        x: float32, float64, float16 or bfloat16, shape (N, C, H, W), any strides.
        f: the filter, float32, on ``x``'s device: 2-D (height, width); 1-D, which is applied along both axes; or None, a
            single tap of 1. No derivative goes to it.
        up: one factor, or ``[x, y]``.
        down: one factor, or ``[x, y]``.
        padding: one number for all sides, ``[x, y]``, or ``[x0, x1, y0, y1]`` (left, right, top, bottom), in samples of
            the upsampled image.
        flip_filter: False convolves; True correlates, which is what torch calls a convolution.
        gain: a factor, a Python number; no derivative goes to it.

    Returns:
        A new tensor of ``x``'s dtype, (N, C, out_h, out_w), channels_last if ``x`` is, else contiguous; float16 and
        bfloat16 are computed in float32 and rounded once.

    Raises:
        RuntimeError: dtype, shape or device that doesn't fit; an output without pixels; gain too large for float32,
            except for float64 inputs.
        ValueError: ``up`` or ``down`` isn't one or two numbers, or ``padding`` one, two or four.
        TypeError: an argument that is no tensor.

    Examples:
        >>> import torch, customops
        >>> f = customops.setup_filter([1, 3, 3, 1])
        >>> x = torch.ones(1, 1, 4, 4)
        >>> customops.upfirdn2d(x, f, up=2, padding=[2, 1, 2, 1], gain=4).shape
        torch.Size([1, 1, 8, 8])
    """
    if not (isinstance(x, Tensor) and (f is None or isinstance(f, Tensor))):
        raise not_tensors("upfirdn2d", x=x, f=f)
    (up_x, up_y), (down_x, down_y) = _pair("up", up), _pair("down", down)
    if f is not None and f.requires_grad:
        f = f.detach()  # the plain op would warn that it has no derivative
    arguments = (f, up_x, up_y, down_x, down_y, *_sides(padding), flip_filter, gain)
    if (torch.is_grad_enabled() and x.requires_grad) or forward_mode():
        return _differentiable(x, *arguments)
    return _plain(x, *arguments)


def setup_filter(
    f: Tensor | Sequence[float] | Sequence[Sequence[float]] | float | None,
    normalize: bool = True,
    flip_filter: bool = False,
    gain: float = 1,
    separable: bool | None = None,
    device: torch.device | str | None = None,
) -> Tensor:
    """Prepares a filter for :func:`upfirdn2d`.

    Args:
        f: taps, 1-D or 2-D: a tensor or (nested) lists; a number or None mean a single tap.
        normalize: makes the taps add up to 1, so that a constant image stays what it is.
        flip_filter: reverses the taps along every axis.
        gain: factor that the filter as a whole applies to the image.
        separable: True keeps a 1-D filter 1-D; False turns it into its outer product with itself, which is as fast
            while it is short; None decides so: 1-D from 8 taps on.
        device: where the result is wanted; by default ``f``'s, or the CPU for numbers.

    Returns:
        A float32 tensor, 1-D if it is to be applied along both axes, otherwise 2-D.

    Raises:
        ValueError: not 1-D or 2-D, empty, or 2-D although ``separable``.

    Examples:
        >>> import customops
        >>> customops.setup_filter([1, 2, 1])
        tensor([[0.0625, 0.1250, 0.0625],
                [0.1250, 0.2500, 0.1250],
                [0.0625, 0.1250, 0.0625]])
    """
    f = torch.as_tensor(1 if f is None else f, dtype=torch.float32, device=device)
    if f.dim() == 0:
        f = f[None]
    if f.dim() > 2 or f.numel() == 0:
        raise ValueError(f"setup_filter: f must have 1 or 2 dimensions and a tap at least, got shape {tuple(f.shape)}")
    if separable is None:
        separable = f.dim() == 1 and f.numel() >= 8
    if separable and f.dim() == 2:
        raise ValueError(f"setup_filter: a separable filter must have 1 dimension, got shape {tuple(f.shape)}")
    if f.dim() == 1 and not separable:
        f = f.outer(f)
    if normalize:
        f = f / f.sum()
    if flip_filter:
        f = f.flip(list(range(f.dim())))
    factor: float = gain ** (f.dim() / 2)
    return f * factor  # a 1-D filter is applied twice


def filter2d(
    x: Tensor,
    f: Tensor | None,
    padding: int | Sequence[int] = 0,
    flip_filter: bool = False,
    gain: float = 1,
) -> Tensor:
    """Filters images and keeps their size, apart from ``padding``, which comes on top; see :func:`upfirdn2d`.

    Examples:
        >>> import torch, customops
        >>> f = customops.setup_filter([1, 3, 3, 1])
        >>> customops.filter2d(torch.ones(1, 1, 4, 4), f).shape
        torch.Size([1, 1, 4, 4])
    """
    return upfirdn2d(
        x, f, 1, 1, _around(f, padding, lambda taps, axis: (taps // 2, (taps - 1) // 2)), flip_filter, gain
    )


def upsample2d(
    x: Tensor,
    f: Tensor | None,
    up: int | Sequence[int] = 2,
    padding: int | Sequence[int] = 0,
    flip_filter: bool = False,
    gain: float = 1,
) -> Tensor:
    """Makes images ``up`` times as large, apart from ``padding``, in samples of the result; see :func:`upfirdn2d`.

    ``gain`` is multiplied by the product of the factors, which makes up for the inserted zeros.

    Examples:
        >>> import torch, customops
        >>> f = customops.setup_filter([1, 3, 3, 1])
        >>> customops.upsample2d(torch.ones(1, 1, 4, 4), f).shape
        torch.Size([1, 1, 8, 8])
    """
    factors = _pair("up", up)
    pads = _around(f, padding, lambda taps, axis: ((taps + factors[axis] - 1) // 2, (taps - factors[axis]) // 2))
    return upfirdn2d(x, f, factors, 1, pads, flip_filter, gain * factors[0] * factors[1])


def downsample2d(
    x: Tensor,
    f: Tensor | None,
    down: int | Sequence[int] = 2,
    padding: int | Sequence[int] = 0,
    flip_filter: bool = False,
    gain: float = 1,
) -> Tensor:
    """Filters images and keeps every ``down``-th sample; ``padding`` is in samples of ``x``; see :func:`upfirdn2d`.

    Examples:
        >>> import torch, customops
        >>> f = customops.setup_filter([1, 3, 3, 1])
        >>> customops.downsample2d(torch.ones(1, 1, 4, 4), f).shape
        torch.Size([1, 1, 2, 2])
    """
    factors = _pair("down", down)
    pads = _around(f, padding, lambda taps, axis: ((taps - factors[axis] + 1) // 2, (taps - factors[axis]) // 2))
    return upfirdn2d(x, f, 1, factors, pads, flip_filter, gain)


def _pair(name: str, value: int | Sequence[int]) -> tuple[int, int]:
    """(x, y) of one factor or two."""
    if isinstance(value, Sequence):
        if len(value) != 2:
            raise ValueError(f"upfirdn2d: {name} must be a number or [x, y], got {value}")
        return value[0], value[1]
    return value, value


def _sides(padding: int | Sequence[int]) -> tuple[int, int, int, int]:
    """(x0, x1, y0, y1)."""
    if not isinstance(padding, Sequence):
        return padding, padding, padding, padding
    if len(padding) == 2:
        x, y = padding
        return x, x, y, y
    if len(padding) != 4:
        raise ValueError(f"upfirdn2d: padding must be a number, [x, y] or [x0, x1, y0, y1], got {padding}")
    x0, x1, y0, y1 = padding
    return x0, x1, y0, y1


def _taps(f: Tensor | None) -> tuple[int, int]:
    """(width, height) of the filter."""
    return (1, 1) if f is None else (f.shape[-1], f.shape[0])


def _around(
    f: Tensor | None, padding: int | Sequence[int], own: Callable[[int, int], tuple[int, int]]
) -> tuple[int, ...]:
    """``padding`` plus own(taps, axis) = (before, after) along x and y."""
    own_x, own_y = (own(taps, axis) for axis, taps in enumerate(_taps(f)))
    return tuple(a + b for a, b in zip(_sides(padding), (*own_x, *own_y), strict=True))


@fake("upfirdn2d", "_upfirdn2d")
def _fake(
    x: Tensor,
    f: Tensor | None,
    up_x: int,
    up_y: int,
    down_x: int,
    down_y: int,
    pad_x0: int,
    pad_x1: int,
    pad_y0: int,
    pad_y1: int,
    flip_filter: bool,
    gain: float,
) -> Tensor:
    check_dtype("upfirdn2d", "x", x)
    torch._check(x.dim() == 4, lambda: f"upfirdn2d: x must have shape (N, C, H, W), got {tuple(x.shape)}")
    check_fits("upfirdn2d", "gain", gain, x.dtype)
    if f is not None:
        torch._check(f.dim() in (1, 2), lambda: f"upfirdn2d: f must have 1 or 2 dimensions, got {f.dim()}")
        torch._check(f.dtype == torch.float32, lambda: f"upfirdn2d: f must be torch.float32, got {f.dtype}")
        torch._check(
            f.device == x.device, lambda: f"upfirdn2d: f must be on the device of x, {x.device}, got {f.device}"
        )
        torch._check(f.numel() > 0, lambda: f"upfirdn2d: f must have at least one tap, got shape {tuple(f.shape)}")
    sizes = []
    for name, size, taps, up, down, before, after in (
        ("x", x.shape[3], _taps(f)[0], up_x, down_x, pad_x0, pad_x1),
        ("y", x.shape[2], _taps(f)[1], up_y, down_y, pad_y0, pad_y1),
    ):
        factors = f"upfirdn2d: up and down must be at least 1, got {up} and {down} along {name}"
        torch._check(up >= 1 and down >= 1, lambda factors=factors: factors)
        most = (
            f"upfirdn2d: up, down and padding must be at most 2^31, got {up}, {down}, {before} and {after} along {name}"
        )
        for number in (up, down, before, after, -before, -after):
            torch._check(number <= MOST, lambda most=most: most)
        none = f"upfirdn2d: x must have at least one pixel along {name}, got none"
        torch._check(size >= 1, lambda none=none: none)
        if known(size, up):
            samples = f"upfirdn2d: x must have at most 2^60 samples along {name}, got {size} * {up}"
            torch._check(size * up <= MOST_SPAN, lambda samples=samples: samples)
        padded = size * up + before + after
        numbers = f"{size} * {up} + padding {before} + {after} = {padded} samples for a filter of {taps}"
        message = f"upfirdn2d: the output must have at least one pixel along {name}, got {numbers}"
        torch._check(padded >= taps, lambda message=message: message)
        sizes.append((padded - taps) // down + 1)
    n, c = x.shape[:2]
    w, h = sizes
    check_numel("upfirdn2d", n, c, h, w)
    # The rule of csrc/upfirdn2d.h.
    if c > 1 and x.stride(1) == 1 and x.stride(3) != 1:
        return x.new_empty_strided((n, c, h, w), (c * h * w, 1, w * c, c))
    return x.new_empty((n, c, h, w))


_Arguments = tuple[int, int, int, int, int, int, int, int, bool, float]
_Inputs = tuple[Tensor, Tensor | None, int, int, int, int, int, int, int, int, bool, float]


class _Context(Context, Protocol):
    saved_tensors: tuple[Tensor | None]
    arguments: _Arguments
    size: tuple[int, int]


def _setup_context(ctx: _Context, inputs: _Inputs, output: Tensor) -> None:
    x, f = inputs[:2]
    ctx.arguments = inputs[2:]
    ctx.save_for_backward(f)
    ctx.save_for_forward(f)
    ctx.size = (x.shape[3], x.shape[2])


def _backward(ctx: _Context, grad: Tensor) -> tuple[Tensor | None, ...]:
    """The transposed op: up and down change places, and the filter slides the other way round."""
    (f,) = ctx.saved_tensors
    up_x, up_y, down_x, down_y, pad_x0, _, pad_y0, _, flip_filter, gain = ctx.arguments
    if not ctx.needs_input_grad[0]:
        return (None,) * 12
    padding: list[int] = []
    for size, out, taps, up, down, before in (
        (ctx.size[0], grad.shape[3], _taps(f)[0], up_x, down_x, pad_x0),
        (ctx.size[1], grad.shape[2], _taps(f)[1], up_y, down_y, pad_y0),
    ):
        padding += [taps - before - 1, size * up - out * down + before - up + 1]
    dx = upfirdn2d(grad, f, (down_x, down_y), (up_x, up_y), padding, not flip_filter, gain)
    return (dx, *(None,) * 11)


def _jvp(ctx: _Context, x: Tensor | None, *_: object) -> Tensor | None:
    """The op is linear in x; a tangent of f counts for nothing."""
    if x is None:
        return None
    (f,) = ctx.saved_tensors
    up_x, up_y, down_x, down_y, *padding, flip_filter, gain = ctx.arguments
    return upfirdn2d(x, f, (up_x, up_y), (down_x, down_y), padding, flip_filter, gain)


_differentiable: _Op = differentiable("upfirdn2d", _backward, _jvp, _setup_context)
