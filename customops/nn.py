"""The ops as modules."""

from torch import Tensor
from torch.nn import Module

from customops.axpy import axpy


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
