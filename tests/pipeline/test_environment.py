"""The folder of what a build or a test may import: linked from the image where that is the same, installed where it is not."""

import sys

import environment
import pytest

LINE = "prog==1.0 --hash=sha256:" + "5" * 64


@pytest.fixture
def held(tmp_path):
    """held(first line of the program) -> (lock, folder) of an image that has one distribution."""

    def make(first):
        folder, lock = tmp_path / "held", tmp_path / "lock.txt"
        lock.write_text(f"# make lock\n{LINE}\n")
        info = folder / "prog-1.0.dist-info"
        info.mkdir(parents=True)
        (folder / "bin").mkdir()
        (folder / "bin/prog").write_bytes(first + b"\nimport prog\n")
        (folder / "prog.py").touch()
        (info / "RECORD").write_text("../../bin/prog,,\nprog.py,,\nprog-1.0.dist-info/RECORD,,\n")
        return lock, folder

    return make


@pytest.mark.parametrize(
    ("first", "linked"),
    [
        (f"#!{sys.executable}".encode(), True),
        (b"#!/opt/python/cp311-cp311/bin/python3.11", False),
        (b"#!/bin/sh", True),
        (b"\x7fELF\x02\x01", True),  # ninja
        (b"", True),
    ],
)
def test_programs_of_another_python_are_not_linked(held, tmp_path, first, linked):
    target = tmp_path / "target"
    target.mkdir()
    assert environment.link([LINE], *held(first), target) == ([] if linked else [LINE])
    assert (target / "bin/prog").is_symlink() == (target / "prog.py").is_symlink() == linked
