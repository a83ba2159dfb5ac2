"""Runs one command and leaves nothing of it behind: supervise.py [--containers ENGINE LABEL] [--fd N] -- COMMAND...

When the command ends, when a signal asks for the end, or when the parent dies (even by SIGKILL), every descendant is
killed, also those that left the process group, and every container with the label is removed. docker/children.py starts
it. Standard library only.
"""

import ctypes
import os
import signal
import subprocess
import sys
import time

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
REMOVAL_SECONDS = 60
GRACE_SECONDS = 1.0  # between SIGTERM and SIGKILL; none when the parent is dead


def prctl(option: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl failed")


def die_with_parent(number: int) -> None:
    """Has the kernel send this signal when the parent ends; sends it now if that has happened already."""
    parent = os.getppid()
    prctl(PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:
        os.kill(os.getpid(), number)


def descendants() -> list[int]:
    """Every living process below this one."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    fields = file.read().rpartition(b")")[2].split()
            except OSError:
                continue
            if fields[0] != b"Z":
                children.setdefault(int(fields[1]), []).append(int(name))
    found, queue = [], [os.getpid()]
    while queue:
        below = children.get(queue.pop(), [])
        found += below
        queue += below
    return found


def send(number: int) -> bool:
    """Signals every descendant; whether there was one."""
    found = descendants()
    for pid in found:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue
    return bool(found)


def end_descendants(grace: float) -> None:
    deadline = time.monotonic() + grace
    if grace and send(signal.SIGTERM):
        while descendants() and time.monotonic() < deadline:
            time.sleep(0.02)
    while send(signal.SIGKILL):  # again, for what was forked meanwhile
        time.sleep(0.01)


def remove_containers(engine: str, label: str, interrupted: bool) -> None:
    """Removes what carries the label, and waits until it is gone: a busy daemon takes its time.

    After an interrupt the daemon may still be creating a container: asks once more.
    """
    quiet = {"stdin": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "start_new_session": True, "check": False}
    listing = [engine, "ps", "--all", "--quiet", f"--filter=label={label}"]
    deadline, empty = time.monotonic() + REMOVAL_SECONDS, 0
    while time.monotonic() < deadline:
        found = subprocess.run(listing, stdout=subprocess.PIPE, **quiet).stdout.split()
        if found:
            subprocess.run([engine, "rm", "--force", "--volumes", *found], stdout=subprocess.DEVNULL, **quiet)
        elif empty or not interrupted:
            return
        empty = not found
        time.sleep(0.3)


class Ended(BaseException):
    """A signal asked for the end."""


def on_signal(number: int, _frame) -> None:
    for ending in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, signal.SIG_IGN)
    raise Ended(number)


def supervise(command: list[str], fds: list[int], containers: list[str]) -> int:
    parent = os.getppid()
    grace, status = GRACE_SECONDS, None
    try:
        try:
            for ending in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                if signal.getsignal(ending) != signal.SIG_IGN:  # nohup
                    signal.signal(ending, on_signal)
            prctl(PR_SET_CHILD_SUBREAPER, 1)
            die_with_parent(signal.SIGTERM)
            for fd in fds:  # held until this process ends, and not by the command
                os.set_inheritable(fd, False)
            child = subprocess.Popen(command, preexec_fn=lambda: die_with_parent(signal.SIGKILL))
            status = child.wait()
        finally:
            for ending in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(ending, signal.SIG_IGN)
    except Ended as ended:
        grace, status = (GRACE_SECONDS if os.getppid() == parent else 0), 128 + ended.args[0]
    except OSError as error:
        print(f"error: {command[0]}: {error.strerror}", file=sys.stderr)
        return 127
    interrupted = status < 0 or status >= 128
    end_descendants(grace)
    if containers:
        remove_containers(*containers, interrupted)
    return status if status >= 0 else 128 - status


def main() -> None:
    options, separator = sys.argv[1:], sys.argv.index("--") - 1
    options, command = options[:separator], options[separator + 1 :]
    containers, fds = [], []
    while options:
        option = options.pop(0)
        if option == "--containers":
            containers, options = options[:2], options[2:]
        elif option == "--fd":
            fds.append(int(options.pop(0)))
        else:
            sys.exit(f"error: supervise.py has no option {option}")
    sys.exit(supervise(command, fds, containers))


if __name__ == "__main__":
    main()
