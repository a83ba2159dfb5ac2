"""Fast, differentiable PyTorch ops. One wheel for every CPython from 3.10 and every torch from 2.10 on."""

from customops import _loader

_loader.load()

from customops import nn  # noqa: E402
from customops.add2 import add2  # noqa: E402
from customops.axpy import axpy  # noqa: E402
from customops.flatten_copy import flatten_copy, install_tensor_methods  # noqa: E402

__all__ = ["add2", "axpy", "flatten_copy", "install_tensor_methods", "nn"]


def __getattr__(name: str):
    """``customops.__version__``, from the installed metadata; looked up only when asked for, because it takes a while."""
    if name == "__version__":
        from importlib.metadata import version

        return version("customops")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
