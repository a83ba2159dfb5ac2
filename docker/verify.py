"""Rebuilds a wheel from the commit that it records, and compares: `make verify WHEEL=... [TRUST=REF]`.

Prints `identical`, or reports what differs and fails. The commit must be one that a tag or the main branch of origin
contains, or TRUST, which is printed. This checkout's scripts do the rebuild, in a container: the commit gives sources, locks,
Dockerfiles and what they copy into the image, and nothing of it runs outside. So a wheel stays verifiable after the
project has changed. ATTESTATION=... REPOSITORY=... check the release's signature first (docker/attestation.py).
"""

import argparse
import os
import shutil
import subprocess
from pathlib import Path

import attestation
import engine as engines
import images
import project_run
import pythons
from common import (
    CACHE,
    IMAGE_SCRIPTS,
    LOCKS,
    ROOT,
    Failure,
    built_wheels,
    fresh_folder,
    git,
    given_wheel,
    main_guard,
    read_record,
    sha256_of,
)
from image import provenance
from image.project import Pair
from make_wheel import cuda_architectures
from project_run import pair_variables
from reproduce import build_with_run, report
from trust import recorded_commit, why_trusted


def variant_of(record: dict) -> str:
    return record.get("variant", "cpu")  # the first releases had no other


def check_out(commit: str, folder: Path, repository: Path = ROOT) -> Path:
    """The files of a commit, without a repository."""
    folder.mkdir(parents=True)
    line_ends = ("-c", "core.autocrlf=false", "-c", "core.eol=lf")
    run = git(repository, *line_ends, f"--work-tree={folder}", "checkout", "--force", "--quiet", commit, "--", ".")
    if run.returncode:
        raise Failure(f"commit {commit} cannot be checked out: {run.stderr.strip()}")
    top = os.path.realpath(folder)
    for path in folder.rglob("*"):
        if path.is_symlink() and not Path(os.path.realpath(path)).is_relative_to(top):
            raise Failure(
                f"commit {commit} holds {path.relative_to(folder)}, a link out of its tree, which is not followed here"
            )
    return folder


def facts_of(record: dict) -> dict[str, str]:
    """What the wheel says about its source and its GPUs, as variables of the build."""
    wanted = [f"{name}:{arch}" for name, cuda in record.get("cuda", {}).items() for arch in cuda["architectures"]]
    return {
        "SOURCE_COMMIT": record["source"]["commit"],
        "SOURCE_DIRTY": "0",
        "SOURCE_DATE_EPOCH": str(int(record["source"]["date_epoch"])),
    } | cuda_architectures(variant_of(record), " ".join(wanted))


def is_factory(tree: Path) -> bool:
    """Whether a commit brings the images that build it; any other project is built by this checkout's."""
    return (tree / "Dockerfile.cpu").is_file() and (tree / "docker/locks/debian-build.lock").is_file()


def torch_of(record: dict) -> str | None:
    """The torch that a build had in its environment. A wheel for ARM records another: that of its headers and libraries."""
    if provenance.machine_of(record) == images.OWN:
        return record.get("torch")
    locked = (line.split()[0] for line in record.get("requirements", ()))
    return next((entry.removeprefix("torch==") for entry in locked if entry.startswith("torch==")), None)


def foreign_environment(record: dict, engine: str, image: str, tree: Path) -> tuple[dict[str, str], list[str]]:
    """(variables, options) of a container that builds a project which does not bring its images."""
    if record["base"].startswith("Debian") and sha256_of(LOCKS / "debian-build.lock") not in record["base"]:
        raise Failure("the wheel was built on other base packages: check out the version of this factory that built it")
    project, python = project_run.load(tree), ".".join(record["python"].split(".")[:2])
    pair = Pair(python, (torch_of(record) or project.pairs[0].torch).partition("+")[0])
    project_run.fetch_locks(project, pair, "build")
    mounts = pythons.mounts(engine, image, pair)
    folder = project_run.make_environment(project, "build", pair, engine, image, mounts)
    return pair_variables(pair, "/environment"), [f"--volume={folder}:/environment:ro", *mounts]


def rebuild(record: dict, engine: str, repository: Path = ROOT) -> tuple[str, Path]:
    """Builds the commit of a record; returns the build image and the new wheel."""
    variant, base = variant_of(record), "manylinux" if "@sha256:" in record["base"] else "debian"
    machine = provenance.machine_of(record)
    images.check_choices(variant, base, machine)
    facts = facts_of(record)
    work = fresh_folder("verify")
    tree = check_out(facts["SOURCE_COMMIT"], work / "source", repository)
    out = work / "out"
    out.mkdir()
    if is_factory(tree):
        if os.path.lexists(tree / ".cache"):
            raise Failure(f"commit {facts['SOURCE_COMMIT']} holds .cache, where the locked inputs of its build belong")
        images.fetch_inputs(variant, tree, machine)
        across = (f"wheels-{machine}",) if machine != images.OWN else ()
        for name in ("debian", "wheels", *across):  # the Dockerfiles copy from there
            shutil.copytree(CACHE / name, tree / ".cache" / name, copy_function=os.link)
        image = images.ensure(engine, variant, base, tree, machine)["build"]
        shutil.rmtree(tree / ".cache")
        build_with_run(engine, image, tree, out, facts)
    else:
        subprocess.run(["bash", IMAGE_SCRIPTS / "stage-git.sh", repository, tree, facts["SOURCE_COMMIT"]], check=True)
        images.fetch_inputs(variant, machine=machine)
        image = images.ensure(engine, variant, base, machine=machine)["build"]
        variables, options = foreign_environment(record, engine, image, tree)
        build_with_run(engine, image, tree, out, facts | variables, options=options)
    wheels = built_wheels(out)
    if len(wheels) != 1:
        raise Failure(f"the commit builds {len(wheels)} wheels, expected one")
    return image, wheels[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--trust", default="", help="a ref whose commits may be built, too")
    parser.add_argument("--attestation", default="", help="Sigstore bundle of the release, checked before the rebuild")
    parser.add_argument("--repository", default="", help="OWNER/NAME whose release workflow has to have signed it")
    parser.add_argument("--project", type=Path, default=ROOT, help="the repository that holds the commit")
    parser.add_argument("wheel")
    args = parser.parse_args()
    repository = args.project.resolve()
    wheel = given_wheel(args.wheel, "verify")
    if bool(args.attestation) != bool(args.repository):
        raise Failure("ATTESTATION=... and REPOSITORY=OWNER/NAME belong together")
    if args.attestation:
        attestation.check(wheel, Path(args.attestation), args.repository)
    record = read_record(wheel)
    commit = recorded_commit(wheel, record["source"])
    if record["base"] == "host":
        raise Failure(
            f"{wheel.name} was built by a host's own compiler, which no lock names: nobody can rebuild it; "
            "make wheel ENGINE=docker builds one that can be verified"
        )
    print(f"commit {commit}: trusted, {why_trusted(repository, commit, args.trust)}", flush=True)
    engine = engines.choose(args.engine)[0]
    if engine == "host":
        raise Failure(f"{wheel.name} was built in a container: start docker or podman to verify it")
    image, again = rebuild(record, engine, repository)
    expected, actual = sha256_of(wheel), sha256_of(again)
    print(f"{expected}  {wheel.name}\n{actual}  rebuilt from commit {commit}", flush=True)
    if expected != actual:
        report(engine, image, wheel.resolve(), again)
        raise Failure(f"{wheel.name} is not what its commit builds, see above")
    print("identical")


if __name__ == "__main__":
    main_guard(main)
