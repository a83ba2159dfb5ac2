"""Builds the wheel twice, under different conditions, and compares: `make reproduce`.

The two copies of the source are in different folders and have different modes and creation order. cibuildwheel builds one,
plain `docker run` the other. The builds also differ in wall-clock time (libfaketime), time zone, locale, umask, host name,
user id and number of jobs. Prints both sha256; if they differ, reports where and fails. With ENGINE=host both builds run on
this machine, in different folders and, if libfaketime is installed, at different times.

    python3 docker/reproduce.py --engine docker [--project FOLDER]
"""

import argparse
import os
import shutil
import subprocess
import time
from pathlib import Path

import children
import emulated
import engine as engines
import fetch
import images
import project_run
import pythons
from common import (
    CACHE,
    IMAGE_SCRIPTS,
    ROOT,
    Failure,
    built_wheels,
    environment,
    fresh_folder,
    main_guard,
    sha256_of,
    virtual_environment,
)
from differences import list_differences
from host_build import check_host, host_machine, host_variables, host_variant
from image.project import Pair, Project
from make_wheel import cuda_architectures, run_cibuildwheel
from project_run import pair_variables
from staging import stage

FAKETIME = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"
DAYS_LATER = 23
FIRST = {"TZ": "Pacific/Kiritimati", "LC_ALL": "C", "LANG": "C", "MAX_JOBS": "2"}
SECOND = {"TZ": "America/St_Johns", "LC_ALL": "C.UTF-8", "LANG": "tr_TR.UTF-8", "MAX_JOBS": "3"}


def copy_tree(source: Path, target: Path, *, backwards: bool, private: bool) -> Path:
    """A copy whose files are created in another order, with the modes of another umask."""
    for file in sorted((p for p in source.rglob("*") if p.is_file() or p.is_symlink()), reverse=backwards):
        copy = target / file.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy, follow_symlinks=False)
        if file.is_symlink():
            continue
        copy.chmod(
            (0o700 if os.access(file, os.X_OK) else 0o600)
            if private
            else (0o775 if os.access(file, os.X_OK) else 0o664)
        )
    return target


def build_with_cibuildwheel(
    engine: str, image: str, source: Path, out: Path, facts: dict[str, str], options: list[str]
) -> None:
    run_cibuildwheel(engine, image, source, out, facts | FIRST, "--hostname=first", *options)


def build_with_run(
    engine: str, image: str, source: Path, out: Path, variables: dict[str, str], before: str = "", options=()
) -> None:
    """Plain `docker run` as another user, with everything but /tmp and the output read-only; runs `before` first."""
    out.chmod(0o777)
    for path in (source, *source.rglob("*")):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode | (0o055 if path.is_dir() else 0o044))
    with project_run.own_error() as error:
        children.run_container(
            engine, image, "bash", "-c", f"{before} umask 077 && /opt/customops/build-wheel.sh /project /out",
            options=["--read-only", "--user=4321:8765", "--tmpfs=/tmp:exec,mode=1777", "--env=HOME=/tmp", *options,
                     *(f"--env={name}={value}" for name, value in variables.items()),
                     f"--volume={error.parent}:/answers", "--env=BUILD_ERROR=/answers/error",
                     f"--volume={source}:/project:ro", f"--volume={out}:/out"],
        )  # fmt: skip


def build_later(engine: str, image: str, source: Path, out: Path, facts: dict[str, str], options: list[str]) -> None:
    """The same on another host, at a later time; checks that the time is faked."""
    clock = {"LD_PRELOAD": FAKETIME, "FAKETIME": f"+{DAYS_LATER}d", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
    later = int(time.time()) + (DAYS_LATER - 1) * 86400
    faked = f"""
        (($(date +%s) > {later})) || {{ echo 'error: libfaketime does not work in this image' >&2; exit 1; }}
       """
    build_with_run(engine, image, source, out, facts | SECOND | clock, faked, ["--hostname=second", *options])


def build_on_host(source: Path, out: Path, facts: dict[str, str], extra: dict[str, str]) -> None:
    tools = virtual_environment("tools")
    temporary = str(fresh_folder(f"tmp-{out.name}"))
    with project_run.own_error() as error:
        children.run(
            ["bash", IMAGE_SCRIPTS / "build-wheel.sh", source, out],
            env=environment(tools, MANYLINUX="auto", TMPDIR=temporary, BUILD_ERROR=str(error), **facts, **extra),
        )


def host_faketime() -> dict[str, str]:
    if not Path(FAKETIME).exists():
        print("libfaketime is not installed: both builds see the real time, which passes between them", flush=True)
        return {}
    return {"LD_PRELOAD": FAKETIME, "FAKETIME": f"+{DAYS_LATER}d", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}


def report(engine: str, image: str, first: Path, second: Path) -> None:
    """Prints where two wheels differ: the members, and diffoscope's report (the build image has diffoscope)."""
    for line in list_differences(first, second):
        print(f"  {line}", flush=True)
    if engine != "host":
        folders = [f"--volume={path.parent}:/{name}:ro" for path, name in ((first, "first"), (second, "second"))]
        # ldconfig: diffoscope finds libmagic through the loader's cache, which an unpacked base lacks.
        script = 'ldconfig && env -u PYTHONPATH /usr/bin/python3 /usr/bin/diffoscope "$@" | head -n 200'
        command = ("bash", "-c", script, "diffoscope", f"/first/{first.name}", f"/second/{second.name}")
        children.run_container(engine, image, *command, options=(*folders, *children.AS_OWNER), check=False)
    elif shutil.which("diffoscope"):
        subprocess.run(["diffoscope", first, second], check=False)
    else:
        print("  (diffoscope is not installed: apt-get install diffoscope-minimal shows the bytes)", flush=True)


def compare(engine: str, image: str, first: Path, second: Path) -> str:
    """The common sha256 of the wheels that two folders hold; fails with a report when they differ."""
    (left,), (right,) = built_wheels(first), built_wheels(second)
    sums = [sha256_of(path) for path in (left, right)]
    print(f"{sums[0]}  {left.name}  ({first.name})\n{sums[1]}  {right.name}  ({second.name})", flush=True)
    if sums[0] != sums[1]:
        report(engine, image, left, right)
        raise Failure("the two builds differ, see above")
    return sums[0]


def reproduce(
    engine: str, variant: str, base: str, archs: dict[str, str], project: Project, pair: Pair, machine: str = images.OWN
) -> None:
    work = fresh_folder("reproduce")
    staged = stage(project.folder, work / "staged")
    if engine == "host":
        check_host(machine, variant)
    project_run.fetch_locks(project, pair, "build")
    fetch.fetch_set("tools")
    facts = staged.facts | archs
    first, second = work / "first", work / "second"
    for folder in (first, second):
        folder.mkdir()
    sources = (
        copy_tree(work / "staged", work / "a" / "some-source", backwards=False, private=False),
        copy_tree(work / "staged", work / "b" / "a longer way" / "source", backwards=True, private=True),
    )
    image = ""
    if engine == "host":
        folder = project_run.make_environment(project, "build", pair, engine, "")
        facts |= host_variant(variant) | host_variables(pair) | pair_variables(pair, folder) | host_machine(machine)
        build_on_host(sources[0], first, facts, FIRST)
        build_on_host(sources[1], second, facts, SECOND | host_faketime())
    else:
        images.fetch_inputs(variant, machine=machine)
        image = images.ensure(engine, variant, base, machine=machine)["build"]
        python = pythons.mounts(engine, image, pair)
        folder = project_run.make_environment(project, "build", pair, engine, image, python)
        facts |= pair_variables(pair, "/environment")
        mount = [f"--volume={folder}:/environment:ro", *python]
        build_with_cibuildwheel(engine, image, sources[0], first, facts, mount)
        build_later(engine, image, sources[1], second, facts, mount)
    for copy in sources:
        staged.check(copy)
    sha256 = compare(engine, image, first, second)
    proof = CACHE / "reproduced"
    proof.mkdir(exist_ok=True)
    (proof / sha256).touch()
    changed = " with uncommitted changes" if facts["SOURCE_DIRTY"] != "0" else ""
    print(
        f"reproduced: two builds of commit {facts['SOURCE_COMMIT'] or '(none)'}{changed} gave the same bytes",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--variant", default="cpu")
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--base", default="debian")
    parser.add_argument("--arch", default=images.OWN)
    parser.add_argument("--cuda-archs", default="")
    parser.add_argument("--project", type=Path, default=ROOT, help="the project to build twice")
    parser.add_argument("--pythons", default="")
    parser.add_argument("--torches", default="")
    args = parser.parse_args()
    machine = args.arch or images.OWN
    images.check_choices(args.variant, args.base, machine)
    archs = cuda_architectures(args.variant, args.cuda_archs)
    engine, reason = engines.choose(args.engine)
    print(f"ENGINE={engine} ({reason})", flush=True)
    project = project_run.load(args.project)
    pairs = project_run.pairs(project, args.pythons, args.torches)
    pythons.check_all(pairs, engine, args.base)
    if machine == images.ACROSS:
        emulated.check_pairs(pairs)
    for pair in pairs:
        reproduce(engine, args.variant, args.base, archs, project, pair, machine)


if __name__ == "__main__":
    main_guard(main)
