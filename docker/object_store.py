"""Where builds keep the objects that they share, and what lies beside them: durations, who stored what, how work was divided.

A store is a folder or a Redis server, as CACHE=... names it. Whatever is read from one was written by others.
"""

import contextlib
import dataclasses
import getpass
import json
import os
import re
import socket
import ssl
import stat
import time
import urllib.parse
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path

from common import Failure, read_left, replacing
from strict import one_line

SECONDS_TO_CONNECT, SECONDS_TO_ANSWER = 10, 60
MOST_SECONDS = 100_000_000  # bytes of durations that are read
# Beside the objects: object -> how long its compile took; source -> the most memory that its compiler took; "key builder" -> when that
# one stored it; the durations of a division.
DURATIONS, PEAKS, BUILDERS, PLAN = "compile:seconds", "compile:megabytes", "compile:builders", "compile:plan:"
STORED = re.compile(r"[0-9a-f]{40}")
MOST_RUNS = 200  # files of durations in a folder, one of each build; more are put together
MOST_RUN = 10_000_000  # bytes of such a file
RUN = re.compile(r"[0-9]{20}-[0-9a-f]{8}\.json")
PLAN_SECONDS = 24 * 3600


def spelled(parts: list[bytes]) -> bytes:
    """A command in the protocol of Redis."""
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)


def read_reply(file, inside: bool = False):
    """The answer to one command: bytes, an int, a list of these (none is inside another), or None.

    Raises:
        Failure: the server says that it failed, or is no Redis.
    """
    line = file.readline(4096)
    kind, text = line[:1], line[1:].rstrip(b"\r\n")
    if kind == b"-":
        raise Failure(f"it says: {one_line(text.decode(errors='replace'), 200)}")
    if kind == b"+":
        return text
    if kind not in (b":", b"$") + (b"*",) * (not inside) or not re.fullmatch(rb"-1|\d{1,7}", text):
        raise Failure("it answers, but not as a Redis server")
    size = int(text)
    if kind == b":" or size < 0:
        return size if kind == b":" else None
    return [read_reply(file, True) for _ in range(size)] if kind == b"*" else file.read(size + 2)[:-2]


@dataclasses.dataclass(frozen=True)
class Redis:
    """A server that holds the objects."""

    name: str  # as the user gave it
    host: str
    port: int
    database: int
    encrypted: bool
    user: str
    password: str = dataclasses.field(repr=False)

    def connect(self) -> socket.socket:
        """A connection that is logged in."""
        with self.called():
            connection = socket.create_connection((self.host, self.port), timeout=SECONDS_TO_CONNECT)
            if self.encrypted:
                connection = ssl.create_default_context().wrap_socket(connection, server_hostname=self.host)
            words = [*([self.user] if self.user else []), self.password]
            if self.password:
                self.ask(connection, "AUTH", *words)
            self.ask(connection, "SELECT", str(self.database))
        return connection

    @contextlib.contextmanager
    def called(self) -> Iterator[None]:
        """Says which server failed."""
        try:
            yield
        except (OSError, Failure) as error:
            raise Failure(f"CACHE={self.name} cannot be used: {error}; correct it, or leave CACHE out") from error

    def answer(self, *words: str):
        """What the server says to one command."""
        with self.connect() as connection, self.called():
            return self.ask(connection, *words)

    @staticmethod
    def ask(connection: socket.socket, *words: str):
        connection.sendall(spelled([word.encode() for word in words]))
        try:
            return read_reply(_Exact(connection, time.monotonic() + SECONDS_TO_ANSWER))
        finally:
            connection.settimeout(SECONDS_TO_CONNECT)

    def durations(self) -> dict[str, float]:
        return self.numbers(DURATIONS)

    def peaks(self) -> dict[str, float]:
        """Megabytes of memory by source."""
        return self.numbers(PEAKS)

    def numbers(self, table: str) -> dict[str, float]:
        flat = self.answer("HGETALL", table) or []
        if not isinstance(flat, list):
            raise Failure(f"CACHE={self.name} cannot be used: it answers, but not as a Redis server")
        return numbers(dict(zip(flat[::2], flat[1::2], strict=False)))

    def keep(
        self,
        durations: dict[str, float],
        stored: dict[str, str] | None = None,
        peaks: dict[str, float] | None = None,
    ) -> None:
        for table, values in ((DURATIONS, durations), (PEAKS, peaks)):
            if values:
                self.answer("HSET", table, *(str(x) for item in values.items() for x in item))
        if stored:
            now = str(int(time.time()))
            self.answer("HSET", BUILDERS, *(x for key, who in stored.items() for x in (f"{key} {who}", now)))

    def builders(self) -> dict[str, list[str]]:
        """key of an object -> those who say that they have stored it."""
        words = self.answer("HKEYS", BUILDERS)
        return claims(
            w.decode(errors="replace") for w in (words if isinstance(words, list) else ()) if isinstance(w, bytes)
        )

    def first(self, plan: str, durations: dict[str, float]) -> dict[str, float]:
        """The durations of whoever asked first, for a day: so that builders that start one after another divide alike."""
        self.answer("SET", PLAN + plan, json.dumps(durations), "EX", str(PLAN_SECONDS), "NX")
        kept = self.answer("GET", PLAN + plan)
        return read_numbers(kept.decode(errors="replace")) if isinstance(kept, bytes) else {}


class _Exact:
    """Reads lines and bytes from a connection, nothing beyond them, until a time: a server may send byte after byte for ever."""

    def __init__(self, connection: socket.socket, until: float):
        self.connection, self.until = connection, until

    def some(self, size: int) -> bytes:
        left = self.until - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"its answer was not complete after {SECONDS_TO_ANSWER} s")
        self.connection.settimeout(min(left, SECONDS_TO_CONNECT))
        return self.connection.recv(min(size, 1 << 16))

    def read(self, size: int) -> bytes:
        parts = []
        while size and (part := self.some(size)):
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def readline(self, size: int) -> bytes:
        line = b""
        while len(line) < size and not line.endswith(b"\n") and (byte := self.some(1)):
            line += byte
        return line


@dataclasses.dataclass(frozen=True)
class Folder:
    """A folder that holds the objects; several machines may share it."""

    name: str
    path: Path

    def runs(self) -> list[Path]:
        """What builds have left, one file each: folders of several machines can be copied into one. Those after 400 do not count."""
        folder = self.beside("compiles")
        with contextlib.suppress(OSError):
            return sorted(path for path in folder.iterdir() if RUN.fullmatch(path.name))[: 2 * MOST_RUNS]
        return []

    def beside(self, name: str) -> Path:
        """A folder beside the objects. Builds may write there, and would lead this user elsewhere by a link."""
        folder = self.path / name
        if folder.is_symlink():
            raise Failure(
                f"{folder} is a link, where a folder of the cache belongs: remove it, and look who put it there"
            )
        return folder

    def durations(self) -> dict[str, float]:
        return self.numbers("seconds")

    def peaks(self) -> dict[str, float]:
        """Megabytes of memory by source."""
        return self.numbers("megabytes")

    def numbers(self, part: str) -> dict[str, float]:
        return {name: value for run in self.runs() for name, value in numbers(read_part(run, part)).items()}

    def builders(self) -> dict[str, list[str]]:
        """key of an object -> those who say that they have stored it."""
        return claims(word for run in self.runs() for word in read_part(run, "stored"))

    def keep(
        self,
        durations: dict[str, float],
        stored: dict[str, str] | None = None,
        peaks: dict[str, float] | None = None,
    ) -> None:
        if not durations and not stored and not peaks:
            return
        folder, earlier = self.beside("compiles"), []
        folder.mkdir(exist_ok=True)
        words = [f"{key} {who}" for key, who in (stored or {}).items()]
        if len(self.runs()) >= MOST_RUNS:
            earlier = self.runs()
            durations, peaks = self.durations() | durations, self.peaks() | (peaks or {})
            words += [f"{key} {who}" for key, names in self.builders().items() for who in names]
        with replacing(folder / f"{time.time_ns():020d}-{uuid.uuid4().hex[:8]}.json") as partial:
            kept = {"seconds": durations, "megabytes": peaks or {}, "stored": dict.fromkeys(words, 1)}
            partial.write_text(json.dumps(kept, indent=1) + "\n")
        for path in earlier:
            with contextlib.suppress(OSError):  # another machine removed it
                path.unlink()

    def first(self, plan: str, durations: dict[str, float]) -> dict[str, float]:
        """The durations of whoever asked first, for a day: so that builders that start one after another divide alike."""
        path = self.beside("plans") / f"{plan}.json"
        path.parent.mkdir(exist_ok=True)
        with contextlib.suppress(OSError):
            if time.time() - path.lstat().st_mtime > PLAN_SECONDS:
                path.unlink()
        own = path.with_name(f".{uuid.uuid4().hex}.partial")
        try:
            own.write_text(json.dumps(durations))
            with contextlib.suppress(FileExistsError):
                os.link(own, path)
        finally:
            own.unlink(missing_ok=True)
        return read_numbers(read_left(path, MOST_SECONDS))

    def size(self) -> int:
        total = 0
        for path in self.path.rglob("*"):
            with contextlib.suppress(OSError):  # another machine removed it
                total += path.lstat().st_size if path.is_file() else 0
        return total


def read_object(text: str) -> dict:
    """A JSON object that others wrote; whatever else it is counts as nothing."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def read_part(run: Path, name: str) -> dict:
    found = read_object(read_left(run, MOST_RUN)).get(name)
    return found if isinstance(found, dict) else {}


def read_numbers(text: str) -> dict[str, float]:
    return numbers(read_object(text))


def claims(words: Iterable[str]) -> dict[str, list[str]]:
    """Of words "key builder" of others: what is not that is left out, and so is what a terminal would act on."""
    found: dict[str, list[str]] = {}
    for word in words:
        key, _, who = word.partition(" ")
        if STORED.fullmatch(key) and who:
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


def parse(wanted: str) -> Folder | Redis | None:
    """CACHE=...; None if it is empty. Takes CACHE_PASSWORD out of the environment, so that no child process has it.

    Raises:
        Failure: it is neither a folder nor the address of a Redis server, or has a password in it.
    """
    user, password = (os.environ.pop(name, "") for name in ("CACHE_USER", "CACHE_PASSWORD"))
    if not wanted:
        return None
    scheme, colon, _ = wanted.partition("://")
    if not colon:
        path = Path(wanted).resolve()
        path.mkdir(parents=True, exist_ok=True)
        if path.stat().st_mode & stat.S_IWOTH:
            raise Failure(
                f"CACHE={wanted} may be written by everybody on this machine, and what lies there becomes part of the wheel: chmod o-w {path}"
            )
        return Folder(wanted, path)
    if "@" in wanted:
        raise Failure(
            "CACHE holds a user or password, which everybody would read: set CACHE_USER and CACHE_PASSWORD instead"
        )
    try:
        url = urllib.parse.urlsplit(wanted)
        port, database = url.port or 6379, re.fullmatch(r"/?(\d{0,3})", url.path)
    except ValueError as error:
        raise Failure(f"CACHE={wanted}: {error}") from error
    if scheme not in ("redis", "rediss") or not url.hostname or not database or url.query or url.fragment:
        raise Failure(
            f"CACHE must be a folder or redis://host[:port][/database] (rediss:// with TLS), got {wanted}: "
            "docs/farm.md says how to keep a folder elsewhere"
        )
    return Redis(wanted, url.hostname, port, int(database[1] or 0), scheme == "rediss", user, password)
