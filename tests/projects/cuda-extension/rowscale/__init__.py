"""rowscale(x, factors): each row of a matrix times its factor."""

import torch  # noqa: F401  the extension needs torch's libraries to be loaded

from rowscale._C import rowscale

__all__ = ["rowscale"]
