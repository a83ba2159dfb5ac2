"""Fast, differentiable PyTorch ops. One wheel for every CPython from 3.10 and every torch from 2.10 on."""

from customops import _loader

_loader.load()

from customops import nn  # noqa: E402
from customops.add2 import add2  # noqa: E402
from customops.axpy import axpy  # noqa: E402
from customops.flatten_copy import flatten_copy, install_tensor_methods  # noqa: E402

__all__ = ["add2", "axpy", "flatten_copy", "install_tensor_methods", "nn"]
__version__ = "0.1.0"
