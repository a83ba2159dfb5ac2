"""What differs between two builds of one wheel: each file, what it holds in the one and in the other, and the likely reason.

diffoscope, which the build image has, shows the bytes; this says in a line what an author can act on. Standard library only.
"""

import re
from difflib import get_close_matches
from pathlib import Path

from archive import Archive
from strict import Refused

TEXT = re.compile(rb"[\t\x20-\x7e]{6,}")
# The note that holds a library's build id: a hash of the rest, whose bytes may look like text.
BUILD_ID = re.compile(rb"\x04\0{3}\x14\0{3}\x03\0{3}GNU\0.{20}", re.DOTALL)
SHOWN = 3  # strings of each file
COMPARED = 100  # of those that only one build has
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
    return [found.decode() for found in TEXT.findall(BUILD_ID.sub(b"\0", body))]


def reasons(left: str, right: str) -> str:
    """Why two strings differ, as far as they tell."""
    found = []
    for pattern, reason in REASONS:
        ours, theirs = ([m[0] for m in pattern.finditer(text)] for text in (left, right))
        if ours and theirs and ours != theirs:
            found.append(reason)
    return "; ".join(found)


def pair(ours: list[str], theirs: list[str]) -> list[tuple[str, str]]:
    """The strings of one build, each with the one of the other that it resembles; where none does, one by one in order."""
    starts = {text[:LENGTH]: text for text in theirs[:COMPARED]}
    alike = [
        (text, starts[match]) for text in ours[:COMPARED] for match in get_close_matches(text[:LENGTH], starts, n=1)
    ]
    return (alike or list(zip(ours, theirs, strict=False)))[:SHOWN]


def explain(name: str, left: bytes, right: bytes) -> list[str]:
    """One line for the file, and one for each of the first strings that differ."""
    ours, theirs = strings(left), strings(right)
    both = set(ours) & set(theirs)
    only = [[text for text in found if text not in both] for found in (ours, theirs)]
    lines = [
        f"{name} differs" + ("" if any(only) else ": only in what is no text, such as addresses or the order of code")
    ]
    for first, second in pair(*only):
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
