"""What is said about mistakes that are easily made: one line with the remedy, not an errno."""

import os
import subprocess
import tempfile
from pathlib import Path

import children
import common
import images
import index
import pytest
import record
import trust
import verify
from test_make import assert_one_clear_line, make, project  # noqa: F401, fixtures


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ("", r"WHEEL is not set: make verify WHEEL=dist/"),
        ("nowhere.whl", r"there is no wheel nowhere\.whl"),
        ("*.whl", r"WHEEL=\*\.whl matches 2 files: name one, such as a\.whl"),
        (".", r"\. is a folder: name a wheel in it"),
    ],
)
def test_which_wheel(monkeypatch, tmp_path, wanted, message):
    monkeypatch.chdir(tmp_path)
    for name in ("a.whl", "b.whl"):
        Path(name).touch()
    monkeypatch.setattr("sys.argv", ["verify.py", wanted])
    with pytest.raises(common.Failure, match=message):
        verify.main()


def test_a_pattern_for_one_wheel(tmp_path):
    (tmp_path / "a-1-py3-none-any.whl").touch()
    assert common.given_wheel(f"{tmp_path}/*.whl", "report") == tmp_path / "a-1-py3-none-any.whl"


def test_a_report_of_no_wheel_downloads_nothing(make, project):  # noqa: F811
    assert_one_clear_line(make("report", "WHEEL=dist/nothing.whl"), "there is no wheel dist/nothing.whl", project)


def test_a_cache_that_is_a_file(make, project):  # noqa: F811
    (project / ".cache").touch()
    assert_one_clear_line(make("index"), ".cache is a file, where a folder for downloads is needed", project)


def as_somebody_else(action):
    """What an action that ends in sys.exit() says when a user runs it who owns nothing here."""
    if os.geteuid():
        pytest.skip("needs root to become somebody else")
    reading, writing = os.pipe()
    if not (child := os.fork()):
        os.setgid(12345)
        os.setuid(12345)
        try:
            action()
        except BaseException as error:
            os.write(writing, str(error).encode())
        os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with open(reading) as said:
        return said.read()


@pytest.mark.parametrize("what", ["folder", "lock"])
def test_a_cache_of_another_user(monkeypatch, what):
    with tempfile.TemporaryDirectory() as name:  # pytest's own folder is closed to others
        Path(name).chmod(0o755)
        cache = Path(name, "cache")
        cache.mkdir(mode=0o755)
        if what == "lock":
            cache.chmod(0o777)
            (cache / "lock").touch(mode=0o600)
        monkeypatch.setattr(children, "CACHE", cache)
        said = as_somebody_else(lambda: common.main_guard(lambda: None))
        path = cache / "lock" if what == "lock" else cache
        assert said == (
            f"error: {path} belongs to root, and 12345 may not write there: sudo chown -R 12345 {path}, "
            "or use a checkout of your own"
        )


def test_a_read_only_disk(make, project, tmp_path):  # noqa: F811
    (project / ".cache").mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", project / ".cache"]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a file system needs root")
    try:
        assert_one_clear_line(make("index"), "is on a read-only file system: copy this checkout", project)
    finally:
        subprocess.run(["umount", "--lazy", project / ".cache"], check=True)


@pytest.mark.parametrize("target", ["wheel", "bench"])
def test_an_interpreter_that_is_not_there(make, project, target):  # noqa: F811
    run = make(target, "PYTHON=/nope")
    assert_one_clear_line(run, "there is no interpreter /nope: install Python 3.11 or newer, or name one", project)


def test_bench_without_torch(make, project):  # noqa: F811
    assert_one_clear_line(make("bench"), "has no torch and no customops: pip install torch dist/*.whl", project)


@pytest.mark.parametrize("archs", ["35", "999", "cuda13:70"])
def test_architectures_that_nothing_compiles(make, project, archs):  # noqa: F811
    run = make("wheel", "VARIANT=cuda", "ENGINE=host", f"CUDA_ARCHS={archs}")
    assert_one_clear_line(run, f"does not compile for {archs[-2:] if ':' in archs else archs}", project)
    assert "==>" not in run.stdout


def test_empty_matrix(make, project):  # noqa: F811
    assert_one_clear_line(make("test-matrix", "PYTHONS=", "TORCHES="), "PYTHONS and TORCHES are empty", project)


def test_a_shell_without_a_terminal(monkeypatch):
    monkeypatch.setattr("sys.argv", ["images.py", "--shell", "--engine=docker"])
    monkeypatch.setattr(images.engines, "choose", lambda engine: (engine, ""))
    monkeypatch.setattr(images, "fetch_inputs", lambda *_, **__: pytest.fail("downloaded first"))
    with open(os.devnull) as nothing:
        monkeypatch.setattr("sys.stdin", nothing)
        with pytest.raises(common.Failure, match="make shell needs a terminal; for one command: docker run --rm"):
            images.main()


@pytest.fixture
def clone(tmp_path):
    """(a shallow clone, the commit that it lacks, the one it has)."""
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "GIT_CONFIG_NOSYSTEM": "1"}

    def git(*arguments):
        identity = ("-c", "user.name=a", "-c", "user.email=a@b")
        return subprocess.check_output(["git", *identity, *arguments], env=env, text=True, stderr=subprocess.DEVNULL)

    git("init", "-q", "-b", "main", str(tmp_path / "full"))
    for message in ("first", "second"):
        git("-C", str(tmp_path / "full"), "commit", "-q", "--allow-empty", "-m", message)
    commits = git("-C", str(tmp_path / "full"), "log", "--format=%H").split()
    git("clone", "-q", "--depth=1", f"file://{tmp_path / 'full'}", str(tmp_path / "shallow"))
    return tmp_path / "shallow", commits[1], commits[0]


def test_a_shallow_clone_is_called_one(clone):
    shallow, missing, there = clone
    with pytest.raises(
        common.Failure, match="is a shallow clone, which lacks older commits: git fetch --unshallow --tags"
    ):
        trust.why_trusted(shallow, missing)
    assert "refs/remotes/origin/main contains it" in trust.why_trusted(shallow, there)


def test_a_folder_without_history(tmp_path):
    for ask in (lambda: trust.why_trusted(tmp_path, "0" * 40), lambda: trust.release_commit(tmp_path, "v1")):
        with pytest.raises(common.Failure, match=r"is not a git checkout \(an unpacked tarball\?\)"):
            ask()


def test_a_disk_that_fills_during_the_index_leaves_the_earlier_one(small_disk, monkeypatch):
    """dist/ is on a file system of 16 kB, the wheel takes half of it, its copy does not fit."""
    wheel = small_disk / "customops-0.1.0-py3-none-any.whl"
    info = "customops-0.1.0.dist-info"
    contents = {
        "customops/__init__.py": b"data = '" + os.urandom(4000).hex().encode() + b"'\n",
        f"{info}/METADATA": b"Metadata-Version: 2.1\nName: customops\nVersion: 0.1.0\n",
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record.pack(wheel, contents, 1700000000)
    assert wheel.stat().st_size > 4096
    (small_disk / "simple-root").mkdir()
    (small_disk / "simple-root/earlier").touch()
    before = wheel.read_bytes()
    monkeypatch.setattr("sys.argv", ["index.py", f"--dist={small_disk}"])
    with pytest.raises(
        SystemExit, match=r"^error: the disk that holds .* is full: free some space and run this again$"
    ):
        common.main_guard(index.main, alone=False)
    assert wheel.read_bytes() == before
    assert [path.name for path in (small_disk / "simple-root").iterdir()] == ["earlier"]
