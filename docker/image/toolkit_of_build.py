"""Runs when a Python of the build starts, as its sitecustomize.py: torch believes that it is of the CUDA of CUDA_HOME.

torch compares the toolkit with the CUDA that it was built with, because extensions link its runtime; those of aten = "stable"
link none of it. Without this, a torch for the CPU compiles no CUDA sources, and one for CUDA 12 none with CUDA 13. Nothing but
torch.version.cuda and CUDA_HOME of torch.utils.cpp_extension is changed. stable_cuda.py puts it there. Standard library only.
"""

import importlib.abc
import importlib.util
import os
import re
import subprocess
import sys


def release() -> str:
    """Of the toolkit, such as 12.4."""
    said = subprocess.check_output([f"{os.environ['CUDA_HOME']}/bin/nvcc", "--version"], text=True)
    return re.search(r"release ([\d.]+)", said)[1]


CHANGES = {
    "torch.version": lambda module: setattr(module, "cuda", release()),
    "torch.utils.cpp_extension": lambda module: setattr(module, "CUDA_HOME", os.environ["CUDA_HOME"]),
}


class Toolkit(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the two modules where they are, and changes them once they have run."""

    def __init__(self):
        self.found = {}

    def find_spec(self, name, path=None, target=None):
        if name not in CHANGES or name in self.found:
            return None
        self.found[name] = None  # so that the next line looks further
        spec = importlib.util.find_spec(name)
        if spec is not None:
            self.found[name], spec.loader = spec.loader, self
        return spec

    def create_module(self, spec):
        return self.found[spec.name].create_module(spec)

    def exec_module(self, module):
        self.found[module.__name__].exec_module(module)
        CHANGES[module.__name__](module)


sys.meta_path.insert(0, Toolkit())
