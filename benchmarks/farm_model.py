"""How long a wheel takes with more builders, from the durations that one build recorded: `make objects` on each, then `make wheel`.

    python benchmarks/farm_model.py CACHE [--json FILE]        CACHE as in make wheel CACHE=..., after both on this machine

The objects are divided as `make objects` divides them: docker/shares.py. Left out: making images, and machines that are not alike.
"""

import argparse
import datetime
import json
import os
import re
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "docker"))
from shares import divide  # noqa: E402

BUILDERS = (1, 2, 4, 8, 16, 32, 64)
MEGABITS = 100  # a second, of each builder's network
PAYS = 0.1  # of the time: twice as many builders that save less do not pay


class Record(NamedTuple):
    """One build, as it was measured."""

    objects: dict[str, float]  # seconds of each compile
    megabytes: float  # of all objects, in the cache
    listing: float  # seconds of a build that compiles nothing
    linking: float  # seconds of a build that finds every object in the cache
    jobs: int  # compilers at a time

    @property
    def longest(self) -> str:
        return max(self.objects, key=self.objects.get)


class Predicted(NamedTuple):
    """Seconds of each part, one after the other."""

    listing: float
    compiling: float  # by the builder that has most to do
    transfer: float
    linking: float

    @property
    def seconds(self) -> float:
        return sum(self)


def read(facts: dict) -> Record:
    """A result of benchmarks/farm.py, or of this program."""
    return Record(facts["objects"], facts["megabytes"], facts["listing"], facts["linking"], facts["jobs"])


def makespan(seconds: list[float], jobs: int) -> float:
    """Of compiles that start in this order, each as soon as one of `jobs` compilers is free."""
    free = [0.0] * jobs
    for took in seconds:
        free[free.index(min(free))] += took
    return max(free)


def compiling(record: Record, builders: int) -> float:
    """Seconds of compilers of the builder that has most to do. It begins with its longest, as sources.py does by size."""
    shares = divide(record.objects, record.objects, builders)
    return max(makespan([record.objects[name] for name in share], record.jobs) for share in shares)


def transfer(record: Record, builders: int, megabits: float = MEGABITS) -> float:
    """Each builder sends its part, all at once; the one that links gets all of them."""
    return 8 * record.megabytes / megabits * (1 / builders + 1)


def predict(record: Record, builders: int, megabits: float = MEGABITS) -> Predicted:
    """The second build of a builder has everything that the first has, which only lists."""
    return Predicted(
        record.listing,
        record.listing + compiling(record, builders),
        transfer(record, builders, megabits),
        record.linking,
    )


def enough(record: Record) -> int:
    """The most builders that pay."""
    for builders in BUILDERS[:-1]:
        now, then = (predict(record, count).seconds for count in (builders, 2 * builders))
        if then > (1 - PAYS) * now:
            return builders
    return BUILDERS[-1]


def short_name(name: str) -> str:
    """Of an object, without the folder that setuptools names after the CPython: csrc/cpu/axpy.o, cuda12/cuda/axpy.o."""
    return re.sub(r"^(.*: )?(build/temp\.[^/]*/)?", "", name)


def recorded(wanted: str) -> dict:
    """What `make objects SHARD=1/1` and `make wheel` have left in a cache and in .cache/."""
    import object_store
    from common import CACHE
    from steps import Steps

    cache = object_store.parse(wanted)
    objects = {short_name(name): took for name, took in cache.durations().items()}
    steps = json.loads((CACHE / Steps.FILE).read_text())
    (listing,) = (took for name, took in steps.items() if name.endswith(": list the objects"))
    (linking,) = (took for name, took in steps.items() if name.startswith("cibuildwheel: build, repair, check"))
    return {"objects": dict(sorted(objects.items(), key=lambda item: -item[1])), "megabytes": round(cache.size() / 1e6, 1),
            "listing": listing, "linking": linking, "jobs": int(os.environ["MAX_JOBS"])}  # fmt: skip


def machine() -> str:
    model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    return model[1] if model else "a CPU"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cache")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    if not os.environ.get("MAX_JOBS"):
        sys.exit("error: set MAX_JOBS to the number of compilers that ran at once while the durations were recorded")
    facts = {"about": "benchmarks/farm_model.py: seconds of each object of one build, by make objects SHARD=1/1 and make wheel",
             "date": datetime.date.today().isoformat(), "device": machine(), "cpus": os.cpu_count(), **recorded(given.cache)}  # fmt: skip
    record = read(facts)
    for builders in BUILDERS:
        print(f"{builders} builders: {predict(record, builders).seconds:.0f} s")
    print(f"the longest object: {record.longest}, {record.objects[record.longest]:.0f} s")
    if given.json:
        given.json.write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main()
