"""Which library this process has open: customops/_loader.py sets it, whoever needs to know asks here."""

import logging
from pathlib import Path
from typing import NamedTuple

LIBRARY = Path(__file__).with_name("_cpu.so")  # the prebuilt one

logger = logging.getLogger("customops")
logger.addHandler(logging.NullHandler())  # silent unless the program sets up logging


class Opened(NamedTuple):
    """The library of this process."""

    compiler: str  # setuptools, jit or cmake
    path: Path
    why: str


opened: Opened | None = None
