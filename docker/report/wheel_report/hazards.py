"""What keeps a second build from giving the same bytes: paths, times, temporary names, random numbers.

A hazard is a trace, not a proof: `make reproduce` builds twice and compares.
"""

import re

from archive import Archive

from .library import Library

# Folders of people, of temporary files and of CI services: the next build's have other names.
PATH = re.compile(
    rb"/(?:home|root|Users|tmp|var/tmp|build|builds|github|__w|workspace|mnt|data|scratch|opt/_internal)/[\w.+@/-]{3,200}"
)
# __DATE__ writes the fifth of a month as " 5", strftime's %d as "05".
DATE = re.compile(rb"\b(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) [ 0123]\d 20\d\d\b")
TIME = re.compile(rb"(?<![\d:.])[0-2]\d:[0-5]\d:[0-5]\d(?![\d:.])")
# nvcc names internal symbols after temporary files and its process.
TEMPORARY = re.compile(rb"tmpxft_[0-9a-f]{8}_[0-9a-f]{8}")
SHOWN = 2


def of_archive(archive: Archive) -> list[str]:
    found = []
    days = {entry.changed for entry in archive.entries.values()}
    if len(days) > 1 or next(iter(days), (1980,))[0] != 1980:
        newest = "-".join(f"{part:02}" for part in max(days))
        found.append(f"archive: times of change up to {newest}: the same every time only with one SOURCE_DATE_EPOCH")
    files = [name for name in archive.names if ".dist-info/" not in name]
    if files != sorted(files):
        found.append("archive: its files are not sorted: the order may be that of a file system")
    if modes := {entry.mode & 0o022 for entry in archive.entries.values()} - {0}:
        found.append(
            f"archive: files that others may write ({', '.join(map(oct, sorted(modes)))}): the builder's umask"
        )
    if compiled := [name for name in archive.names if name.endswith(".pyc")]:
        found.append(f"archive: {compiled[0]} and {len(compiled) - 1} more hold times of their sources: leave .pyc out")
    return found


def of_library(name: str, data: bytes, library: Library) -> list[str]:
    found = []

    def report(what: str, pattern: re.Pattern, remedy: str) -> None:
        # In the order of the file: what is loaded comes before what is for debuggers.
        seen = list(dict.fromkeys(match.group().decode(errors="replace") for match in pattern.finditer(data)))
        if seen:
            more = f" and {len(seen) - SHOWN} more" if len(seen) > SHOWN else ""
            found.append(f"{name}: {what} {', '.join(seen[:SHOWN])}{more}: {remedy}")

    report("paths of the build", PATH, "-ffile-prefix-map, or build at one fixed path")
    report("names of temporary files", TEMPORARY, "nvcc --objdir-as-tempdir")
    dates = DATE.search(data)
    if dates:  # a time alone may be an example in a message
        report("a date", DATE, "__DATE__ follows SOURCE_DATE_EPOCH in GCC")
        report("a time", TIME, "__TIME__ follows SOURCE_DATE_EPOCH in GCC")
    for path in library.search:
        if not path.startswith(("$ORIGIN", "${ORIGIN}")):
            found.append(f"{name}: searches {path} for libraries, a path of the build machine")
    if library.build_id and len(library.build_id) != 40:
        found.append(f"{name}: build id {library.build_id} is no hash of the contents: -Wl,--build-id=sha1")
    return found
