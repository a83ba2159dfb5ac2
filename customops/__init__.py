"""Fast, differentiable PyTorch ops. One wheel for every CPython from 3.10 and every torch from 2.10 on."""

from customops import _loader

__all__ = [
    "add2",
    "axpy",
    "bias_act",
    "compat",
    "depthwise_conv2d",
    "downsample2d",
    "filter2d",
    "flatten_copy",
    "fused_leaky_relu",
    "install_tensor_methods",
    "nn",
    "replace_depthwise",
    "setup_filter",
    "upfirdn2d",
    "upsample2d",
]

_unusable = _loader.load()
if _unusable is None:
    from customops import compat, nn
    from customops.add2 import add2
    from customops.axpy import axpy
    from customops.bias_act import bias_act, fused_leaky_relu
    from customops.depthwise_conv2d import depthwise_conv2d
    from customops.flatten_copy import flatten_copy, install_tensor_methods
    from customops.nn import replace_depthwise
    from customops.upfirdn2d import downsample2d, filter2d, setup_filter, upfirdn2d, upsample2d


def __getattr__(name: str):
    """``customops.__version__``, from the installed metadata, which takes a while to read; and why an op is not there."""
    if name == "__version__":
        from importlib.metadata import version

        return version("customops")
    if _unusable is not None and name in __all__:
        raise ImportError(_unusable)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
