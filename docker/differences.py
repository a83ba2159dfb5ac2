"""What differs between two builds of one wheel: each file, what it holds in the one and in the other, and the likely reason.

diffoscope, which the build image has, shows the bytes; this says in a line what an author can act on. Standard library only.
"""

import re
from pathlib import Path

from archive import Archive
from strict import Refused

TEXT = re.compile(rb"[\t\x20-\x7e]{6,}")
SHOWN = 3  # strings of each file
LENGTH = 160
REASONS = (
    (
        re.compile(r"(?<![\w.])/(?:[\w.+-]+/)+"),
        "a path of the build: name files relative to the project, or map it away with -ffile-prefix-map",
    ),
    (
        re.compile(r"\b(19|20)\d\d\b|\d\d:\d\d:\d\d|\d{10,}"),
        "the time of the build: take it from SOURCE_DATE_EPOCH, or leave it out (__DATE__, __TIME__)",
    ),
)


def strings(body: bytes) -> list[str]:
    return [found.decode() for found in TEXT.findall(body)]


def reasons(left: str, right: str) -> str:
    """Why two strings differ, as far as they tell."""
    found = []
    for pattern, reason in REASONS:
        ours, theirs = ([m[0] for m in pattern.finditer(text)] for text in (left, right))
        if ours and theirs and ours != theirs:
            found.append(reason)
    return "; ".join(found)


def explain(name: str, left: bytes, right: bytes) -> list[str]:
    """One line for the file, and one for each of the first strings that differ."""
    ours, theirs = strings(left), strings(right)
    only = [[text for text in mine if text not in set(other)] for mine, other in ((ours, theirs), (theirs, ours))]
    lines = [
        f"{name} differs" + ("" if any(only) else ": only in what is no text, such as addresses or the order of code")
    ]
    for first, second in list(zip(*only, strict=False))[:SHOWN]:
        why = reasons(first, second)
        lines.append(f"  {first[:LENGTH]!r} and {second[:LENGTH]!r}" + (f": {why}" if why else ""))
    return lines


def list_differences(first: Path, second: Path) -> list[str]:
    """Which members of two wheels differ, and how. RECORD follows from the others."""
    try:
        archives = [Archive(path.read_bytes()) for path in (first, second)]
        left, right = ({name: archive.read(name) for name in archive.names} for archive in archives)
    except Refused as error:
        return [f"one of them is no wheel: {error}"]
    lines = []
    for name in dict.fromkeys([*left, *right]):
        if name not in left or name not in right:
            lines.append(f"{name} is only in the {'first' if name in left else 'second'}")
        elif left[name] != right[name]:
            lines += (
                [f"{name} differs"] if name.endswith(".dist-info/RECORD") else explain(name, left[name], right[name])
            )
    return lines or ["the contents are equal: order, time stamps, modes or compression differ"]
