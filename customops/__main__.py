"""``python -m customops``: what is installed, how it was built, what it found on this machine."""

import json
from importlib.metadata import PackageNotFoundError, distribution

import torch

import customops
from customops import _loader


def main() -> None:
    try:
        installed = distribution("customops")
        print(f"customops {installed.version} in {customops.__path__[0]}")
        record = json.loads(installed.read_text("build.json") or "{}")
    except PackageNotFoundError:
        print(f"customops in {customops.__path__[0]}, not installed as a package")
        record = {}
    print(f"torch {torch.__version__}, CUDA {torch.version.cuda or 'none'}")
    print(f"library: {_loader.LIBRARY} (loaded: this build has CPU kernels only)")
    print(f"CPU capability: {torch.ops.customops._cpu_capability()}, {torch.get_num_threads()} threads")
    print(
        "build record: "
        + (json.dumps(record, indent=2, sort_keys=True) if record else "none, this is a source checkout")
    )


if __name__ == "__main__":
    main()
