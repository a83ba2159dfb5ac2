"""Runs a command and leaves nothing of it behind: python -I -S _supervise.py PARENT COMMAND...

When the command ends, or the process PARENT does, even by SIGKILL, every process of this session is killed. ninja puts
each compiler into a process group of its own, and groups are what people kill: a session holds them all. So this process
has to be started in a session of its own. customops/_build.py starts it. Standard library only.
"""

import ctypes
import os
import signal
import subprocess
import sys
from types import FrameType

_PR_SET_PDEATHSIG = 1  # <linux/prctl.h>


def _others() -> list[int]:
    """Living processes of this session but this one."""
    found, session = [], os.getsid(0)
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    state, _, _, of, *_ = file.read().rpartition(b")")[2].split()
            except OSError:  # it ended meanwhile
                continue
            if state not in (b"Z", b"X") and int(of) == session:
                found.append(int(name))
    return found


def _end_others() -> None:
    while found := _others():  # again, for what they start meanwhile
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue


def _on_signal(number: int, _frame: FrameType | None) -> None:
    """Ends everything here, and not by an exception: that would cut _end_others() short where main() has called it."""
    _end_others()
    os._exit(128 + number)


def main() -> None:
    parent, command, status = int(sys.argv[1]), sys.argv[2:], 128 + signal.SIGTERM
    signal.signal(signal.SIGTERM, _on_signal)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() == parent:  # it may have ended before it was watched
        status = subprocess.call(command)
    _end_others()
    sys.exit(status if status >= 0 else 128 - status)


if __name__ == "__main__":
    main()
