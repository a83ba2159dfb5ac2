"""Tries builders that share a cache, on one machine: `make farm BUILDERS=3 [PROJECT=...]`. docs/farm.md shows a result.

A Redis server and each builder have a network namespace of their own. A builder is a clone of the last commit with a .cache and a
name of its own; it reaches the server and nothing else. Of three runs, each from an empty cache, one has no accident, in one a
builder is killed in the middle, and in one a builder stores objects that it has compiled without optimisation. Each ends with
`make wheel`, whose file is compared with one that was built without a cache. Needs root.
"""

import argparse
import contextlib
import dataclasses
import datetime
import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import fetch
import make_wheel
from common import CACHE, ROOT, Failure, environment, fresh_folder, main_guard, read_left, sha256_of
from namespaces import Namespace, check_machine, start, with_redis
from strict import one_line

MOST = 16  # builders
INPUTS = ("aarch64", "debian", "environments", "project-wheels", "pythons", "wheels", "wheels-aarch64")  # of .cache
LIE = """
printf '#!/bin/sh\\nexec "$@" -O0\\n' >/tmp/lie && chmod +x /tmp/lie && export CCACHE_PREFIX=/tmp/lie
"""
DONE = re.compile(r"cache \S+: (\d+) of \d+ objects found, (\d+) compiled and stored, (\d+) compiled only;")
AUDITED = re.compile(r"(\d+) of \d+ objects that are there")
SHARE = re.compile(r"SHARD=\S+: (\d+) of \d+ objects")
DIFFERS = re.compile(r".+ differs: the cache holds .*, stored by (.+); its source compiles to")


def read_builders(wanted: str) -> int:
    """BUILDERS of `make farm`.

    Raises:
        Failure: it is not a number from 2 to MOST.
    """
    if not re.fullmatch(r"[0-9]{1,2}", wanted, re.ASCII) or not 2 <= int(wanted) <= MOST:
        raise Failure(f"BUILDERS must be a number from 2 to {MOST}, got {one_line(wanted, 50)!r}")
    return int(wanted)


class Make:
    """One `make` of a builder: its lines are shown with the builder's name, and kept."""

    def __init__(self, builder: "Builder", command: list, variables: dict[str, str]):
        self.builder, self.lines = builder, []
        self.process = start(*command, dies="TERM", cwd=builder.checkout, env=variables, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, start_new_session=True, text=True, errors="replace")  # fmt: skip
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self) -> None:
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))
            name = f"{self.builder.name}: "
            print(name + line.removeprefix(name), end="", flush=True)

    def end(self, fails: bool = False) -> "Make":
        """Waits for it.

        Raises:
            Failure: its exit status is another than expected.
        """
        self.reader.join()
        if bool(self.process.wait()) != fails:
            how = "ended with status 0, which it should not" if fails else "failed, see above"
            raise Failure(f"{self.builder.name}: make {how}")
        return self

    def numbers(self) -> tuple[int, int]:
        """(objects found, compiled), by the last line of each build."""
        counts = [tuple(map(int, found.groups())) for line in self.lines if (found := DONE.match(line))]
        return sum(found for found, _, _ in counts), sum(stored + only for _, stored, only in counts)


@dataclasses.dataclass
class Builder:
    """A checkout, and the namespace that its make runs in; without one, it has this machine's network."""

    name: str
    checkout: Path
    project: Path
    choices: list[str]  # VARIANT=... and the like
    namespace: Namespace | None = None
    password: str = ""

    def make(self, *words: str) -> Make:
        left_out = ("MAKE", "MFLAGS")  # this make's own variables stand before those of another's command line
        variables = {k: v for k, v in environment().items() if not k.startswith(left_out)}
        variables |= {"CACHE_BUILDER": self.name, "CACHE_PASSWORD": self.password}
        command = ["make", "--no-print-directory", *words, f"PROJECT={self.project}", *self.choices]
        return Make(self, self.namespace.command(*command) if self.namespace else command, variables)

    def wheels(self) -> dict[str, str]:
        """name -> sha256 of what it has built."""
        return {path.name: sha256_of(path) for path in (self.project / "dist").glob("*.whl")}

    def stored(self) -> int:
        """How many objects its build has put into the cache so far."""
        notes = (self.checkout / ".cache/shared/log").glob("*")
        return sum("remote_storage_write" in read_left(note, 10_000) for note in notes)

    def lose_power(self, engine: str) -> None:
        """Kills every process of it, and its containers, whose processes are in another namespace."""
        self.namespace.kill()
        mounted = f"--filter=volume={self.checkout / '.cache/shared'}"
        listed = subprocess.run([engine, "ps", "--quiet", mounted], capture_output=True, text=True, check=True)
        for container in listed.stdout.split():
            subprocess.run([engine, "rm", "--force", "--volumes", container], stdout=subprocess.DEVNULL, check=False)


def new_builder(name: str, folder: Path, project: Path, choices: list[str], inputs: Path) -> Builder:
    """A clone of the last commit, and of a project that lies elsewhere a copy. Its downloads are links to what is there.

    Raises:
        Failure: the project lies here, but not in the last commit.
    """
    checkout = folder / name / "checkout"
    clone = ["git", "clone", "--quiet", "--no-hardlinks", ROOT, checkout]
    subprocess.run(clone, check=True, env=environment())
    for kind in INPUTS:
        if (inputs / kind).is_dir():
            shutil.copytree(inputs / kind, checkout / ".cache" / kind, symlinks=True, copy_function=os.link)
    if project.is_relative_to(ROOT):
        own = checkout / project.relative_to(ROOT)
        if not own.is_dir():
            raise Failure(f"{project} is not in the last commit, which builders clone: commit it")
    else:
        own = Path(shutil.copytree(project, folder / name / project.name, symlinks=True))
        shutil.rmtree(own / "dist", ignore_errors=True)
    return Builder(name, checkout, own, choices)


class Farm:
    """Builders, and one more that links and audits; before that, it has built a wheel without a cache."""

    def __init__(self, builders: list[Builder], linker: Builder, engine: str, folder: Path):
        self.builders, self.linker, self.engine, self.folder = builders, linker, engine, folder
        self.alone = linker.wheels()

    def run(self, what: str, killed: bool = False, lies: bool = False) -> dict:
        """One row of the result, from an empty cache. Who is killed, or lies, is the last builder."""
        password, everybody = secrets.token_hex(16), [*self.builders, self.linker]
        print(f"==> {what}", flush=True)
        with with_redis(len(everybody), self.folder, password) as (cache, spaces):
            for builder, space in zip(everybody, spaces, strict=True):
                builder.namespace, builder.password = space, password
            with lying(self.builders[-1]) if lies else contextlib.nullcontext():
                compiled = self.compile(cache, killed)
            found, missing = self.linker.make("wheel", f"CACHE={cache}").end().numbers()
            same = self.linker.wheels() == self.alone
            audit = self.linker.make("audit-cache", "K=10000", f"CACHE={cache}").end(fails=lies)
        if killed:  # no last line says what it has stored
            compiled[-1] = found - sum(compiled[:-1])
        compared = sum(int(match[1]) for line in audit.lines if (match := AUDITED.match(line)))
        differ = [match[1] for line in audit.lines if (match := DIFFERS.match(line))]
        return {"what": what, "killed": killed, "lies": lies, "compiled": compiled, "found": found, "missing": missing, "same": same,
                "compared": compared, "differ": len(differ), "named": sorted(set(differ))}  # fmt: skip

    def compile(self, cache: str, killed: bool) -> list[int]:
        """What each builder has compiled; all work at the same time."""
        parts = len(self.builders)
        makes = [b.make("objects", f"SHARD={n}/{parts}", f"CACHE={cache}") for n, b in enumerate(self.builders, 1)]
        if killed:
            self.kill_in_the_middle(makes[-1])
        return [make.end(fails=killed and make is makes[-1]).numbers()[1] for make in makes]

    def kill_in_the_middle(self, make: Make) -> None:
        """Once half of its part is in the cache.

        Raises:
            Failure: it ended before, or has no part.
        """
        part = None
        while not part or make.builder.stored() < part // 2:
            part = part or next((int(match[1]) for line in make.lines if (match := SHARE.match(line))), None)
            if part == 0 or make.process.poll() is not None:
                raise Failure(f"{make.builder.name} ended before it could be killed: PROJECT has too few objects")
            time.sleep(0.05)
        make.builder.lose_power(self.engine)
        print(f"{make.builder.name}: killed", flush=True)


@contextlib.contextmanager
def lying(builder: Builder) -> Iterator[None]:
    """A builder whose compilers do something else than their command says: its objects have the keys of right ones."""
    script = builder.checkout / "docker/cached-compiler.sh"
    honest = script.read_text()
    first, _, rest = honest.partition("\n")
    script.write_text(first + LIE + rest)
    try:
        yield
    finally:
        script.write_text(honest)


def check_rows(rows: list[dict], liar: str) -> None:
    """Refuses a farm that does not do what docs/farm.md promises.

    Raises:
        Failure: names the run.
    """
    for row in rows:
        said = (row["same"], row["missing"] > 0, row["differ"], row["named"])
        if said != ((False, False, row["compiled"][-1], [liar]) if row["lies"] else (True, row["killed"], 0, [])):
            raise Failure(f"{row['what']}: another wheel than without a cache, or an audit that is wrong, see above")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--builders", default="3")
    parser.add_argument("--json", type=Path, help="a file for the result")
    make_wheel.add_options(parser)
    given = parser.parse_args()
    count = read_builders(given.builders)
    check_machine()
    options = make_wheel.read_options(given)
    if options["engine"] == "host":
        raise Failure("make farm needs docker or podman: ENGINE=host takes no cache")
    names = {"VARIANT": given.variant, "ENGINE": options["engine"], "BASE": given.base, "ARCH": given.arch, "PYTHON": sys.executable,
             "CUDA_ARCHS": given.cuda_archs, "PYTHONS": given.pythons, "TORCHES": given.torches}  # fmt: skip
    choices, project = [f"{name}={value}" for name, value in names.items()], options["project"].folder
    fetch.fetch_set("cache")
    folder = fresh_folder("farm")
    print("==> a build without a cache", flush=True)
    linker = new_builder("linker", folder, project, choices, CACHE)
    linker.make("wheel").end()
    inputs = linker.checkout / ".cache"
    farm = Farm([new_builder(f"builder-{number}", folder, project, choices, inputs) for number in range(1, count + 1)], linker,
                options["engine"], folder)  # fmt: skip
    rows = [
        farm.run("no accident"),
        farm.run(f"builder-{count} is killed in the middle", killed=True),
        farm.run(f"builder-{count} compiles without optimisation", lies=True),
    ]
    facts = {"about": "make farm: builders and a Redis server in network namespaces of one machine", "date": datetime.date.today().isoformat(),
             "cpus": os.cpu_count(), "project": f"`{project.relative_to(ROOT) if project.is_relative_to(ROOT) else project.name}`", "variant": given.variant, "builders": count, "rows": rows}  # fmt: skip
    if given.json:
        given.json.write_text(json.dumps(facts, indent=1) + "\n")
    check_rows(rows, f"builder-{count}")
    print(
        f"==> {count} builders: the wheel of a build without a cache, unless a builder lies; the audit names it",
        flush=True,
    )
    shutil.rmtree(folder)


if __name__ == "__main__":
    main_guard(main)
