"""CPythons beside the image's own: which there are, and that they are built from the locked tarball, once."""

import sys

import children
import common
import engine
import fetch
import interpreters
import lock_project
import make_wheel
import pytest
import pythons
import reproduce
from project import Pair


@pytest.fixture
def containers(monkeypatch, tmp_path):
    """The commands of containers that were started; none of them has another CPython."""
    started = []

    def run(engine, image, *command, options=(), check=True):
        started.append((image, command, options))
        return type("Run", (), {"returncode": 1})

    monkeypatch.setattr(children, "run_container", run)
    monkeypatch.setattr(fetch, "fetch_debian_set", lambda *names: started.append(names))
    monkeypatch.setattr(pythons, "CACHE", tmp_path)
    return started


def test_the_images_own_is_not_mounted(containers):
    assert pythons.mounts("docker", "image", Pair("3.11", "2.13.0")) == []
    assert containers == []


def test_another_is_built_once_from_the_locked_tarball(containers, tmp_path):
    pair = Pair("3.13", "2.13.0")
    (mount,) = pythons.mounts("docker", "image", pair)
    assert mount.endswith(":/opt/python/cp313-cp313:ro")
    (asked, fetched, (image, command, options)) = containers
    assert asked[1] == ("test", "-x", "/opt/python/cp313-cp313/bin/python")
    assert (fetched, image) == (("pythons",), "image")
    (entry,) = common.read_debian_lock(pythons.LOCK)
    tarball = entry.path.rsplit("/", 1)[1]
    assert f"--volume={tmp_path}/debian/{tarball}:/inputs/{tarball}:ro" in options
    assert command[1:] == ("/opt/customops/install-python.sh", "/lock", "/inputs", "/opt/python/cp313-cp313")
    assert pythons.mounts("docker", "image", pair) == [mount]
    assert len(containers) == 5  # asked and fetched again, not built


@pytest.mark.parametrize("python", ["3.12", "3.13t"])
def test_one_that_cannot_be_had_is_one_line(containers, python):
    with pytest.raises(common.Failure, match=rf"have CPython 3\.11, 3\.13, not {python}: choose .* ENGINE=host"):
        pythons.mounts("docker", "image", Pair(python, "2.13.0"))
    assert len(containers) == 1


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("docker", "containers have CPython 3.11, 3.13, not 3.12"),
        ("host", "no python3.12 on the PATH or under pyenv, only 3.13: choose"),
    ],
)
@pytest.mark.parametrize("script", [make_wheel, reproduce, lock_project])
def test_one_that_cannot_be_had_is_refused_before_anything_is_done(monkeypatch, root, script, where, said):
    monkeypatch.setattr(engine, "choose", lambda _: (where, "asked for"))
    monkeypatch.setattr(interpreters, "find_python", lambda version: "/python" if version == "3.13" else None)
    for module, name in (
        (make_wheel, "make_wheel"),
        (make_wheel, "test_wheel"),
        (reproduce, "reproduce"),
        (lock_project, "lock"),
    ):
        monkeypatch.setattr(module, name, lambda *_: pytest.fail("began"))
    step = ["wheel"] if script is make_wheel else []
    project = root / "tests/projects/abi3-c"
    monkeypatch.setattr(sys, "argv", ["x", *step, f"--project={project}", "--pythons=3.11 3.12", "--torches=2.13.0"])
    with pytest.raises(common.Failure) as raised:
        script.main()
    assert said in str(raised.value)
