"""A disk that fills in the middle of linking, a real one of 1 MB. While fetching: test_fetch.py; `make index`: test_messages.py."""

import shutil
import subprocess

import pytest

SETUP = """
from setuptools import Extension, setup
setup(name="customops", version="1", ext_modules=[Extension("toy", ["toy.c"])])
"""
SOURCE = "const char large[700000] = {1};\nvoid *PyInit_toy(void) { return (void *)large; }\n"


@pytest.fixture
def disk(tmp_path):
    folder = tmp_path / "disk"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], capture_output=True).returncode:
        pytest.skip("mounting a file system needs root")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is missing")
def test_a_disk_that_fills_while_linking_leaves_nothing_half_written(root, tmp_path, disk, host_environment):
    project, out = tmp_path / "toy", tmp_path / "out"
    for folder in (project, out):
        folder.mkdir()
    (out / "customops-0-earlier.whl").write_text("earlier")
    (project / "setup.py").write_text(SETUP)
    (project / "toy.c").write_text(SOURCE)
    build = ["bash", root / "docker/image/build-wheel.sh", project, out]
    env = host_environment(project, TMPDIR=str(disk))
    run = subprocess.run(build, env=env, capture_output=True, text=True, check=False)
    assert run.returncode != 0
    assert "final link failed: No space left on device" in run.stdout + run.stderr
    assert (disk / "x").write_bytes(bytes(900_000)) == 900_000  # everything that the build wrote there is gone
    assert [path.name for path in out.iterdir()] == ["customops-0-earlier.whl"]
