"""A project's [tool.cibuildwheel], as cibuildwheel itself reads it: selectors, overrides, environment, commands.

python docker/image/settings.py FOLDER [cp311]      prints, as JSON, what the steps on the host need of them
"""

import argparse
import dataclasses
import json
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import target
from cibuildwheel.environment import EnvironmentAssignmentRaw
from cibuildwheel.errors import FatalError
from cibuildwheel.options import BuildOptions, CommandLineArguments, compute_options
from cibuildwheel.selector import BuildSelector
from project import TABLE, BadProject, Project

SECRET = re.compile("TOKEN|SECRET|PASSW|CREDENTIAL|PRIVATE|API_?KEY|ACCESS_?KEY|AUTH(?!OR)", re.IGNORECASE)


def why_not(folder: Path, identifier: str, selector: BuildSelector) -> str | None:
    """Why this CPython is not built. One that the caller or the project's own table names needs no `build` that selects it."""
    project = Project(folder)
    if "pythons" in project.given or not identifier.startswith(f"{project.pairs[0].tag}-"):
        selector = dataclasses.replace(selector, build_config="*")
    if selector(identifier):
        return None
    if dataclasses.replace(selector, build_config="*")(identifier):
        return (
            f"build of [tool.cibuildwheel] leaves out {identifier}, it selects {selector.build_config}: say pythons = "
            f'["{project.table["pythons"][0]}"] in [tool.{TABLE}] to build that one all the same'
        )
    return f"requires-python, or skip of [tool.cibuildwheel], leaves out {identifier}: choose other pythons in [tool.{TABLE}], or PYTHONS=..."


def read(
    folder: Path, tag: str, to_build: bool = True, outer: Mapping[str, str] = MappingProxyType({})
) -> BuildOptions:
    """What the project says for a CPython such as cp311; an error if that is to be built and the project deselects it.

    outer: the caller's variables, of which environment-pass takes some.
    """
    arguments = CommandLineArguments.defaults()
    arguments.platform, arguments.package_dir, arguments.archs = "linux", folder, target.machine()
    arguments.enable = ["cpython-prerelease"]
    identifier = f"{tag}-manylinux_{target.machine()}"
    try:
        options = compute_options("linux", arguments, outer)
        # Which pairs are built is said elsewhere; the groups of CPythons that `enable` names differ from release to release.
        options.reader.config_options.pop("enable", None)
        refused = why_not(folder, identifier, options.globals.build_selector)
        build = options.build_options(identifier)
        # test-skip leaves the import as the test.
        if not options.globals.test_selector(identifier):
            build = dataclasses.replace(build, test_command="", before_test="", test_requires=[])
    except (FatalError, ValueError, KeyError, TypeError) as error:
        raise BadProject(f"{folder}: [tool.cibuildwheel]: {' '.join(str(error).split())}") from error
    except SystemExit as error:  # cibuildwheel's own way to refuse a value, after a message
        raise BadProject(f"{folder}: cibuildwheel refuses [tool.cibuildwheel], see above") from error
    if to_build and refused:
        raise BadProject(f"{folder}: {refused}")
    return build


def of_host(folder: Path, tag: str) -> dict:
    """What `make lock` and `make wheel` have to know before a container runs."""
    build = read(folder, tag, outer={k: v for k, v in os.environ.items() if not k.startswith("CIBW_")})

    environment, passed = {}, {}
    for assignment in build.environment.assignments:
        if isinstance(assignment, EnvironmentAssignmentRaw):  # environment-pass, out of the caller's own
            if SECRET.search(assignment.name):
                raise BadProject(
                    f"{folder}: environment-pass of [tool.cibuildwheel] asks for {assignment.name}, which is set here and looks like "
                    "a secret: its build could put it into the wheel. Unset it for this call"
                )
            passed[assignment.name] = assignment.value
        elif not any(mark in assignment.value for mark in "$`"):  # what that comes to, only the container knows
            environment[assignment.name] = assignment.evaluated_value(environment={})
    return {
        "command": build.test_command or "",
        "requires": build.test_requires,
        "extras": [extra for extra in build.test_extras.strip("[]").split(",") if extra],
        "before_build": [line for line in (build.before_all, build.before_build) if line],
        "before_test": [build.before_test] if build.before_test else [],
        "environment": environment | passed,
        "passed": passed,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("tag", nargs="?", default="cp311")
    args = parser.parse_args()
    try:
        print(json.dumps(of_host(args.folder, args.tag)))
    except BadProject as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
