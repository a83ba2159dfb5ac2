"""One builder at a time, with a lock that ends with its owner, however that ends, and that no child inherits.

flock would not do: it belongs to an open file, which a forked child has as well, and outlives the builder with the
child. A lock of fcntl's other kind belongs to the process. Within one, a lock of threading's keeps threads apart.
"""

import contextlib
import fcntl
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

_threads = threading.Lock()


def _after_fork() -> None:
    global _threads
    _threads = threading.Lock()  # the thread that may hold the other one is not in this process


os.register_at_fork(after_in_child=_after_fork)


@contextlib.contextmanager
def turn(path: Path, purpose: str) -> Iterator[None]:
    """Holds the lock of a file; says after a second for whom it waits. The file stays: removing it would let two in."""
    with _threads:  # and opens the file under it: closing any descriptor of the file would give up the process's lock
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            _wait(descriptor, purpose)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
            yield
        finally:
            os.close(descriptor)


def _wait(descriptor: int, purpose: str) -> None:
    started, told = time.monotonic(), False
    while True:
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except (BlockingIOError, PermissionError):  # POSIX lets systems choose
            if not told and time.monotonic() - started > 1:
                owner = os.pread(descriptor, 300, 0).decode(errors="replace").strip() or "another process"
                say(f"customops: waiting for {owner}, compiling {purpose}")
                told = True
            time.sleep(0.05)


def say(text: str) -> None:
    """A build takes a minute: that is never done in silence."""
    if sys.stderr is not None:
        print(text, file=sys.stderr, flush=True)
