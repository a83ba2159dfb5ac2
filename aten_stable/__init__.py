"""ATen's headers on LibTorch's stable ABI: extensions written for <torch/extension.h>, one library for every torch from 2.10 on.

`python -m aten_stable` builds, scans and checks; docs/aten-on-stable.md says what is covered.
"""

from pathlib import Path

__version__ = "0.1.0"
INCLUDE = Path(__file__).parent / "include"
