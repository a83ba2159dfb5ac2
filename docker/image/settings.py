"""A project's [tool.cibuildwheel], as cibuildwheel itself reads it: selectors, overrides, environment, commands.

python docker/image/settings.py FOLDER [cp311]      prints, as JSON, what the test stage installs and runs
"""

import argparse
import json
import sys
from pathlib import Path

from cibuildwheel.errors import FatalError
from cibuildwheel.options import BuildOptions, CommandLineArguments, compute_options
from project import BadProject

PLATFORM = "manylinux_x86_64"


def read(folder: Path, tag: str, to_build: bool = True) -> BuildOptions:
    """What the project says for a CPython such as cp311; an error if that is to be built and the project deselects it."""
    arguments = CommandLineArguments.defaults()
    arguments.platform, arguments.package_dir, arguments.archs = "linux", folder, "x86_64"
    arguments.enable = ["cpython-prerelease"]
    identifier = f"{tag}-{PLATFORM}"
    try:
        options = compute_options("linux", arguments, {})
        # Which pairs are built is said elsewhere; the groups of CPythons that `enable` names differ from release to release.
        options.reader.config_options.pop("enable", None)
        selected = options.globals.build_selector(identifier)
        build = options.build_options(identifier)
    except (FatalError, ValueError, KeyError, TypeError) as error:
        raise BadProject(f"{folder}: [tool.cibuildwheel]: {' '.join(str(error).split())}") from error
    except SystemExit as error:  # cibuildwheel's own way to refuse a value, after a message
        raise BadProject(f"{folder}: cibuildwheel refuses [tool.cibuildwheel], see above") from error
    if to_build and not selected:
        raise BadProject(
            f"{folder}: requires-python, or build or skip of [tool.cibuildwheel], leaves out {identifier}: choose other pythons"
        )
    return build


def tests(folder: Path, tag: str) -> dict:
    build = read(folder, tag, to_build=False)
    return {
        "command": build.test_command or "",
        "requires": build.test_requires,
        "extras": [extra for extra in build.test_extras.split(",") if extra],
        "groups": build.test_groups,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("tag", nargs="?", default="cp311")
    args = parser.parse_args()
    try:
        print(json.dumps(tests(args.folder, args.tag)))
    except BadProject as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
