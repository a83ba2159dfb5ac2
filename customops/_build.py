"""Compiles a library into a cache and survives whatever happens meanwhile; customops/_recipes.py says what to compile.

torch.utils.cpp_extension.load takes its turn by creating a file named `lock`, and waits for as long as it exists: a build
that is killed leaves it behind, and every later one hangs. Here

- the turn is a lock of the operating system, which ends with the process that holds it (_turn.py);
- ninja works in a folder of its own, which takes the library's name in one step when everything is done;
- no process of a killed build goes on (_supervise.py), and what it left in the cache is removed by the next one;
- a library that another user can have put there is not opened (_cache.py).
"""

import contextlib
import errno
import hashlib
import json
import logging
import os
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from customops import _cache, _supervise
from customops._turn import say, turn

logger = logging.getLogger("customops")

# What GCC, clang, the linker and nvcc read from the environment and make something else of the same command for.
_COMPILER_VARIABLES = (
    "CCC_OVERRIDE_OPTIONS", "COMPILER_PATH", "CPATH", "CPLUS_INCLUDE_PATH", "CUDAHOSTCXX", "GCC_EXEC_PREFIX", "GNUTARGET",
    "LDEMULATION", "LD_RUN_PATH", "LIBRARY_PATH", "NVCC_APPEND_FLAGS", "NVCC_CCBIN", "NVCC_PREPEND_FLAGS",
)  # fmt: skip


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


def environment() -> tuple[str, ...]:
    """The variables that a compiler obeys, as far as they are set: they belong to a recipe's identity."""
    return tuple(f"{name}={os.environ[name]}" for name in _COMPILER_VARIABLES if name in os.environ)


def cache() -> Path:
    """The folder of all builds, without symbolic links.

    Raises:
        BuildError: nothing says where it is; or another user could put a library there.
    """
    try:
        root = _cache.folder().resolve()
    except RuntimeError as error:  # of Path.home; or links in a circle
        raise BuildError(f"customops: nowhere to keep builds ({error}): set CUSTOMOPS_JIT_CACHE to a folder") from error
    _refuse(_cache.who_else_may_write(root))
    return root


def _refuse(reason: str | None) -> None:
    if reason:
        raise BuildError(
            f"customops: {reason}, so that a library in there may be somebody else's: set CUSTOMOPS_JIT_CACHE to a "
            "folder that only you can write to"
        )


def build(recipe: Recipe, verbose: bool = False) -> Path:
    """The library, from the cache if it is there; otherwise compiled, by one process at a time.

    Raises:
        BuildError: it cannot be compiled, the cache not be written, or another user can write there.
    """
    try:
        root, label = cache(), f"{recipe.name}-{recipe.key()}"
        library = root / label / f"{recipe.name}.so"
        if _whole(root, library):
            logger.info("%s: compiled earlier, %s", recipe.purpose, library)
            return library
        root.parent.mkdir(parents=True, exist_ok=True)
        root.mkdir(mode=0o700, exist_ok=True)
        cache()  # somebody may have been quicker
        if _is_torch_s(root):
            remove_stale_torch_lock(root)
        with turn(root / f"{label}.lock", recipe.purpose):
            if not _whole(root, library):  # another process may have made it meanwhile
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


def _whole(root: Path, library: Path) -> bool:
    """Whether the library is there, as its build left it. BuildError if it may be another user's."""
    record = library.with_name("build.json")
    _refuse(_cache.who_else_may_write(root, library.parent, library, record))
    try:
        expected: object = json.loads(record.read_text())["sha256"]
        return expected == hashlib.sha256(library.read_bytes()).hexdigest()
    except (OSError, ValueError, KeyError, TypeError):
        return False


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
        say(f"customops: compiling {recipe.purpose} into {root / label}")
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
        for path in (library, folder / "build.json"):  # whatever the umask: see _cache.py
            path.chmod(0o600)
        shutil.rmtree(root / label, ignore_errors=True)  # a damaged one
        folder.rename(root / label)
        say(f"customops: compiled in {time.monotonic() - started:.0f} s; from now on it comes from the cache")
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _run(command: list[str], folder: Path, verbose: bool) -> None:
    """Runs ninja, shows how far it is, and raises with the compiler's own words."""
    live = sys.stderr is not None and sys.stderr.isatty()
    python = sys.executable or shutil.which("python3")  # a program that embeds Python may not say which
    if not python:
        raise BuildError("customops: compiling just in time starts Python, and python3 is not on the PATH: add it")
    process = subprocess.Popen(
        [python, "-I", "-S", _supervise.__file__, str(os.getpid()), *command], cwd=folder, start_new_session=True,
        env=os.environ | {"NINJA_STATUS": "[%f/%t] ", "LC_ALL": "C"}, text=True, errors="replace",
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    lines = []
    with process:
        try:
            for line in process.stdout or ():
                lines.append(line)
                if verbose:
                    say(line.rstrip())
                elif live and line.startswith("["):
                    print(f"\r\033[K{line.rstrip()[:100]}", end="", file=sys.stderr, flush=True)
                elif line.startswith("["):
                    say(line.rstrip())
        except BaseException:  # Ctrl-C does not reach another session
            process.terminate()
            raise
        if live and not verbose:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
    if process.returncode:
        said = "".join(line for line in lines if not line.startswith("[") or verbose)
        raise BuildError(f"customops: compiling failed; the compiler's own words:\n{said.strip()}")


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
    try:
        arguments = shlex.split(command) or ["c++"]
    except ValueError as error:
        raise BuildError(
            f"customops: CXX must be a command, got {command!r} ({error}): correct it, or unset it"
        ) from error
    program = host_compiler(arguments)
    found: dict[str, str] = {}
    for name in dict.fromkeys((arguments[0], program)):
        path = shutil.which(name)
        if path is None:
            raise BuildError(
                f"customops: compiling just in time needs a C++17 compiler, and {name} is not on the PATH: "
                "install g++, or set CXX"
            )
        found[name] = path
    return [found[arguments[0]], *arguments[1:]], identity_of(found[program])


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
    does. So does what torch does not make: a file with anything in it, another user's, a link.

    Args:
        folder: a build folder, such as ~/.cache/torch_extensions/py311_cpu/NAME.

    Returns:
        Whether one was removed.
    """
    lock = folder / "lock"
    try:
        status = lock.lstat()
    except OSError:
        return False
    if not stat.S_ISREG(status.st_mode) or status.st_size or status.st_uid != os.geteuid() or _is_open(lock):
        return False
    with contextlib.suppress(FileNotFoundError):
        lock.unlink()
    logger.warning("removed %s, left behind by a build of torch.utils.cpp_extension that was killed", lock)
    return True


def _is_torch_s(folder: Path) -> bool:
    """Whether torch builds there: an extension named customops, where TORCH_EXTENSIONS_DIR is set. Others, too, name files lock."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return (folder / "build.ninja").read_text().startswith("ninja_required_version")
    return False


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
