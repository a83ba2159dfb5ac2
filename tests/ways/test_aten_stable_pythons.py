"""One wheel of the sources of aten_stable/, compiled here, gives other Pythons with other torches what ATen gives here.

    ATEN_STABLE_PYTHONS="/venv/of/3.10/bin/python /venv/of/3.13/bin/python" pytest tests/ways/test_aten_stable_pythons.py

`make test-matrix` makes such environments, in .cache/matrix. Free-threaded ones have to stay so.
"""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import torch
from aten_builds import CUDA_PROJECTS, toolkits
from aten_calls import CALLS, Operators
from same_bits import assert_same

PYTHONS = os.environ.get("ATEN_STABLE_PYTHONS", "").split()
pytestmark = pytest.mark.skipif(not PYTHONS, reason="ATEN_STABLE_PYTHONS names no other Python")


@pytest.fixture(scope="session")
def wheel(modules, cuda_modules, tmp_path_factory):
    """py3-none: all modules, those of CUDA included where this machine has a toolkit, and nothing else."""
    folder = tmp_path_factory.mktemp("wheel")
    stable = Path(modules["windows"][1].__file__).parent
    places = [stable, *(cuda_modules / name / "theirs" for name in CUDA_PROJECTS)]
    path, info = folder / "theirs-1-py3-none-linux_x86_64.whl", "theirs-1.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        for file in (file for place in places for file in sorted(place.glob("*.*"))):
            archive.write(file, f"theirs/{file.name}")
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: theirs\nVersion: 1\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: py3-none-linux_x86_64\n")
        archive.writestr(f"{info}/RECORD", "")
    return path


@pytest.fixture(scope="session")
def wanted(modules):
    """Of ATen, with this torch; of what needs a GPU, what it says without one."""
    of_aten = {name: CALLS[name](aten, Operators("")) for name, (aten, _) in modules.items()}
    no_gpu = {"blend": "a must be a CUDA tensor", "noise": "x must be a CUDA tensor"}
    return of_aten | {name: [("RuntimeError", words)] for name, words in no_gpu.items()}


@pytest.mark.parametrize("python", [sys.executable, *PYTHONS])
def test_one_wheel_serves_all(wheel, wanted, python, tmp_path):
    site, results = tmp_path / "site", tmp_path / "results.pt"
    pip = [python, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--only-binary=:all:"]
    subprocess.run([*pip, f"--target={site}", wheel], check=True)
    subprocess.run([python, Path(__file__).with_name("aten_calls.py"), site, results], check=True)
    found = torch.load(results)
    assert set(found) == set(wanted if toolkits() else wanted.keys() - {*CUDA_PROJECTS})
    for name in found:
        assert_same(found[name], wanted[name])
