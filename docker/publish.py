"""Checks the wheel of dist/ and uploads it: `make publish [REPOSITORY_URL=...]`.

Refuses a wheel from a dirty tree, and one that `make reproduce` has not built twice with the same bytes. Then runs
`twine check --strict` and `twine upload`. Without REPOSITORY_URL, twine's configuration names the index. twine also reads
the credentials (TWINE_USERNAME, TWINE_PASSWORD, or its configuration file).
"""

import argparse
import subprocess
from pathlib import Path

import images
import project_run
from common import (
    CACHE,
    ROOT,
    Failure,
    environment,
    main_guard,
    read_record,
    read_wheel,
    sha256_of,
    virtual_environment,
)
from trust import no_history, recorded_commit, release_commit, resolve


def check(wheel: Path, project: Path) -> None:
    read_wheel(wheel)
    commit = recorded_commit(wheel, read_record(wheel)["source"])
    sha256 = sha256_of(wheel)
    if not (CACHE / "reproduced" / sha256).exists():
        if resolve(project, commit) != commit:  # `make reproduce` would build something else
            why = no_history(project) or f"{project} has no commit {commit[:12]}"
            raise Failure(
                f"{wheel.name} has not been reproduced, and cannot be here ({why}): run `make wheel reproduce` in a clone"
            )
        raise Failure(
            f"{wheel.name} (sha256 {sha256}) has not been reproduced: run `make reproduce` on the same commit"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--project", type=Path, default=ROOT)
    parser.add_argument("--dist", type=Path, help="by default the project's dist/")
    parser.add_argument("--repository-url", default="")
    parser.add_argument("--check-only", action="store_true", help="stop before the upload")
    parser.add_argument("--tag", help="release tag: v and the version, without its local label")
    args = parser.parse_args()
    project = project_run.load(args.project)
    dist = args.dist or project.dist
    wheels = sorted(dist.glob("*.whl"))
    versions = {wheel.name.split("-")[1].partition("+")[0] for wheel in wheels}
    machines = {images.machine_of(wheel.name) for wheel in wheels}
    pinned = all("+torch" in wheel.name for wheel in wheels)  # one for each torch
    if len(versions) != 1 or (len(wheels) != len(machines) and not pinned):
        others = "".join(f"; {path.name} is a source archive, which is not uploaded" for path in dist.glob("*.tar.gz"))
        raise Failure(f"{dist} must hold one wheel for a machine, found {len(wheels)}{others}: run `make wheel`")
    (version,) = versions
    for wheel in wheels:
        check(wheel, project.folder)
        if args.tag and args.tag != f"v{version}":
            raise Failure(f"the tag {args.tag} is not v{version}, the version in pyproject.toml")
        if args.tag and release_commit(project.folder, args.tag) != read_record(wheel)["source"]["commit"]:
            raise Failure(
                f"{wheel.name} was not built from the tag {args.tag}: check it out, then `make wheel reproduce`"
            )
    twine = virtual_environment("publish") / "twine"
    subprocess.run([twine, "check", "--strict", *wheels], check=True, env=environment())
    if args.check_only:
        return
    where = ["--repository-url", args.repository_url] if args.repository_url else []
    subprocess.run([twine, "upload", "--non-interactive", *where, *wheels], check=True, env=environment())


if __name__ == "__main__":
    main_guard(main)
