"""A build backend that builds the project beside it with build_project.py: so that cibuildwheel drives the same step as
`docker run`. docker/make_wheel.py copies it beside the staged sources."""

import subprocess
import sys
from pathlib import Path


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    command = [sys.executable, "/opt/customops/build_project.py", Path.cwd() / "project", wheel_directory]
    if subprocess.run(command, check=False).returncode:
        sys.exit(1)
    (wheel,) = Path(wheel_directory).glob("*.whl")
    return wheel.name
