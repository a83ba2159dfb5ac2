"""What a long step shows: which file of how many, and how long it took the last time."""

import re
import subprocess

import failures
import pytest
import steps

LINES = {
    "[1/3] c++ -MMD -MF /tmp/x/source/build/a.o.d -Wall -c -c /tmp/x/source/csrc/cpu/a.cpp -o /tmp/a.o": "[1/3] csrc/cpu/a.cpp",
    "[2/3] /opt/cuda12/bin/nvcc -c /project/csrc/b.cu -o b.o": "[2/3] csrc/b.cu",
    "[2/3] c++ -Wall -c /project/project/csrc/cpu/b.cpp -o b.o": "[2/3] csrc/cpu/b.cpp",
    "[3/3] nvcc 12.4.131 for 90+PTX: csrc/cuda/axpy.cu": "[3/3] nvcc 12.4.131 for 90+PTX: csrc/cuda/axpy.cu",
    "[4/9] Building CXX object x.dir/a.cpp.o": "[4/9] Building CXX object x.dir/a.cpp.o",
    "building 'x._C' extension": "building 'x._C' extension",
    "g++ -shared -Wl,-O1 build/a.o -L/torch/lib -o build/lib/customops/_cpu.so -lm": "link build/lib/customops/_cpu.so",
    "x86_64-linux-gnu-g++-10 -Wall -shared a.o -o _C.so": "link _C.so",
    "c++ -Wall -c csrc/cpu/a.cpp -o /tmp/a.o": None,
    "adding 'customops/add2.py'": None,
}


@pytest.mark.parametrize("line", LINES)
def test_files_and_not_commands_are_shown(line):
    shown = failures.progress(line.encode() + b"\n")
    assert shown == (LINES[line].encode() + b"\n" if LINES[line] else None)


@pytest.mark.parametrize("verbose", ["", "1"])
def test_the_options_of_cibuildwheel_are_left_out(root, verbose):
    printed = "cibuildwheel version 4\n\nBuild options:\n  platform: linux\nCache folder: /x\nHere we go!\n"
    script = ["bash", root / "docker/image/short.sh", "printf", "%s", printed]
    env = {"PATH": "/usr/bin:/bin", "V": verbose}
    shown = subprocess.run(script, env=env, capture_output=True, text=True, check=True).stdout
    assert shown == (printed if verbose else "cibuildwheel version 4\n\nHere we go!\n")


def test_a_failed_build_stays_one(root):
    assert subprocess.run(["bash", root / "docker/image/short.sh", "bash", "-c", "exit 7"], check=False).returncode == 7


def test_a_step_says_how_long_it_took_the_last_time(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(steps, "CACHE", tmp_path)
    clock = iter(range(0, 1000, 7))
    monkeypatch.setattr(steps.time, "monotonic", lambda: next(clock))
    for _ in range(2):
        run = steps.Steps("fetch", "build")
        run.next()
        run.next()
        run.finish("done")
    first, second = capsys.readouterr().out.split("==> done", 1)
    assert "last time" not in first
    for number, name in enumerate(("fetch", "build"), 1):
        assert re.search(rf"^==> \[{number}/2\] {name}  \(.*last time \d+ s\)$", second, re.MULTILINE)


def test_a_broken_record_of_durations_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(steps, "CACHE", tmp_path)
    for text in ("", "[1]", '{"fetch": "x"}', '{"fetch": null}'):
        (tmp_path / "durations.json").write_text(text)
        assert steps.Steps("fetch").seconds == {}
