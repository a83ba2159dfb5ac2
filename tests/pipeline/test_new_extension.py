"""`make new-extension`: the names it takes, the folders it refuses, and a project that holds its own name only."""

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
    for path in (tmp_path / "made").rglob("*.py"):
        compile(path.read_text(), str(path), "exec")
