"""Projects of tests/projects, and one of `make new-extension`, built on this machine as their authors would; what the report says.

Those that need a build backend which no lock of ours has are built by `make wheel PROJECT=...` only.
"""

import json
import os
import shutil
import subprocess

import common
import new_extension
import pytest

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is missing")


@pytest.fixture(scope="module")
def tools():
    return common.virtual_environment("build")


@pytest.fixture
def build(root, tools, tmp_path):
    """build(project, folder="a") -> (what pip said, the wheel or None), from a copy in a folder of its own."""

    def run(name, folder="a"):
        copy = tmp_path / folder / name
        if not copy.exists():
            shutil.copytree(root / "tests/projects" / name, copy)
        command = [
            tools / "python",
            "-m",
            "pip",
            "wheel",
            "--no-index",
            "--no-deps",
            "--no-build-isolation",
            "--wheel-dir",
        ]
        env = common.environment(
            tools, SOURCE_DATE_EPOCH="1700000000", http_proxy="http://127.0.0.1:9", https_proxy="http://127.0.0.1:9"
        )
        done = subprocess.run([*command, copy / "dist", copy], env=env, capture_output=True, text=True, check=False)
        return done, next(iter(copy.glob("dist/*.whl")), None)

    return run


@pytest.fixture
def report(root):
    def run(wheel):
        python = common.virtual_environment("report") / "python"
        env = os.environ | {"PYTHONPATH": str(root / "docker/report")}
        done = subprocess.run(
            [python, "-m", "wheel_report", wheel, "--json"], env=env, capture_output=True, text=True, check=True
        )
        return json.loads(done.stdout)

    return run


def runs(tools, wheel, folder, code):
    shutil.unpack_archive(wheel, folder, "zip")
    subprocess.run([tools / "python", "-c", code], env=os.environ | {"PYTHONPATH": str(folder)}, check=True)


def test_abi3_in_c(build, report, tools, tmp_path):
    done, wheel = build("abi3-c")
    assert done.returncode == 0, done.stderr
    assert "-cp310-abi3-linux" in wheel.name
    runs(tools, wheel, tmp_path / "site", "import popcount; assert popcount.bits(b'\\xff\\x01') == 9")
    row = report(wheel)["works_on"]["CPython"]
    assert {v: row[v]["verdict"] for v in ("3.9", "3.10", "3.14", "3.14t")} == {
        "3.9": "fails", "3.10": "works", "3.14": "works", "3.14t": "fails",
    }  # fmt: skip


def test_namespace_data_and_two_modules(build, report, tools, tmp_path):
    done, wheel = build("two-modules")
    assert done.returncode == 0, done.stderr
    code = "import acme.ledger as l; assert (l.total([2, 3]), l.twice(4), l.rates()) == (5, 8, {'EUR': 1.0})"
    runs(tools, wheel, tmp_path / "site", code)
    assert len(report(wheel)["libraries"]) == 2


def test_torch_library_on_aten(build, report, tools, tmp_path):
    """One file for every CPython, which only the torch it was compiled against is sure to load."""
    done, wheel = build("torch-library-aten")
    assert done.returncode == 0, done.stderr
    code = """
import torch
from wherelerp import wherelerp
x, y = torch.tensor([1.0, 1.0], requires_grad=True), torch.tensor([3.0, 3.0])
z = wherelerp(x, y, torch.tensor([True, False]), 0.25)
assert z.tolist() == [1.5, 1.0]
assert torch.autograd.grad(z.sum(), x)[0].tolist() == [0.75, 1.0]
"""
    runs(tools, wheel, tmp_path / "site", code)
    works_on = report(wheel)["works_on"]
    assert works_on["CPython"]["3.14"]["verdict"] == "works"
    assert {row["verdict"] for row in works_on["torch"].values()} == {"not known"}  # its metadata names no version


def test_a_new_extension_works_and_is_the_same_bytes_in_another_folder(build, report, tools, tmp_path):
    wheels = []
    for folder in ("a", "b-longer"):
        (tmp_path / folder).mkdir()
        new_extension.create("fast_swish", tmp_path / folder / "fast_swish")
        done, wheel = build("fast_swish", folder)
        assert done.returncode == 0, done.stderr
        wheels.append(wheel)
    assert wheels[0].read_bytes() == wheels[1].read_bytes()
    code = """
import torch, fast_swish
x = torch.linspace(-4, 4, 9, dtype=torch.float64, requires_grad=True)
torch.testing.assert_close(fast_swish.swish(x), torch.nn.functional.silu(x))
assert torch.autograd.gradcheck(fast_swish.swish, x)
"""
    runs(tools, wheels[0], tmp_path / "site", code)
    assert report(wheels[0])["works_on"]["torch"]["2.15"]["verdict"] == "works"


def test_the_report_names_what_keeps_a_build_from_repeating(build, report):
    (_, first), (_, second) = build("unrepeatable", "a"), build("unrepeatable", "b")
    assert first.read_bytes() != second.read_bytes()
    hazards = report(first)["reproducibility_hazards"]
    assert any("unrepeatable" in line and "paths of the build" in line and "stamp.c" in line for line in hazards), (
        hazards
    )
    assert any("unrepeatable" in line and "a date" in line for line in hazards), hazards


@pytest.mark.parametrize(("name", "message"), [("compile-error", "forty_two"), ("downloads", "URLError")])
def test_builds_that_have_to_fail(build, name, message):
    done, wheel = build(name)
    assert done.returncode
    assert wheel is None
    assert message in done.stdout + done.stderr
