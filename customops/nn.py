"""The ops as modules."""

from collections.abc import Sequence

from torch import Tensor
from torch.nn import Module

from customops.axpy import axpy
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


class _Filter(Module):
    """Base of the modules below: keeps a filter as the buffer ``f``.

    Args:
        f: taps, as :func:`customops.setup_filter` takes them; (1, 3, 3, 1) is StyleGAN2's.
        padding: on top of what the op itself pads.
        flip_filter: correlate, rather than convolve.
        gain: a factor, a Python number.
    """

    def __init__(
        self,
        f: Tensor | Sequence = (1, 3, 3, 1),
        padding: int | Sequence[int] = 0,
        flip_filter: bool = False,
        gain: float = 1,
    ) -> None:
        super().__init__()
        self.register_buffer("f", setup_filter(f))
        self.padding, self.flip_filter, self.gain = padding, flip_filter, gain

    def _apply(self, fn, recurse=True):
        """``half()`` and the like convert floating buffers; the filter stays float32 and only follows the device."""
        before = self.f
        super()._apply(fn, recurse)
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
        f: Tensor | Sequence = (1, 3, 3, 1),
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
        f: Tensor | Sequence = (1, 3, 3, 1),
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
