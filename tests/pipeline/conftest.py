"""The scripts of docker/ are imported as modules; nothing here touches the project's own .cache or dist."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docker"))


@pytest.fixture
def root():
    return ROOT
