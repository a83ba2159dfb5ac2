"""The test stage: what it says of tests that look for what is not there."""

import subprocess

import common
import pytest
from project import Project

REQUIRES = "; test-requires of [tool.cibuildwheel] brings what tests import"


@pytest.fixture
def said(root, tmp_path):
    """said(command) -> (standard output, the error) of a test command in a project with README.md and tests/data.txt."""
    folder, tests, empty = tmp_path / "checkout", tmp_path / "copy", tmp_path / "empty"
    for place in (folder / "tests", tests / "tests", empty):
        place.mkdir(parents=True)
        if place.name == "tests":
            (place / "data.txt").touch()
    (folder / "README.md").touch()
    (folder / "pyproject.toml").touch()

    def run(command):
        code = (
            "import pathlib, sys, project, test_project\n"
            "folder, tests, empty, command = sys.argv[1:]\n"
            "test_project.run_tests(['sh', '-c', command], 'the tests failed', pathlib.Path(tests), project.Project(folder), cwd=empty)"
        )
        command = command.replace("{project}", str(tests))
        done = subprocess.run(
            [common.virtual_environment("tools") / "python", "-c", code, folder, tests, empty, command],
            env=common.environment(PYTHONPATH=str(root / "docker/image")), capture_output=True, text=True, check=False,
        )  # fmt: skip
        return done.stdout, (done.stderr.strip().splitlines() or [""])[-1].partition("BadProject: ")[2]

    assert Project(folder).folder == folder
    return run


@pytest.mark.parametrize(
    ("command", "hint"),
    [
        ("cat {project}/README.md", None),  # says no name in quotes
        (
            "python3 -c 'open(\"{project}/README.md\")'",
            "; they read README.md of the checkout, which the test stage does not see",
        ),
        ("python3 -c 'open(\"README.md\")'", "; they read README.md of the checkout"),
        ("python3 -c 'open(\"{project}/tests/../README.md\")'", "; they read README.md of the checkout"),
        (
            "python3 -c 'open(\"tests/data.txt\")'",
            '; they look for tests/data.txt in the folder they run in, which is empty: test-command = "cd {project} && ..."',
        ),
        ("python3 -c 'open(\"{project}/absent\")'", None),
        ("python3 -c 'open(\"../../../../etc/nothing\")'", None),
        (
            "echo \"E  ModuleNotFoundError: No module named 'pytz'\"; exit 1",
            "; they import pytz, which no lock holds: test-requires",
        ),
        (
            "echo \"E  ModuleNotFoundError: No module named 'fast_soft_sort'\"; echo pytest; exit 2",
            "; they import fast_soft_sort, which no lock holds: test-requires of [tool.cibuildwheel] brings it, after make lock "
            "PROJECT=..., or tests = [] in [tool.customops-build] runs none",
        ),
        ("echo pytest; exit 2", REQUIRES),
        (
            "echo \"FileNotFoundError: [Errno 2] No such file or directory: 'README.md'\"; echo pytest; exit 2",
            "; they read README.md",
        ),
    ],
)
def test_a_file_of_the_checkout_that_tests_lack_is_named(said, command, hint):
    _, error = said(command)
    assert error == "the tests failed" if hint is None else error.startswith(f"the tests failed{hint}")


def test_what_tests_say_is_shown(said):
    assert said("echo one; echo two >&2") == ("one\ntwo\n", "")


@pytest.mark.parametrize(
    ("names", "modules"),
    [
        (["a/__init__.py", "a/lib_C.so", "a/_C.py"], ["a"]),
        (["one.py", "libone.so", "libtwo.so"], ["libtwo", "one"]),
        (["space/x.cpython-311-x86_64-linux-gnu.so", "space/y.py"], ["space.x", "space.y"]),
    ],
)
def test_what_is_imported_first(root, names, modules):
    code = "import sys, test_project; print(*test_project.modules_of(sys.argv[1:]))"
    command = [common.virtual_environment("tools") / "python", "-c", code, *names]
    env = common.environment(PYTHONPATH=str(root / "docker/image"))
    assert subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout.split() == modules
