"""The older StyleGAN2 family's names, for programs that move over: same ops, and one of them with other arguments.

``from customops.compat import FusedLeakyReLU, fused_leaky_relu, upfirdn2d``
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from customops.bias_act import fused_leaky_relu
from customops.nn import FusedLeakyReLU
from customops.upfirdn2d import upfirdn2d as _op

__all__ = ["FusedLeakyReLU", "fused_leaky_relu", "upfirdn2d"]


def upfirdn2d(input: Tensor, kernel: Tensor, up: int = 1, down: int = 1, pad: Sequence[int] = (0, 0)) -> Tensor:
    """The call of the older StyleGAN2 family: :func:`customops.upfirdn2d` with ``pad`` as (before, after) for both axes.

    It can't be told apart from the newer call, where two numbers mean x and y, so it has a name of its own.

    Args:
        input: as :func:`customops.upfirdn2d` takes it.
        kernel: 2-D (height, width), any floating dtype; it is convolved with, not correlated.
        up: one factor for both axes.
        down: one factor for both axes.
        pad: (before, after), left and top, right and bottom; or (x0, x1, y0, y1).

    Returns:
        A new tensor, as of :func:`customops.upfirdn2d`.

    Raises:
        ValueError: ``pad`` isn't two or four numbers, or ``kernel`` not 2-D.

    Examples:
        >>> import torch
        >>> from customops.compat import upfirdn2d
        >>> upfirdn2d(torch.ones(1, 1, 4, 4), torch.ones(4, 4) / 16, up=2, pad=(2, 1)).shape
        torch.Size([1, 1, 8, 8])
    """
    if len(pad) not in (2, 4):
        raise ValueError(f"compat.upfirdn2d: pad must be (before, after) or (x0, x1, y0, y1), got {tuple(pad)}")
    if kernel.dim() != 2:
        raise ValueError(f"compat.upfirdn2d: kernel must have 2 dimensions, got {kernel.dim()}")
    return _op(input, kernel.to(torch.float32), up, down, (*pad, *pad)[:4])
