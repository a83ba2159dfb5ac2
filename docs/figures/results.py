"""Reads benchmarks/results/: rows of the benchmarks, cases of the sweeps, and what the tables and plots make of them."""

import json
import math
import re
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "benchmarks"))
import farm_model as farm_model  # noqa: E402

RESULTS = ROOT / "benchmarks/results"
OURS, FLOOR = "customops", "floor"
PASSES = ("fwd", "dgrad", "wgrad", "bwd", "forward", "double backward", "backward")  # a longer name before its ending
FORMATS = ("nchw", "nhwc")
DTYPES = ("fp32", "fp16", "bf16", "fp64")


class Row(NamedTuple):
    """One line of a benchmark: its name in parts, and microseconds of the floor, of ours and of the peers."""

    case: str
    dtype: str
    format: str
    direction: str
    us: dict[str, float]

    @property
    def peers(self) -> dict[str, float]:
        return {name: us for name, us in self.us.items() if name not in (OURS, FLOOR)}

    @property
    def speedup(self) -> float:
        """The fastest peer's time over ours."""
        return min(self.peers.values()) / self.us[OURS]

    @property
    def floors(self) -> float:
        return self.us[OURS] / self.us[FLOOR]


class Result(NamedTuple):
    """A benchmark of one op on one machine."""

    op: str
    facts: dict
    rows: list[Row]

    @property
    def device(self) -> str:
        return kind(self.facts)

    @property
    def name(self) -> str:
        return f"{self.op}-{self.device}"


def read(path: Path) -> dict:
    try:
        return json.loads(path.read_text())
    except ValueError as error:
        raise SystemExit(f"error: {path} is not JSON ({error}): run its benchmark again") from error


def row(name: str, us: dict[str, float]) -> Row:
    """The name of a row ends with dtype, memory format and direction, each of which may be missing."""
    found = []
    for choices in (PASSES, FORMATS, DTYPES):
        end = next((choice for choice in choices if name.endswith(f" {choice}")), "")
        name = name.removesuffix(f" {end}") if end else name
        found.append(end)
    elements = re.match(r"\d+$", name)
    if elements and int(name).bit_count() == 1:
        name = f"2^{int(name).bit_length() - 1} elements"
    direction, layout, dtype = found
    return Row(name, dtype, layout, direction, us)


def benchmarks(folder: Path = RESULTS) -> list[Result]:
    """Every <op>-<device>.json, GPUs first."""
    found = []
    for path in sorted(folder.glob("*.json")):
        facts = read(path)
        if "op" in facts and "rows" in facts:
            rows = [row(entry["name"], entry["us"]) for entry in facts.pop("rows")]
            found.append(Result(facts["op"], facts, rows))
    return sorted(found, key=lambda result: (result.device != "cuda", result.op))


def sweeps(folder: Path = RESULTS, benchmark: bool = False) -> list[dict]:
    """Every sweep/<device>-<seed>.json, with `cases` that have a ratio, GPUs first; or those in benchmark mode."""
    found = []
    for path in sorted(folder.glob("sweep/*.json")):
        sweep = read(path)
        if sweep.get("benchmark", False) != benchmark:
            continue
        sweep["cases"] = [case for case in sweep["cases"] if case.get("ratio") is not None]
        found.append(sweep)
    return sorted(found, key=lambda sweep: (kind(sweep) != "cuda", sweep["seed"]))


def recorded(name: str, folder: Path = RESULTS) -> dict:
    """A file of results that is neither: training steps, overhead, counters."""
    return read(folder / "other" / f"{name}.json")


def builders_of(facts: dict) -> str:
    """What benchmarks/farm.py and benchmarks/farm_model.py measured, where and when."""
    jobs = facts["jobs"]
    return f"{device(facts)}, {facts['cpus']} CPUs, builders of {jobs} compiler{'s' * (jobs > 1)} at a time, {facts['date']}"


def kind(facts: dict) -> str:
    """cuda or cpu."""
    return "cuda" if "driver" in facts else "cpu"


def device(facts: dict) -> str:
    """The machine's name as people write it."""
    return re.sub(r"^NVIDIA |\((R|TM)\)| Processor$", "", facts["device"]).strip()


def machine(facts: dict) -> str:
    """What was measured where and when, for titles and captions."""
    threads = f", {facts['threads']} thread{'s' * (facts['threads'] > 1)}" if "threads" in facts else ""
    driver = f", driver {facts['driver']}" if "driver" in facts else ""
    return f"{device(facts)}{threads}{driver}, torch {facts['torch']}, {facts['date']}"


def geometric_mean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def torchs_best(case: dict) -> float:
    """Microseconds of the fastest peer in a case of a sweep."""
    return min(us for name, us in case["us"].items() if name != OURS)


def direction(case: dict) -> str:
    return case["case"].split()[0]
