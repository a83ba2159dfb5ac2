"""Compiles a part of a project's objects into a shared cache (`make objects`), or compares what a cache holds (`make audit-cache`).

Both run the project's build in the same container and with the same options as `make wheel CACHE=...`, which finds these objects then.
docs/farm.md says who uses it for what.
"""

import argparse
import random

import build_cache
import divided
import fetch
import images
import make_wheel
import project_run
import pythons
from common import Failure, fresh_folder, main_guard
from divided import Pass
from image.project import Pair
from steps import Steps
from strict import one_line


class Builds:
    """Builds of one project, each for the sake of some objects."""

    def __init__(self, options: dict, *per_pair: str):
        for name, value in options.items():
            setattr(self, name, value)
        several = len(self.pairs) > 1
        named = [
            f"{what}{f' (CPython {p.python}, torch {p.torch})' * several}" for p in self.pairs for what in per_pair
        ]
        across = self.machine != images.OWN
        which = f"images, VARIANT={self.variant} BASE={self.base}{f' ARCH={self.machine}' * across}"
        self.steps = Steps("fetch every input", which, *(f"{self.project.folder.name}: {name}" for name in named))

    def prepare(self) -> None:
        self.steps.next()
        for pair in self.pairs:
            project_run.check_lock(self.project, "build", pair)
        fetch.fetch_set("tools")
        for pair in self.pairs:
            project_run.fetch_locks(self.project, pair, "build")
        images.fetch_inputs(self.variant, machine=self.machine)
        self.steps.next()
        self.image = images.ensure(self.engine, self.variant, self.base, machine=self.machine)["build"]

    def run(self, pair: Pair, part: Pass) -> Pass:
        """One step: a build that compiles this part."""
        self.steps.next()
        python = pythons.mounts(self.engine, self.image, pair)
        out = fresh_folder("out-of-pair")
        make_wheel.build_in_container(
            self.project, pair, self.engine, self.image, python, out, self.archs, self.cache, part
        )
        return part

    @property
    def name(self) -> str:
        return build_cache.project_name(self.project.pyproject)


def compile_shard(options: dict, index: int, parts: int) -> None:
    builds = Builds(options, "list the objects", f"compile those of SHARD={index}/{parts}")
    builds.prepare()
    for pair in builds.pairs:
        names = divided.listed(builds.run(pair, Pass("list")), str(builds.project.folder))
        plan = divided.plan_name(parts, builds.name, builds.image, *pair, *builds.archs.values(), *names)
        prefix = f"{builds.name}: "
        known = {k.removeprefix(prefix): v for k, v in builds.cache.durations().items() if k.startswith(prefix)}
        known = builds.cache.first(plan, {name: known[name] for name in names if name in known})
        mine = divided.divide(names, known, parts)[index - 1]
        print(f"SHARD={index}/{parts}: {len(mine)} of {len(names)} objects{told(mine, known)}", flush=True)
        if mine:
            divided.check_compiled(builds.run(pair, Pass("some", mine)))
        else:
            builds.steps.next()  # more builders than objects
    builds.steps.finish(f"the objects of SHARD={index}/{parts} are in {builds.cache.name}")


def told(mine: list[str], known: dict[str, float]) -> str:
    """What is known of how long a part takes."""
    timed = [known[name] for name in mine if name in known]
    return f", {sum(timed):.0f} s of compilers for {len(timed)} that were timed before" if timed else ""


def audit(options: dict, count: int) -> None:
    """Compiles random objects of a cache again, and compares.

    Raises:
        Failure: one differs, could not be compared, or there is none.
    """
    builds = Builds(
        options, "look for its objects in the cache", f"compile up to K={count} of them again, without a cache"
    )
    builds.prepare()
    compared, bad = 0, 0
    for pair in builds.pairs:
        looked = builds.run(pair, Pass("look"))
        divided.listed(looked, str(builds.project.folder))
        found, absent = divided.present(looked)
        if not found:
            raise Failure(f"none of the {absent} objects of this project is in {builds.cache.name}: nothing to compare")
        chosen = random.SystemRandom().sample(found, min(count, len(found)))
        print(f"{len(chosen)} of {len(found)} objects that are there; {absent} are not", flush=True)
        again = builds.run(pair, Pass("again", [c.object for c in chosen]))
        differ, missing = divided.differing(chosen, again)
        for name in missing:
            print(f"{one_line(name, 200)}: could not be compiled again, see above", flush=True)
        said = builds.cache.builders() if differ else {}
        for there, ours in differ:
            print(accusation(there, ours, said), flush=True)
        compared, bad = compared + len(chosen) - len(missing), bad + len(differ) + len(missing)
    if bad:
        raise Failure(
            f"{bad} of the objects of {builds.cache.name} are not what their sources compile to, or could not be compiled again: do not "
            "use this cache; docs/farm.md says what to do"
        )
    builds.steps.finish(f"{compared} objects of {builds.cache.name} are what their sources compile to")


def accusation(found: divided.Compile, ours: str, said: dict[str, list[str]]) -> str:
    """One line on an object that differs."""
    who = ", ".join(said.get(found.key, [])[:5]) or "an unknown builder"
    return (
        f"{one_line(found.object, 200)} differs: the cache holds sha256 {found.sha256} under key {found.key}, stored by {who}; "
        f"its source compiles to {ours}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=("objects", "audit-cache"))
    parser.add_argument("--shard", default="")
    parser.add_argument("--count", default="20")
    make_wheel.add_options(parser)
    args = parser.parse_args()
    shard = divided.read_shard(args.shard) if args.action == "objects" else ()
    count = divided.read_count(args.count)
    if not args.cache:
        what = f"make objects SHARD={args.shard}" if shard else "make audit-cache"
        raise Failure(
            f"{what} needs a cache that builds share: add CACHE=folder, CACHE=redis://host or CACHE=s3://bucket"
        )
    options = make_wheel.read_options(args)
    if shard:
        compile_shard(options, *shard)
    else:
        audit(options, count)


if __name__ == "__main__":
    main_guard(main)
