"""depthwise_conv2d: every channel convolved with a kernel of its own."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import torch
from torch import Tensor

from customops._autocast import lower
from customops._autograd import Context, differentiable, forward_mode, nothing_recorded, only_autograd
from customops._depthwise_conv2d_fake import is_channels_last
from customops._fake import not_tensors


class _Op(Protocol):
    """(x, weight, bias, stride_h, stride_w, pad_top, pad_bottom, pad_left, pad_right, dilation_h, dilation_w)."""

    def __call__(self, x: Tensor, weight: Tensor, bias: Tensor | None, *arguments: int) -> Tensor: ...


class _Gradient(Protocol):
    """(grad, other factor, height, width, stride_h, ..., flag) of the op's gradients, as csrc/library.cpp has them."""

    def __call__(self, grad: Tensor, other: Tensor, *arguments: int) -> Tensor: ...


_plain: _Op = torch.ops.customops._depthwise_conv2d.default
_gradients: Callable[..., tuple[Tensor, Tensor, Tensor]] = torch.ops.customops._depthwise_conv2d_gradients.default
# torch's op that csrc/depthwise_conv2d_autograd.cpp fills, and its backward; with other arguments they are not called.
_BORROWED = {
    "_mps_convolution": "(Tensor self, Tensor weight, Tensor? bias, SymInt[] padding, SymInt[] stride, SymInt[] dilation, "
    "SymInt groups) -> Tensor",
    "mps_convolution_backward": "(Tensor self, Tensor grad_output, Tensor weight, SymInt[] padding, SymInt[] stride, "
    "SymInt[] dilation, SymInt groups, bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
}


def _borrow(signatures: Mapping[str, str]) -> Callable[..., Tensor] | None:
    for name, signature in signatures.items():
        packet = getattr(torch.ops.aten, name, None)
        if packet is None or str(packet.default._schema) != f"aten::{name}{signature}":
            return None
    return getattr(torch, "_mps_convolution", None)


# csrc/depthwise_conv2d_hook.h reads the variable as well, when the library is opened.
_hook = None if os.environ.get("CUSTOMOPS_TORCH_HOOK") == "0" else _borrow(_BORROWED)


def depthwise_conv2d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | str = 0,
    dilation: int | Sequence[int] = 1,
) -> Tensor:
    """Convolves every channel with its own kernel: ``F.conv2d(x, weight, bias, ..., groups=C)``, but faster.

    As in torch, this is a cross-correlation. Differentiable any number of times in ``x``, ``weight`` and ``bias``; only
    the gradients that are needed are computed, and the same inputs give the same bits every time. Under autocast the
    result is that of tensors cast to its dtype, as for torch's convolutions.

    Args:
        x: float32, float64, float16 or bfloat16, shape (N, C, H, W) or (C, H, W), any strides.
        weight: shape (C, 1, kH, kW), on ``x``'s device, of its dtype; or float32 where ``x`` is float16 or bfloat16: then
            it is rounded to ``x``'s dtype, and its gradient is not.
        bias: shape (C,), dtype and device as for ``weight``; None for none.
        stride: pixels from one output to the next: one number, or (vertical, horizontal).
        padding: zeros around the image: one number; (vertical, horizontal); 'valid' for none; or 'same', which keeps the
            size of the image (with ``stride=1`` only) and puts the odd zero of an even kernel on the right and below.
        dilation: pixels from one tap to the next: one number, or (vertical, horizontal).

    Returns:
        A new tensor of ``x``'s dtype, (N, C, oH, oW) with ``oH = (H + 2 * padding - dilation * (kH - 1) - 1) // stride +
        1``, channels_last if ``x`` is, else contiguous; float16 and bfloat16 are computed in float32 and rounded once.

    Where ``x`` and ``weight`` both need a gradient, the call goes through torch's op ``_mps_convolution``, which this
    package fills on CPU and CUDA because its backward needs no Python: profiles show that name. On a tiny image on the CPU
    it saves 3 of 9 us forward and 5 of 34 us forward and backward. The environment variable ``CUSTOMOPS_TORCH_HOOK=0``,
    set before the first use of an op, leaves torch's op as it is; results do not change.

    With ``CUSTOMOPS_BENCHMARK=1`` in the environment a GPU's kernels are timed when a process first meets a shape, and the
    fastest is used: results then keep their bits in one process, but may differ in the last ones from another's.

    On CUDA, a NaN or an infinity in a float32 image spreads, with kernels larger than 7 x 7, to a few outputs (3 columns, 6
    rows) beyond those whose windows hold it; one in an image or in an output's gradient may make the gradient of all taps
    of its channel NaN, because zeros around the images are multiplied, too; so may an infinite weight the outputs at the
    edges. On CPUs with AVX512_BF16, bfloat16 numbers below 2^-126 may count as zero.

    Raises:
        RuntimeError: dtype, device or shape that doesn't fit; stride or dilation below 1; negative padding; a kernel
            larger than the padded image.
        ValueError: stride, padding or dilation isn't one or two numbers; 'same' with a stride.
        TypeError: an argument that is no tensor.

    Examples:
        >>> import torch, customops
        >>> x, weight = torch.randn(2, 8, 16, 16), torch.randn(8, 1, 3, 3)
        >>> customops.depthwise_conv2d(x, weight, stride=2, padding=1).shape
        torch.Size([2, 8, 8, 8])
    """
    if not (isinstance(x, Tensor) and isinstance(weight, Tensor) and (bias is None or isinstance(bias, Tensor))):
        raise not_tensors("depthwise_conv2d", x=x, weight=weight, bias=bias)
    if x.dim() == 3:
        return depthwise_conv2d(x[None], weight, bias, stride, padding, dilation)[0]
    x, weight, bias = lower(x, weight, bias)
    strides, dilations = _pair("stride", stride), _pair("dilation", dilation)
    sides = top, bottom, left, right = _sides(padding, weight, strides, dilations)
    if _hook is not None and top == bottom and left == right and _can_hook(x, weight, bias):
        try:
            return _hook(x, weight, bias, (top, left), strides, dilations, x.shape[1])
        except (NotImplementedError, TypeError):
            pass  # no kernel for such tensors, or not yet; arguments of other types: what follows names our op
    needed = x.requires_grad or weight.requires_grad or (bias is not None and bias.requires_grad)
    if (needed and torch.is_grad_enabled()) or forward_mode():
        return _conv(x, weight, bias, *strides, *sides, *dilations)
    return _plain(x, weight, bias, *strides, *sides, *dilations)


def _can_hook(x: Tensor, weight: Tensor, bias: Tensor | None) -> bool:
    """Whether a call may go through the op of torch's that is borrowed as a hook, whose backward needs no Python.

    Its nodes in the autograd graph keep ``x`` and ``weight``, whichever gradient is needed, so it is for training only; and
    its backward doesn't see the bias.
    """
    if not (x.requires_grad and weight.requires_grad and torch.is_grad_enabled() and x.dim() == 4):
        return False
    if not (x.is_cuda or x.is_cpu):
        return False
    if bias is None:
        return only_autograd(x, weight)
    return bias.dtype == weight.dtype and only_autograd(x, weight, bias)


def _pair(name: str, value: int | Sequence[int]) -> tuple[int, int]:
    """(vertical, horizontal) of one number or two."""
    if type(value) is tuple and len(value) == 2:
        return value
    if isinstance(value, Sequence):
        if isinstance(value, str) or len(value) not in (1, 2):
            raise ValueError(f"depthwise_conv2d: {name} must be a number or a pair, got {value!r}")
        return value[0], value[-1]  # torch takes (1,) for 1
    return value, value


def _sides(
    padding: int | Sequence[int] | str, weight: Tensor, strides: tuple[int, int], dilations: tuple[int, int]
) -> tuple[int, int, int, int]:
    """(top, bottom, left, right)."""
    if type(padding) is tuple and len(padding) == 2:
        y, x = padding
        return y, y, x, x
    if padding == "valid":
        return 0, 0, 0, 0
    if padding == "same":
        if strides != (1, 1):
            raise ValueError(f"depthwise_conv2d: padding='same' needs a stride of 1, got {strides}")
        sizes = weight.shape[2:] if weight.dim() == 4 else (1, 1)  # the op will refuse the latter
        top, left = totals = [d * (size - 1) for d, size in zip(dilations, sizes, strict=True)]
        top, left = top // 2, left // 2
        return top, totals[0] - top, left, totals[1] - left
    if isinstance(padding, str):
        raise ValueError(f"depthwise_conv2d: padding must be a number, a pair, 'same' or 'valid', got {padding!r}")
    y, x = _pair("padding", padding)
    return y, y, x, x


# The op is linear in x and in weight, and so are its two gradients in their arguments: with <a, b> the sum of a * b,
# <grad, conv(x, weight)> = <x, grad_input(grad, weight)> = <weight, grad_weight(grad, x)>. Hence the derivatives of all
# three are made of the same three, any number of times.


def _padding_after(size: int, out: int, taps: int, stride: int, before: int, dilation: int) -> int:
    """Zeros after the image with which the forward pass gives ``out`` pixels."""
    after: int = torch.sym_max(0, (out - 1) * stride + dilation * (taps - 1) + 1 - size - before)
    return after


_Window = tuple[int, int, int, int, int, int]  # stride_h, stride_w, pad_top, pad_left, dilation_h, dilation_w


def _again(image: Tensor, weight: Tensor, size: Sequence[int], arguments: _Window) -> Tensor:
    """The forward pass, without a bias, for an output of a given size."""
    stride_h, stride_w, pad_top, pad_left, dilation_h, dilation_w = arguments
    bottom = _padding_after(image.shape[2], size[0], weight.shape[2], stride_h, pad_top, dilation_h)
    right = _padding_after(image.shape[3], size[1], weight.shape[3], stride_w, pad_left, dilation_w)
    return _conv(image, weight, None, stride_h, stride_w, pad_top, bottom, pad_left, right, dilation_h, dilation_w)


class _Factors(Context, Protocol):
    saved_tensors: tuple[Tensor, Tensor]  # None instead of one that no derivative needs


def _save(ctx: _Factors, a: Tensor, b: Tensor) -> None:
    """Keeps of an op's two factors those that its derivatives need: for each, the other one."""
    if forward_mode():  # a tangent is computed before anything else could be freed
        ctx.save_for_backward(a, b)
        ctx.save_for_forward(a, b)  # what ctx.saved_tensors gives to a jvp
    else:
        needs_a, needs_b = ctx.needs_input_grad[:2]
        ctx.save_for_backward(a if needs_b else None, b if needs_a else None)


def _product_rule(
    op: Callable[..., Tensor], ctx: _Factors, ta: Tensor | None, tb: Tensor | None, *rest: int
) -> Tensor | None:
    """The tangent of op(a, b), which is linear in a and in b."""
    a, b = ctx.saved_tensors
    first = None if ta is None else op(ta, b, *rest)
    second = None if tb is None else op(a, tb, *rest)
    return second if first is None else first if second is None else first + second


_Facts = tuple[torch.Size, torch.Size, bool, torch.dtype]


def _facts(x: Tensor, weight: Tensor) -> _Facts:
    """(size of the image, size of the kernel, memory format, dtype): what a gradient needs to know of a tensor not kept."""
    return x.shape[2:], weight.shape[2:], is_channels_last(x), weight.dtype


class _Context(_Factors, Protocol):
    arguments: tuple[int, int, int, int, int, int, int, int]
    facts: _Facts | None
    bias_dtype: torch.dtype | None


def _setup_context(
    ctx: _Context,
    inputs: tuple[Tensor, Tensor, Tensor | None, int, int, int, int, int, int, int, int],
    output: Tensor,
) -> None:
    x, weight, bias = inputs[:3]
    ctx.arguments = inputs[3:]
    _save(ctx, x, weight)
    keeps_both = ctx.needs_input_grad[0] and ctx.needs_input_grad[1]
    ctx.facts = None if keeps_both else _facts(x, weight)
    ctx.bias_dtype = None if bias is None else bias.dtype


def _backward(ctx: _Context, grad: Tensor) -> tuple[Tensor | None, ...]:
    x, weight = ctx.saved_tensors
    stride_h, stride_w, top, _bottom, left, _right, *dilations = ctx.arguments
    arguments = (stride_h, stride_w, top, left, *dilations)
    needs_x, needs_weight, needs_bias = ctx.needs_input_grad[:3]
    if needs_x and needs_weight and ctx.bias_dtype in (None, weight.dtype) and nothing_recorded():
        # All in one call, which leaves less to Python.
        return *_gradients(grad, x, weight, *arguments, True, True, needs_bias), *(None,) * 8
    size, kernel, channels_last, dtype = ctx.facts or _facts(x, weight)
    return (
        _grad_input(grad, weight, *size, *arguments, channels_last) if needs_x else None,
        _grad_weight(grad, x, *kernel, *arguments, dtype == torch.float32) if needs_weight else None,
        grad.sum((0, 2, 3), dtype=ctx.bias_dtype) if needs_bias else None,
        *(None,) * 8,
    )


def _jvp(ctx: _Context, tx: Tensor | None, tweight: Tensor | None, tbias: Tensor | None, *_: object) -> Tensor | None:
    if tx is None and tbias is not None:
        tx = torch.zeros_like(ctx.saved_tensors[0])
    if tx is None:
        tbias = None
    conv = lambda x, weight, *arguments: _conv(x, weight, None, *arguments)  # noqa: E731
    y = _product_rule(conv, ctx, tx, tweight, *ctx.arguments)
    return y if y is None or tbias is None else y + tbias.to(y.dtype)[:, None, None]


_conv: _Op = differentiable("depthwise_conv2d", _backward, _jvp, _setup_context)


@torch.library.impl("customops::_depthwise_conv2d_backward", "CompositeImplicitAutograd")
def _differentiable_backward(
    grad: Tensor, x: Tensor, weight: Tensor, *arguments_and_needs: int
) -> tuple[Tensor | None, ...]:
    """The hook's backward where its results are differentiated again."""
    *arguments, needs_x, needs_weight, needs_bias = arguments_and_needs
    return (
        _grad_input(grad, weight, *x.shape[2:], *arguments, is_channels_last(x)) if needs_x else None,
        _grad_weight(grad, x, *weight.shape[2:], *arguments, weight.dtype == torch.float32) if needs_weight else None,
        grad.sum((0, 2, 3), dtype=weight.dtype) if needs_bias else None,
    )


_GradientInputs = tuple[Tensor, Tensor, int, int, int, int, int, int, int, int, bool]


class _GradInputContext(_Factors, Protocol):
    rest: tuple[int, ...]
    size: torch.Size
    kernel: torch.Size
    arguments: _Window
    float32: bool


def _grad_input_setup(ctx: _GradInputContext, inputs: _GradientInputs, output: Tensor) -> None:
    grad, weight = inputs[:2]
    ctx.rest = inputs[2:]
    ctx.size, ctx.kernel, ctx.arguments = grad.shape[2:], weight.shape[2:], inputs[4:10]
    ctx.float32 = weight.dtype == torch.float32
    _save(ctx, grad, weight)


def _grad_input_backward(ctx: _GradInputContext, image: Tensor) -> tuple[Tensor | None, ...]:
    grad, weight = ctx.saved_tensors
    needs_grad, needs_weight = ctx.needs_input_grad[:2]
    return (
        _again(image, weight, ctx.size, ctx.arguments) if needs_grad else None,
        _grad_weight(grad, image, *ctx.kernel, *ctx.arguments, ctx.float32) if needs_weight else None,
        *(None,) * 9,
    )


def _grad_input_jvp(ctx: _GradInputContext, tgrad: Tensor | None, tweight: Tensor | None, *_: object) -> Tensor | None:
    return _product_rule(_grad_input, ctx, tgrad, tweight, *ctx.rest)


_grad_input: _Gradient = differentiable(
    "_depthwise_conv2d_grad_input", _grad_input_backward, _grad_input_jvp, _grad_input_setup
)


class _GradWeightContext(_Factors, Protocol):
    rest: tuple[int, ...]
    size: torch.Size
    image: torch.Size
    arguments: _Window
    channels_last: bool


def _grad_weight_setup(ctx: _GradWeightContext, inputs: _GradientInputs, output: Tensor) -> None:
    grad, x = inputs[:2]
    ctx.rest = inputs[2:]
    ctx.size, ctx.image, ctx.arguments = grad.shape[2:], x.shape[2:], inputs[4:10]
    ctx.channels_last = is_channels_last(x)
    _save(ctx, grad, x)


def _grad_weight_backward(ctx: _GradWeightContext, weight: Tensor) -> tuple[Tensor | None, ...]:
    grad, x = ctx.saved_tensors
    needs_grad, needs_x = ctx.needs_input_grad[:2]
    return (
        _again(x, weight, ctx.size, ctx.arguments) if needs_grad else None,
        _grad_input(grad, weight, *ctx.image, *ctx.arguments, ctx.channels_last) if needs_x else None,
        *(None,) * 9,
    )


def _grad_weight_jvp(ctx: _GradWeightContext, tgrad: Tensor | None, tx: Tensor | None, *_: object) -> Tensor | None:
    return _product_rule(_grad_weight, ctx, tgrad, tx, *ctx.rest)


_grad_weight: _Gradient = differentiable(
    "_depthwise_conv2d_grad_weight", _grad_weight_backward, _grad_weight_jvp, _grad_weight_setup
)
