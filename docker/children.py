"""Long steps as child processes: one run a checkout, and nothing left when it ends, however it ends."""

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import supervise
from common import CACHE, Failure

LEFTOVER_SECONDS = (
    supervise.REMOVAL_SECONDS + 10
)  # what a killed run's supervisor may take to kill and remove what it left
_held: list[int] = []  # the lock's descriptor: a supervisor keeps it until its command is gone


def _running(pid: str) -> bool:
    return pid.isdigit() and Path("/proc", pid).exists()


@contextlib.contextmanager
def only_run() -> Iterator[None]:
    """Holds .cache/lock, because runs share .cache/out, .cache/source, the environments and dist/."""
    try:
        CACHE.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise Failure(f"{error.filename} is a file, where a folder for downloads is needed: move it away") from error
    descriptor = os.open(CACHE / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    try:
        deadline = time.monotonic() + LEFTOVER_SECONDS
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                pid = os.pread(descriptor, 20, 0).decode(errors="replace").strip()
                if _running(pid) or time.monotonic() > deadline:
                    raise Failure(f"another make runs here: pid {pid}; wait until it ends, or stop it") from None
                time.sleep(0.05)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        _held.append(descriptor)
        yield
    finally:
        _held.clear()
        os.close(descriptor)


def run(
    command, *, containers=(), interactive=False, check=True, timeout=None, **options
) -> subprocess.CompletedProcess:
    """subprocess.run() for a long command: see docker/supervise.py. Removes containers with a label: (engine, label)."""
    command = [str(part) for part in command]
    settings = ["--containers", *containers] if containers else []
    settings += [part for descriptor in _held for part in ("--fd", str(descriptor))]
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", supervise.__file__, *settings, "--", *command],
        pass_fds=_held, start_new_session=not interactive, **options,
    )  # fmt: skip
    try:
        output, errors = process.communicate(timeout=timeout)
    except BaseException:
        process.send_signal(signal.SIGTERM)
        process.wait()
        raise
    if check and process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command, output, errors)
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


# A container gets an init, which passes signals on, and no capability or way to gain one. It has no network either.
RESTRICTED = ("--init", "--cap-drop=ALL", "--security-opt=no-new-privileges")
# Root in a container that reads and writes what the caller owns needs this one.
AS_OWNER = ("--cap-add=DAC_OVERRIDE",)


def new_label() -> str:
    return f"customops-{uuid.uuid4().hex[:12]}"


def run_container(engine: str, image: str, *command: str, options=(), **how) -> subprocess.CompletedProcess:
    """`docker run` of a container that is removed on every way out."""
    label = new_label()
    named = (f"--name={label}", f"--label={label}", *RESTRICTED)
    return run(
        [engine, "run", "--rm", "--network=none", *named, *options, image, *command], containers=(engine, label), **how
    )
