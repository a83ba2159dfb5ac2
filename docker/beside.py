"""What lies beside the objects of a shared cache: durations, peaks of memory, who stored what, how work was divided.

Whatever is read from one was written by others.
"""

import contextlib
import getpass
import json
import os
import re
import socket
import time
import uuid
from collections.abc import Iterable

from strict import one_line

# object -> how long its compile took; source -> the most memory that its compiler took; "key builder" -> when that one stored it
SECONDS, MEGABYTES, STORED = "seconds", "megabytes", "stored"
KEY = re.compile(r"[0-9a-f]{40}")  # of an object
MOST_PLAN = 100_000_000  # bytes of durations that are read
MOST_RUNS = 200  # files of durations, one of each build; more are put together
MOST_RUN = 10_000_000  # bytes of such a file
RUN = re.compile(r"[0-9]{20}-[0-9a-f]{8}\.json")
PLAN_SECONDS = 24 * 3600


class Store:
    """What every kind of store does. One has numbers(table), claimed(), add(kept) and first(plan, durations) of its own."""

    def durations(self) -> dict[str, float]:
        return self.numbers(SECONDS)

    def peaks(self) -> dict[str, float]:
        """Megabytes of memory by source."""
        return self.numbers(MEGABYTES)

    def builders(self) -> dict[str, list[str]]:
        """key of an object -> those who say that they have stored it."""
        return claims(self.claimed())

    def keep(
        self,
        durations: dict[str, float],
        stored: dict[str, str] | None = None,
        peaks: dict[str, float] | None = None,
    ) -> None:
        now = int(time.time())
        claimed = {f"{key} {who}": now for key, who in (stored or {}).items()}
        if durations or claimed or peaks:
            self.add({SECONDS: durations, MEGABYTES: peaks or {}, STORED: claimed})


class Runs(Store):
    """A store of files: what builds have left is one of each, so those of several machines can be copied into one folder.

    It has runs(), texts(), write(run, text) and remove(run) of its own. Runs after 400 do not count.
    """

    def numbers(self, table: str) -> dict[str, float]:
        return {name: value for text in self.texts() for name, value in numbers(read_part(text, table)).items()}

    def claimed(self) -> list[str]:
        return [word for text in self.texts() for word in read_part(text, STORED)]

    def add(self, kept: dict[str, dict]) -> None:
        earlier = self.runs()
        if len(earlier) < MOST_RUNS:
            earlier = []
        else:
            words = (f"{key} {who}" for key, names in self.builders().items() for who in names)
            there = {SECONDS: self.durations(), MEGABYTES: self.peaks(), STORED: dict.fromkeys(words, 1)}
            kept = {table: there[table] | values for table, values in kept.items()}
        self.write(f"{time.time_ns():020d}-{uuid.uuid4().hex[:8]}.json", json.dumps(kept, indent=1) + "\n")
        for run in earlier:
            self.remove(run)


def read_object(text: str) -> dict:
    """A JSON object that others wrote; whatever else it is counts as nothing."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def read_part(text: str, name: str) -> dict:
    found = read_object(text).get(name)
    return found if isinstance(found, dict) else {}


def read_numbers(text: str) -> dict[str, float]:
    return numbers(read_object(text))


def claims(words: Iterable[str]) -> dict[str, list[str]]:
    """Of words "key builder" of others: what is not that is left out, and so is what a terminal would act on."""
    found: dict[str, list[str]] = {}
    for word in words:
        key, _, who = word.partition(" ")
        if KEY.fullmatch(key) and who:
            found.setdefault(key, []).append(one_line(who, 100))
    return found


def builder() -> str:
    """Who stores objects, as others will read it: CACHE_BUILDER, or user@host."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a number without a name
        user = str(os.geteuid())
    return one_line(os.environ.get("CACHE_BUILDER") or f"{user}@{socket.gethostname()}", 100)


def numbers(found: dict) -> dict[str, float]:
    """Durations of others: what is not one is left out."""
    durations = {}
    for key, value in found.items():
        key, value = (word.decode(errors="replace") if isinstance(word, bytes) else word for word in (key, value))
        with contextlib.suppress(TypeError, ValueError, OverflowError):
            if 0 < float(value) < 1e6:
                durations[str(key)] = float(value)
    return durations
