"""The socket by which ccache, in a container without a network, reaches the objects that builds share.

ccache speaks the protocol of Redis there. Nothing passes but reads and writes of its own keys: to a Redis server, where the Relay is
logged in, or to a bucket of S3, for which it answers itself.
"""

import contextlib
import re
import socket
import socketserver
import threading
from pathlib import Path

from common import Failure
from object_store import Redis, spelled
from s3_store import LARGEST, S3

POLL_SECONDS = 0.05  # how soon the relay notices that it should end
KEY = re.compile(rb"ccache:[0-9a-f]{40}")
ARGUMENTS = {b"GET": 1, b"EXISTS": 1, b"SET": 2}


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


class Relay(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """Answers ccache on a socket of the file system; see read_request() for what may be asked."""

    daemon_threads = True

    def __init__(self, path: Path, server: Redis | S3):
        self.server, self.received, self.sent, self.refused = server, 0, 0, 0
        self.failed, self.error = 0, ""
        super().__init__(str(path), _Passing if isinstance(server, Redis) else _Answering)
        path.chmod(0o666)

    def start(self) -> None:
        threading.Thread(target=self.serve_forever, args=(POLL_SECONDS,), daemon=True).start()

    def stop(self) -> str:
        """What it has done, in words."""
        self.shutdown()
        self.server_close()
        said = f"{self.received / 1e6:.1f} MB read, {self.sent / 1e6:.1f} MB written"
        said += f", {self.refused} requests refused" * bool(self.refused)
        return said + f", {self.failed} requests failed ({self.error})" * bool(self.failed)

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


class _Answering(socketserver.StreamRequestHandler):
    """One whose server is a library of this process. What fails there is a miss for ccache."""

    server: Relay

    def handle(self) -> None:
        relay = self.server
        try:
            while request := read_request(self.rfile):
                relay.sent += sum(map(len, request[2:]))
                try:
                    answer = relay.server.reply(request)
                    relay.received += len(answer)
                except Failure as failure:
                    relay.failed, relay.error = relay.failed + 1, str(failure)
                    answer = b"-ERR it failed\r\n"
                self.request.sendall(answer)
        except BadRequest:
            relay.refused += 1
