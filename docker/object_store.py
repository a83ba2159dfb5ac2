"""Where builds keep the objects that they share: a folder, a Redis server, or a bucket of S3, as CACHE=... names it.

Whatever is read from one was written by others. docker/beside.py says what lies beside the objects.
"""

import contextlib
import dataclasses
import json
import os
import re
import socket
import ssl
import stat
import time
import urllib.parse
import uuid
from collections.abc import Iterator
from pathlib import Path

from beside import (
    MEGABYTES,
    MOST_PLAN,
    MOST_RUN,
    MOST_RUNS,
    PLAN_SECONDS,
    RUN,
    SECONDS,
    STORED,
    Runs,
    Store,
    numbers,
    read_numbers,
)
from common import Failure, read_left, replacing
from s3_store import parse_s3
from strict import one_line

SECONDS_TO_CONNECT, SECONDS_TO_ANSWER = 10, 60
TABLES = {SECONDS: "compile:seconds", MEGABYTES: "compile:megabytes", STORED: "compile:builders"}  # in Redis
PLAN = "compile:plan:"


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
class Redis(Store):
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

    def numbers(self, table: str) -> dict[str, float]:
        flat = self.answer("HGETALL", TABLES[table]) or []
        if not isinstance(flat, list):
            raise Failure(f"CACHE={self.name} cannot be used: it answers, but not as a Redis server")
        return numbers(dict(zip(flat[::2], flat[1::2], strict=False)))

    def claimed(self) -> list[str]:
        words = self.answer("HKEYS", TABLES[STORED])
        words = words if isinstance(words, list) else []
        return [word.decode(errors="replace") for word in words if isinstance(word, bytes)]

    def add(self, kept: dict[str, dict]) -> None:
        for table, values in kept.items():
            if values:
                self.answer("HSET", TABLES[table], *(str(x) for item in values.items() for x in item))

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
class Folder(Runs):
    """A folder that holds the objects; several machines may share it."""

    name: str
    path: Path

    def runs(self) -> list[str]:
        folder = self.beside("compiles")
        with contextlib.suppress(OSError):
            return sorted(path.name for path in folder.iterdir() if RUN.fullmatch(path.name))[: 2 * MOST_RUNS]
        return []

    def texts(self) -> list[str]:
        return [read_left(self.beside("compiles") / run, MOST_RUN) for run in self.runs()]

    def write(self, run: str, text: str) -> None:
        folder = self.beside("compiles")
        folder.mkdir(exist_ok=True)
        with replacing(folder / run) as partial:
            partial.write_text(text)

    def remove(self, run: str) -> None:
        with contextlib.suppress(OSError):  # another machine removed it
            (self.beside("compiles") / run).unlink()

    def beside(self, name: str) -> Path:
        """A folder beside the objects. Builds may write there, and would lead this user elsewhere by a link."""
        folder = self.path / name
        if folder.is_symlink():
            raise Failure(
                f"{folder} is a link, where a folder of the cache belongs: remove it, and look who put it there"
            )
        return folder

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
        return read_numbers(read_left(path, MOST_PLAN))

    def size(self) -> int:
        total = 0
        for path in self.path.rglob("*"):
            with contextlib.suppress(OSError):  # another machine removed it
                total += path.lstat().st_size if path.is_file() else 0
        return total


def parse(wanted: str) -> Store | None:
    """CACHE=...; None if it is empty. Takes passwords out of the environment, so that no child process has them.

    Raises:
        Failure: it is neither a folder nor the address of a server, or has a password in it.
    """
    user, password = (os.environ.pop(name, "") for name in ("CACHE_USER", "CACHE_PASSWORD"))
    if not wanted:
        return None
    scheme, colon, _ = wanted.partition("://")
    if scheme == "s3":
        return parse_s3(wanted)
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
            f"CACHE must be a folder, redis://host[:port][/database] (rediss:// with TLS) or s3://bucket/prefix, got {wanted}: "
            "docs/farm.md says how to keep a folder elsewhere"
        )
    return Redis(wanted, url.hostname, port, int(database[1] or 0), scheme == "rediss", user, password)
