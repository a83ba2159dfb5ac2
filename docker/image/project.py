"""What every step knows of a project: its pyproject.toml, read here and nowhere else.

    python docker/image/project.py FOLDER      prints the table and what each key means, as `make help PROJECT=FOLDER` does

A project is any that PEP 517 can build. What only this pipeline needs to know stands in [tool.customops-build]; every key has a
default. What cibuildwheel knows, too (environment, before-build, test-command, ...), stands in [tool.cibuildwheel] and is read
by cibuildwheel itself (settings.py). Standard library only.
"""

import argparse
import difflib
import hashlib
import json
import os
import re
import sys
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import architectures
import tomllib

TABLE = "customops-build"
ALWAYS_REQUIRED = ["build"]  # what starts the project's own build backend
WITHOUT_BUILD_SYSTEM = ["setuptools"]  # PEP 518: a project that names no build system is built by setuptools


class BadProject(Exception):
    """The project is not one, or says something that cannot be meant; one line."""


class Key(NamedTuple):
    default: Any
    accepts: Callable[[Any], bool]
    expected: str
    meaning: str


def text(pattern: str) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and re.fullmatch(pattern, value, re.ASCII) is not None


def several(pattern: str) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(map(text(pattern), value))


def are_architectures(value: Any) -> bool:
    try:
        return value == "" or bool(architectures.parse(value))
    except (architectures.BadArchitecture, AttributeError):
        return False


VERSION = r"\d{1,4}(\.\d{1,4}){1,3}"
PYTHON = r"3\.\d{1,2}t?"
# One line of PEP 508 without a URL: what a registry has under a name.
REQUIREMENT = r"[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9._,-]+\])?[ <>=!~0-9A-Za-z.*+,]*(;[^\n\r]*)?"

KEYS = {
    "policy": Key(
        "torch-pinned", text("strict|torch-pinned"), "strict or torch-pinned",
        "strict: stable ABI only, one wheel for every torch; torch-pinned: C++ symbols of torch, and the wheel requires that torch",
    ),
    "pythons": Key(["3.11"], several(PYTHON), 'a list such as ["3.11", "3.13"]', "CPythons to build for, paired with torches in order"),
    "torches": Key(["2.13.0"], several(VERSION), 'a list such as ["2.13.0"]', "torches to build against; unused if no requirement is torch"),
    "aten": Key(
        "torch", text("torch|stable"), "torch or stable",
        "stable: the same sources against aten_stable's headers, policy strict, one wheel for every CPython and every torch from 2.10 on",
    ),
    "build-requires": Key([], several(REQUIREMENT), 'a list such as ["torch", "ninja"]', "what the build imports and [build-system] requires does not name"),
    "locks": Key("locks", text(r"[A-Za-z0-9_-][\w.-]*(/[A-Za-z0-9_-][\w.-]*)*"), "a folder below the project", "where `make lock` writes requirements-build*.txt and requirements-test*.txt"),
    "cuda": Key("13", text("12|13"), "12 or 13", "VARIANT=cuda: whose compiler CUDA_HOME and CUDACXX name; aten = \"stable\" takes both"),
    "cuda-archs": Key("", are_architectures, '"8.0 9.0+PTX" or the like', "VARIANT=cuda: TORCH_CUDA_ARCH_LIST, unless CUDA_ARCHS or the caller's own says otherwise"),
    "manylinux": Key("auto", text(r"auto|manylinux_2_\d\d"), "auto or manylinux_2_NN", "the platform tag to reach; auto: the oldest one that the libraries allow"),
    "max-megabytes": Key(100, lambda value: type(value) is int and 0 < value <= 4096, "a whole number up to 4096", "a larger wheel is refused"),
    "modules": Key([], several(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*"), "a list of modules", "what the test stage imports first; by default all that the wheel makes importable"),
    "tests": Key(["tests", "test"], several(r"[\w-][\w.-]*(/[\w-][\w.-]*)*"), "a list of files and folders", "what of the project the test stage can see"),
}  # fmt: skip


def read_table(given: Any) -> dict[str, Any]:
    """The table with its defaults; an unknown key or a wrong value is an error."""
    if not isinstance(given, dict):
        raise BadProject(f"[tool.{TABLE}] must be a table")
    for key, value in given.items():
        if key not in KEYS:
            near = difflib.get_close_matches(key, KEYS, 1, 0.5)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(KEYS)}"
            raise BadProject(f"[tool.{TABLE}] has no key {key}: {hint}")
        if not KEYS[key].accepts(value):
            raise BadProject(f"[tool.{TABLE}] {key}: expected {KEYS[key].expected}, got {value!r}")
    return {key: given.get(key, known.default) for key, known in KEYS.items()}


class Pair(NamedTuple):
    """What one wheel is built for."""

    python: str
    torch: str

    @property
    def tag(self) -> str:
        """cp311, or cp314t for a free-threaded one: the folder below /opt/python is cp311-cp311."""
        return "cp" + self.python.replace(".", "")

    @property
    def interpreter(self) -> str:
        """Below /opt/python."""
        return f"{self.tag.rstrip('t')}-{self.tag}"


class Project:
    """A folder that PEP 517 can build."""

    def __init__(self, folder: Path):
        self.folder = Path(folder).resolve()
        file = self.folder / "pyproject.toml"
        if not file.is_file() and not (self.folder / "setup.py").is_file():
            raise BadProject(f"{self.folder} holds no project, neither pyproject.toml nor setup.py: set PROJECT to one")
        try:
            self.pyproject = tomllib.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise BadProject(f"{file}: {error}") from error
        tools = self.pyproject.get("tool", {})
        self.given = tools.get(TABLE, {}) if isinstance(tools, dict) else {}
        self.table = read_table(self.given)
        if self.table["aten"] == "stable":
            if self.given.get("policy", "strict") != "strict":
                raise BadProject(
                    f'[tool.{TABLE}] aten = "stable" needs no C++ symbol of torch: leave out policy, or say strict'
                )
            self.table["policy"] = "strict"
        if self.policy == "strict" and "max-megabytes" not in self.given:
            self.table["max-megabytes"] = 40

    @property
    def policy(self) -> str:
        return self.table["policy"]

    @property
    def dist(self) -> Path:
        return self.folder / "dist"

    @property
    def locks(self) -> Path:
        return self.folder / self.table["locks"]

    @cached_property
    def pairs(self) -> list[Pair]:
        return pair_up(self.table["pythons"], self.table["torches"], f"[tool.{TABLE}] pythons and torches")

    def lock(self, kind: str, pair: Pair) -> Path:
        """requirements-build.txt or -test.txt of the first pair; further pairs have theirs in the name."""
        suffix = "" if pair == self.pairs[0] else f"-{pair.tag}-torch{pair.torch}"
        return self.locks / f"requirements-{kind}{suffix}.txt"

    @property
    def backend(self) -> str:
        """The build backend's module, such as setuptools.build_meta."""
        system = self.pyproject.get("build-system", {})
        named = system.get("build-backend") if isinstance(system, dict) else None
        return named if isinstance(named, str) else "setuptools.build_meta:__legacy__"

    @property
    def build_requires(self) -> list[str]:
        """What the lock of the build is resolved from, without what the backend asks for when it is called."""
        system = self.pyproject.get("build-system", {})
        named = system.get("requires", WITHOUT_BUILD_SYSTEM) if isinstance(system, dict) else None
        if not several(REQUIREMENT)(named):
            raise BadProject(f"[build-system] requires: expected a list of names and versions, got {named!r}")
        return [*named, *self.table["build-requires"], *ALWAYS_REQUIRED]

    def inputs_digest(self, pair: Pair) -> str:
        """Of everything in pyproject.toml that decides what a lock holds: the lock names it, so that an old one is noticed."""
        project = self.pyproject.get("project", {})
        settings = self.pyproject.get("tool", {}).get("cibuildwheel", {})
        tests = {key: value for key, value in settings.items() if key.startswith("test")}
        facts = (self.build_requires, project.get("dependencies"), project.get("optional-dependencies"),
                 self.pyproject.get("dependency-groups"), tests, tuple(pair))  # fmt: skip
        return hashlib.sha256(repr(facts).encode()).hexdigest()[:16]


def pair_up(pythons: list[str], torches: list[str], what: str) -> list[Pair]:
    """Equally many, in order; one torch serves several Pythons and the other way round."""
    if not pythons or not torches or (len(pythons) != len(torches) and 1 not in (len(pythons), len(torches))):
        raise BadProject(f"{what} are paired in order and must be equally many, got {pythons} and {torches}")
    count = max(len(pythons), len(torches))
    left, right = (values * count if len(values) == 1 else values for values in (pythons, torches))
    for values, pattern, name in ((left, PYTHON, "Python"), (right, VERSION, "torch")):
        for value in values:
            if not text(pattern)(value):
                raise BadProject(f"{what}: {value!r} is not the version of a {name}")
    return [Pair(*pair) for pair in zip(left, right, strict=True)]


def describe(project: Project) -> str:
    lines = [f"[tool.{TABLE}] of {project.folder}/pyproject.toml, with the defaults of what it leaves out:"]
    for key, known in KEYS.items():
        value = project.table[key]
        lines.append(f"  {key} = {json.dumps(value)}\n      {known.meaning}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", default=os.getcwd())
    parser.add_argument("--values", choices=KEYS, nargs="+", help="only the values of these keys, in one line")
    args = parser.parse_args()
    try:
        project = Project(args.folder)
        print(" ".join(str(project.table[key]) for key in args.values) if args.values else describe(project))
    except BadProject as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
