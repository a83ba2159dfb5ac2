"""Finds and opens the library with the CUDA kernels when a CUDA tensor first meets an op; or says why there is none.

Not at import, because asking for GPUs there would cost time, pin down CUDA_VISIBLE_DEVICES and break programs that fork.
"""

import functools
import json
from pathlib import Path
from typing import NamedTuple, TypedDict

import torch

from customops import _driver, _state
from customops._driver import dotted


class Machine(NamedTuple):
    """What the choice depends on. Versions are CUDA's numbers: 12040 for 12.4."""

    driver: int  # the newest CUDA that the driver supports; 0 without a driver
    capabilities: tuple[tuple[int, int], ...]  # of the visible GPUs
    torch: str | None  # the CUDA version torch was built for; None for a CPU-only torch
    error: str = ""  # why torch could not ask the GPUs


TEGRAS = {53, 62, 72, 87}  # Jetson modules; Thor's 11.0 has no other minor version


class Held(TypedDict):
    """What a CUDA library holds, as csrc/nvcc.py describes it in customops/_cuda.json."""

    driver: int  # the oldest, as Machine has it
    machine_code: list[int]  # 90 for sm_90
    ptx: list[int]
    driver_for_ptx: int


def choose(machine: Machine, libraries: dict[str, Held]) -> tuple[str | None, str]:
    """(library, why); the library is None where none can serve, and why then names the remedy.

    One library has to serve every visible GPU. The newest that can is taken: each holds machine code for other GPUs, and an
    older one would serve a newer GPU only by compiling PTX at start.

    Args:
        machine: driver, visible GPUs, torch.
        libraries: name -> what it holds.
    """
    if not libraries:
        return None, "this build of customops has CPU kernels only: install the wheel without +cpu in its version"
    if reason := why_no_gpu(machine):
        return None, reason
    reasons = []
    for name in sorted(libraries, reverse=True):
        reason = why_not(machine, libraries[name])
        if reason is None:
            return name, f"driver for CUDA {dotted(machine.driver)}, GPUs {gpus(machine)}"
        reasons.append(f"{name} {reason}")
    return None, "; ".join(reasons)


def why_no_gpu(machine: Machine) -> str | None:
    """None if there is a GPU that torch can use, otherwise the reason and the remedy."""
    if machine.torch is None:
        return f"this torch ({torch.__version__}) is built without CUDA: install a CUDA build of torch"
    if machine.driver == 0:
        return "there is no NVIDIA driver on this machine: install one, 525 or newer"
    if machine.error:
        built = f"the driver supports CUDA {dotted(machine.driver)}, torch is built for {machine.torch}"
        return f"torch cannot start CUDA ({machine.error}): {built}: update the driver, or free the GPU"
    if not machine.capabilities:
        return "torch sees no GPU: check nvidia-smi and CUDA_VISIBLE_DEVICES"
    return None


def why_not(machine: Machine, library: Held) -> str | None:
    """None if the library serves every GPU of the machine, otherwise the reason and the remedy."""
    if machine.driver < library["driver"]:
        return f"needs a driver for CUDA {dotted(library['driver'])}, this one supports {dotted(machine.driver)}: update it"
    for major, minor in machine.capabilities:
        if any(runs((major, minor), code) for code in library["machine_code"]):
            continue
        if not any(ptx <= 10 * major + minor for ptx in library["ptx"]):
            held = ", ".join(f"sm_{code}" for code in library["machine_code"])
            hide = "hide it with CUDA_VISIBLE_DEVICES, or " if len(machine.capabilities) > 1 else ""
            archs = " ".join(sorted({f"{a}.{b}" for a, b in machine.capabilities}))
            return (
                f"holds {held}, nothing that a GPU of compute capability {major}.{minor} runs: "
                f'{hide}build from source with CUDA_ARCHS="{archs}"'
            )
        if machine.driver < library["driver_for_ptx"]:
            return (
                f"would have to be compiled for compute capability {major}.{minor} by a driver for CUDA "
                f"{dotted(library['driver_for_ptx'])}, this one supports {dotted(machine.driver)}: update it"
            )
    return None


def runs(capability: tuple[int, int], code: int) -> bool:
    """Whether a GPU runs machine code: its own, and that of a smaller minor version unless either is of a Tegra.

    https://docs.nvidia.com/cuda/cuda-c-programming-guide/#binary-compatibility
    """
    major, minor = capability
    own = 10 * major + minor
    return code == own or (code // 10 == major and code < own and not {code, own} & TEGRAS)


def gpus(machine: Machine) -> str:
    return ", ".join(f"{major}.{minor}" for major, minor in machine.capabilities)


def folder() -> Path:
    """Where the prebuilt libraries are."""
    opened = _state.opened
    return (opened.path if opened and opened.compiler == "setuptools" else _state.LIBRARY).parent


def libraries() -> dict[str, Held]:
    """The CUDA libraries beside the prebuilt one."""
    description = folder() / "_cuda.json"
    held: dict[str, Held] = json.loads(description.read_text()) if description.exists() else {}
    return held


def machine() -> Machine:
    """This machine; starts CUDA if there are GPUs."""
    driver, built = _driver.driver_version(), torch.version.cuda
    try:
        count = torch.cuda.device_count() if built else 0
        return Machine(driver, tuple(map(torch.cuda.get_device_capability, range(count))), built)
    except RuntimeError as error:  # a driver too old for this torch, a GPU that others keep for themselves
        return Machine(driver, (), built, str(error).strip().splitlines()[0])


@functools.cache
def load() -> str:
    """Opens the library for this machine and returns its name.

    A just-in-time build compiles it now; CMake's library holds its CUDA kernels itself.

    Raises:
        RuntimeError: there is none; the message says why, and what to do.
    """
    opened = _state.opened
    if opened is None or opened.compiler == "setuptools":
        name, why = choose(machine(), libraries())
    elif reason := why_no_gpu(machine()):
        name, why = None, reason
    elif opened.compiler == "cmake":
        name, why = None, f"{opened.path} was built without them: cmake -DCUSTOMOPS_CUDA=ON"
    else:
        name, why = opened.compiler, ""
    if name is None:
        raise RuntimeError(f"customops has no CUDA kernels for this machine: {why}. `python -m customops` shows more")
    if name == "jit":
        from customops import _recipes  # a prebuilt library needs none of it

        torch.ops.load_library(_recipes.build_cuda())
        return name
    _state.logger.info("opening %s (%s)", folder() / f"_{name}.so", why)
    torch.ops.load_library(folder() / f"_{name}.so")
    return name


def plain(t: torch.Tensor) -> bool:
    """Whether there are kernels for such tensors, once the library is open."""
    return t.device.type in ("cpu", "cuda") and t.layout == torch.strided and not t.is_quantized


def on_first_use(op: str) -> None:
    """Registers what runs when an op meets tensors that it has no kernel for yet.

    It stands below every backend's own kernel: as soon as the library is open, CUDA tensors don't come here any more.
    """
    packet = getattr(torch.ops.customops, op).default

    def kernel(*args: object) -> object:
        tensors = [arg for arg in args if isinstance(arg, torch.Tensor)]
        if not any(t.is_cuda for t in tensors) or not all(map(plain, tensors)):
            got = ", ".join(f"{t.layout}{' quantized' * t.is_quantized} on {t.device}" for t in tensors)
            raise NotImplementedError(f"{op.lstrip('_')}: expected dense tensors on cpu or cuda, got {got}")
        load()
        return packet(*args)

    torch.library.impl(f"customops::{op}", "CompositeExplicitAutograd")(kernel)
