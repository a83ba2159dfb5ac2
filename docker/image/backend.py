"""A build backend that builds the project beside it with build_project.py: so that cibuildwheel drives the same step as
`docker run`. docker/make_wheel.py copies it beside the staged sources."""

import os
import subprocess
import sys
from pathlib import Path


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    command = [sys.executable, "/opt/customops/build_project.py", Path.cwd() / "project", wheel_directory]
    # The project's own build starts hooks, too, and must not look for its backend here.
    variables = {k: v for k, v in os.environ.items() if not k.startswith("_PYPROJECT_HOOKS_")}
    if subprocess.run(command, env=variables, check=False).returncode:
        sys.exit(1)
    (wheel,) = Path(wheel_directory).glob("*.whl")
    return wheel.name
