"""What ``python -m customops`` shows, as data and as text. Opens the library; compiles one only if that was asked for."""

import json
import os
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import torch

import customops
from customops import _cuda, _loader, _state
from customops._driver import dotted

CUDA_OF = {
    "jit": "compiled when a CUDA tensor first meets an op",
    "cmake": "in the library, if it was built with them",
}


def collect(compile: bool) -> dict[str, Any]:
    """Everything, as JSON can hold it.

    Args:
        compile: compile the library just in time where none is prebuilt. CUSTOMOPS_COMPILER=jit asks for the same.
    """
    facts: dict[str, Any] = {
        "version": customops.__version__,
        "path": str(Path(customops.__path__[0])),
        "torch": torch.__version__,
        "torch_cuda": torch.version.cuda,
        "build": build_record(),
    }
    try:
        open_library(compile)
    except (ImportError, RuntimeError, ValueError) as error:
        return facts | {"error": str(error)}
    opened = _state.opened
    assert opened is not None
    facts["library"] = {"path": str(opened.path), "compiler": opened.compiler, "why": opened.why}
    facts["cpu"] = {"capability": torch.ops.customops._cpu_capability(), "threads": torch.get_num_threads()}
    facts["cuda"] = cuda(opened.compiler)
    return facts


def open_library(compile: bool) -> None:
    """customops.load(), unless that would compile and nobody asked for it."""
    asked = compile or os.environ.get("CUSTOMOPS_COMPILER", "") not in ("", "auto")
    if not asked and _state.opened is None and not _state.LIBRARY.exists():
        _loader.check_version()
        raise RuntimeError(
            f"{_state.LIBRARY} is not there, and compiling just in time takes one to three minutes: "
            "python -m customops --compile, or CUSTOMOPS_COMPILER=jit; if a wheel is installed, leave the checkout, whose "
            "folder customops/ is imported instead of it"
        )
    _loader.load()


def build_record() -> dict[str, Any]:
    """The build record of the installed wheel; empty for another copy than the imported one."""
    try:
        installed = distribution("customops")
    except PackageNotFoundError:
        return {}
    if Path(str(installed.locate_file("customops"))) != Path(customops.__path__[0]):
        return {}
    record: dict[str, Any] = json.loads(installed.read_text("build.json") or "{}")
    return record


def cuda(compiler: str) -> dict[str, Any]:
    """What a first CUDA call would find. Does not open the library."""
    if compiler != "setuptools":
        return {"library": compiler, "why": CUDA_OF[compiler], "gpus": [], "libraries": {}}
    machine, libraries = _cuda.machine(), _cuda.libraries()
    name, why = _cuda.choose(machine, libraries)
    gpus = [
        {"name": torch.cuda.get_device_name(index), "capability": f"{major}.{minor}"}
        for index, (major, minor) in enumerate(machine.capabilities)
    ]
    return {"library": name, "why": why, "gpus": gpus, "libraries": libraries}


def lines(facts: dict[str, Any]) -> list[str]:
    """The same for people."""
    shown = [
        f"customops {facts['version']} in {facts['path']}",
        f"torch {facts['torch']}, CUDA {facts['torch_cuda'] or 'none'}",
    ]
    if "error" in facts:
        shown.append(f"error: {facts['error']}")
    else:
        library, cpu, found = facts["library"], facts["cpu"], facts["cuda"]
        shown += [
            f"library: {library['path']} (loaded; built by {library['compiler']}: {library['why']})",
            f"CPU capability: {cpu['capability']}, {cpu['threads']} threads",
        ]
        for index, gpu in enumerate(found["gpus"]):
            shown.append(f"GPU {index}: {gpu['name']}, compute capability {gpu['capability']}")
        for name, held in found["libraries"].items():
            kinds = [f"sm_{code}" for code in held["machine_code"]] + [f"PTX {code}" for code in held["ptx"]]
            shown.append(f"{name}: {', '.join(kinds)}; driver for CUDA {dotted(held['driver'])} or newer")
        shown.append(f"CUDA kernels: {found['library'] or 'none'} ({found['why']})")
    record = json.dumps(facts["build"], indent=2, sort_keys=True) if facts["build"] else "none"
    return [*shown, f"build record: {record}"]
