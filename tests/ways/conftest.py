"""The three ways to build, against an installed wheel: `make test-ways`. Needs a C++ compiler, ninja and cmake."""

import os
import subprocess
from pathlib import Path

import pytest
import torch

from customops import _recipes

ROOT = Path(__file__).parents[2]


@pytest.fixture
def root():
    return ROOT


@pytest.fixture(scope="session")
def modules(tmp_path_factory):
    """Of aten_stable's sources: {name: (the module on ATen, the module on the stable ABI)}."""
    from aten_builds import compiled

    return compiled(tmp_path_factory.mktemp("modules"))


@pytest.fixture
def windows(modules):
    return modules["windows"]


@pytest.fixture
def options(modules):
    return modules["options"]


@pytest.fixture
def tensor():
    generator = torch.Generator().manual_seed(0)
    return lambda *shape, dtype=torch.float32: torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


@pytest.fixture
def draws(modules):
    return modules["draws"]


@pytest.fixture
def functions(modules):
    return modules["functions"]


@pytest.fixture(scope="session")
def cmake_build(tmp_path_factory):
    """The build folder of examples/cpp, libcustomops.so in customops/; CUSTOMOPS_WAYS_CMAKE keeps it between runs."""
    folder = Path(os.environ.get("CUSTOMOPS_WAYS_CMAKE") or tmp_path_factory.mktemp("cmake"))
    cmake(ROOT / "examples/cpp", folder)
    return folder


@pytest.fixture(scope="session")
def cmake_library(cmake_build):
    return cmake_build / "customops/libcustomops.so"


def cmake(source, folder, *options):
    """Configures and builds."""
    options = ["-G", "Ninja", f"-DCMAKE_PREFIX_PATH={torch.utils.cmake_prefix_path}", *options]
    subprocess.run(["cmake", "-S", source, "-B", folder, *options], check=True)
    subprocess.run(["cmake", "--build", folder, "--parallel", str(_recipes._tool("jobs").jobs())], check=True)


@pytest.fixture(scope="session")
def environments(cmake_library):
    """{way to build: environment in which a new Python takes it}."""
    clean = {
        name: value for name, value in os.environ.items() if name not in ("CUSTOMOPS_COMPILER", "CUSTOMOPS_LIBRARY")
    }
    return {
        "setuptools": clean | {"CUSTOMOPS_COMPILER": "setuptools"},
        "jit": clean | {"CUSTOMOPS_COMPILER": "jit"},
        "cmake": clean | {"CUSTOMOPS_COMPILER": "cmake", "CUSTOMOPS_LIBRARY": str(cmake_library)},
    }
