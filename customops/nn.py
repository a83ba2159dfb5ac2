"""The ops as modules."""

import torch
from torch import Tensor
from torch.nn import Module, Parameter

from customops.axpy import axpy
from customops.bias_act import bias_act, fused_leaky_relu


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
