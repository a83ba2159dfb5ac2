"""Compiles a library into a cache and survives whatever happens meanwhile; customops/_recipes.py says what to compile.

torch.utils.cpp_extension.load takes its turn by creating a file named `lock`, and waits for as long as it exists: a build
that is killed leaves it behind, and every later one hangs. Here

- the turn is a lock of the operating system, which ends with the process that holds it;
- ninja works in a folder of its own, which takes the library's name in one step when everything is done;
- what a killed build left behind is removed by the next one.
"""

import contextlib
import ctypes
import errno
import fcntl
import hashlib
import json
import logging
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

logger = logging.getLogger("customops")

_PR_SET_PDEATHSIG = 1  # <linux/prctl.h>
_libc = ctypes.CDLL(None)


class BuildError(RuntimeError):
    """A library could not be compiled; the message says why and what to do, and shows what the compiler said."""


class Recipe(NamedTuple):
    """What to compile, and all that the result depends on."""

    name: str  # of the library, without .so
    ninja: str  # a ninja file that makes <name>.so in the working directory; it names the files of `sources`
    sources: tuple[Path, ...]  # every file that is read, headers too
    identity: tuple[str, ...]  # versions, the CPU, the GPU: what is in neither of them
    purpose: str  # for messages, such as "CPU kernels for AMD EPYC"
    jobs: int = 1

    def key(self) -> str:
        digest = hashlib.sha256("\0".join([self.name, self.ninja, *self.identity]).encode())
        for path in self.sources:
            digest.update(f"\0{path}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
        return digest.hexdigest()[:20]


def words(*arguments: object) -> str:
    """Arguments of a command as a ninja file takes them."""
    return " ".join(shlex.quote(str(argument)).replace("$", "$$") for argument in arguments)


def paths(*files: object) -> str:
    """Files in ninja's build lines, which know no quotes."""
    return " ".join(str(file).replace("$", "$$").replace(" ", "$ ").replace(":", "$:") for file in files)


def cache() -> Path:
    """CUSTOMOPS_JIT_CACHE; or customops/ in torch's TORCH_EXTENSIONS_DIR, in XDG_CACHE_HOME, in ~/.cache."""
    if folder := os.environ.get("CUSTOMOPS_JIT_CACHE"):
        return Path(folder).absolute()
    base = os.environ.get("TORCH_EXTENSIONS_DIR") or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base).absolute() / "customops"


def build(recipe: Recipe, verbose: bool = False) -> Path:
    """The library, from the cache if it is there; otherwise compiled, by one process at a time.

    Raises:
        BuildError: it cannot be compiled, or the cache not be written.
    """
    root, label = cache(), f"{recipe.name}-{recipe.key()}"
    library = root / label / f"{recipe.name}.so"
    if _whole(library):
        logger.info("%s: compiled earlier, %s", recipe.purpose, library)
        return library
    try:
        root.mkdir(parents=True, exist_ok=True)
        remove_stale_torch_lock(root)
        with _turn(root / f"{label}.lock", recipe.purpose):
            if not _whole(library):  # another process may have made it meanwhile
                _compile(recipe, root, label, verbose)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST):
            raise BuildError(
                f"customops: cannot write to {error.filename or root} ({error.strerror}): "
                "set CUSTOMOPS_JIT_CACHE to a folder that you may write to"
            ) from error
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise BuildError(
                f"customops: the disk of {root} is full: free some space, or set CUSTOMOPS_JIT_CACHE to another folder"
            ) from error
        raise
    return library


def _whole(library: Path) -> bool:
    """Whether the library is there, and as its build left it."""
    try:
        record = json.loads(library.with_name("build.json").read_text())
        return record["sha256"] == hashlib.sha256(library.read_bytes()).hexdigest()
    except (OSError, ValueError, KeyError):
        return False


@contextlib.contextmanager
def _turn(path: Path, purpose: str) -> Iterator[None]:
    """Holds a lock; says after a second for whom it waits. The file stays: removing it would let two in."""
    with path.open("a+") as file:
        started, told = time.monotonic(), False
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not told and time.monotonic() - started > 1:
                    file.seek(0)
                    _say(f"customops: waiting for {file.read().strip() or 'another process'}, compiling {purpose}")
                    told = True
                time.sleep(0.05)
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        file.flush()
        try:
            yield
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)  # closing would not do if a child process had inherited it


def _compile(recipe: Recipe, root: Path, label: str, verbose: bool) -> None:
    """Makes the folder root/label. The caller has the turn: whatever else is named so is a killed build's rubbish."""
    ninja = find_ninja()
    for rubbish in root.glob(f"{label}.partial-*"):
        logger.info("removing %s, left behind by a build that was killed", rubbish)
        shutil.rmtree(rubbish, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=f"{label}.partial-", dir=root))
    try:
        (folder / "build.ninja").write_text(recipe.ninja)
        started = time.monotonic()
        _say(f"customops: compiling {recipe.purpose} into {root / label}")
        _run([ninja, f"-j{recipe.jobs}", *(["-v"] if verbose else [])], folder, verbose)
        library = folder / f"{recipe.name}.so"
        with library.open("rb") as file:  # the rename must not reach the disk before the library does
            os.fsync(file.fileno())
        record = {
            "sha256": hashlib.sha256(library.read_bytes()).hexdigest(),
            "purpose": recipe.purpose,
            "identity": recipe.identity,
        }
        (folder / "build.json").write_text(json.dumps(record, indent=1) + "\n")
        for path in folder.rglob("*.o"):
            path.unlink()
        shutil.rmtree(root / label, ignore_errors=True)  # a damaged one
        folder.rename(root / label)
        _say(f"customops: compiled in {time.monotonic() - started:.0f} s; from now on it comes from the cache")
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _run(command: list[str], folder: Path, verbose: bool) -> None:
    """Runs ninja, shows how far it is, and raises with the compiler's own words."""
    parent, live = os.getpid(), sys.stderr is not None and sys.stderr.isatty()

    def end_with_parent() -> None:
        # SIGTERM makes ninja end its compilers too. Without this they would go on when this process is killed.
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(1)

    process = subprocess.Popen(
        command, cwd=folder, env=os.environ | {"NINJA_STATUS": "[%f/%t] ", "LC_ALL": "C"}, text=True, errors="replace",
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, preexec_fn=end_with_parent,
    )  # fmt: skip
    lines = []
    with process:
        for line in process.stdout:
            lines.append(line)
            if verbose:
                _say(line.rstrip())
            elif live and line.startswith("["):
                print(f"\r\033[K{line.rstrip()[:100]}", end="", file=sys.stderr, flush=True)
            elif line.startswith("["):
                _say(line.rstrip())
        if live and not verbose:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
    if process.returncode:
        said = "".join(line for line in lines if not line.startswith("[") or verbose)
        raise BuildError(f"customops: compiling failed; the compiler's own words:\n{said.strip()}")


def _say(text: str) -> None:
    """A build takes a minute: that is never done in silence."""
    if sys.stderr is not None:
        print(text, file=sys.stderr, flush=True)


def find_ninja() -> str:
    """The program; also where pip put it when the environment that this Python belongs to is not activated."""
    beside = [str(Path(sys.executable).parent), str(Path(sys.prefix) / "bin")]
    for folders in (None, os.pathsep.join(beside)):
        if found := shutil.which("ninja", path=folders):
            return found
    raise BuildError(
        f"customops: compiling just in time needs ninja, which is neither on the PATH nor beside {sys.executable}: "
        "pip install ninja"
    )


def find_compiler(command: str) -> tuple[list[str], str]:
    """(its words, its identity) of a compiler such as CXX names it. Knows the version without starting it."""
    arguments = shlex.split(command) or [command]
    program = host_compiler(arguments)
    for name in dict.fromkeys((arguments[0], program)):
        if shutil.which(name) is None:
            raise BuildError(
                f"customops: compiling just in time needs a C++17 compiler, and {name} is not on the PATH: "
                "install g++, or set CXX"
            )
    return [shutil.which(arguments[0]), *arguments[1:]], identity_of(shutil.which(program))


def host_compiler(arguments: list[str]) -> str:
    """The compiler itself in a command that may start with a cache, such as ``ccache g++``."""
    wrapped = Path(arguments[0]).name in ("ccache", "sccache", "distcc") and len(arguments) > 1
    return arguments[1] if wrapped else arguments[0]


def identity_of(program: str) -> str:
    """Changes when the program does: a new compiler is a new file."""
    path = Path(program).resolve()
    stat = path.stat()
    return f"{path} {stat.st_size} {stat.st_mtime_ns}"


def remove_stale_torch_lock(folder: Path) -> bool:
    """Removes the file `lock` that torch.utils.cpp_extension.load leaves in its build folder when it is killed.

    torch waits for that file to go away for as long as it exists. Whoever holds it has it open: it stays if any process
    does.

    Args:
        folder: a build folder, such as ~/.cache/torch_extensions/py311_cpu/NAME.

    Returns:
        Whether one was removed.
    """
    lock = folder / "lock"
    if not lock.is_file() or _is_open(lock):
        return False
    with contextlib.suppress(FileNotFoundError):
        lock.unlink()
    logger.warning("removed %s, left behind by a build of torch.utils.cpp_extension that was killed", lock)
    return True


def _is_open(path: Path) -> bool:
    """Whether some process has the file open, as far as this user may know."""
    wanted = path.stat()

    def descriptors() -> Iterable[Path]:
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                yield from (process / "fd").iterdir()

    for descriptor in descriptors():
        with contextlib.suppress(OSError):
            if os.path.samestat(descriptor.stat(), wanted):
                return True
    return False
