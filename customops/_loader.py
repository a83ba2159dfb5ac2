"""Finds the compiled library and opens it, or says why it could not."""

from pathlib import Path

LIBRARY = Path(__file__).with_name("_cpu.so")


def load() -> str | None:
    """Opens ``customops/_cpu.so``, which registers every op with torch's dispatcher.

    Returns:
        None; or, for a torch that the library cannot run on, what to say as soon as an op is asked for.

    Raises:
        ImportError: torch is missing or shadowed by a local folder; or the library is missing.
    """
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
    version = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
    if version < (2, 10):
        return f"customops needs PyTorch 2.10 or newer, found {torch.__version__}: pip install -U torch"
    if not LIBRARY.exists():
        raise ImportError(
            f"{LIBRARY} is not there. A source checkout has to be built first: "
            "pip install -e . --no-build-isolation (or leave the checkout, so that the installed package is found)."
        )
    torch.ops.load_library(LIBRARY)
    return None
