"""Which commits of this repository are trusted to be built: those that a tag or the main branch of origin contains.

python3 docker/trust.py TAG      fails unless the tag is on the main branch of origin, as a release has to be
"""

import argparse
import re
from pathlib import Path

from common import ROOT, Failure, git, main_guard

MAIN = "refs/remotes/origin/main"


def trusted_refs(project: Path) -> tuple[list[str], str]:
    """(prefixes of trusted refs, how to call them). A clone without an origin has nobody else's branches: its own main."""
    origin = git(project, "for-each-ref", "--count=1", "refs/remotes/origin/").stdout.strip()
    if origin:
        return ["refs/tags", MAIN], "the tags and the main branch of origin"
    return ["refs/tags", "refs/heads/main"], "this repository has no origin: its tags and its own main branch"


def resolve(project: Path, name: str) -> str:
    """The commit that a name stands for, or an empty string."""
    found = git(project, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    return found.stdout.strip() if found.returncode == 0 else ""


def recorded_commit(wheel: Path, source: dict) -> str:
    """The commit that a wheel's build record names; fails unless it was built from just that."""
    if not source["commit"]:
        raise Failure(
            f"{wheel.name} was built outside a git checkout (an unpacked tarball?) and names no commit, so nobody can "
            "rebuild it: run `make wheel reproduce` in a clone, or commit the project to a git repository of its own first"
        )
    if source["dirty"]:
        raise Failure(
            f"{wheel.name} was built from uncommitted changes, so nobody can rebuild it: commit them, then "
            "`make wheel reproduce`"
        )
    return source["commit"]


def no_history(project: Path) -> str:
    """Why wheels of a folder name no commit, in one line; empty if they do."""
    project = project.resolve()
    if git(project, "rev-parse", "--verify", "--quiet", "HEAD").returncode == 0:
        return ""
    above = next((folder for folder in project.parents if (folder / ".git").exists()), None)
    what = "cannot be verified or published"
    if above and not (project / ".git").exists():
        return (
            f"no git history here ({project} is a folder of the repository {above}, and a project has to be the top of its own): "
            f"all its files are built, ignored ones too, and the wheel names no commit and {what}"
        )
    return f"no git history here: the wheel names no commit and {what}"


def check_history(project: Path) -> None:
    """Refuses a folder without commits, and says so where a clone is shallow: what it lacks is not what the project lacks."""
    shallow = git(project, "rev-parse", "--is-shallow-repository")
    if shallow.returncode:
        raise Failure(
            f"{project} is not a git checkout (an unpacked tarball?), and only the history says which commits are "
            "the project's: run this in a clone"
        )
    if shallow.stdout.strip() == "true":
        raise Failure(f"{project} is a shallow clone, which lacks older commits: git fetch --unshallow --tags")


def why_trusted(project: Path, commit: str, also: str = "") -> str:
    """Why a commit may be built, in a few words; fails if nothing says so. ``also`` is a ref that the caller trusts."""
    if not re.fullmatch("[0-9a-f]{40}([0-9a-f]{24})?", commit):
        raise Failure(f"{commit!r} is not a commit")
    if resolve(project, commit) != commit:
        check_history(project)
        raise Failure(f"this repository has no commit {commit}: fetch it first (git fetch --all --tags)")
    refs, called = trusted_refs(project)
    containing = git(project, "for-each-ref", f"--contains={commit}", "--format=%(refname)", *refs).stdout.split()
    if containing:
        return f"{containing[0]} contains it" + ("" if "has no origin" not in called else f" ({called})")
    if also:
        tip = resolve(project, also)
        if not tip:
            raise Failure(f"TRUST={also} names no commit of this repository")
        if git(project, "merge-base", "--is-ancestor", commit, tip).returncode == 0:
            return f"only because TRUST={also} ({tip[:12]}) contains it"
    check_history(project)
    raise Failure(
        f"commit {commit} is on no trusted ref ({called}): its build scripts could be anybody's. "
        "If it should be there, git fetch --all --tags; if you trust it, add TRUST=<a ref that contains it>"
    )


def release_commit(project: Path, tag: str) -> str:
    """The commit of a tag; fails unless the main branch of origin contains it."""
    check_history(project)
    commit = resolve(project, f"refs/tags/{tag}")
    if not commit:
        raise Failure(f"this repository has no tag {tag}: git fetch --tags")
    if git(project, "merge-base", "--is-ancestor", commit, MAIN).returncode:
        raise Failure(f"the tag {tag} ({commit[:12]}) is not on the main branch of origin: merge first, then tag main")
    return commit


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tag")
    tag = parser.parse_args().tag
    print(f"{tag}: {release_commit(ROOT, tag)}, on the main branch of origin")


if __name__ == "__main__":
    main_guard(main, alone=False)
