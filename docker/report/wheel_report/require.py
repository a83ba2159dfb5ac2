"""A stated requirement, such as "torch>=2.10 python>=3.10 glibc<=2.28 driver<=525 sm_90 cpu": what of it a wheel misses.

``torch`` and ``python`` name versions on which it has to work, all that this report knows; ``glibc`` and ``driver`` limit
what it may ask for; ``sm_N`` is a GPU, ``cpu``, ``cuda12`` and ``cuda13`` are builds of torch.
"""

import re

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import Version

TERM = re.compile(r"(torch|python|glibc|driver)((?:[<>=!~]=?|===?)[\d.*]+(?:,(?:[<>=!~]=?|===?)[\d.*]+)*)")
BUILDS = {"cpu": "CPU", "cuda12": "CUDA 12", "cuda13": "CUDA 13"}
AXES = {"torch": "torch", "python": "CPython", "glibc": "glibc", "driver": "CUDA driver"}


class Unclear(Exception):
    """A term that says nothing this report can answer."""


def missed(report: dict, requirement: str) -> list[str]:
    """One line for each term that the wheel does not meet."""
    return [line for term in requirement.split() for line in missed_by(report, term)]


def missed_by(report: dict, term: str) -> list[str]:
    rows = report["works_on"]
    if term in BUILDS or re.fullmatch(r"sm_\d{2,3}", term):
        axis, value = ("torch build", BUILDS[term]) if term in BUILDS else ("GPU", term)
        if axis not in rows:  # a wheel without device code runs wherever the rest allows, but has nothing for a GPU
            return [] if term in BUILDS else [f"{term}: the wheel has no device code"]
        if value not in rows[axis]:
            raise Unclear(f"{term}: known are {', '.join(rows[axis])}")
        cell = rows[axis][value]
        return [] if cell["verdict"] == "works" else [f"{term}: {cell['verdict']}: {cell['why']}"]
    match = TERM.fullmatch(term)
    if not match:
        raise Unclear(
            f"{term}: expected terms such as torch>=2.10 python>=3.10 glibc<=2.28 driver<=525 sm_90 cpu cuda12"
        )
    name, limits = match[1], match[2]
    try:
        wanted = SpecifierSet(limits)
    except InvalidSpecifier:
        raise Unclear(f"{term}: {limits} is no version specifier") from None
    if name in ("glibc", "driver"):
        floor = report["floors"].get(AXES[name])
        if floor and Version(floor["version"]) not in wanted:
            return [f"{term}: it needs {floor['version']} ({floor['forced_by']})"]
        musl = name == "glibc" and all(cell["verdict"] == "fails" for cell in rows["glibc"].values())
        return [f"{term}: {next(iter(rows['glibc'].values()))['why']}"] if musl else []
    row = rows.get(AXES[name], {})
    asked = [value for value in row if not value.endswith("t") and Version(value) in wanted]
    if row and not asked:
        raise Unclear(f"{term}: no version that this report knows, {' '.join(row)}")
    return [
        f"{name} {value}: {row[value]['verdict']}: {row[value]['why']}"
        for value in asked
        if row[value]["verdict"] != "works"
    ]
