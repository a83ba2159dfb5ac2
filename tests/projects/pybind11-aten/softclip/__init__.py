"""softclip(x, limit=1.0): limit * tanh(x / limit), elementwise."""

import torch  # noqa: F401  the extension needs torch's libraries to be loaded

from softclip._C import softclip

__all__ = ["softclip"]
