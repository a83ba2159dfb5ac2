"""benchmarks/compare_builds.py, with the installed package as both builds; no GPU needed."""

import subprocess
import sys
from pathlib import Path

import pytest

import customops

SCRIPT = Path(__file__).parents[1] / "benchmarks/compare_builds.py"
pytestmark = pytest.mark.skipif(not SCRIPT.exists(), reason="needs benchmarks/ beside tests/")


def compare(tmp_path, *folders):
    problems = tmp_path / "problems"
    problems.write_text("fwd float32 nchw 2x8x14x14 k3x3 s1x1 p1x1 d1x1\n")
    command = [sys.executable, str(SCRIPT), *map(str, folders), "--device=cpu", f"--replay={problems}"]
    command += [f"--output={tmp_path / 'results'}"]
    return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)


def test_both_builds_are_timed(tmp_path):
    site = Path(customops.__path__[0]).parent
    done = compare(tmp_path, site, site)
    assert done.returncode == 0, done.stderr
    assert " of 1 slower by more than 3 %" in done.stdout
    result = (tmp_path / "results").read_text()
    assert result.startswith('{"case": "fwd float32 nchw 2x8x14x14 k3x3 s1x1 p1x1 d1x1", "kernels": ["fwd_')


def test_a_folder_without_a_build(tmp_path):
    (tmp_path / "empty").mkdir()
    done = compare(tmp_path, tmp_path / "empty", tmp_path / "empty")
    assert done.returncode == 1
    assert f"no built customops in {tmp_path / 'empty'}" in done.stderr
    assert "Unpack a wheel there" in done.stderr
