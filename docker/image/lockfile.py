"""Reads lock files, for the host and in images: one line, one file by its sha256. Standard library only."""

import re
from pathlib import Path
from typing import NamedTuple

from strict import Refused, one_line, text

DEBIAN = re.compile(
    r"(?P<sha256>[0-9a-f]{64}) (?P<size>[0-9]{1,15}) (?P<package>[a-z0-9][a-z0-9.+-]*) (?P<version>[A-Za-z0-9.+:~-]+)"
    r" (?P<path>(?:[A-Za-z0-9_][A-Za-z0-9._+~:%-]*/)*[A-Za-z0-9_][A-Za-z0-9._+~:%-]*)"
)
REQUIREMENT = re.compile(
    r"(?P<path>[a-z0-9][a-z0-9.-]*==[A-Za-z0-9][A-Za-z0-9.+!]*) --hash=sha256:(?P<sha256>[0-9a-f]{64})"
)


class Locked(NamedTuple):
    """One locked file: ``path`` is relative to a Debian mirror, or a requirement such as ``ninja==1.13.2``."""

    sha256: str
    path: str
    size: int = 0
    package: str = ""
    version: str = ""


def read_debian(path: Path) -> list[Locked]:
    return [
        Locked(m["sha256"], m["path"], int(m["size"]), m["package"], m["version"])
        for m in matches(path, DEBIAN, "sha256 size package version path")
    ]


def read_requirements(path: Path) -> list[Locked]:
    found = []
    for m in matches(path, REQUIREMENT, "name==version --hash=sha256:..."):
        package, _, version = m["path"].partition("==")
        found.append(Locked(m["sha256"], m["path"], 0, package, version))
    return found


def matches(path: Path, form: re.Pattern, shown: str):
    for number, line in enumerate(text(path.read_bytes(), str(path)).split("\n"), 1):
        if line and not line.startswith("#"):
            match = form.fullmatch(line)
            if not match:
                raise Refused(f"{path}:{number} is not `{shown}`: run `make lock`; it is {one_line(line, 60)}")
            yield match
