"""python -m customops: for people, for programs, and never compiling unasked."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import customops

HERE = Path(customops.__path__[0])


def report(*arguments, cwd=None, **env):
    command = [sys.executable, "-m", "customops", *arguments]
    return subprocess.run(command, cwd=cwd, env=os.environ | env, capture_output=True, text=True, check=False)


def test_json_says_what_the_text_says():
    facts, text = json.loads(report("--json").stdout), report().stdout
    assert facts["version"] == customops.__version__
    assert facts["torch"] == torch.__version__
    assert facts["library"]["path"] in text
    assert facts["cpu"]["capability"] == torch.ops.customops._cpu_capability()
    assert f"CUDA kernels: {facts['cuda']['library'] or 'none'} ({facts['cuda']['why']})" in text


def test_version_and_help():
    assert report("--version").stdout == f"customops {customops.__version__}\n"
    shown = report("--help").stdout
    assert all(option in shown for option in ("--version", "--json", "--compile", "explain"))
    assert report("--nonsense").returncode == 2


def first_on_the_path(folder):
    """PYTHONPATH with this folder first: torch may be found through what is there already, as in the test image."""
    return os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))


@pytest.fixture
def checkout(tmp_path):
    """A copy of the package without any library, as in a fresh clone."""
    shutil.copytree(HERE, tmp_path / "customops", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "customops"\nversion = "7.8.9"\n')
    return tmp_path


@pytest.mark.parametrize(
    "arguments", [(), ("--json",), ("explain", "depthwise_conv2d", "--shape=1,1,5,5", "--kernel=3")]
)
def test_nothing_is_compiled_unasked(checkout, arguments):
    env = {
        "PYTHONPATH": first_on_the_path(checkout),
        "CUSTOMOPS_COMPILER": "",
        "CUSTOMOPS_JIT_CACHE": str(checkout / "jit"),
    }
    run = report(*arguments, cwd=checkout, **env)
    assert "python -m customops --compile, or CUSTOMOPS_COMPILER=jit" in run.stdout + run.stderr
    assert "compiling" not in run.stderr.replace("compiling just in time takes one to three minutes", "")
    assert not (checkout / "jit").exists()
    assert run.returncode == (1 if "explain" in arguments else 0)


def test_a_checkout_has_a_version(checkout):
    assert (
        report("--version", cwd=checkout, PYTHONPATH=first_on_the_path(checkout)).stdout == "customops 7.8.9+checkout\n"
    )


def test_types_are_there():
    assert (HERE / "py.typed").is_file()
    assert re.fullmatch(r"\d+\.\d+\.\d+(\+\S+)?", customops.__version__)
