"""make farm: what it refuses, and that it understands what make says. The farm itself, some minutes, only on demand."""

import json
import os
import shutil
import socket
import subprocess

import build_cache
import farm
import namespaces
import objects
import pytest
from common import Failure
from divided import Compile

GOOD = {"what": "a run", "killed": False, "lies": False, "compiled": [2, 1], "missing": 0, "same": True, "differ": 0, "named": []}  # fmt: skip
on_demand = pytest.mark.skipif(
    not os.environ.get("CUSTOMOPS_EVERY_PROJECT") or os.geteuid() != 0 or not shutil.which("redis-server"),
    reason="CUSTOMOPS_EVERY_PROJECT is not set, or no root, or no redis-server",
)


@pytest.mark.parametrize("wanted", ["", "x", "0", "1", "17", "-3", "3.0", "\u0663", "3\n"])
def test_refuses_a_bad_number_of_builders(wanted):
    with pytest.raises(Failure, match="BUILDERS must be a number from 2 to 16") as failure:
        farm.read_builders(wanted)
    assert str(failure.value).isprintable()


def test_reads_a_number_of_builders():
    assert [farm.read_builders(word) for word in ("2", "03", "16")] == [2, 3, 16]


def test_says_what_the_machine_lacks(monkeypatch):
    monkeypatch.setattr(namespaces.os, "geteuid", lambda: 1000)
    with pytest.raises(Failure, match=r"only root may: sudo make farm"):
        namespaces.check_machine()
    monkeypatch.setattr(namespaces.os, "geteuid", lambda: 0)
    monkeypatch.setattr(namespaces.shutil, "which", lambda name: None if name == "redis-server" else name)
    with pytest.raises(Failure, match=r"needs redis-server, .*: apt install redis-server"):
        namespaces.check_machine()


def test_understands_what_make_says():
    """By the code that says it."""
    compiles = [Compile("a.o", True, False, 1), Compile("b.o", False, True, 1), Compile("c.o", False, False, 1)]
    line = build_cache.summary("redis://10.77.0.1", compiles, {}, "1.0 MB read")
    assert farm.DONE.match(line).groups() == ("1", "1", "1")
    found = Compile("a.o", True, False, 1, "0a" * 20, "c" * 64)
    said = objects.accusation(found, "d" * 64, {"0a" * 20: ["builder-2"]})
    assert farm.DIFFERS.match(said)[1] == "builder-2"


@pytest.mark.parametrize(
    "wrong",
    [{"same": False}, {"differ": 1, "named": ["builder-2"]}, {"missing": 1}, {"killed": True}, {"lies": True},
     {"lies": True, "same": False, "differ": 1, "named": ["builder-1"]}, {"lies": True, "same": False, "differ": 2, "named": ["builder-2"]}],
)  # fmt: skip
def test_a_farm_that_does_something_else_fails(wrong):
    lied = {"lies": True, "same": False, "differ": 1, "named": ["builder-2"]}
    farm.check_rows([GOOD, GOOD | {"killed": True, "missing": 1}, GOOD | lied], "builder-2")
    with pytest.raises(Failure, match="a run: another wheel than without a cache"):
        farm.check_rows([GOOD, GOOD | wrong], "builder-2")


@on_demand
def test_builders_reach_the_server_alone(tmp_path):
    """And a namespace that is killed leaves no process."""
    with namespaces.with_redis(2, tmp_path, "secret") as (address, spaces):
        host, port = address.removeprefix("redis://"), 6379
        for there, reached in ((host, True), ("10.77.0.3", False), (socket.gethostbyname(socket.gethostname()), False)):
            code = f"import socket; socket.create_connection(({there!r}, {port}), 2).close()"
            run = subprocess.run(spaces[0].command("python3", "-c", code), capture_output=True, text=True, check=False)
            assert (run.returncode == 0) == reached, run.stderr
        assert spaces[0].processes() == [spaces[0].holder.pid]
        spaces[0].kill()
        assert spaces[0].processes() == []


@on_demand
def test_the_farm(root, tmp_path):
    result = tmp_path / "result.json"
    command = ["make", "farm", "BUILDERS=2", "PROJECT=tests/projects/pybind11-aten", f"JSON={result}"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    rows = json.loads(result.read_text())["rows"]
    assert [(row["killed"], row["lies"]) for row in rows] == [(False, False), (True, False), (False, True)]
