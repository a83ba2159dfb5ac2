"""A build backend for a build without a wheel: docker/divided.py. It stands where docker/image/backend.py stands otherwise.

cibuildwheel runs it in the same container as that, with the same variables, and gets an empty file under the name of a wheel.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

WHEEL = "objects-0-cp311-cp311-linux_x86_64.whl"


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    own = ("_PYPROJECT_HOOKS_", "BUILD_ERROR")
    variables = {k: v for k, v in os.environ.items() if not k.startswith(own)}
    compiles = os.environ["CACHE_PASS"] in ("some", "again")  # then its progress is shown, and what its compilers say
    how = {} if compiles or os.environ.get("V") == "1" else {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with tempfile.TemporaryDirectory() as out:
        command = [sys.executable, "/opt/customops/build_project.py", Path.cwd() / "project", out]
        done = subprocess.run(command, env=variables, check=False, **how)
    if done.returncode:
        print((done.stdout or b"").decode(errors="replace"), flush=True)
        print("this build ended before its wheel: what it compiles after that is left to `make wheel`", flush=True)
    (Path(wheel_directory) / WHEEL).touch()
    return WHEEL
