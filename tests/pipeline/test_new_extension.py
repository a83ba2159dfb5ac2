"""`make new-extension`: the names it takes, the folders it refuses, and a project that holds its own name only."""

import subprocess

import common
import new_extension
import pytest
from common import Failure


@pytest.mark.parametrize(
    "name",
    ["", "My", "a", "x" * 41, "a-b", "a.b", "../x", "a b", "_x", "x_", "a__b", "9x", "é1", "torch", "json", "lambda"],
)
def test_bad_names(name, tmp_path):
    with pytest.raises(Failure, match="NAME"):
        new_extension.create(name, tmp_path / "made")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_exists_is_left_alone(tmp_path):
    (tmp_path / "made").mkdir()
    (tmp_path / "link").symlink_to("nowhere")
    for name in ("made", "link"):
        with pytest.raises(Failure, match="there already"):
            new_extension.create("fastswish", tmp_path / name)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "made"]


def test_where_it_is_is_said_without_dots(monkeypatch, tmp_path, capsys):
    (tmp_path / "clone").mkdir()
    monkeypatch.chdir(tmp_path / "clone")
    monkeypatch.setattr("sys.argv", ["new_extension.py", "--name=fastswish", "--dest=../fastswish"])
    new_extension.main()
    assert capsys.readouterr().out.startswith(f"{tmp_path / 'fastswish'} is there")


def test_every_placeholder_is_replaced(tmp_path):
    new_extension.create("fast_swish", tmp_path / "made")
    made = sorted(path for path in (tmp_path / "made").rglob("*") if path.is_file())
    assert len(made) == len(new_extension.files())
    assert (tmp_path / "made/fast_swish/__init__.py").exists()
    for path in made:
        assert "myops" not in str(path).lower() + path.read_text().lower(), path
    assert (
        "customops"
        not in (tmp_path / "made/fast_swish/__init__.py").read_text() + (tmp_path / "made/setup.py").read_text()
    )


def test_the_python_of_the_project_compiles(tmp_path):
    new_extension.create("fast_swish", tmp_path / "made")
    files = {path.relative_to(tmp_path / "made").as_posix(): path for path in (tmp_path / "made").rglob("*.py")}
    assert files.keys() >= {"setup.py", "fast_swish/__init__.py", "tests/test_swish.py"}
    for name, path in files.items():
        assert compile(path.read_text(), name, "exec").co_filename == name


def test_a_cuda_build_takes_cuda_home_beside_a_cpu_torch(tmp_path):
    """Such a torch ignores CUDA_HOME. Without a compiler there, one line says so; no build for the CPU comes out instead."""
    new_extension.create("fast_swish", tmp_path / "made")
    nvcc = tmp_path / "cuda/bin/nvcc"
    command = [common.virtual_environment("build") / "python", "setup.py", "--quiet", "egg_info"]
    env = common.environment(FORCE_CUDA="1", CUDA_HOME=str(tmp_path / "cuda"))

    def prepare():
        return subprocess.run(command, cwd=tmp_path / "made", env=env, capture_output=True, text=True, check=False)

    assert f"CUDA_HOME={tmp_path}/cuda has no bin/nvcc" in prepare().stderr.splitlines()[-1]
    nvcc.parent.mkdir(parents=True)
    nvcc.touch()
    assert prepare().returncode == 0
    assert "csrc/cuda/swish.cu" in (tmp_path / "made/fast_swish.egg-info/SOURCES.txt").read_text()
