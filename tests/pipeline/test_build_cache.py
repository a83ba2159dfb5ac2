"""make wheel CACHE=...: what of it a build can reach, and what it says at the end. The cache itself is ccache's."""

import contextlib
import io
import os
import re
import socket
import socketserver
import subprocess
import threading
import time
from pathlib import Path

import beside
import build_cache
import common
import make_wheel
import object_store
import project_run
import pytest
import relay
from common import Failure
from image import memory

KEY = b"ccache:" + b"0a" * 20
KEYS = ["0a" * 20, "1b" * 20]
RUN = f"{1:020d}-{2:08x}.json"


class Server(socketserver.ThreadingTCPServer):
    """Enough of Redis: strings, hashes, one user. Keeps what it was asked."""

    allow_reuse_address = daemon_threads = True

    def __init__(self):
        self.values, self.hashes, self.asked, self.password = {}, {}, [], b""
        super().__init__(("127.0.0.1", 0), _Session)


class _Session(socketserver.StreamRequestHandler):
    def handle(self):
        known = not self.server.password
        while head := self.rfile.readline():
            words = []
            for _ in range(int(head[1:])):
                size = int(self.rfile.readline()[1:])
                words.append(self.rfile.read(size + 2)[:-2])
            self.server.asked.append(words)
            name, *rest = words
            if name == b"AUTH":
                known = rest[-1] == self.server.password
                answer = b"+OK\r\n" if known else b"-WRONGPASS invalid\r\n"
            elif not known:
                answer = b"-NOAUTH first\r\n"
            elif name == b"GET":
                value = self.server.values.get(rest[0])
                answer = b"$-1\r\n" if value is None else b"$%d\r\n%s\r\n" % (len(value), value)
            elif name == b"SET":
                if b"NX" not in rest or rest[0] not in self.server.values:
                    self.server.values[rest[0]] = rest[1]
                answer = b"+OK\r\n"
            elif name == b"HSET":
                self.server.hashes.setdefault(rest[0], {}).update(zip(rest[1::2], rest[2::2], strict=True))
                answer = b":1\r\n"
            elif name in (b"HGETALL", b"HKEYS"):
                values = self.server.hashes.get(rest[0], {})
                flat = [word for item in values.items() for word in item[: 1 if name == b"HKEYS" else 2]]
                answer = b"*%d\r\n" % len(flat) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in flat)
            else:
                answer = b"+OK\r\n"
            self.wfile.write(answer)


@pytest.fixture
def server():
    with Server() as running:
        threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True).start()
        yield running
        running.shutdown()


def address(server, database=0):
    return f"redis://127.0.0.1:{server.server_address[1]}/{database}"


@pytest.fixture(params=["folder", "redis", "s3"])
def cache(request, tmp_path):
    """An empty store of each kind."""
    if request.param == "redis":
        return object_store.parse(address(request.getfixturevalue("server")))
    if request.param == "s3":
        request.getfixturevalue("s3")
    return object_store.parse("s3://objects/team/x" if request.param == "s3" else str(tmp_path / "objects"))


@pytest.fixture
def ask(server, tmp_path):
    """ask(*words): what a build gets to see of the server, with its connection kept; None if it was hung up."""
    running = relay.Relay(tmp_path / "socket", object_store.parse(address(server, 3)))
    running.start()

    def send(data):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(tmp_path / "socket"))
            client.settimeout(10)
            client.sendall(data if isinstance(data, bytes) else object_store.spelled(data))
            return client.recv(4096) or None

    send.relay = running
    yield send
    running.stop()


def test_what_a_build_stores_another_finds(ask, server):
    assert ask([b"GET", KEY]) == b"$-1\r\n"
    assert ask([b"SET", KEY, b"an\r\nobject"]) == b"+OK\r\n"
    assert ask([b"GET", KEY]) == b"$10\r\nan\r\nobject\r\n"
    assert [b"SELECT", b"3"] in server.asked
    assert (ask.relay.received > 10, ask.relay.sent > 10, ask.relay.refused) == (True, True, 0)


@pytest.mark.parametrize(
    "request_", [[b"FLUSHALL"], [b"CONFIG", b"SET", b"dir"], [b"GET", b"secrets"], [b"SET", b"compile:seconds", b"x"],
                 [b"SET", KEY, b"x", b"EX", b"1"], [b"EVAL", b"x", b"0"], [b"SET", KEY], [], b"FLUSHALL\r\n", b"*1\r\n$-1\r\n",
                 b"*2\r\n$3\r\nGETxx$47\r\n", b"*99999999999\r\n"],
)  # fmt: skip
def test_a_build_reaches_nothing_but_objects(ask, server, request_):
    assert ask(request_) is None
    assert all(words[0] == b"SELECT" for words in server.asked)
    assert ask.relay.refused == 1


def test_reads_a_request_in_pieces():
    stream = io.BufferedReader(io.BytesIO(object_store.spelled([b"SET", KEY, b"x" * 100_000]) * 2), 17)
    assert relay.read_request(stream)[2] == b"x" * 100_000
    assert relay.read_request(stream)[1] == KEY
    assert relay.read_request(stream) is None


def test_passwords_stay_outside(server, monkeypatch):
    server.password = b"secret"
    monkeypatch.setenv("CACHE_USER", "builder")
    monkeypatch.setenv("CACHE_PASSWORD", "secret")
    cache = object_store.parse(address(server))
    assert cache.durations() == {}
    assert [b"AUTH", b"builder", b"secret"] in server.asked
    assert "CACHE_PASSWORD" not in os.environ, "children of make would have it"
    assert "secret" not in repr(cache)
    monkeypatch.setenv("CACHE_PASSWORD", "wrong")
    with pytest.raises(Failure, match="cannot be used: it says: WRONGPASS") as failure:
        object_store.parse(address(server)).durations()
    assert "wrong" not in str(failure.value)


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("redis://me:hid/den@host", "set CACHE_USER and CACHE_PASSWORD"),
        ("redis://me:hidden@host", "set CACHE_USER and CACHE_PASSWORD"),
        ("redis://", "must be a folder, redis://"),
        ("redis://host/x", "must be a folder, redis://"),
        ("redis://host:99999", "CACHE=redis://host:99999: Port out of range"),
    ],
)
def test_refuses_another_cache(wanted, said):
    with pytest.raises(Failure, match=re.escape(said)) as failure:
        object_store.parse(wanted)
    assert "hidden" not in str(failure.value)


def test_no_server_is_said_before_anything_is_built():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        cache = object_store.parse(f"redis://127.0.0.1:{free.getsockname()[1]}")
    with pytest.raises(Failure, match=r"cannot be used: .*leave CACHE out"):
        cache.durations()


def test_durations_are_kept_beside_the_objects(cache):
    cache.keep({"myops: a.o": 2.5, "myops: b.o": 1.0})
    cache.keep({"myops: a.o": 3.0})
    assert cache.durations() == {"myops: a.o": 3.0, "myops: b.o": 1.0}


@pytest.mark.parametrize("cache", ["folder", "s3"], indirect=True)
def test_durations_of_others_are_numbers(cache):
    cache.write(RUN, '{"seconds": {"a": "x", "b": -1, "c": [1], "d": NaN, "e": 2}}')
    assert cache.durations() == {"e": 2.0}


def test_who_stored_an_object_is_kept_beside_it(cache):
    assert cache.builders() == {}
    cache.keep({}, {KEYS[0]: "ann@ci-1", KEYS[1]: "ann@ci-1"})
    cache.keep({"myops: a.o": 1.0}, {KEYS[0]: "bob@ci 2"})
    assert {key: sorted(who) for key, who in cache.builders().items()} == {
        KEYS[0]: ["ann@ci-1", "bob@ci 2"],
        KEYS[1]: ["ann@ci-1"],
    }
    assert cache.durations() == {"myops: a.o": 1.0}


def test_another_machine_knows_how_much_memory_compilers_take(cache, tmp_path, monkeypatch):
    """So it starts as many as it has memory for, the first time."""
    monkeypatch.setattr(common, "CACHE", tmp_path)
    monkeypatch.setattr(build_cache, "binary", lambda target: target.touch())
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    first.write_text('{"own.cpp": 1e9}')
    with build_cache.shared(cache, "x", "image", None, first):
        first.write_text('{"own.cpp": 1e9, "new.cpp": 3e9, "bad.cpp": "x"}')  # as a build does
    assert cache.peaks() == {"x: new.cpp": 3000.0}
    second.write_text('{"new.cpp": 2e9}')
    cache.keep({}, peaks={"x: old.cpp": 4000.0, "another: y.cpp": 7.0})
    with build_cache.shared(cache, "x", "image", None, second):
        assert memory.read(second) == {"old.cpp": 4e9, "new.cpp": 2e9}, "what was measured here counts"
    assert cache.peaks()["x: new.cpp"] == 3000.0


def test_who_lies_about_memory_can_only_slow_a_build(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sysconf", {"SC_PHYS_PAGES": 8_000_000, "SC_PAGE_SIZE": 1000}.get)
    (file := tmp_path / "memory.json").write_text('{"own.cpp": 1e9}')
    claimed = {"own.cpp": 5.0, "small.cpp": 0.001, "large.cpp": 999_999.0}
    found = build_cache.add_peaks(file, claimed)
    assert found == memory.read(file) == {"own.cpp": 1e9, "small.cpp": memory.FIRST_GUESS, "large.cpp": 8e9}


def test_a_claim_of_others_cannot_write_to_a_terminal():
    words = [f"{KEYS[0]} \x1b]0;x\x07ann", f"{KEYS[1]} ", "0a ann", f"{KEYS[1]}\n bob", f"{KEYS[1]} {'x' * 5000}"]
    found = beside.claims(words)
    assert found.keys() == set(KEYS)
    assert all(who.isprintable() and len(who) <= 120 for names in found.values() for who in names)


@pytest.mark.parametrize("name", ["compiles", "plans"])
def test_a_link_that_a_build_left_beside_the_objects_is_not_followed(tmp_path, monkeypatch, name):
    monkeypatch.setattr(beside, "MOST_RUNS", 1)
    cache = object_store.parse(str(tmp_path / "objects"))
    (tmp_path / "victim").mkdir()
    for file in (RUN, "plan.json", "mine"):
        (tmp_path / "victim" / file).write_text("mine")
        os.utime(tmp_path / "victim" / file, (0, 0))
    (tmp_path / "objects" / name).symlink_to(tmp_path / "victim")
    with pytest.raises(Failure, match="is a link, where a folder of the cache belongs"):
        cache.keep({"x: a.o": 1.0}, {KEYS[0]: "ann"}) if name == "compiles" else cache.first("plan", {"a.o": 1.0})
    assert {path.name: path.read_text() for path in (tmp_path / "victim").iterdir()} == dict.fromkeys(
        (RUN, "plan.json", "mine"), "mine"
    )


def test_a_folder_puts_what_builds_left_together(tmp_path, monkeypatch):
    monkeypatch.setattr(beside, "MOST_RUNS", 3)
    cache = object_store.parse(str(tmp_path / "objects"))
    for number in range(8):
        cache.keep({f"x: {number}.o": number + 1.0}, {KEYS[0]: f"builder{number}"})
        assert len(cache.runs()) <= 3
    assert cache.durations() == {f"x: {number}.o": number + 1.0 for number in range(8)}
    assert sorted(cache.builders()[KEYS[0]]) == [f"builder{number}" for number in range(8)]


def test_builders_that_start_later_divide_alike(cache):
    """The first one's compiles have been timed by then."""
    assert cache.first("plan", {"a.o": 1.0}) == {"a.o": 1.0}
    assert cache.first("plan", {"a.o": 9.0, "b.o": 2.0}) == {"a.o": 1.0}
    assert cache.first("another", {"a.o": 9.0}) == {"a.o": 9.0}


def test_a_plan_of_a_folder_holds_for_a_day(tmp_path):
    cache, plan = object_store.parse(str(tmp_path / "objects")), tmp_path / "objects/plans/plan.json"
    cache.first("plan", {"a.o": 1.0})
    plan.write_text("[" * 100_000)
    assert cache.first("plan", {"a.o": 9.0}) == {}
    os.utime(plan, (0, 0))
    assert cache.first("plan", {"a.o": 3.0}) == {"a.o": 3.0}
    assert [path.name for path in plan.parent.iterdir() if path.name.startswith(".")] == []


def test_a_plan_that_others_wrote_into_a_server_is_numbers(server):
    server.values[b"compile:plan:plan"] = b"[]"
    assert object_store.parse(address(server)).first("plan", {}) == {}


class Hostile(socketserver.ThreadingTCPServer):
    """Answers every command with the same bytes, and then, if asked to, with one more every now and then."""

    allow_reuse_address = daemon_threads = True

    def __init__(self, answer, trickle=0.0):
        self.answer, self.trickle = answer, trickle
        super().__init__(("127.0.0.1", 0), _Hostile)


class _Hostile(socketserver.StreamRequestHandler):
    def handle(self):
        with contextlib.suppress(OSError):
            for number in range(3):  # SELECT, HGETALL
                if not self.request.recv(1000):
                    return
                self.wfile.write(self.server.answer if number else b"+OK\r\n")
                while number and self.server.trickle:
                    time.sleep(self.server.trickle)
                    self.wfile.write(b"1")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"*1\r\n" * 3000, "not as a Redis server"),
        (b"*999999999\r\n", "not as a Redis server"),
        (b"$999999999\r\n", "not as a Redis server"),
        (b"-no\x1b]0;title\x07\r\n", r"it says: no\\x1b\]0;title\\x07"),
    ],
)
def test_a_hostile_server_is_one_line(answer, said):
    with Hostile(answer) as running:
        threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True).start()
        with pytest.raises(Failure, match=said) as failure:
            object_store.parse(address(running)).durations()
        running.shutdown()
    assert str(failure.value).isprintable()


def test_a_server_that_never_ends_its_answer(monkeypatch):
    monkeypatch.setattr(object_store, "SECONDS_TO_ANSWER", 0.5)
    with Hostile(b"$", trickle=0.05) as running:
        threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True).start()
        began = time.monotonic()
        with pytest.raises(Failure, match=r"cannot be used: (timed out|its answer was not complete after 0\.5 s)"):
            object_store.parse(address(running)).durations()
        assert time.monotonic() - began < 5
        running.shutdown()


def test_what_others_write_into_a_folder_is_no_durations(tmp_path):
    cache = object_store.parse(str(tmp_path / "objects"))
    listed = tmp_path / "objects/compiles" / RUN
    listed.parent.mkdir()
    for nonsense in ("[" * 100_000, "[]", '{"seconds": [1], "stored": 2}'):
        listed.write_text(nonsense)
        assert (cache.durations(), cache.builders()) == ({}, {})
    listed.write_text('{"seconds": {"a": 1' + "0" * 400 + ', "b": 2}}')
    assert cache.durations() == {"b": 2.0}
    listed.unlink()
    os.mkfifo(listed)
    assert (cache.durations(), cache.builders()) == ({}, {}), "must not wait for a writer"


def test_a_folder_that_everybody_may_write_is_refused(tmp_path):
    (tmp_path / "objects").mkdir()
    (tmp_path / "objects").chmod(0o1777)
    with pytest.raises(Failure, match=r"may be written by everybody .*: chmod o-w /"):
        object_store.parse(str(tmp_path / "objects"))
    (tmp_path / "objects").chmod(0o2775)
    assert object_store.parse(str(tmp_path / "objects")).path == tmp_path / "objects"


def test_each_project_has_a_cache_of_its_own(tmp_path, monkeypatch):
    """Whose code is built can write objects that the next build of another project would take."""
    monkeypatch.setattr(make_wheel, "CACHE", tmp_path / "cache")
    mounted = []
    for name in ("ours", "hostile", "ours"):
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / "pyproject.toml").touch()
        with make_wheel.own_cache(project_run.load(tmp_path / name), "image") as (variables, (option,)):
            assert variables["CCACHE_DIR"] == "/ccache"
            mounted.append(option)
    assert mounted[0] == mounted[2] != mounted[1]
    assert all(Path(option.removeprefix("--volume=").removesuffix(":/ccache")).is_dir() for option in mounted)


def test_a_file_that_another_machine_removes_is_no_error(tmp_path, monkeypatch):
    cache = object_store.parse(str(tmp_path / "objects"))
    for name in ("kept", "gone"):
        (tmp_path / "objects" / name).write_bytes(b"12345")
    (tmp_path / "objects/link").symlink_to("kept")
    is_file = type(tmp_path).is_file

    def removing(path):
        there = is_file(path)
        if path.name == "gone":
            path.unlink()
        return there

    monkeypatch.setattr(type(tmp_path), "is_file", removing)
    assert cache.size() == 5 + len("kept")


def test_notes_are_files(tmp_path):
    """Those of a build of strangers: a link would be followed out here, a pipe would never end."""
    (tmp_path / "log").mkdir()
    (tmp_path / "secret").write_text("took 1\nobject secret\nstatus 0\n")
    (tmp_path / "log/link").symlink_to(tmp_path / "secret")
    os.mkfifo(tmp_path / "log/pipe")
    (tmp_path / "log/folder").mkdir()
    assert build_cache.read_notes(tmp_path / "log") == []


def test_a_build_may_remove_its_notes_or_lead_them_elsewhere(tmp_path, capsys):
    log = tmp_path / "log"
    progress = build_cache.Progress(log, {})
    progress.start()
    time.sleep(0.1)
    progress.stop()
    assert build_cache.read_notes(log) == []
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/note").write_text("took 1\nobject a.o\nstatus 0\n")
    log.symlink_to("elsewhere")
    assert build_cache.read_notes(log) == []
    assert capsys.readouterr() == ("", "")


@pytest.mark.skipif(os.geteuid() != 0, reason="another user is needed")
def test_no_other_user_reaches_the_relay(server, tmp_path, monkeypatch):
    """It is logged in to the server: whoever reaches its socket writes objects."""
    monkeypatch.setattr(common, "CACHE", tmp_path)
    monkeypatch.setattr(build_cache, "binary", lambda target: target.touch())
    for folder in (tmp_path, *tmp_path.parents[:-2]):
        folder.chmod(0o755)
    with build_cache.shared(object_store.parse(address(server)), "x", "image") as (_, options):
        socket_path = tmp_path / "shared/redis.sock"
        assert socket_path.exists()
        assert f"--volume={tmp_path / 'shared'}:/cache" in options
        if (other := os.fork()) == 0:
            os.setgroups([])
            os.setgid(4321)
            os.setuid(4321)
            with contextlib.suppress(PermissionError), socket.socket(socket.AF_UNIX) as client:
                client.connect(str(socket_path))
                os._exit(1)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(other, 0)[1]) == 0, "another user reached the relay"


def test_the_last_line_counts_compiles(tmp_path):
    notes = {
        "hit": f"# a.cpp\ndirect_cache_hit\nremote_storage_hit\ntook 100\nobject a.o\nstatus 0\nkey {KEYS[0]}\nsha256 {'c' * 64}\n",
        "miss": "# b.cpp\ncache_miss\nremote_storage_write\ntook 4000\nobject b.o\nstatus 0\nkey 0a\nsha256 x\n",
        "unwritten": "# b.cpp\ncache_miss\nremote_storage_error\ntook 4000\nobject e.o\nstatus 0\n",
        "uncached": "took 5000\nobject c.o\nstatus 0\n",
        "failed": "# d.cpp\ncompile_failed\ntook 10\nobject d.o\nstatus 1\n",
        "killed": "# e.cpp\n",
    }
    for name, text in notes.items():
        (tmp_path / name).write_text(text)
    compiles = build_cache.read_notes(tmp_path)
    assert {c.object: (c.key, c.sha256) for c in compiles} == {
        "a.o": (KEYS[0], "c" * 64),
        "b.o": ("", ""),
        "c.o": ("", ""),
        "e.o": ("", ""),
    }
    assert {c.object: c.status for c in build_cache.read_notes(tmp_path, failed=True)}["d.o"] == 1
    line = build_cache.summary("redis://host", compiles, {"a.o": 30.1, "b.o": 3.0}, "1.0 MB read")
    assert line == (
        "cache redis://host: 1 of 4 objects found, 1 compiled and stored, 2 compiled only; 1.0 MB read; 30 s of compilers saved"
    )
    assert build_cache.summary("x", compiles[:], {}, "").endswith(
        "0 s of compilers saved, and those of 1 that nobody timed"
    )


def test_progress_says_who_compiled_what_and_how_much_is_left(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("CACHE_BUILDER", "ann")
    progress = build_cache.Progress(tmp_path, {"b.o": 3.0, "c.o": 4.0, "other.o": 99.0}, ["a.o", "b.o", "c.o", "d.o"])

    def note(name, text):
        (tmp_path / name).write_text(text)
        progress.look()
        return capsys.readouterr().out

    assert note("1", "# a.cpp\n") == "", "it has not ended"
    done = "cache_miss\ntook 8150\nobject a.o\nstatus 0\n"
    assert note("1", done) == "ann: a.o, 8.2 s; 1 of 4, 7 s of compilers left, 1 that nobody timed\n"
    assert note("2", "direct_cache_hit\ntook 3\nobject b.o\nstatus 0\n") == "", "it was not compiled"
    assert note("3", "took 5\nobject c.o\nstatus 1\n") == "", "its compiler says why"
    assert note("4", "took 1000\nobject d.o\nstatus 0\n") == "ann: d.o, 1.0 s; 4 of 4\n"
    said = note("5", "took 1000\nobject \x1b]0;x\x07e.o\nstatus 0\n")
    assert said.rstrip("\n").isprintable()
    whole = build_cache.Progress(tmp_path, {"b.o": 3.0})
    whole.start()
    whole.stop()
    assert capsys.readouterr().out.splitlines()[:2] == ["ann: a.o, 8.2 s", "ann: d.o, 1.0 s"]


def test_only_make_wheel_takes_a_cache(root):
    """And what fills or audits one. What reproduces, verifies or publishes a wheel compiles all of it."""
    lines = [line for line in (root / "Makefile").read_text().splitlines() if "$(CACHE)" in line]
    assert [line.split()[1:3] for line in lines] == [
        ["docker/make_wheel.py", "wheel"],
        ["docker/objects.py", "objects"],
        ["docker/objects.py", "audit-cache"],
    ]
    users = {
        path.name
        for path in (root / "docker").glob("*.py")
        if re.search(r"import.* (build_cache|object_store)\b|from (build_cache|object_store) ", path.read_text())
    }
    assert users == {"build_cache.py", "make_wheel.py", "objects.py", "relay.py"}


@pytest.fixture
def compiler(root, tmp_path):
    """compiler(*command): runs the wrapper with a `ccache` that shows its variables, and returns them and the note."""
    (tmp_path / "log").mkdir()
    real = tmp_path / "ccache"
    real.write_text('#!/bin/sh\nenv\nexit "${EXIT:-0}"\n')
    real.chmod(0o755)
    script = (root / "docker/cached-compiler.sh").read_text().replace("/cache/", f"{tmp_path}/")

    def run(*command, **variables):
        for note in (tmp_path / "log").iterdir():
            note.unlink()
        env = {"PATH": os.environ["PATH"], "CCACHE_COMPILERCHECK": "string:image"} | variables
        done = subprocess.run(
            ["sh", "-c", script, "ccache", *command], env=env, capture_output=True, text=True, check=False
        )
        notes = [note.read_text() for note in (tmp_path / "log").iterdir()]
        return done.returncode, dict(line.split("=", 1) for line in done.stdout.splitlines()), "".join(notes)

    return run


def test_the_wrapper_notes_each_compile(compiler):
    status, variables, note = compiler("/usr/bin/g++", "-c", "a b.cpp", "-o", "out/a b.o", EXIT="3")
    assert status == 3
    assert re.fullmatch(r"took \d+\nobject out/a b\.o\nstatus 3\n", note)
    assert variables["CCACHE_COMPILERCHECK"].split() == ["string:image", "/usr/bin/g++"]
    assert not {"CCACHE_DEPEND", "CCACHE_DISABLE", "CCACHE_EXTRAFILES"} & variables.keys()
    assert compiler("--print-stats")[2] == ""


def test_the_wrapper_lets_every_header_of_a_project_decide_for_nvcc(compiler, tmp_path):
    project = tmp_path / "project"
    (project / "csrc").mkdir(parents=True)
    for name in ("csrc/k.cu", "csrc/k.cuh", "csrc/a.cpp"):
        (project / name).write_text("")
    command = ("/opt/cuda13/bin/nvcc", "-c", "k.cu", "-o", "k.o")
    _, variables, _ = compiler(*command, "-MD", "-MF", "k.d", CACHE_SOURCE=str(project), NVCC_APPEND_FLAGS="-objtemp")
    assert variables["CCACHE_DEPEND"] == "1"
    assert variables["CCACHE_EXTRAFILES"] == f"{project}/csrc/k.cu:{project}/csrc/k.cuh"
    assert variables["CCACHE_COMPILERCHECK"].split() == ["string:image", command[0], "-objtemp"]
    _, variables, _ = compiler(*command, "-MD", CACHE_SOURCE=str(project), CCACHE_EXTRAFILES="mine")
    assert variables["CCACHE_EXTRAFILES"] == "mine"
    plain = tmp_path / "nvcc"
    plain.write_text("#!/bin/sh\necho plain=yes\n")
    plain.chmod(0o755)
    assert compiler(str(plain), *command[1:], CACHE_SOURCE=str(project))[:2] == (0, {"plain": "yes"})
