"""Which interpreter a step uses: found, or asked for in one line, before anything is downloaded."""

import sys

import common
import fetch
import interpreters
import pytest

pretend_newer = pytest.mark.usefixtures("newer")


@pytest.fixture
def newer(monkeypatch, tmp_path):
    """The scripts run on CPython 3.13, and the folder is the only one on the PATH."""
    monkeypatch.setattr(sys, "version_info", (3, 13, 1))
    monkeypatch.setenv("PATH", str(tmp_path))
    interpreters.locked.cache_clear()
    yield
    interpreters.locked.cache_clear()


def install(folder, script):
    python = folder / "python3.11"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    return str(python)


@pytest.fixture
def alone(monkeypatch, tmp_path):
    """None of this machine's own interpreters starts; pyenv has a folder here."""
    real = interpreters.starts
    ours = lambda python, code: python.startswith(str(tmp_path)) and real(python, code)  # noqa: E731
    monkeypatch.setattr(interpreters, "starts", ours)
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    folder = tmp_path / "pyenv/versions/3.11.9/bin"
    folder.mkdir(parents=True)
    return folder / "python"


@pretend_newer
def test_a_python_on_the_path_is_found(tmp_path):
    python = install(tmp_path, "exit 0")
    assert interpreters.locked() == python
    assert interpreters.for_set("build") == python


@pretend_newer
def test_without_one_on_the_path_pyenv_s_is_found(alone):
    alone.symlink_to(sys.executable)
    assert interpreters.locked() == str(alone)


@pretend_newer
def test_one_without_venv_is_passed_over_if_another_has_it(alone, tmp_path):
    """Debian's python3.11 without python3.11-venv stands before pyenv's."""
    install(tmp_path, 'case "$2" in *ensurepip*) exit 1;; esac')
    alone.symlink_to(sys.executable)
    assert interpreters.locked() == str(alone)


@pretend_newer
def test_tools_for_every_python_need_no_other_interpreter(monkeypatch):
    monkeypatch.setattr(interpreters, "find_python", lambda version: pytest.fail("looked for another"))
    assert interpreters.for_set("tools") == interpreters.for_set("lint") == sys.executable


@pytest.mark.parametrize("name", interpreters.ANY_PYTHON)
def test_these_tools_are_for_every_python(name):
    fetch.fetch_set(name)
    for entry in common.read_requirements(common.LOCKS / f"requirements-{name}.txt"):
        wheel = fetch.find_wheel(common.CACHE / "wheels", entry.path).name
        assert wheel.split("-")[-3].split(".")[-1] == "py3", f"{wheel} is not for every Python: {name} is no such set"


@pretend_newer
@pytest.mark.parametrize("step", ["check_host", "virtual_environment"])
def test_without_one_it_is_asked_for_before_any_download(monkeypatch, step):
    import host_build

    monkeypatch.setattr(interpreters, "find_python", lambda version: None)
    monkeypatch.setattr(fetch, "fetch_set", lambda *names: pytest.fail("downloaded first"))
    start = host_build.check_host if step == "check_host" else lambda: common.virtual_environment("test")
    with pytest.raises(common.Failure, match=r"needs CPython 3\.11, .* no python3\.11 is on the PATH: install one"):
        start()


@pretend_newer
def test_one_that_makes_no_environments_is_refused_with_the_package_that_it_lacks(alone, tmp_path):
    install(tmp_path, 'case "$2" in *ensurepip*) exit 1;; esac')
    with pytest.raises(common.Failure, match=r"cannot make a virtual environment: .*python3\.11-venv"):
        interpreters.locked()


def test_an_interpreter_without_pip_borrows_one_or_says_so(monkeypatch):
    monkeypatch.setattr(interpreters.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(interpreters, "find_python", lambda version: sys.executable)
    monkeypatch.setattr(interpreters, "starts", lambda python, code: True)
    assert interpreters.with_pip.__wrapped__() == sys.executable
    monkeypatch.setattr(interpreters, "starts", lambda python, code: False)
    with pytest.raises(common.Failure, match="has no pip: install it"):
        interpreters.with_pip.__wrapped__()
