"""The three ways to build, against an installed wheel: `make test-ways`. Needs a C++ compiler, ninja and cmake."""

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from customops import _recipes

ROOT = Path(__file__).parents[2]
COMPILED_BESIDE = {"modules", "cuda_modules"}


@pytest.fixture
def root():
    return ROOT


def pytest_collection_modifyitems(items):
    """Tests of what is compiled beside the others come last."""
    items.sort(key=lambda item: not COMPILED_BESIDE.isdisjoint(item.fixturenames))


@pytest.fixture(scope="session", autouse=True)
def compiling(request, tmp_path_factory):
    """{fixture: (process that compiles for it, folder)}, begun before the first test.

    Processes, since tests change this one's variables; nice ones, which take the time that others leave.
    """
    needed = COMPILED_BESIDE.intersection(name for item in request.session.items for name in item.fixturenames)
    with contextlib.ExitStack() as stack:
        begun = {}
        for what in sorted(needed):
            folder = tmp_path_factory.mktemp(what)
            command = ["nice", sys.executable, ROOT / "tests/ways/aten_builds.py", what, folder]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            begun[what] = stack.enter_context(process), folder
        yield begun


def finished(process, folder):
    said, _ = process.communicate()
    assert process.returncode == 0, said
    return folder


@pytest.fixture(scope="session")
def cuda_modules(compiling):
    """A folder for each of CUDA_PROJECTS, empty where this machine has no toolkit."""
    return finished(*compiling["cuda_modules"])


@pytest.fixture(scope="session")
def modules(compiling):
    """Of aten_stable's sources: {name: (the module on ATen, the module on the stable ABI)}."""
    from aten_builds import loaded

    return loaded(finished(*compiling["modules"]))


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
