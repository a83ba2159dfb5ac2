"""``python -m customops``: what is installed, how it was built, what it found on this machine.

``python -m customops explain OP ...``: which kernels an op chooses, and why; --help lists the options.
"""

import json
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import torch

import customops
from customops import _cuda, _explain, _state
from customops._driver import dotted


def report_cuda() -> None:
    """What a first CUDA call would find. Does not open the library."""
    if _state.opened.compiler != "setuptools":
        kinds = {
            "jit": "compiled when a CUDA tensor first meets an op",
            "cmake": "in the library, if it was built with them",
        }
        print(f"CUDA kernels: {_state.opened.compiler} ({kinds[_state.opened.compiler]})")
        return
    machine, libraries = _cuda.machine(), _cuda.libraries()
    for index, (major, minor) in enumerate(machine.capabilities):
        print(f"GPU {index}: {torch.cuda.get_device_name(index)}, compute capability {major}.{minor}")
    for name, library in libraries.items():
        kinds = [f"sm_{code}" for code in library["machine_code"]] + [f"PTX {code}" for code in library["ptx"]]
        print(f"{name}: {', '.join(kinds)}; driver for CUDA {dotted(library['driver'])} or newer")
    name, why = _cuda.choose(machine, libraries)
    print(f"CUDA kernels: {name or 'none'} ({why})")


def main() -> None:
    if sys.argv[1:2] == ["explain"]:
        customops.load()
        _explain.main(sys.argv[2:])
        return
    here, record, version = Path(customops.__path__[0]), {}, "(not an installed package)"
    try:
        installed = distribution("customops")
        if Path(str(installed.locate_file("customops"))) == here:  # and not another copy than the imported one
            version, record = installed.version, json.loads(installed.read_text("build.json") or "{}")
    except PackageNotFoundError:
        pass
    print(f"customops {version} in {here}")
    print(f"torch {torch.__version__}, CUDA {torch.version.cuda or 'none'}")
    try:
        print(f"library: {customops.load()} (loaded; built by {_state.opened.compiler}: {_state.opened.why})")
    except (ImportError, RuntimeError, ValueError) as error:
        print(f"error: {error}")
    else:
        print(f"CPU capability: {torch.ops.customops._cpu_capability()}, {torch.get_num_threads()} threads")
        report_cuda()
    print("build record: " + (json.dumps(record, indent=2, sort_keys=True) if record else "none"))


if __name__ == "__main__":
    main()
