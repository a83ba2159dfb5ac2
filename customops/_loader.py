"""Chooses the compiled library and opens it, or says why it could not: prebuilt, compiled just in time, or CMake's."""

import importlib
import os
import sys
import threading
import types
from collections.abc import Iterable
from pathlib import Path

from customops import _state
from customops._state import LIBRARY, Opened, logger

COMPILERS = ("auto", "setuptools", "jit", "cmake")

_FORK_SECONDS = 10  # that a fork waits for a library to be opened

_ops: tuple[str, ...] = ()  # modules of ops
_lock = threading.RLock()  # of the choice; held for as long as a just-in-time build takes
_opening = threading.RLock()  # while a library is half there: no fork then
_unusable = ""  # why no library can be opened any more: the ops of another version are registered
_complete = False  # ops have their derivatives and fake kernels, too
_thread = threading.local()  # .registering: this thread is giving them those


def load(compiler: str = "auto", path: str | os.PathLike[str] | None = None) -> Path:
    """Opens the compiled library, which registers every op with torch's dispatcher.

    The first use of an op does this by itself, with ``"auto"``. A process can hold one library: call this before, or set
    the environment variable. What was chosen, and why, goes to the logger ``customops``.

    Args:
        compiler: how the library was, or is to be, built:
            ``"auto"``: as the environment variable ``CUSTOMOPS_COMPILER`` says. Without it the prebuilt library, or, only
            where there is none for this platform, just in time;
            ``"setuptools"``: the prebuilt one, which the wheel brings or ``pip install -e .`` compiled;
            ``"jit"``: compiled just in time for this machine, see :mod:`customops.jit`;
            ``"cmake"``: ``libcustomops.so``, as csrc/CMakeLists.txt builds it.
        path: the library, for ``"cmake"`` (or ``CUSTOMOPS_LIBRARY``), or another prebuilt one for ``"setuptools"``.

    Returns:
        The library that is open. Asking again for the same one does nothing.

    Raises:
        ValueError: no such way to build; or a path that is missing or not wanted.
        ImportError: the library is missing or cannot be opened, or torch is too old for it.
        RuntimeError: another library is open already; or the JIT build failed (:class:`customops.jit.BuildError`).
    """
    with _lock:
        opened = _state.opened
        if opened is None:
            opened = _choose(compiler, path)
            _open(opened)
            _state.opened = opened
        elif compiler != "auto" or path is not None:
            _check_same(opened, compiler, path)
    _register()
    return opened.path


def _choose(compiler: str, path: str | os.PathLike[str] | None) -> Opened:
    why, named = "asked for", os.environ.get("CUSTOMOPS_LIBRARY")
    if compiler == "auto":
        compiler = os.environ.get("CUSTOMOPS_COMPILER") or "auto"
        if compiler != "auto":
            why = f"CUSTOMOPS_COMPILER={compiler}"
        if named and compiler in COMPILERS and compiler != "cmake":
            raise ValueError(
                f"customops.load: CUSTOMOPS_LIBRARY={named} is for CUSTOMOPS_COMPILER=cmake, which is "
                f"{compiler if why != 'asked for' else 'not set'}: set it to cmake, or unset CUSTOMOPS_LIBRARY"
            )
    _check_compiler(compiler)
    check_version()
    if compiler == "cmake":
        path = path or named
        if not path:
            raise ValueError("customops.load: cmake needs the path of libcustomops.so: path=..., or CUSTOMOPS_LIBRARY")
        return Opened("cmake", _existing(Path(path)), why)
    if compiler == "setuptools":
        return Opened("setuptools", _existing(Path(path or LIBRARY)), why)
    if path is not None:
        raise ValueError(f"customops.load: {compiler} takes no path, got {os.fspath(path)!r}: say setuptools or cmake")
    if compiler == "auto":
        if LIBRARY.exists():
            return Opened("setuptools", LIBRARY, "prebuilt")
        why = f"{LIBRARY} is not there, a prebuilt library for this platform"
        if not (Path(__file__).parent / "csrc").is_dir():
            why += " (a checkout shadows an installed package: leave it, or run pip install -e . --no-build-isolation)"
        print(f"customops: {why}: compiling just in time", file=sys.stderr)
    from customops import _recipes  # importing torch comes first

    return Opened("jit", _recipes.build(), why)


def _check_compiler(compiler: str) -> None:
    if compiler not in COMPILERS:
        raise ValueError(f"customops.load: compiler must be one of {', '.join(COMPILERS)}, got {compiler!r}")


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise ImportError(
            f"customops.load: {path} is not there. A source checkout has to be built first: pip install -e . "
            "--no-build-isolation; or compile just in time: CUSTOMOPS_COMPILER=jit"
        )
    return path.absolute()


def _open(library: Opened) -> None:
    global _unusable
    import torch

    if _unusable:
        raise ImportError(_unusable)
    logger.info("opening %s, built by %s (%s)", library.path, library.compiler, library.why)
    try:
        with _opening:
            torch.ops.load_library(library.path)
    except OSError as error:
        raise ImportError(
            f"customops: {library.path} cannot be opened ({error}). Compile it on this machine: CUSTOMOPS_COMPILER=jit"
        ) from error
    ops = getattr(torch.ops.customops, "namespace", torch.ops.customops)
    entries = [prefix + op for op in _ops for prefix in ("", "_")]
    missing = [entry for entry in entries if not hasattr(ops, entry)]
    if not missing:
        return
    reason = f"customops: {library.path}, {library.compiler}'s library ({library.why}),"
    remedy = "name the library that this version's csrc/ was built into"
    if missing == entries:  # nothing of ours is taken: the right one can still be opened
        raise ImportError(f"{reason} is another library, without an op of customops: {remedy}")
    _unusable = f"{reason} is of another version of customops, without the op {missing[0]}: {remedy}, in a new process"
    raise ImportError(_unusable)


def wait_for_first_use(ops: Iterable[str]) -> None:
    """Lets ``torch.ops.customops`` open the library when it is first asked for an op.

    The placeholder gives way to torch's own namespace only when the ops are complete: no other thread meets them earlier.

    Args:
        ops: names of the modules that complete them.
    """
    global _ops
    import torch

    _ops = tuple(ops)
    torch.ops.customops = _Placeholder()  # type: ignore[attr-defined]  # torch.ops makes its attributes up


class _Placeholder(types.ModuleType):
    def __init__(self) -> None:
        import torch

        super().__init__("torch.ops.customops")
        self.namespace = type(torch.ops.aten)("customops")

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        load()
        return getattr(self.namespace, name)


def _check_same(opened: Opened, compiler: str, path: str | os.PathLike[str] | None) -> None:
    other_path = path is not None and Path(path).absolute() != opened.path
    _check_compiler(compiler)
    if compiler not in ("auto", opened.compiler) or other_path:
        raise RuntimeError(
            f"customops.load: {opened.path}, built by {opened.compiler}, is open already ({opened.why}), and a process can "
            f"hold one library: call customops.load({compiler!r}) before the first op, or set CUSTOMOPS_COMPILER={compiler}"
        )


def _register() -> None:
    """Imports every op's module: derivatives, fake kernels, what to do at the first CUDA tensor.

    Outside the lock, because another thread may hold the import lock of one of these modules and wait for ours.
    """
    global _complete
    if _complete or getattr(_thread, "registering", False):
        return
    import torch

    _thread.registering = True
    try:
        for module in _ops:
            importlib.import_module(f"customops.{module}")
    finally:
        _thread.registering = False
    namespace = getattr(torch.ops.customops, "namespace", torch.ops.customops)
    torch.ops.customops = namespace  # type: ignore[attr-defined]  # torch.ops makes its attributes up
    _complete = True


def check_torch() -> None:
    """Raises ImportError if torch is missing or shadowed by a local folder."""
    try:
        import torch
    except ModuleNotFoundError as error:
        if error.name != "torch":  # torch is there, and something that it needs is not
            raise
        raise ImportError("customops needs PyTorch 2.10 or newer: pip install torch") from error

    if not hasattr(torch, "ops"):
        where = (list(getattr(torch, "__path__", [])) or [torch.__file__])[0]
        raise ImportError(
            f"`import torch` found {where}, which is not PyTorch: a folder or file named torch shadows it. "
            "Rename it, or run Python from another directory."
        )


def check_version() -> None:
    """Raises ImportError for a torch that no library of ours runs on."""
    import torch

    version = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
    if version < (2, 10):
        raise ImportError(f"customops needs PyTorch 2.10 or newer, found {torch.__version__}: pip install -U torch")


# A child of fork has this thread alone. Were a lock held by another one, nobody would give it back.
_fork_waited = False


def _before_fork() -> None:
    """Waits while a library is opened, which takes milliseconds: half open, it is of no use to the child. Not for a compiler."""
    global _fork_waited
    _fork_waited = _opening.acquire(timeout=_FORK_SECONDS)


def _after_fork_in_parent() -> None:
    if _fork_waited:
        _opening.release()


def _after_fork_in_child() -> None:
    global _lock, _opening
    _lock, _opening = threading.RLock(), threading.RLock()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
