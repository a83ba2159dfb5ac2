"""The ops as modules."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import Module, Parameter

from customops.axpy import axpy
from customops.bias_act import bias_act, fused_leaky_relu
from customops.depthwise_conv2d import depthwise_conv2d
from customops.upfirdn2d import downsample2d, filter2d, setup_filter, upsample2d


class Axpy(Module):
    """Computes ``alpha * x + y``; see :func:`customops.axpy`.

    Args:
        alpha: the factor, a Python number. Not a parameter: it is not trained.
    """

    def __init__(self, alpha: float = 2.0) -> None:
        super().__init__()
        self.alpha = alpha

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return axpy(x, y, self.alpha)

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}"


class BiasAct(Module):
    """Adds a trained bias to each channel, then applies activation, gain and clamp; see :func:`customops.bias_act`.

    Args:
        channels: size of the input along ``dim``.
        bias: whether there is one; it starts at zero.
        dim, act, alpha, gain, clamp: as in :func:`customops.bias_act`.
    """

    bias: Parameter | None

    def __init__(
        self,
        channels: int,
        bias: bool = True,
        dim: int = 1,
        act: str = "linear",
        alpha: float | None = None,
        gain: float | None = None,
        clamp: float | None = None,
    ) -> None:
        super().__init__()
        self.bias = Parameter(torch.zeros(channels)) if bias else None
        self.channels, self.dim, self.act, self.alpha, self.gain, self.clamp = channels, dim, act, alpha, gain, clamp

    def forward(self, x: Tensor) -> Tensor:
        return bias_act(x, self.bias, self.dim, self.act, self.alpha, self.gain, self.clamp)

    def extra_repr(self) -> str:
        given = {"dim": self.dim, "act": self.act, "alpha": self.alpha, "gain": self.gain, "clamp": self.clamp}
        shown = "".join(f", {name}={value!r}" for name, value in given.items() if value is not None)
        return f"{self.channels}, bias={self.bias is not None}{shown}"


class FusedLeakyReLU(Module):
    """Computes ``leaky_relu(input + bias) * scale``; see :func:`customops.fused_leaky_relu`.

    Args:
        channels: size of the input along dimension 1.
        bias: whether there is one; it starts at zero.
        negative_slope, scale: as in :func:`customops.fused_leaky_relu`.
    """

    bias: Parameter | None

    def __init__(self, channels: int, bias: bool = True, negative_slope: float = 0.2, scale: float = 2**0.5) -> None:
        super().__init__()
        self.bias = Parameter(torch.zeros(channels)) if bias else None
        self.channels, self.negative_slope, self.scale = channels, negative_slope, scale

    def forward(self, input: Tensor) -> Tensor:
        return fused_leaky_relu(input, self.bias, self.negative_slope, self.scale)

    def extra_repr(self) -> str:
        return f"{self.channels}, bias={self.bias is not None}, negative_slope={self.negative_slope}, scale={self.scale:.6g}"


class DepthwiseConv2d(torch.nn.Conv2d):
    """``torch.nn.Conv2d(channels, channels, kernel_size, ..., groups=channels)``, computed by ours.

    Parameters, their initialisation, attributes and state dict are those of that module; see
    :func:`customops.depthwise_conv2d` for the computation.

    Args:
        channels: of the input and of the output.
        kernel_size, stride, dilation: one number, or (vertical, horizontal).
        padding: one number; (vertical, horizontal); 'same' or 'valid'. Always zeros.
        bias: whether there is one.
        device, dtype: of the parameters.
    """

    def __init__(
        self,
        channels: int,
        kernel_size: int | tuple[int, int],
        stride: int | tuple[int, int] = 1,
        padding: int | tuple[int, int] | str = 0,
        dilation: int | tuple[int, int] = 1,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(
            channels, channels, kernel_size, stride, padding, dilation, channels, bias, device=device, dtype=dtype
        )

    def forward(self, input: Tensor) -> Tensor:
        return depthwise_conv2d(input, self.weight, self.bias, self.stride, self.padding, self.dilation)


def replace_depthwise(model: Module) -> Module:
    """Makes every depthwise ``torch.nn.Conv2d`` in a model a :class:`DepthwiseConv2d`, in place.

    Only the class of the module changes: parameters, hooks, state dict and whoever else holds the module or its
    parameters, such as an optimizer, are not touched. Modules of classes derived from Conv2d stay, as do those that pad
    with anything but zeros.

    Args:
        model: any module, or such a convolution itself.

    Returns:
        ``model``.

    Examples:
        >>> import torch, customops
        >>> model = torch.nn.Sequential(torch.nn.Conv2d(8, 8, 7, padding=3, groups=8))
        >>> customops.replace_depthwise(model)
        Sequential(
          (0): DepthwiseConv2d(8, 8, kernel_size=(7, 7), stride=(1, 1), padding=(3, 3), groups=8)
        )
    """
    for module in model.modules():
        if (
            type(module) is torch.nn.Conv2d
            and module.groups == module.in_channels == module.out_channels
            and module.padding_mode == "zeros"
            and module.weight.is_floating_point()
        ):
            module.__class__ = DepthwiseConv2d
    return model


class _Filter(Module):
    """Base of the modules below: keeps a filter as the buffer ``f``.

    Args:
        f: taps, as :func:`customops.setup_filter` takes them; (1, 3, 3, 1) is StyleGAN2's.
        padding: on top of what the op itself pads.
        flip_filter: correlate, rather than convolve.
        gain: a factor, a Python number.
    """

    f: Tensor

    def __init__(
        self,
        f: Tensor | Sequence[float] | Sequence[Sequence[float]] = (1, 3, 3, 1),
        padding: int | Sequence[int] = 0,
        flip_filter: bool = False,
        gain: float = 1,
    ) -> None:
        super().__init__()
        self.register_buffer("f", setup_filter(f))
        self.padding, self.flip_filter, self.gain = padding, flip_filter, gain

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "_Filter":
        """``half()`` and the like convert floating buffers; the filter stays float32 and only follows the device."""
        before = self.f
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]  # torch's
        if self.f.dtype != before.dtype:
            self.f = before.to(self.f.device)
        return self

    def extra_repr(self) -> str:
        taps = "x".join(map(str, self.f.shape))
        return f"taps={taps}, padding={self.padding}, flip_filter={self.flip_filter}, gain={self.gain}"


class Blur2d(_Filter):
    """Filters images and keeps their size; see :func:`customops.filter2d`."""

    def forward(self, x: Tensor) -> Tensor:
        return filter2d(x, self.f, self.padding, self.flip_filter, self.gain)


class Upsample2d(_Filter):
    """Makes images ``up`` times as large; see :func:`customops.upsample2d`.

    Args:
        f: taps, as :func:`customops.setup_filter` takes them.
        up: one factor, or ``[x, y]``.
        padding: in samples of the result.
        flip_filter: correlate, rather than convolve.
        gain: on top of the product of the factors.
    """

    def __init__(
        self,
        f: Tensor | Sequence[float] | Sequence[Sequence[float]] = (1, 3, 3, 1),
        up: int | Sequence[int] = 2,
        padding: int | Sequence[int] = 0,
        flip_filter: bool = False,
        gain: float = 1,
    ) -> None:
        super().__init__(f, padding, flip_filter, gain)
        self.up = up

    def forward(self, x: Tensor) -> Tensor:
        return upsample2d(x, self.f, self.up, self.padding, self.flip_filter, self.gain)

    def extra_repr(self) -> str:
        return f"up={self.up}, {super().extra_repr()}"


class Downsample2d(_Filter):
    """Filters images and keeps every ``down``-th sample; see :func:`customops.downsample2d`.

    Args:
        f: taps, as :func:`customops.setup_filter` takes them.
        down: one factor, or ``[x, y]``.
        padding: in samples of the input.
        flip_filter: correlate, rather than convolve.
        gain: a factor, a Python number.
    """

    def __init__(
        self,
        f: Tensor | Sequence[float] | Sequence[Sequence[float]] = (1, 3, 3, 1),
        down: int | Sequence[int] = 2,
        padding: int | Sequence[int] = 0,
        flip_filter: bool = False,
        gain: float = 1,
    ) -> None:
        super().__init__(f, padding, flip_filter, gain)
        self.down = down

    def forward(self, x: Tensor) -> Tensor:
        return downsample2d(x, self.f, self.down, self.padding, self.flip_filter, self.gain)

    def extra_repr(self) -> str:
        return f"down={self.down}, {super().extra_repr()}"
