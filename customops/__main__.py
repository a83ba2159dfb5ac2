"""``python -m customops``: what is installed, how it was built, what it found on this machine."""

import json
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import torch

import customops
from customops import _loader


def main() -> None:
    here, record, version = Path(customops.__path__[0]), {}, "(not an installed package)"
    try:
        installed = distribution("customops")
        if Path(str(installed.locate_file("customops"))) == here:  # and not another copy than the imported one
            version, record = installed.version, json.loads(installed.read_text("build.json") or "{}")
    except PackageNotFoundError:
        pass
    print(f"customops {version} in {here}")
    print(f"torch {torch.__version__}, CUDA {torch.version.cuda or 'none'}")
    print(f"library: {_loader.LIBRARY} (loaded: this build has CPU kernels only)")
    print(f"CPU capability: {torch.ops.customops._cpu_capability()}, {torch.get_num_threads()} threads")
    print("build record: " + (json.dumps(record, indent=2, sort_keys=True) if record else "none"))


if __name__ == "__main__":
    main()
