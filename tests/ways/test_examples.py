"""The programs of examples/ run with every build, and training gives the same losses."""

import re
import subprocess
import sys

import pytest


def run(root, environments, way, program, *arguments):
    options = ["--compiler", way]
    if way == "cmake":
        options += ["--library", environments[way]["CUSTOMOPS_LIBRARY"]]
    env = {
        name: value
        for name, value in environments[way].items()
        if name not in ("CUSTOMOPS_COMPILER", "CUSTOMOPS_LIBRARY")
    }
    command = [sys.executable, root / "examples" / program, *options, *arguments]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_same_losses_for_all_three(root, environments):
    texts = [run(root, environments, way, "train.py", "--steps=60") for way in environments]
    losses = [re.findall(r"loss: (\S+) at first, (\S+) after", text)[0] for text in texts]
    assert losses[0] == losses[1] == losses[2]
    assert float(losses[0][1]) < 0.9 * float(losses[0][0])  # it learns


@pytest.mark.parametrize("way", ["setuptools", "jit", "cmake"])
def test_time_op(root, environments, way):
    text = run(root, environments, way, "time_op.py", "--op=axpy", "--rounds=3")
    assert re.search(r"axpy +\d+ +\d+ +\d+\.\d\d", text)
    assert ("libcustomops.so" in text) == (way == "cmake")
