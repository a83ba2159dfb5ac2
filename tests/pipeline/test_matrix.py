"""The matrix: pairs in order, a line per pair, a reason for each that is skipped."""

import types

import common
import interpreters
import matrix
import pytest


def test_pairs_in_order():
    assert matrix.pair_up("3.10 3.13", "2.10.0 2.15.0") == [("3.10", "2.10.0"), ("3.13", "2.15.0")]


@pytest.mark.parametrize(("pythons", "torches"), [("3.10", "2.10.0 2.15.0"), ("", "2.10.0")])
def test_uneven_lists_are_refused(pythons, torches):
    with pytest.raises(common.Failure, match="equally many"):
        matrix.pair_up(pythons, torches)


def test_empty_lists_are_refused():
    with pytest.raises(common.Failure, match="PYTHONS and TORCHES are empty: make test-matrix PYTHONS="):
        matrix.pair_up("", " ")


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """run(results, wheels=1): the matrix with made-up results per pair; returns (what was printed, exit message)."""

    def run(results, wheels=1):
        for number in range(wheels):
            (tmp_path / f"customops-{number}.whl").touch()
        project = types.SimpleNamespace(dist=tmp_path)
        monkeypatch.setattr(matrix.project_run, "load", lambda folder: project)
        monkeypatch.setattr(matrix, "run_pair", lambda project, python, torch: results[python])
        monkeypatch.setattr(
            "sys.argv", ["matrix.py", "--pythons", " ".join(results), "--torches", " ".join(["2.10.0"] * len(results))]
        )
        stopped = None
        try:
            matrix.main()
        except (SystemExit, common.Failure) as error:
            stopped = str(error)
        return capsys.readouterr().out, stopped

    return run


def test_a_line_per_pair(run):
    out, stopped = run({"3.10": "passed: 5 passed", "3.13": "skipped: there is no python3.13"})
    assert stopped is None
    assert "  python 3.10   torch 2.10.0   passed: 5 passed" in out
    assert "  python 3.13   torch 2.10.0   skipped: there is no python3.13" in out


def test_a_failure_fails(run):
    assert "failed on a pair" in run({"3.10": "passed: 1", "3.13": "FAILED: 1 failed"})[1]


def test_all_skipped_is_not_success(run):
    assert "no pair could be tested" in run({"3.10": "skipped: x"})[1]


@pytest.mark.parametrize("wheels", [0, 2])
def test_needs_exactly_one_wheel(run, wheels):
    assert f"exactly one wheel, found {wheels}" in run({"3.10": "passed"}, wheels)[1]


def test_a_python_that_is_not_there(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    assert matrix.run_pair(None, "3.99", "2.10.0") == "skipped: there is no python3.99 on the PATH or under pyenv"


def test_a_shim_that_leads_nowhere_is_passed_over(monkeypatch, tmp_path):
    shim = tmp_path / "python3.99"
    shim.write_text("#!/bin/sh\nexit 127\n")
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    assert interpreters.find_python("3.99") is None
