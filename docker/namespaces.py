"""Network namespaces of one machine, and a Redis server in one of them: what `make farm` runs builders in.

They are there as long as the process that made them, however it ends. Linux only, and only root may.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from common import Failure

PROGRAMS = {
    "ip": "iproute2",
    "nsenter": "util-linux",
    "redis-server": "redis-server",
    "setpriv": "util-linux",
    "unshare": "util-linux",
}
SERVER = "10.77.0.1"  # in namespaces alone: no network of this machine has to leave it free
SECONDS_TO_START = 20


def check_machine() -> None:
    """Refuses a machine that cannot run this.

    Raises:
        Failure: says what is missing.
    """
    if os.geteuid():
        raise Failure("make farm gives each builder a network namespace, and only root may: sudo make farm ...")
    for program, package in PROGRAMS.items():
        if not shutil.which(program):
            raise Failure(f"make farm needs {program}, which is not on the PATH: apt install {package}")


def start(*command, dies: str = "KILL", **options) -> subprocess.Popen:
    """A process that gets a signal when this one ends, however it ends."""
    return subprocess.Popen(["setpriv", "--pdeathsig", dies, *map(str, command)], **options)


def wait_until(holds, what: str) -> None:
    deadline = time.monotonic() + SECONDS_TO_START
    while not holds():
        if time.monotonic() > deadline:
            raise Failure(f"{what} did not start within {SECONDS_TO_START} s")
        time.sleep(0.05)


class Namespace:
    """A network of its own, which is there until kill(), or until this process ends."""

    def __init__(self):
        self.holder = start("unshare", "--net", "sleep", "infinity")
        self.path = Path(f"/proc/{self.holder.pid}/ns/net")
        ours = os.readlink("/proc/self/ns/net")
        wait_until(lambda: os.readlink(self.path) != ours, "unshare --net")
        self.identity = os.readlink(self.path)

    def command(self, *words) -> list:
        return ["nsenter", f"--net={self.path}", *words]

    def ip(self, *words) -> None:
        subprocess.run(self.command("ip", *words), check=True)

    def kill(self) -> None:
        """Everything that runs in it, until nothing is left: what was being started in it, too."""
        while running := self.processes():
            for pid in running:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)
        self.holder.wait()

    def processes(self) -> list[int]:
        found = []
        for name in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):  # it has ended
                if os.readlink(f"/proc/{name}/ns/net") == self.identity:
                    found.append(int(name))
        return found


def connect(server: Namespace, builder: Namespace, number: int) -> None:
    """A cable between two namespaces. The server's namespace passes nothing on, so builders do not reach each other."""
    own, there = f"10.77.0.{number + 1}", f"builder{number}"
    ends = ("type", "veth", "peer", "name", "eth0", "netns", str(builder.holder.pid))
    subprocess.run(["ip", "link", "add", there, "netns", str(server.holder.pid), *ends], check=True)
    server.ip("address", "add", SERVER, "peer", own, "dev", there)
    builder.ip("address", "add", own, "peer", SERVER, "dev", "eth0")
    server.ip("link", "set", there, "up")
    builder.ip("link", "set", "eth0", "up")


@contextlib.contextmanager
def with_redis(count: int, folder: Path, password: str) -> Iterator[tuple[str, list[Namespace]]]:
    """(address of an empty Redis server, namespaces that reach it and nothing else), for as long as this lasts."""
    own = folder / "redis"
    shutil.rmtree(own, ignore_errors=True)
    own.mkdir(mode=0o700)
    spaces = []
    try:
        spaces.append(server := Namespace())
        for number in range(1, count + 1):
            spaces.append(Namespace())
            connect(server, spaces[-1], number)
        listens = f"bind {SERVER}\nunixsocket {own}/socket\nrequirepass {password}\n"
        redis = start(*server.command("redis-server", "-"), stdin=subprocess.PIPE)
        redis.stdin.write(f"{listens}save ''\ndir {own}\nlogfile {own}/log\n".encode())
        redis.stdin.close()
        wait_until((own / "socket").exists, "redis-server")
        yield f"redis://{SERVER}", spaces[1:]
    finally:
        for space in spaces:
            space.kill()
