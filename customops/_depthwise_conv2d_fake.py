"""The fake kernels of depthwise_conv2d and its gradients: the checks and the sizes of csrc/depthwise_conv2d.h again."""

from collections.abc import Sequence

import torch
from torch import Tensor

from customops._fake import MOST, MOST_SPAN, check_dtype, check_numel, fake, known


def is_channels_last(t: Tensor) -> bool:
    """The rule of csrc/depthwise_conv2d.h."""
    return t.shape[1] > 1 and t.stride(1) == 1 and t.stride(3) != 1


def _empty(like: Tensor, n: int, c: int, h: int, w: int, last: bool, dtype: torch.dtype | None = None) -> Tensor:
    check_numel("depthwise_conv2d", n, c, h, w)
    strides = (c * h * w, 1, w * c, c) if last else (c * h * w, h * w, w, 1)
    return like.new_empty_strided((n, c, h, w), strides, dtype=dtype)


def _check_image(op: str, name: str, t: Tensor) -> None:
    check_dtype(op, name, t)
    torch._check(t.dim() == 4, lambda: f"{op}: {name} must have shape (N, C, H, W), got {tuple(t.shape)}")
    pixel = f"{op}: {name} must have at least one pixel, got shape {tuple(t.shape)}"
    torch._check(t.shape[2] >= 1, lambda: pixel)
    torch._check(t.shape[3] >= 1, lambda: pixel)


def _is_16_bit(t: Tensor) -> bool:
    return t.dtype in (torch.float16, torch.bfloat16)


def _check_companion(op: str, like_name: str, like: Tensor, name: str, t: Tensor, or_float32: bool = False) -> None:
    expected = f"{op}: {name} must {{}} of {like_name}, {{}}{{}}, got {{}}"
    or_float32 = or_float32 and _is_16_bit(like)
    torch._check(
        t.dtype == like.dtype or (or_float32 and t.dtype == torch.float32),
        lambda: expected.format("have the dtype", like.dtype, ", or torch.float32" if or_float32 else "", t.dtype),
    )
    torch._check(t.device == like.device, lambda: expected.format("be on the device", like.device, "", t.device))


def _check_weight(op: str, like_name: str, like: Tensor, weight: Tensor) -> None:
    _check_companion(op, like_name, like, "weight", weight, or_float32=True)
    shapes = f"{op}: weight must have shape (C, 1, kH, kW) with C = {like.shape[1]}, got {tuple(weight.shape)}"
    torch._check(weight.dim() == 4, lambda: shapes)
    torch._check(weight.shape[0] == like.shape[1], lambda: shapes)
    torch._check(weight.shape[1] == 1, lambda: shapes)
    torch._check(weight.shape[2] >= 1, lambda: shapes)
    torch._check(weight.shape[3] >= 1, lambda: shapes)


def _check_steps(op: str, axis: str, stride: int, pads: Sequence[int], dilation: int) -> None:
    torch._check(stride >= 1, lambda: f"{op}: stride must be at least 1, got {stride} along {axis}")
    torch._check(dilation >= 1, lambda: f"{op}: dilation must be at least 1, got {dilation} along {axis}")
    numbers = f"got {stride}, {dilation}, {pads[0]} and {pads[1]} along {axis}"
    for number in (stride, dilation, *pads):
        torch._check(number <= MOST, lambda: f"{op}: stride, dilation and padding must be at most 2^31, {numbers}")
    for pad in pads:
        torch._check(pad >= 0, lambda pad=pad: f"{op}: padding must not be negative, got {pad} along {axis}")


def _check_spans(op: str, axis: str, size: int, out: int, taps: int, stride: int, dilation: int) -> None:
    if known(size, out, taps):
        torch._check(
            size <= MOST_SPAN and out <= MOST_SPAN // stride and taps <= MOST_SPAN // dilation,
            lambda: (
                f"{op}: image, output times stride and kernel times dilation must be at most 2^60 along {axis}, got "
                f"{size}, {out} times {stride} and {taps} times {dilation}"
            ),
        )


def _check_grad_axis(op: str, axis: str, size: int, out: int, taps: int, stride: int, pad: int, dilation: int) -> None:
    _check_steps(op, axis, stride, (pad, 0), dilation)
    _check_spans(op, axis, size, out, taps, stride, dilation)
    pixel = f"{op}: image and kernel must have at least one pixel along {axis}, got {size} and {taps}"
    torch._check(size >= 1, lambda: pixel)
    torch._check(taps >= 1, lambda: pixel)
    least = torch.sym_max(size + pad - dilation * (taps - 1) - 1, 0) // stride + 1
    pixels = (
        f"{op}: grad must have at least {least} pixels along {axis}, as the output of the forward pass has, got {out}"
    )
    torch._check(out >= least, lambda: pixels)


@fake("depthwise_conv2d", "_depthwise_conv2d")
def _fake(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride_h: int,
    stride_w: int,
    pad_top: int,
    pad_bottom: int,
    pad_left: int,
    pad_right: int,
    dilation_h: int,
    dilation_w: int,
) -> Tensor:
    op = "depthwise_conv2d"
    _check_image(op, "x", x)
    _check_weight(op, "x", x, weight)
    n, c, h, w = x.shape
    if bias is not None:
        _check_companion(op, "x", x, "bias", bias, or_float32=True)
        shapes = f"{op}: bias must have shape (C,) with C = {c}, got {tuple(bias.shape)}"
        torch._check(bias.dim() == 1, lambda: shapes)
        torch._check(bias.shape[0] == c, lambda: shapes)
    sizes = []
    for axis, size, taps, stride, before, after, dilation in (
        ("y", h, weight.shape[2], stride_h, pad_top, pad_bottom, dilation_h),
        ("x", w, weight.shape[3], stride_w, pad_left, pad_right, dilation_w),
    ):
        _check_steps(op, axis, stride, (before, after), dilation)
        _check_spans(op, axis, size, 0, taps, stride, dilation)
        padded, span = size + before + after, dilation * (taps - 1) + 1
        numbers = f"{size} + padding {before} + {after} = {padded} pixels for a kernel that spans {span}"
        message = f"{op}: the kernel must fit into the padded image along {axis}, got {numbers}"
        torch._check(padded >= span, lambda message=message: message)
        sizes.append((padded - span) // stride + 1)
    out_h, out_w = sizes
    return _empty(x, n, c, out_h, out_w, is_channels_last(x))


@fake("_depthwise_conv2d_grad_input")
def _fake_grad_input(
    grad: Tensor,
    weight: Tensor,
    height: int,
    width: int,
    stride_h: int,
    stride_w: int,
    pad_top: int,
    pad_left: int,
    dilation_h: int,
    dilation_w: int,
    channels_last: bool,
) -> Tensor:
    op = "_depthwise_conv2d_grad_input"
    _check_image(op, "grad", grad)
    _check_weight(op, "grad", grad, weight)
    _check_grad_axis(op, "y", height, grad.shape[2], weight.shape[2], stride_h, pad_top, dilation_h)
    _check_grad_axis(op, "x", width, grad.shape[3], weight.shape[3], stride_w, pad_left, dilation_w)
    n, c = grad.shape[:2]
    return _empty(grad, n, c, height, width, channels_last and c > 1)


@fake("_depthwise_conv2d_grad_weight")
def _fake_grad_weight(
    grad: Tensor,
    x: Tensor,
    kernel_h: int,
    kernel_w: int,
    stride_h: int,
    stride_w: int,
    pad_top: int,
    pad_left: int,
    dilation_h: int,
    dilation_w: int,
    float32: bool = False,
) -> Tensor:
    op = "_depthwise_conv2d_grad_weight"
    _check_image(op, "x", x)
    _check_image(op, "grad", grad)
    _check_companion(op, "x", x, "grad", grad)
    n, c = x.shape[:2]
    shapes = f"{op}: grad must have shape (N, C, oH, oW) with N = {n} and C = {c}, got {tuple(grad.shape)}"
    torch._check(grad.shape[0] == n, lambda: shapes)
    torch._check(grad.shape[1] == c, lambda: shapes)
    _check_grad_axis(op, "y", x.shape[2], grad.shape[2], kernel_h, stride_h, pad_top, dilation_h)
    _check_grad_axis(op, "x", x.shape[3], grad.shape[3], kernel_w, stride_w, pad_left, dilation_w)
    return _empty(x, c, 1, kernel_h, kernel_w, False, torch.float32 if float32 and _is_16_bit(x) else x.dtype)


@fake("_depthwise_conv2d_gradients")
def _fake_gradients(
    grad: Tensor,
    x: Tensor,
    weight: Tensor,
    stride_h: int,
    stride_w: int,
    pad_top: int,
    pad_left: int,
    dilation_h: int,
    dilation_w: int,
    needs_x: bool,
    needs_weight: bool,
    needs_bias: bool,
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    _check_image("_depthwise_conv2d_gradients", "x", x)
    _check_weight("_depthwise_conv2d_gradients", "x", x, weight)
    arguments = (stride_h, stride_w, pad_top, pad_left, dilation_h, dilation_w)
    float32 = weight.dtype == torch.float32
    return (
        _fake_grad_input(grad, weight, x.shape[2], x.shape[3], *arguments, is_channels_last(x)) if needs_x else None,
        _fake_grad_weight(grad, x, weight.shape[2], weight.shape[3], *arguments, float32) if needs_weight else None,
        weight.new_empty(x.shape[1]) if needs_bias else None,
    )
