"""`make verify`: which commits it builds, and that nothing of a commit runs on this machine."""

import json
import re
import subprocess
from pathlib import Path

import common
import engine
import images
import pytest
import record as record_module
import reproduce
import trust
import verify
from test_containers import build_image
from test_reproduce import PLANTS, PYPROJECT, SETUP

NAME = "customops-0.1.0+cpu-py3-none-any.whl"
ENGINE = engine.choose("auto")[0]


def make_wheel(folder, commit, base="debian", dirty=False, code=b"answer = 42\n", **more):
    """A small file that stands for a wheel: a build record, and a file."""
    source = {"commit": commit, "dirty": dirty, "date_epoch": 1700000000}
    contents = {
        "customops/__init__.py": code,
        "customops-0.1.0+cpu.dist-info/build.json": json.dumps({"source": source, "base": base} | more).encode(),
    }
    folder.mkdir(exist_ok=True)
    record_module.pack(folder / NAME, contents, 1700000000)
    return folder / NAME


@pytest.fixture
def git(tmp_path, monkeypatch):
    """git(*arguments) in a project of one commit on main, which verify takes for its own."""
    project = tmp_path / "project"
    (project / "docker").mkdir(parents=True)

    def run(*arguments):
        identity = ("-c", "user.name=t", "-c", "user.email=t@localhost")
        command = ["git", "-C", project, *identity, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    run("init", "--quiet", "--initial-branch=main")
    (project / "file").write_text("first\n")
    run("add", ".")
    run("commit", "--quiet", "--message=first")
    monkeypatch.setattr(verify, "ROOT", project)
    monkeypatch.setattr(common, "CACHE", tmp_path / "cache")
    run.project = project
    return run


@pytest.fixture
def stray(git):
    """A commit on no branch, whose build script copies a file into dist/."""
    git("checkout", "--quiet", "--detach")
    script = "import pathlib; pathlib.Path('ran').touch()"
    (git.project / "docker/make_wheel.py").write_text(script)
    git("add", ".")
    git("commit", "--quiet", "--message=stray")
    commit = git("rev-parse", "HEAD")
    git("checkout", "--quiet", "main")
    return commit


@pytest.fixture
def run_verify(monkeypatch):
    """run_verify(wheel, *options, again=WHEEL): with an engine that answers, and a build that gives `again`."""

    def run(wheel, *options, again=None):
        monkeypatch.setattr(verify.engines, "choose", lambda wanted: ("host" if again is None else "none", ""))
        monkeypatch.setattr(verify, "report", lambda engine, image, *wheels: reproduce.report("host", image, *wheels))
        if again:
            monkeypatch.setattr(verify, "rebuild", lambda record, engine, repository: ("image", again))
        monkeypatch.setattr("sys.argv", ["verify.py", *options, str(wheel)])
        verify.main()

    return run


def test_a_commit_on_no_branch_is_not_built(git, stray, run_verify, tmp_path):
    wheel = make_wheel(tmp_path / "dist", stray)
    with pytest.raises(common.Failure, match=rf"commit {stray} is on no trusted ref .*TRUST="):
        run_verify(wheel, again=wheel)


def test_a_branch_of_origin_other_than_main_is_not_built(git, stray, run_verify, tmp_path):
    git("update-ref", "refs/remotes/origin/main", "main")
    git("update-ref", "refs/remotes/origin/pull", stray)
    git("branch", "mine", stray)
    wheel = make_wheel(tmp_path / "dist", stray)
    with pytest.raises(common.Failure, match="the tags and the main branch of origin"):
        run_verify(wheel, again=wheel)


@pytest.mark.parametrize(
    ("ref", "said"),
    [
        ("refs/remotes/origin/main", "trusted, refs/remotes/origin/main contains it"),
        ("refs/tags/v1", "trusted, refs/tags/v1 contains it"),
        ("refs/heads/main", "this repository has no origin: its tags and its own main branch"),
    ],
)
def test_trusted_refs(git, stray, run_verify, tmp_path, capsys, ref, said):
    git("update-ref", ref, stray)
    wheel = make_wheel(tmp_path / "dist", stray)
    run_verify(wheel, again=wheel)
    out = capsys.readouterr().out
    assert said in out
    assert out.splitlines()[-1] == "identical"


def test_another_ref_is_trusted_only_by_an_option_that_is_printed(git, stray, run_verify, tmp_path, capsys):
    git("branch", "review", stray)
    wheel = make_wheel(tmp_path / "dist", stray)
    run_verify(wheel, "--trust=review", again=wheel)
    assert f"trusted, only because TRUST=review ({stray[:12]}) contains it" in capsys.readouterr().out
    for wrong in ("main", "--exec=touch", "nowhere"):
        with pytest.raises(common.Failure, match=r"is on no trusted ref|names no commit"):
            run_verify(wheel, f"--trust={wrong}", again=wheel)


def test_a_replaced_commit_is_not_trusted_for_another(git, stray, run_verify, tmp_path):
    """refs/replace would make git show the stray commit's parents for main's."""
    git("replace", git("rev-parse", "main"), stray)
    wheel = make_wheel(tmp_path / "dist", stray)
    with pytest.raises(common.Failure, match="is on no trusted ref"):
        run_verify(wheel, again=wheel)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dirty": True}, "built from uncommitted changes, so nobody can rebuild it: commit them"),
        ({"commit": "0" * 40}, "no commit 0000"),
        ({"commit": "--upload-pack=touch"}, "is not a commit"),
        ({"base": "host"}, r"built by a host's own compiler.*make wheel ENGINE=docker"),
    ],
)
def test_what_cannot_be_rebuilt_is_refused(git, run_verify, tmp_path, options, message):
    wheel = make_wheel(tmp_path / "dist", **({"commit": git("rev-parse", "main")} | options))
    with pytest.raises(common.Failure, match=message):
        run_verify(wheel, again=wheel)


def test_without_an_engine(git, run_verify, tmp_path):
    with pytest.raises(common.Failure, match="start docker or podman to verify it"):
        run_verify(make_wheel(tmp_path / "dist", git("rev-parse", "main")))


def test_a_difference_is_reported(git, run_verify, tmp_path, capsys):
    commit = git("rev-parse", "main")
    again = make_wheel(tmp_path / "again", commit, code=b"answer = 41\n")
    with pytest.raises(common.Failure, match="is not what its commit builds"):
        run_verify(make_wheel(tmp_path / "dist", commit), again=again)
    assert "customops/__init__.py differs" in capsys.readouterr().out


@pytest.mark.parametrize(("tagged", "message"), [("main", ""), ("stray", "is not on the main branch of origin")])
def test_a_release_is_a_tag_on_main(git, stray, tagged, message):
    git("update-ref", "refs/remotes/origin/main", "main")
    git("tag", "v1", stray if tagged == "stray" else "main")
    if message:
        with pytest.raises(common.Failure, match=message):
            trust.release_commit(git.project, "v1")
    else:
        assert trust.release_commit(git.project, "v1") == git("rev-parse", "main")
    with pytest.raises(common.Failure, match="has no tag v2"):
        trust.release_commit(git.project, "v2")


def test_a_commit_that_links_to_the_given_wheel_does_not_build_it(git, tmp_path, monkeypatch):
    """A container cannot read the wheel that it has to give again, but the link that it leaves leads to it out here."""
    record = {"source": {"commit": git("rev-parse", "main"), "date_epoch": 1700000000}, "base": "debian"}
    given = make_wheel(tmp_path / "dist", record["source"]["commit"], code=b"steal()\n")

    def build(engine, image, source, out, *rest, **more):
        (out / NAME).symlink_to(given)

    monkeypatch.setattr(verify, "CACHE", tmp_path / "cache")
    monkeypatch.setattr(verify, "is_factory", lambda tree: True)
    for name in ("debian", "wheels"):
        (tmp_path / "cache" / name).mkdir(parents=True)
    monkeypatch.setattr(images, "fetch_inputs", lambda variant, tree, machine: None)
    monkeypatch.setattr(images, "ensure", lambda *_: {"build": "image"})
    monkeypatch.setattr(verify, "build_with_run", build)
    monkeypatch.setattr(verify.engines, "choose", lambda wanted: ("none", ""))
    monkeypatch.setattr("sys.argv", ["verify.py", "--project", str(git.project), str(given)])
    with pytest.raises(common.Failure, match=rf"the build left {re.escape(NAME)}, which is not a file of its own"):
        verify.main()


@pytest.mark.parametrize("where", ["/etc/passwd", "../..", "a/../../../b", "folder/../..", "loop"])
def test_a_commit_whose_links_lead_out_of_it_is_not_built(git, tmp_path, where):
    """Docker would read such a Dockerfile out here, and show its lines in an error."""
    (git.project / "loop").symlink_to("loop")
    (git.project / "Dockerfile.cpu").symlink_to(where)
    git("add", ".")
    git("commit", "--quiet", "--message=link")
    if where == "loop":
        verify.check_out(git("rev-parse", "HEAD"), tmp_path / "tree", git.project)
        return
    with pytest.raises(common.Failure, match=r"holds Dockerfile.cpu, a link out of its tree"):
        verify.check_out(git("rev-parse", "HEAD"), tmp_path / "tree", git.project)


@pytest.mark.parametrize("link", [False, True])
def test_a_commit_brings_no_inputs_of_its_own(git, tmp_path, monkeypatch, link):
    """Locked files are linked into .cache of the tree, and then its .cache is removed."""
    (git.project / "elsewhere").mkdir()
    (git.project / "elsewhere/debian").write_text("")
    (git.project / ".cache").symlink_to("elsewhere") if link else (git.project / ".cache").write_text("")
    for name in ("Dockerfile.cpu", "docker/locks/debian-build.lock"):
        (git.project / name).parent.mkdir(exist_ok=True)
        (git.project / name).write_text("")
    git("add", ".")
    git("commit", "--quiet", "--message=cache")
    record = {"source": {"commit": git("rev-parse", "HEAD"), "date_epoch": 1700000000}, "base": "debian"}
    monkeypatch.setattr(images, "fetch_inputs", lambda variant, tree, machine: None)
    with pytest.raises(common.Failure, match=r"holds \.cache, where the locked inputs"):
        verify.rebuild(record, "none", git.project)


BUILD, with_images = build_image("cpu")


@with_images
def test_a_build_writes_to_its_output_alone(tmp_path):
    """Not as root, without capabilities, with project and image read-only and no network."""
    source, out = tmp_path / "source", tmp_path / "out"
    source.mkdir()
    out.mkdir()
    probe = """cd /out; id -u >user; grep -h CapEff /proc/self/status >capabilities; ls /sys/class/net >networks
        for place in /project /opt/customops /etc /usr/bin /tmp; do touch $place/x && echo $place; done >writable; exit 0
        """
    reproduce.build_with_run(ENGINE, BUILD, source, out, {}, probe)
    found = {path.name: path.read_text().split() for path in out.iterdir()}
    assert found == {
        "user": ["4321"],
        "capabilities": ["CapEff:", "0" * 16],
        "networks": ["lo"],
        "writable": ["/tmp"],
    }


@with_images
def test_a_commit_is_rebuilt_in_a_container_alone(git, tmp_path, monkeypatch, capsys, lock_like_ours):
    """A toy project with scripts of its own in docker/: the wheel is identical, and no script ran here."""
    defines, code = PLANTS["nothing"]
    files = {
        "toy/__init__.py": "",
        "pyproject.toml": PYPROJECT,
        "setup.py": SETUP.replace("%s", defines, 1),
        "lib.cpp": "__attribute__((used)) static " + code + "\n",
        **{f"docker/{name}.py": f"open('{tmp_path}/ran', 'w')\n" for name in ("make_wheel", "images", "common")},
        "Makefile": f"%:\n\ttouch {tmp_path}/ran\n",
        "Dockerfile.cpu": "",  # with this lock: a commit that brings its own images
        "docker/locks/debian-build.lock": "",
    }
    for name, text in files.items():
        (git.project / name).parent.mkdir(parents=True, exist_ok=True)
        (git.project / name).write_text(text)
    lock_like_ours(git.project)
    git("add", ".")
    git("commit", "--quiet", "--message=toy")
    record = {"source": {"commit": git("rev-parse", "HEAD"), "date_epoch": 1700000000}, "base": "debian"}
    for module in (verify, common):
        monkeypatch.setattr(module, "CACHE", tmp_path / "cache")
    for name in ("debian", "wheels"):
        (tmp_path / "cache" / name).mkdir(parents=True)
    monkeypatch.setattr(images, "fetch_inputs", lambda variant, tree, machine: None)
    monkeypatch.setattr(images, "ensure", lambda engine, variant, base, tree, machine: {"build": BUILD})
    wheel = verify.rebuild(record, ENGINE, git.project)[1].rename(
        tmp_path / "toy-1.0-py3-none-manylinux_2_28_x86_64.whl"
    )
    monkeypatch.setattr("sys.argv", ["verify.py", "--engine", ENGINE, str(wheel)])
    verify.main()
    assert capsys.readouterr().out.splitlines()[-1] == "identical"
    assert not Path(tmp_path, "ran").exists()
