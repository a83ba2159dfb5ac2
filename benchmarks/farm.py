"""The time of one build by 1, 2, 4 and 8 builders on one machine, beside what benchmarks/farm_model.py predicts.

    python benchmarks/farm.py --cuda-archs cuda13:90 --json FILE
    python benchmarks/farm.py --everything --known RESULT --builders 8 --json FILE        all objects of the release, once

A builder runs what `make objects` runs, setup.py behind docker/divided-compiler.sh, on two CPUs of its own and in a place of its own, but no
container; all share a folder of objects. Then one links, as `make wheel` does. Each number of builders starts from an empty cache.
Needs root, for mounts that no other process sees; torch, setuptools, ninja, c++; CUDA12_HOME or CUDA13_HOME for what --cuda-archs asks.
"""

import argparse
import concurrent.futures
import contextlib
import datetime
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import farm_model
from farm_model import ROOT

sys.path.insert(0, str(ROOT / "docker"))
import build_cache
import divided
from divided import Compile, Pass

PLACES = ("/project", "/cache", "/objects")  # where a container of `make objects` has them
MOUNTED = """
set -e
mount --bind "$1" /project
mount --bind "$2" /cache
mount --bind "$3" /objects
cd /project/project
cpus=$4
shift 4
exec taskset -c "$cpus" "$@"
"""
# For a torch that does not look for ccache. nvcc calls c++, too, for no source of the project, and with a PATH of its own.
CXX = """#!/bin/sh
case " $* " in
  *" -c /project/project/csrc/"*) exec /cache/bin/ccache {compiler} "$@" ;;
esac
exec {compiler} "$@"
"""
LEFT_OUT = ("*.egg-info", ".*", "build", "dist", "tests", "results", "__pycache__")


@contextlib.contextmanager
def places() -> Iterator[None]:
    """Folders to mount over, for as long as they are needed."""
    missing = [Path(place) for place in PLACES if not Path(place).exists()]
    for place in missing:
        place.mkdir()
    try:
        yield
    finally:
        for place in missing:
            place.rmdir()


class Builds:
    """Builds of customops that differ in where they run and what they compile."""

    def __init__(self, folder: Path, jobs: int, variables: dict[str, str]):
        self.folder, self.jobs = folder, jobs
        self.wanted: list[str] | None = None  # objects; everything if it is None
        self.environment = os.environ | variables | {"MAX_JOBS": str(jobs)}
        cpus = sorted(os.sched_getaffinity(0))
        self.cpus = [cpus[start : start + jobs] for start in range(0, len(cpus) - jobs + 1, jobs)]
        self.objects = folder / "objects"
        self.objects.mkdir()

    def run(self, place: int, part: Pass | None) -> tuple[float, list[Compile]]:
        """One build on the CPUs of one builder, of a part or of everything: (seconds, what was compiled or found).

        Raises:
            SystemExit: it failed; its output is shown.
        """
        start, own = time.monotonic(), self.folder / f"{place}"
        shutil.rmtree(own, ignore_errors=True)
        project, tools = own / "project/project", own / "tools"
        shutil.copytree(ROOT, project, ignore=shutil.ignore_patterns(*LEFT_OUT))
        (tools / "bin").mkdir(parents=True)
        variables, _ = build_cache.tools(tools, "farm", part)
        (tools / "bin/ccache").symlink_to("/cache/divider" if part else "/cache/wrapper")
        if not looks_for_ccache():
            compiler = os.environ.get("CXX") or shutil.which("c++")
            (tools / "bin/c++").write_text(CXX.format(compiler=compiler))
            (tools / "bin/c++").chmod(0o755)
            variables |= {"CXX": "/cache/bin/c++"}
        variables |= {"CCACHE_REMOTE_STORAGE": "file:/objects", "PATH": f"/cache/bin:{os.environ['PATH']}"}
        places = (own / "project", tools, self.objects, ",".join(map(str, self.cpus[place])))
        command = ["unshare", "--mount", "sh", "-c", MOUNTED, "sh", *places, sys.executable, "setup.py", "build_ext"]
        done = subprocess.run(command, env=self.environment | variables, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{done.stdout[-5000:]}\n{done.stderr[-5000:]}\nerror: a build failed, see above")
        compiles = build_cache.read_notes(tools / "log", failed=True)
        divided.check_compiled(Pass("some", compiles=compiles))
        return time.monotonic() - start, compiles

    def listed(self, place: int) -> tuple[list[str], float]:
        """(all objects, seconds)."""
        seconds, compiles = self.run(place, Pass("list"))
        return divided.listed(Pass("list", compiles=compiles), str(ROOT)), seconds

    def builder(self, place: int, builders: int, known: dict[str, float]) -> tuple[float, float, list[Compile]]:
        """What `make objects SHARD=place/builders` does: (seconds of listing, of the second build, what it compiled)."""
        names, listing = self.listed(place)
        wanted = names if self.wanted is None else self.wanted
        mine = divided.divide(wanted, {name: known[name] for name in wanted if name in known}, builders)[place]
        return listing, *(self.run(place, Pass("some", mine)) if mine else (0.0, []))

    def together(self, builders: int, known: dict[str, float]) -> tuple[dict, list[Compile]]:
        """One row of the result, and what was compiled."""
        shutil.rmtree(self.objects, ignore_errors=True)
        self.objects.mkdir()
        start = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(builders) as pool:
            parts = list(pool.map(lambda place: self.builder(place, builders, known), range(builders)))
        compiled = [compile for _, _, compiles in parts for compile in compiles]
        linking, found = self.run(0, None if self.wanted is None else Pass("some", self.wanted))
        if lacking := [compile.object for compile in found if not compile.hit]:
            sys.exit(f"error: {len(lacking)} objects were compiled again that were in the cache: {lacking[:3]}")
        row = {"builders": builders, "listing": max(listing for listing, _, _ in parts), "compiling": max(took for _, took, _ in parts),
               "linking": linking, "seconds": time.monotonic() - start, "objects": len(compiled),
               "compilers": sum(compile.seconds for compile in compiled)}  # fmt: skip
        return {name: round(value, 2) for name, value in row.items()}, compiled


def looks_for_ccache() -> bool:
    from torch.utils import cpp_extension

    return hasattr(cpp_extension, "_wrap_compiler") and not os.environ.get("TORCH_NO_COMPILER_WRAPPER")


def megabytes(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


def thinned(durations: dict[str, float], seconds: float) -> list[str]:
    """As many objects as compile in these seconds, long ones and short ones alike."""
    longest_first = sorted(durations, key=durations.get, reverse=True)
    step = max(1, math.ceil(sum(durations.values()) / seconds))
    return longest_first[step // 2 :: step]


def seconds_of(compiled: list[Compile]) -> dict[str, float]:
    return {compile.object: compile.seconds for compile in compiled}


def measured(builds: Builds, row: dict, compiled: list[Compile]) -> dict:
    """What the model needs, of one row."""
    took = sorted(seconds_of(compiled).items(), key=lambda item: -item[1])
    return {"objects": {farm_model.short_name(name): seconds for name, seconds in took}, "jobs": builds.jobs,
            "megabytes": round(megabytes(builds.objects), 2), "listing": row["listing"], "linking": row["linking"]}  # fmt: skip


def by_name(objects: list[str], durations: dict[str, float]) -> dict[str, float]:
    """An earlier result's durations, of those that it has."""
    return {name: durations[short] for name in objects if (short := farm_model.short_name(name)) in durations}


def everything(builds: Builds, builders: int, durations: dict[str, float]) -> dict:
    """One row: all objects, divided by an earlier result's durations, and linked."""
    row, compiled = builds.together(builders, by_name(builds.listed(0)[0], durations))
    facts = measured(builds, row, compiled)
    return facts | {"rows": [with_prediction(row, facts)]}


def with_prediction(row: dict, facts: dict) -> dict:
    """All builders are on one machine, and nothing is transferred."""
    predicted = farm_model.predict(farm_model.read(facts), row["builders"], float("inf"))
    row |= {"predicted": round(predicted.seconds, 2), "predicted_compiling": round(predicted.compiling, 2)}
    print(json.dumps(row), flush=True)
    return row


def speed_up(
    builds: Builds, pattern: str, counts: list[int], single: float, limit: float, earlier: dict[str, float]
) -> dict:
    """A row for each number of builders; by the first, the model predicts all. Those that would not end in time are left out.

    Durations tell how many objects one builder compiles in `single` seconds: those of an earlier result or, without one, of all that
    match, compiled once by as many builders as there may be. Compilers are read from the disk then.
    """
    began = time.monotonic()
    builds.wanted = [name for name in builds.listed(0)[0] if re.search(pattern, name)]
    known = by_name(builds.wanted, earlier) or seconds_of(builds.together(max(counts), {})[1])
    builds.wanted = thinned(known, single * builds.jobs)
    print(f"{len(builds.wanted)} of {len(known)} objects; {time.monotonic() - began:.0f} s so far", flush=True)
    facts, rows, sums = {}, [], []
    for builders in counts:
        predicted = farm_model.predict(farm_model.read(facts), builders, float("inf")).seconds if facts else 0.0
        if time.monotonic() - began + predicted > limit:
            print(f"{builders} builders: left out, because they would take {predicted:.0f} s more", flush=True)
            continue
        row, compiled = builds.together(builders, known)
        facts, known = facts or measured(builds, row, compiled), known if facts else seconds_of(compiled)
        sums.append(sorted((compile.object, compile.sha256) for compile in compiled))
        rows.append(with_prediction(row | {"same_objects": sums[-1] == sums[0]}, facts))
    return facts | {"rows": sorted(rows, key=lambda row: row["builders"])}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--variant", default="cuda", choices=("cpu", "cuda"))
    parser.add_argument("--cuda-archs", default="", help="as CUDA_ARCHS of make wheel; by default all of the release")
    parser.add_argument(
        "--builders", default="1,8,2,4", help="how many, in this order; the first is what the model gets"
    )
    parser.add_argument("--jobs", type=int, default=2, help="compilers of a builder, and its CPUs")
    parser.add_argument(
        "--objects", default=".", help="those that match a regular expression, and of them as many as --single allows"
    )
    parser.add_argument("--single", type=float, default=60, help="about the seconds that one builder may compile")
    parser.add_argument("--limit", type=float, default=250, help="seconds in all")
    parser.add_argument("--known", type=Path, metavar="RESULT", help="an earlier result, which has the durations")
    parser.add_argument(
        "--everything", action="store_true", help="all objects of --known, once, by the first number of builders"
    )
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    counts = [int(word) for word in given.builders.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        builds = Builds(Path(folder), given.jobs, {"CUSTOMOPS_VARIANT": given.variant, "CUDA_ARCHS": given.cuda_archs})
        if max(counts) > len(builds.cpus):
            sys.exit(
                f"error: {max(counts)} builders of {given.jobs} CPUs need more than this machine has: fewer --builders or --jobs"
            )
        with places():
            earlier = json.loads(given.known.read_text())["objects"] if given.known else {}
            if given.everything:
                found = everything(builds, counts[0], earlier)
            else:
                found = speed_up(builds, given.objects, counts, given.single, given.limit, earlier)
    facts = {"about": "benchmarks/farm.py: builders on one machine that share a folder of objects", "date": datetime.date.today().isoformat(),
             "device": farm_model.machine(), "cpus": os.cpu_count(), "variant": given.variant, "cuda_archs": given.cuda_archs, **found}  # fmt: skip
    if given.json:
        given.json.write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main()
