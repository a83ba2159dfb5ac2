"""A copy of a project's sources, and what is known of it: what is built is what the build record says."""

import os
import subprocess
from pathlib import Path
from typing import NamedTuple

from common import IMAGE_SCRIPTS, Failure, environment, sha256_of


class Staged(NamedTuple):
    """A copy of the sources of a project."""

    facts: dict[str, str]  # commit, dirty flag and time, for the build record
    hashes: dict[str, str]  # of every file, taken before the facts

    def check(self, folder: Path) -> None:
        """Refuses what was built from a copy that somebody changed meanwhile: the facts would not be about it."""
        now = hashes_of(folder)
        changed = sorted(name for name in self.hashes | now if self.hashes.get(name) != now.get(name))
        if changed:
            raise Failure(f"{folder / changed[0]} changed during the build: nothing may write there; run this again")


def hashes_of(folder: Path) -> dict[str, str]:
    found = {}
    for path in folder.rglob("*"):
        if path.relative_to(folder).parts[0] == ".git":  # stage-git.sh; git itself writes there
            continue
        if path.is_symlink():
            found[str(path.relative_to(folder))] = f"link to {os.readlink(path)}"
        elif path.is_file():
            found[str(path.relative_to(folder))] = sha256_of(path)
    return found


def stage(project: Path, staged: Path) -> Staged:
    subprocess.run(["bash", IMAGE_SCRIPTS / "stage-source.sh", project, staged], check=True)
    hashes = hashes_of(staged)
    command = ["bash", IMAGE_SCRIPTS / "source-facts.sh", project, staged]
    text = subprocess.check_output(command, text=True, env=environment())
    return Staged(dict(line.split("=", 1) for line in text.splitlines()), hashes)
