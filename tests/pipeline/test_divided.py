"""make objects SHARD=i/n and make audit-cache: who compiles what, what a build without its objects does, and who is named."""

import itertools
import os
import random
import re
import shutil
import subprocess
import sys
from types import SimpleNamespace

import build_cache
import divided
import make_wheel
import object_store
import objects
import pytest
import steps
from common import Failure
from divided import Compile, Pass
from image.project import Pair


@pytest.mark.parametrize(
    "wanted", ["", "x", "0/3", "4/3", "1/0", "-1/3", "1/3/3", "1 /3", "\u0661/\u0663", "1/99999", "1/3\n"]
)
def test_refuses_a_bad_shard(wanted):
    with pytest.raises(Failure, match="SHARD must be i/n") as failure:
        divided.read_shard(wanted)
    assert str(failure.value).isprintable()


def test_reads_a_shard():
    assert [divided.read_shard(word) for word in ("1/1", "2/4", "4/4")] == [(1, 1), (2, 4), (4, 4)]


@pytest.mark.parametrize("wanted", ["", "0", "-1", "x", "1.5", "1000000"])
def test_refuses_a_bad_count(wanted):
    with pytest.raises(Failure, match="K must be a number"):
        divided.read_count(wanted)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["objects", "--shard=4/3", "--cache=objects"], "SHARD must be i/n"),
        (["objects", "--shard=1/3"], "make objects SHARD=1/3 needs a cache"),
        (["audit-cache"], "make audit-cache needs a cache"),
        (["audit-cache", "--count=none", "--cache=objects"], "K must be a number"),
    ],
)
def test_says_what_is_wrong_before_anything_is_built(root, tmp_path, arguments, said):
    env = os.environ | {"CUSTOMOPS_CACHE": str(tmp_path / "cache")}
    command = [sys.executable, root / "docker/objects.py", *arguments]
    run = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert re.fullmatch(rf"error: {re.escape(said)}.*\n", run.stderr)
    assert [path.name for path in tmp_path.rglob("*")] == ["cache", "lock"]


def test_every_object_is_in_one_part():
    chance = random.Random(0)
    for parts in range(1, 9):
        names = [f"{number}.o" for number in range(chance.randrange(30))]
        seconds = {name: chance.uniform(0.1, 60) for name in names if chance.random() < 0.7}
        shares = divided.divide(names, seconds, parts)
        assert len(shares) == parts
        assert sorted(itertools.chain(*shares)) == sorted(names)
        assert divided.divide(reversed(names), seconds, parts) == shares, "each builder must get the same answer"


def test_parts_are_balanced():
    seconds = {"long.o": 60.0} | {f"{number}.o": 10.0 for number in range(12)}
    shares = divided.divide(seconds, seconds, 3)
    assert shares[0] == ["long.o"]
    assert [sum(seconds[name] for name in share) for share in shares] == [60, 60, 60]
    assert sorted(len(share) for share in divided.divide(map(str, range(10)), {}, 3)) == [3, 3, 4], "nothing timed yet"
    # One that nobody timed counts as the mean of the others.
    assert divided.divide(["a", "b", "new"], {"a": 1.0, "b": 9.0}, 2) == [["b"], ["new", "a"]]


def test_a_build_that_calls_no_ccache_cannot_be_divided():
    with pytest.raises(Failure, match=r"/x calls no compiler through ccache, so its objects cannot be divided"):
        divided.listed(Pass("list"), "/x")


def test_what_did_not_compile_is_named():
    divided.check_compiled(Pass("some", compiles=[Compile("a.o", False, True, 1)]))
    with pytest.raises(Failure, match=r"1 objects could not be compiled, see above: b\.o"):
        divided.check_compiled(Pass("some", compiles=[Compile("b.o", False, False, 1, status=2)]))


@pytest.fixture
def farm(root, tmp_path):
    """farm(what, wanted, *command): a compile as docker/divided-compiler.sh answers it, with the real ccache and a folder of objects."""
    tools = tmp_path / "tools"
    tools.mkdir()
    build_cache.binary(tools / "ccache")
    for name, script in (("wrapper", "cached-compiler.sh"), ("divider", divided.COMPILER)):
        (tools / name).write_text((root / "docker" / script).read_text().replace("/cache/", f"{tools}/"))
        (tools / name).chmod(0o755)
    (tmp_path / "source").mkdir()

    def run(what, wanted, *commands, folder="source"):
        shutil.rmtree(tools / "log", ignore_errors=True)
        (tools / "log").mkdir()
        (tools / "wanted").write_text("".join(f"{name}\n" for name in wanted))
        env = {
            "PATH": os.environ["PATH"],
            "CCACHE_DIR": str(tmp_path / "counters"),
            "CCACHE_REMOTE_ONLY": "1",
            "CCACHE_REMOTE_STORAGE": f"file:{tmp_path / 'objects'}",
            "CCACHE_COMPILERCHECK": "string:image",
            "CACHE_PASS": what,
        }
        run.status = [
            subprocess.run([tools / "divider", *command], env=env, cwd=tmp_path / folder, check=False).returncode
            for command in commands
        ]
        return Pass(what, wanted, build_cache.read_notes(tools / "log", failed=True))

    return run


@pytest.fixture
def compiles(tmp_path):
    """Commands that compile three sources."""
    commands = []
    for number in range(3):
        (tmp_path / "source").mkdir(exist_ok=True)
        (tmp_path / f"source/{number}.c").write_text(f"int f{number}(void) {{ return {number}; }}\n")
        commands.append(
            [
                "gcc",
                "-c",
                *(["-flto"] if number else []),
                f"{number}.c",
                "-o",
                f"{number}.o",
                "-MD",
                "-MF",
                f"{number}.d",
            ]
        )
    return commands


needs_gcc = pytest.mark.skipif(not shutil.which("gcc"), reason="gcc is not installed")


@needs_gcc
def test_a_list_compiles_nothing(farm, compiles, tmp_path):
    (tmp_path / "source/0.c").write_text("this is no C\n")
    done = farm("list", [], *compiles)
    assert divided.listed(done, "x") == ["0.o", "1.o", "2.o"]
    assert farm.status == [0, 0, 0]
    assert not (tmp_path / "objects").exists()
    assert (tmp_path / "source/0.d").read_text() == "0.o:\n"
    linked = tmp_path / "source/program"  # a build may run what it has linked
    objects_made = [tmp_path / f"source/{number}.o" for number in range(3)]
    subprocess.run(["gcc", "-o", linked, *objects_made], check=True)
    assert subprocess.run([linked], check=False).returncode == 0
    subprocess.run(["gcc", "-shared", "-Wl,--no-undefined", "-o", linked, *objects_made], check=True)


@needs_gcc
def test_a_list_answers_nvcc_and_leaves_other_calls_alone(farm, compiles, tmp_path):
    nvcc = tmp_path / "nvcc"
    nvcc.write_text('#!/bin/sh\necho "$@" >called\n')
    nvcc.chmod(0o755)
    done = farm("list", [], [nvcc, "-dc", "0.cu", "-o", tmp_path / "source/cuda/0.o"])
    assert (done.compiles, farm.status) == ([Compile("cuda/0.o", False, False, 0)], [1]), "there is no such folder"
    (tmp_path / "source/cuda").mkdir()
    farm("list", [], [nvcc, "-dc", "0.cu", "-o", tmp_path / "source/cuda/0.o"])
    assert (farm.status, (tmp_path / "source/cuda/0.o").read_bytes()[:4]) == ([0], b"\x7fELF")
    assert not (tmp_path / "source/called").exists()
    assert farm("list", [], [nvcc, "--version"], ["--version"]).compiles == []
    assert (farm.status, (tmp_path / "source/called").read_text()) == ([0, 0], "--version\n")
    scratch = tmp_path / "source/CMakeFiles/CMakeScratch/TryCompile-x"
    scratch.mkdir(parents=True)
    command = ["sh", "-c", 'cd "$0" && exec "$@"', scratch, tmp_path / "tools/divider", *compiles[0]]
    run = subprocess.run(
        command, env={"PATH": os.environ["PATH"], "CACHE_PASS": "list"}, check=False, capture_output=True
    )
    assert b"0.c" in run.stderr, "CMake asks what the compiler can do, and gets its answer"


@needs_gcc
def test_a_part_compiles_what_it_names(farm, compiles, tmp_path):
    done = farm("some", ["0.o", "2.o"], *compiles)
    assert sorted(c.object for c in done.compiles if c.stored) == ["0.o", "2.o"]
    assert all(re.fullmatch("[0-9a-f]{40}", c.key) and re.fullmatch("[0-9a-f]{64}", c.sha256) for c in done.compiles)
    for c in done.compiles:
        assert (tmp_path / "objects" / c.key[:2] / c.key[2:]).is_file()
    looked = farm("look", [], *compiles)
    found, absent = divided.present(looked)
    assert (sorted(c.object for c in found), absent) == (["0.o", "2.o"], 1)
    assert [c.sha256 for c in looked.compiles if c.object == "1.o"] == [""], "who looks compiles nothing"
    (tmp_path / "source/0.c").write_text("this is no C\n")
    assert [c.status != 0 for c in farm("some", ["0.o"], compiles[0]).compiles] == [True]
    assert farm.status != [0], "its build must fail"


@needs_gcc
def test_the_folder_of_a_build_is_in_no_object(farm, compiles, tmp_path):
    """Backends build in a temporary folder, and pybind11 with link-time optimisation."""
    digests = []
    for what in ("some", "again"):
        (tmp_path / what).mkdir()
        flags = ["-flto", "-O2", f"-ffile-prefix-map={tmp_path}=."]
        command = ["gcc", *flags, "-c", tmp_path / "source/1.c", "-o", "1.o"]
        digests += [c.sha256 for c in farm(what, ["1.o"], command, folder=what).compiles]
    assert re.fullmatch("[0-9a-f]{64}", digests[0])
    assert digests == [digests[0]] * 2


@needs_gcc
def test_objects_that_were_swapped_are_found(farm, compiles, tmp_path):
    names = ["0.o", "1.o", "2.o"]
    stored = {c.object: tmp_path / "objects" / c.key[:2] / c.key[2:] for c in farm("some", names, *compiles).compiles}
    before = {path: path.read_bytes() for path in stored.values()}
    found, absent = divided.present(farm("look", [], *compiles))
    assert (len(found), absent) == (3, 0)
    assert divided.differing(found, farm("again", names, *compiles)) == ([], [])
    stored["0.o"].write_bytes(before[stored["1.o"]])
    stored["1.o"].write_bytes(before[stored["0.o"]])
    found, _ = divided.present(farm("look", [], *compiles))
    again = farm("again", names, *compiles)
    differ, missing = divided.differing(found, again)
    assert (sorted(c.object for c, _ in differ), missing) == (["0.o", "1.o"], [])
    assert {c.key for c, _ in differ} == {stored[name].parent.name + stored[name].name for name in ("0.o", "1.o")}
    assert before[stored["2.o"]] == stored["2.o"].read_bytes(), "an audit writes nothing"


@needs_gcc
@pytest.mark.parametrize("hostile", [b"", b"\xcc\xac" + b"\xff" * 500, b"x" * 1_000_000])
def test_what_is_no_object_is_not_there(farm, compiles, tmp_path, hostile):
    for c in farm("some", ["0.o"], compiles[0]).compiles:
        (tmp_path / "objects" / c.key[:2] / c.key[2:]).write_bytes(hostile)
    assert divided.present(farm("look", [], *compiles)) == ([], 3)
    assert farm.status == [0, 0, 0]


def test_a_name_of_two_objects_is_not_compared():
    twins = [Compile("a.o", True, False, 1, "0a" * 20, digest * 64) for digest in "bc"]
    found, absent = divided.present(
        Pass("look", compiles=[*twins, Compile("d.o", True, False, 1, "1b" * 20, "d" * 64)])
    )
    assert ([c.object for c in found], absent) == (["d.o"], 2)


@pytest.fixture
def options(monkeypatch, tmp_path):
    """options(build, cache): arguments of objects.py's steps, for a build that is build(part)."""

    def make(build, cache):
        monkeypatch.setattr(make_wheel, "build_in_container", lambda *arguments: build(arguments[-1]))
        monkeypatch.setattr(
            objects.Builds, "prepare", lambda self: setattr(self, "image", self.steps.next() or "image")
        )
        monkeypatch.setattr(objects, "fresh_folder", lambda name: None)
        monkeypatch.setattr(steps, "CACHE", tmp_path)
        monkeypatch.setattr(objects.pythons, "mounts", lambda *arguments: [])
        project = SimpleNamespace(folder=SimpleNamespace(name="x"), pyproject={"project": {"name": "x"}})
        pairs = [Pair("3.11", "2.13.0")]
        given = {"project": project, "pairs": pairs, "cache": cache, "archs": {}}
        return dict.fromkeys(("engine", "variant", "base", "machine"), "") | given

    return make


def test_builders_share_the_work_by_the_durations_of_the_first(options, tmp_path, capsys):
    cache = object_store.parse(str(tmp_path / "objects"))
    cache.keep({"x: long.o": 60.0, "another: 1.o": 500.0} | {f"x: {number}.o": 10.0 for number in range(6)})
    names = ["long.o", "new.o", *(f"{number}.o" for number in range(6))]
    compiled = []

    def build(part):
        part.compiles = [Compile(name, False, False, 0) for name in (names if part.what == "list" else part.wanted)]
        if part.what == "some":
            compiled.append(sorted(part.wanted))
            cache.keep({f"x: {name}": 1000.0 for name in part.wanted})  # what the next builder finds

    for number in range(1, 4):
        objects.compile_shard(options(build, cache), number, 3)
    objects.compile_shard(options(build, cache), 9, 9)
    assert compiled == [["long.o"], ["2.o", "4.o", "new.o"], ["0.o", "1.o", "3.o", "5.o"]]
    assert "SHARD=1/3: 1 of 8 objects, 60 s of compilers for 1 that were timed before" in capsys.readouterr().out


def test_a_part_that_does_not_compile_fails(options, tmp_path):
    def build(part):
        part.compiles = [Compile("a.o", False, False, 0, status=int(part.what == "some"))]

    with pytest.raises(Failure, match="1 objects could not be compiled"):
        objects.compile_shard(options(build, object_store.parse(str(tmp_path / "objects"))), 1, 1)


@pytest.fixture
def audit(options, capsys):
    """audit(cached, ours, who): what an audit says of a cache with these objects, name -> sha256; and how it ends."""

    def run(cached, ours, who=None, count=20):
        def build(part):
            digests = cached if part.what == "look" else {name: ours[name] for name in part.wanted if name in ours}
            part.compiles = [
                Compile(name, part.what == "look", False, 1.0, f"{number:040x}", digest)
                for number, (name, digest) in enumerate(sorted(digests.items()))
            ]

        said = ""
        try:
            objects.audit(options(build, SimpleNamespace(name="folder", builders=lambda: who or {})), count)
        except Failure as failure:
            said = str(failure)
        return capsys.readouterr().out, said

    return run


def test_an_audit_names_what_differs_and_who_stored_it(audit):
    cached = {"a.o": "1" * 64, "b.o": "2" * 64, "c.o": "3" * 64}
    out, failure = audit(cached, cached | {"b.o": "4" * 64}, {f"{1:040x}": ["ann@ci-1", "bob@ci-2"]})
    (line,) = [line for line in out.splitlines() if "differs" in line]
    for word in ("b.o differs", f"{1:040x}", "stored by ann@ci-1, bob@ci-2", "2" * 64, "4" * 64):
        assert word in line
    assert failure.startswith("1 of the objects of folder are not what their sources compile to")
    out, failure = audit(cached, cached)
    assert failure == ""
    assert "3 objects of folder are what their sources compile to" in out
    assert "3 objects" not in audit(cached, cached, count=2)[0].splitlines()[-1]


def test_an_audit_that_compared_nothing_fails(audit):
    assert "could not be compiled again" in audit({"a.o": "1" * 64}, {})[1]
    assert "none of the 1 objects of this project is in folder" in audit({"a.o": ""}, {"a.o": "1" * 64})[1]
    assert "calls no compiler through ccache" in audit({}, {})[1]
