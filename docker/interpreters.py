"""Finds the Python interpreters that the steps need, before anything is downloaded.

The scripts of docker/ run on every CPython from 3.11 on. Most of the locked wheels are for CPython 3.11, so their
environments need that one: the interpreter of the scripts if it is one, or any that is installed beside it.
"""

import functools
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

from common import Failure

LOCKED = "3.11"  # what the locks are for, as common.pip_target says it to pip
MAKES_ENVIRONMENTS = "import ensurepip, venv"
ANY_PYTHON = (
    "tools",
    "lint",
    "s3",
)  # requirement sets whose wheels are for every Python: containers need no 3.11 on the host


def find_python(version: str) -> str | None:
    """An interpreter of this version that starts; a pyenv shim on the PATH may point to none. One that makes virtual environments, if any."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    tag = f"cp{version.replace('.', '')}"
    candidates = [
        shutil.which(f"python{version}"),
        *(f"{folder}/python{version}" for folder in ("/usr/local/bin", "/usr/bin", f"/opt/python/{tag}-{tag}/bin")),
        *sorted(pyenv.glob(f"versions/{version}*/bin/python")),
    ]
    starting = [str(candidate) for candidate in candidates if candidate and starts(str(candidate), "")]
    return next(
        (python for python in starting if starts(python, MAKES_ENVIRONMENTS)), starting[0] if starting else None
    )


def starts(python: str, code: str) -> bool:
    try:
        return subprocess.run([python, "-c", code], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def check_venv(python: str) -> str:
    """The interpreter, if it can make virtual environments: Debian keeps that in a package of its own."""
    if not starts(python, MAKES_ENVIRONMENTS):
        raise Failure(
            f"{python} cannot make a virtual environment: install its venv module (python3-venv, or python{LOCKED}-venv)"
        )
    return python


def for_set(name: str) -> str:
    """The interpreter for the environment of a requirement set."""
    return check_venv(sys.executable) if name in ANY_PYTHON else locked()


@functools.cache
def locked() -> str:
    """A CPython that the locked wheels are for."""
    if sys.version_info[:2] == tuple(map(int, LOCKED.split("."))):
        return check_venv(sys.executable)
    python = find_python(LOCKED)
    if python is None:
        raise Failure(
            f"this step needs CPython {LOCKED}, which the locked wheels are for; this is {sys.version.split()[0]}, and no "
            f"python{LOCKED} is on the PATH: install one, or name it (make PYTHON=path/to/python{LOCKED} ...), or, for a "
            "wheel, use ENGINE=docker"
        )
    print(f"CPython {LOCKED}, which the locked wheels are for: {python}", flush=True)
    return check_venv(python)


@functools.cache
def with_pip() -> str:
    """An interpreter whose pip downloads: ours if it has one, which not every Linux system's has."""
    if importlib.util.find_spec("pip"):
        return sys.executable
    python = find_python(LOCKED)
    if python and starts(python, "import pip"):
        return python
    raise Failure(
        f"{sys.executable} has no pip: install it (python3-pip), or name another: make PYTHON=path/to/python ..."
    )
