"""What `make` says when something is missing: one line that names the remedy, and dist/ as it was."""

import contextlib
import os
import shutil
import subprocess
import sys

import pytest


@pytest.fixture
def project(root, tmp_path):
    """A copy of the project with an empty cache and a wheel in dist/ that must not change."""
    copy = tmp_path / "project"
    subprocess.run(["bash", root / "docker/image/stage-source.sh", root, copy], check=True)
    (copy / "dist").mkdir()
    (copy / "dist/customops-0-earlier.whl").write_text("earlier")
    return copy


@pytest.fixture
def make(project, tmp_path):
    """make(*arguments, programs={}, **environment): only named programs and the system's basic ones are on the PATH."""
    bin = tmp_path / "bin"
    bin.mkdir()

    def run(*arguments, without=(), **environment):
        for folder in ("/bin", "/usr/bin"):
            for name in (
                "sh",
                "bash",
                "env",
                "make",
                "sed",
                "expand",
                "git",
                "tar",
                "rm",
                "mkdir",
                "cat",
                "c++",
                "g++",
                "gcc",
            ):
                if os.path.exists(f"{folder}/{name}") and not (bin / name).exists() and name not in without:
                    (bin / name).symlink_to(f"{folder}/{name}")
        env = {"PATH": str(bin), "HOME": str(tmp_path), "PIP_CONFIG_FILE": "/dev/null", "PIP_NO_INDEX": "1",
               "DEBIAN_MIRROR": "http://127.0.0.1:9", "LC_ALL": "C.UTF-8"}  # fmt: skip
        return subprocess.run(
            [shutil.which("make"), f"PYTHON={sys.executable}", *arguments],
            cwd=project, env=env | environment, capture_output=True, text=True, check=False,
        )  # fmt: skip

    return run


def assert_one_clear_line(run, message, project):
    assert run.returncode != 0
    errors = [line for line in run.stderr.splitlines() if not line.startswith("make: ***")]
    assert len(errors) == 1, run.stderr
    assert errors[0].startswith("error: ")
    assert message in errors[0]
    assert [p.name for p in (project / "dist").iterdir()] == ["customops-0-earlier.whl"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["VARIANT=gpu"], "VARIANT must be one of cpu, cuda, got 'gpu'"),
        (["VARIANT=cuda", "BASE=manylinux"], "VARIANT=cuda needs BASE=debian: nvcc 12.4 supports GCC up to 13"),
        (["VARIANT=cuda", "CUDA_ARCHS=hopper"], "CUDA_ARCHS: expected entries such as 90, 9.0, 90+PTX or cuda13:90"),
        (["CUDA_ARCHS=90"], "CUDA_ARCHS=90 requires VARIANT=cuda, got VARIANT=cpu"),
        (["ARCH=arm"], "ARCH must be one of x86_64, aarch64, got 'arm'"),
        (["ARCH=aarch64", "BASE=manylinux"], "ARCH=aarch64 needs BASE=debian, got BASE=manylinux"),
        (["ARCH=aarch64", "VARIANT=cuda", "ENGINE=host"], "VARIANT=cuda ARCH=aarch64 needs ENGINE=docker or podman"),
        (["ENGINE=dokcer"], "ENGINE must be one of auto, docker, podman, host, got 'dokcer'"),
        (["MAX_JOBS=x"], "MAX_JOBS must be a positive whole number, got 'x'"),
        (["BASE=ubuntu"], "BASE must be one of debian, manylinux, got 'ubuntu'"),
        (["ENGINE=docker"], "ENGINE=docker: docker is not installed; or use ENGINE=host"),
        (["ENGINE=podman"], "ENGINE=podman: podman is not installed; or use ENGINE=host"),
    ],
)
def test_wrong_or_unavailable_choice(make, project, arguments, message):
    assert_one_clear_line(make("wheel", *arguments), message, project)


def test_empty_cache_and_no_network(make, project):
    run = make("wheel", "ENGINE=host")
    assert_one_clear_line(run, "check the network and pip's index configuration", project)
    assert "ENGINE=host (asked for)" in run.stdout


def test_auto_falls_back_to_the_host_and_says_why(make):
    assert "ENGINE=host (docker is not installed; podman is not installed)" in make("wheel").stdout


def test_a_cuda_build_without_its_compilers_never_becomes_a_cpu_wheel(make, project):
    """The tools are there, nvcc's packages are not and cannot be had."""
    for name in ("tools", "build", "test"):
        (project / f"docker/locks/requirements-{name}.txt").write_text("# make lock\n")
    run = make("wheel", "ENGINE=host", "VARIANT=cuda")
    assert_one_clear_line(run, "nvidia-cuda", project)


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the Python version is complained about first")
def test_missing_compiler(make, project):
    run = make("wheel", "ENGINE=host", without=("c++", "g++", "gcc"))
    assert_one_clear_line(run, "needs a C++17 compiler and c++ is not on the PATH: install g++, or set CXX", project)


def test_corrupted_download(make, project):
    locks = project / "docker/locks"
    lock = next(line for line in (locks / "requirements-build.txt").read_text().splitlines() if "ninja" in line)
    wheels = project / ".cache/wheels"
    wheels.mkdir(parents=True)
    (locks / "requirements-build.txt").write_text("# make lock\n")
    (locks / "requirements-tools.txt").write_text(lock + "\n")
    name = lock.split(" ")[0].replace("==", "-") + "-py3-none-any.whl"
    (wheels / name).write_text("not the locked wheel")
    assert_one_clear_line(make("wheel", "ENGINE=host"), f"{name} is not the locked file: expected sha256", project)


def test_full_disk(make, project, small_disk):
    (small_disk / "wheels").mkdir()
    (small_disk / "lock").touch()
    with contextlib.suppress(OSError), (small_disk / "rest").open("wb", buffering=0) as rest:
        while rest.write(bytes(4096)):
            continue
    run = make("wheel", "ENGINE=host", CUSTOMOPS_CACHE=str(small_disk))
    assert_one_clear_line(run, "is full: free some space", project)


def test_an_old_python_is_refused(make, project, tmp_path):
    old = tmp_path / "oldpython"
    pretend = "import sys; sys.version_info = (3, 9); exec('''$2''')"
    old.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{pretend}"\n')
    old.chmod(0o755)
    assert_one_clear_line(make("wheel", f"PYTHON={old}"), "3.11 or newer is needed", project)


def test_tools_name_their_real_folder_when_the_cache_is_reached_through_a_link(tmp_path, monkeypatch):
    """A program starts by the path that it was installed under; the link may be gone by then."""
    import common
    import fetch

    (tmp_path / "real").mkdir()
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache/venv").symlink_to(tmp_path / "real")
    (tmp_path / "requirements-none.txt").write_text("# make lock\n")
    monkeypatch.setattr(common, "CACHE", tmp_path / "cache")
    monkeypatch.setattr(common, "LOCKS", tmp_path)
    monkeypatch.setattr(fetch, "fetch_set", lambda *names: None)
    assert common.virtual_environment("none") == tmp_path / "real/none/bin"
    assert str(tmp_path / "real/none/bin/python") in (tmp_path / "real/none/bin/pip").read_text().splitlines()[0]


@pytest.mark.parametrize("commit", ["c0ffee", ""])
def test_sources_that_change_during_the_build_are_not_recorded(root, tmp_path, host_environment, commit):
    """build-wheel.sh on a project whose build edits one of its own staged files, as those of source distributions do."""
    toy = tmp_path / "toy"
    toy.mkdir()
    (toy / "module.py").touch()
    (toy / "setup.py").write_text(
        "from setuptools import Extension, setup\nopen('module.py', 'a').write('# torn')\n"
        "setup(name='toy', py_modules=['module'], ext_modules=[Extension('fast', ['fast.c'])])\n"
    )
    (toy / "fast.c").write_text(
        '#include <Python.h>\nstatic struct PyModuleDef d = {PyModuleDef_HEAD_INIT, "fast"};\n'
        "PyMODINIT_FUNC PyInit_fast(void) { return PyModule_Create(&d); }\n"
    )
    run = subprocess.run(
        ["bash", root / "docker/image/build-wheel.sh", toy, tmp_path / "out"],
        env=host_environment(toy, SOURCE_COMMIT=commit), capture_output=True, text=True, check=False,
    )  # fmt: skip
    if commit:
        assert run.returncode != 0
        assert "error: the staged sources changed during the build: run it again" in run.stderr
        assert not (tmp_path / "out").exists()
    else:
        assert run.returncode == 0, run.stderr
        assert list((tmp_path / "out").glob("toy-*.whl"))


@pytest.mark.parametrize("change", ["write", "add", "remove"])
def test_a_staged_copy_that_changed_is_refused(project, tmp_path, change):
    import common
    import staging

    staged = staging.stage(project, tmp_path / "staged")
    staged.check(tmp_path / "staged")
    file = tmp_path / "staged" / ("setup.py" if change != "add" else "new.py")
    file.unlink() if change == "remove" else file.write_text("torn")
    with pytest.raises(common.Failure, match=rf"{file.name} changed during the build"):
        staged.check(tmp_path / "staged")


def test_partial_files_have_names_of_their_own(tmp_path):
    """Two writers of one file: the last to end wins, with all of its bytes."""
    import common

    with common.replacing(tmp_path / "x") as first, common.replacing(tmp_path / "x") as second:
        assert first != second
        first.write_text("first")
        second.write_text("second")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("x", "first")]
    with pytest.raises(OSError, match="full"), common.replacing(tmp_path / "x") as partial:
        partial.write_text("half")
        raise OSError("full")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("x", "first")]
