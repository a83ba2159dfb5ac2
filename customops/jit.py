"""Compiles csrc/ just in time for exactly this machine, or takes what an earlier run compiled.

    CUSTOMOPS_COMPILER=jit python program.py        # or customops.load("jit") before the first op

The sources are the wheel's own; ninja and a C++17 compiler have to be there, for CUDA tensors nvcc too. Builds are kept
in ``CUSTOMOPS_JIT_CACHE``, or ``customops/`` in ``TORCH_EXTENSIONS_DIR``, ``XDG_CACHE_HOME`` or ``~/.cache``, one for
each combination of sources, flags, torch, compiler, CPU and GPU. CPU kernels are compiled first, CUDA kernels when a
CUDA tensor first meets an op. ``MAX_JOBS`` says how many compilers run at once.
"""

from pathlib import Path

from customops import _cuda, _loader, _state
from customops._build import BuildError
from customops._recipes import build, build_cuda

__all__ = ["BuildError", "build", "build_cuda", "load"]


def load(cuda: bool = False, verbose: bool = False) -> Path:
    """Opens the library compiled for this machine, compiling it if that has not happened before.

    Args:
        cuda: compile and open the CUDA kernels now, rather than when a CUDA tensor first meets an op.
        verbose: show every command, as ninja runs it.

    Returns:
        The library with the CPU kernels.

    Raises:
        BuildError: ninja or a compiler is missing, the cache cannot be written, or a source does not compile.
        RuntimeError: another library is open already.
    """
    if _state.opened is None and verbose:
        build(verbose)
    path = _loader.load("jit")
    if cuda:
        _cuda.load()
    return path
