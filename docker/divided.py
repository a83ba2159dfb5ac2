"""Builds of which only some objects are wanted: what `make objects` and `make audit-cache` run in place of a whole build.

The list of objects comes from the project's own build, which docker/divided-compiler.sh answers with empty objects: so it does not
matter whether setuptools, CMake or Meson calls the compiler. docker/divided_backend.py lets such a build end without a wheel.
"""

import dataclasses
import hashlib
import json
import re
from collections.abc import Iterable

from common import Failure
from shares import divide as divide
from strict import one_line

COMPILER, BACKEND = "divided-compiler.sh", "divided_backend.py"  # in docker/


@dataclasses.dataclass
class Compile:
    """One call of a compiler: from the note that docker/cached-compiler.sh left."""

    object: str
    hit: bool
    stored: bool
    seconds: float
    key: str = ""  # of the object in the cache
    sha256: str = ""
    status: int = 0


@dataclasses.dataclass
class Pass:
    """One build for the sake of its objects; `what` and `wanted` as in docker/divided-compiler.sh."""

    what: str
    wanted: Iterable[str] = ()
    compiles: list[Compile] = dataclasses.field(default_factory=list)  # what came of it, failures included

    @property
    def reads_only(self) -> bool:
        return self.what != "some"


def read_shard(wanted: str) -> tuple[int, int]:
    """(i, n) of SHARD=i/n.

    Raises:
        Failure: it is not that, or i is not one of 1 to n.
    """
    found = re.fullmatch(r"([0-9]{1,4})/([0-9]{1,4})", wanted, re.ASCII)
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        what = f"got {one_line(wanted, 50)!r}" if wanted else "it is not set"
        raise Failure(f"SHARD must be i/n with i from 1 to n, such as 2/4 for the second of four builders: {what}")
    return int(found[1]), int(found[2])


def read_count(wanted: str) -> int:
    """K of `make audit-cache`.

    Raises:
        Failure: it is not a number of objects.
    """
    if not re.fullmatch(r"[1-9][0-9]{0,4}", wanted, re.ASCII):
        raise Failure(f"K must be a number of objects from 1 on, got {one_line(wanted, 50)!r}")
    return int(wanted)


def plan_name(parts: int, *what: str) -> str:
    """Names a division: builders of the same objects, with the same image and options and the same n, share its durations."""
    return hashlib.sha256(json.dumps([parts, what]).encode()).hexdigest()[:40]


def listed(done: Pass, project: str) -> list[str]:
    """The objects that a build would compile.

    Raises:
        Failure: none is compiled through ccache.
    """
    names = sorted({c.object for c in done.compiles})
    if not names:
        raise Failure(
            f"the build system of {one_line(project, 100)} calls no compiler through ccache, so its objects cannot be divided or "
            "audited: docs/farm.md says which can"
        )
    return names


def check_compiled(done: Pass) -> None:
    """Refuses a build in which something that was wanted did not compile.

    Raises:
        Failure: names it.
    """
    if failed := sorted({c.object for c in done.compiles if c.status}):
        raise Failure(f"{len(failed)} objects could not be compiled, see above: {one_line(', '.join(failed), 300)}")


def present(done: Pass) -> tuple[list[Compile], int]:
    """(what was found in the cache, how many objects were not). A name that two objects have stands for neither."""
    names = [c.object for c in done.compiles]
    alone = [c for c in done.compiles if names.count(c.object) == 1]
    found = [c for c in alone if c.hit and not c.status and c.key and c.sha256]
    return found, len(names) - len(found)


def differing(found: list[Compile], again: Pass) -> tuple[list[tuple[Compile, str]], list[str]]:
    """(objects of the cache that are not what their sources compile to, each with the sha256 of that; names of those that were not
    compiled again)."""
    ours = {c.object: c.sha256 for c in again.compiles if not c.status and c.sha256}
    missing = [c.object for c in found if c.object not in ours]
    return [(c, ours[c.object]) for c in found if c.object in ours and ours[c.object] != c.sha256], missing
