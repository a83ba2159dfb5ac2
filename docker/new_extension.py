"""Starts a project with one op, CPU and CUDA, on the stable ABI: `make new-extension NAME=myops DEST=../myops`.

docker/template/ is that project, under the name myops; nothing else of it changes. It needs nothing of this repository.
"""

import argparse
import keyword
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from common import ROOT, Failure, main_guard

TEMPLATE = ROOT / "docker/template"
PLACEHOLDER = "myops"
TAKEN = {
    "torch",
    "customops",
    "setuptools",
    "ninja",
    "pip",
    "tests",
    "benchmarks",
    "csrc",
    "swish",
} | sys.stdlib_module_names


def check_name(name: str) -> str:
    if not re.fullmatch("[a-z][a-z0-9_]{1,39}", name) or "__" in name or name.endswith("_"):
        raise Failure(f"NAME must be a lower-case Python name such as myops (2 to 40 of a-z, 0-9, _), got {name!r}")
    if keyword.iskeyword(name):
        raise Failure(f"NAME={name} is a keyword of Python, so no package can have it: choose another")
    if name in TAKEN:
        raise Failure(f"NAME={name} is taken by a module that the project needs: choose another")
    return name


def files() -> list[Path]:
    """The template's files, relative: what git knows, so that no build product travels."""
    listed = subprocess.run(["git", "-C", TEMPLATE, "ls-files", "-z"], capture_output=True, text=True, check=False)
    names = [Path(name) for name in listed.stdout.split("\0") if name]
    if not names:
        raise Failure(f"{TEMPLATE} is not in a git checkout: clone the repository instead of copying it")
    return names


def create(name: str, target: Path) -> None:
    check_name(name)
    if target.exists() or target.is_symlink():
        raise Failure(f"DEST={target} is there already: name a folder that does not exist")
    partial = target.with_name(f".{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    for file in files():
        made = partial / str(file).replace(PLACEHOLDER, name)
        made.parent.mkdir(parents=True, exist_ok=True)
        text = (TEMPLATE / file).read_text()
        made.write_text(text.replace(PLACEHOLDER, name).replace(PLACEHOLDER.upper(), name.upper()))
    partial.rename(target)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--name", default="")
    parser.add_argument("--dest", default="")
    given = parser.parse_args()
    if not given.name or not given.dest:
        raise Failure("name the package and a new folder: make new-extension NAME=myops DEST=../myops")
    target = Path(os.path.abspath(Path(given.dest).expanduser()))  # without `..`, and links stay
    create(given.name, target)
    print(f"{target} is there: its README.md says how to build and test it")


if __name__ == "__main__":
    main_guard(main, alone=False)
