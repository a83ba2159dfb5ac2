"""What a long step shows: which file of how many, and how long it took the last time."""

import re
import subprocess

import pytest
import steps

COMMANDS = r"""[1/3] c++ -MMD -MF /tmp/tmp.x/source/build/a.o.d -Wall -fPIC -c -c /tmp/tmp.x/source/csrc/cpu/a.cpp -o /tmp/a.o -DX=1
[2/3] /opt/cuda12/bin/nvcc -c /project/csrc/b.cu -o b.o
[3/3] nvcc 12.4.131 for 90+PTX: csrc/cuda/axpy.cu
FAILED: [code=1] /tmp/a.o
c++ -Wall -c csrc/cpu/a.cpp -o /tmp/a.o
g++ -shared -Wl,-O1 build/a.o -L/torch/lib -o build/lib/customops/_cpu.so -lm
csrc/cpu/a.cpp:1:2: error: no such thing"""


@pytest.mark.parametrize("verbose", ["", "1"])
def test_files_and_not_commands_are_shown(root, verbose):
    script = ["bash", root / "docker/image/short.sh", "printf", "%s\n", COMMANDS]
    shown = subprocess.run(
        script, env={"PATH": "/usr/bin:/bin", "V": verbose}, capture_output=True, text=True, check=True
    )
    if verbose:
        assert shown.stdout.strip() == COMMANDS
        return
    assert shown.stdout.splitlines() == [
        "[1/3] csrc/cpu/a.cpp",
        "[2/3] csrc/b.cu",
        "[3/3] nvcc 12.4.131 for 90+PTX: csrc/cuda/axpy.cu",
        "FAILED: [code=1] /tmp/a.o",
        "c++ -Wall -c csrc/cpu/a.cpp -o /tmp/a.o",
        "link build/lib/customops/_cpu.so",
        "csrc/cpu/a.cpp:1:2: error: no such thing",
    ]


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
