"""Fast, differentiable PyTorch ops. One wheel for every CPython from 3.10 and every torch from 2.10 on.

Importing opens no library: the first use of an op does, here or in ``torch.ops.customops``. Before it, :func:`load` may
say which library.
"""

import importlib
import sys
import types
from typing import TYPE_CHECKING

from customops import _loader
from customops._loader import load

if TYPE_CHECKING:  # for editors and type checkers; at run time they come with the library
    __version__: str
    from customops import compat as compat
    from customops import jit as jit
    from customops import nn as nn
    from customops.add2 import add2 as add2
    from customops.axpy import axpy as axpy
    from customops.bias_act import bias_act as bias_act
    from customops.bias_act import fused_leaky_relu as fused_leaky_relu
    from customops.depthwise_conv2d import depthwise_conv2d as depthwise_conv2d
    from customops.flatten_copy import flatten_copy as flatten_copy
    from customops.flatten_copy import install_tensor_methods as install_tensor_methods
    from customops.nn import replace_depthwise as replace_depthwise
    from customops.upfirdn2d import downsample2d as downsample2d
    from customops.upfirdn2d import filter2d as filter2d
    from customops.upfirdn2d import setup_filter as setup_filter
    from customops.upfirdn2d import upfirdn2d as upfirdn2d
    from customops.upfirdn2d import upsample2d as upsample2d

# Modules of ops, and the public names that each brings.
OPS = {
    "add2": ("add2",),
    "axpy": ("axpy",),
    "bias_act": ("bias_act", "fused_leaky_relu"),
    "depthwise_conv2d": ("depthwise_conv2d",),
    "flatten_copy": ("flatten_copy", "install_tensor_methods"),
    "upfirdn2d": ("downsample2d", "filter2d", "setup_filter", "upfirdn2d", "upsample2d"),
}
_MODULE_OF = {name: module for module, names in OPS.items() for name in names} | {"replace_depthwise": "nn"}
__all__ = sorted([*_MODULE_OF, "compat", "jit", "load", "nn"])


def _first_use(name: str) -> object:
    """Public names, upon their first use; and ``__version__``, from the installed metadata, which takes a while to read."""
    value: object
    if name == "__version__":
        value = _version()
    elif name in _MODULE_OF:
        load()
        value = getattr(importlib.import_module(f"customops.{_MODULE_OF[name]}"), name)
    elif name in __all__ or name == "_cuda":
        value = importlib.import_module(f"customops.{name}")
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


if not TYPE_CHECKING:  # type checkers know every name from above, and so find the misspelled ones
    __getattr__ = _first_use


def _version() -> str:
    """Of the installed wheel; of a checkout, what its pyproject.toml says, with a label that no release has."""
    import re
    from importlib.metadata import version
    from pathlib import Path

    project = Path(__file__).parent.with_name("pyproject.toml")
    if project.is_file() and (found := re.search(r'^version = "(.+)"$', project.read_text(), re.MULTILINE)):
        return f"{found[1]}+checkout"
    return version("customops")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Package(types.ModuleType):
    def __setattr__(self, name: str, value: object) -> None:
        """An op's module has its function's name; importing the module must not put it in the function's place."""
        if name in _MODULE_OF and isinstance(value, types.ModuleType):
            return
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
_loader.check_torch()
_loader.wait_for_first_use(OPS)
