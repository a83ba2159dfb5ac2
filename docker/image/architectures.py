"""GPU architectures as CUDA_ARCHS and a project's table name them, such as `90 8.0+PTX cuda13:100`, and what they are to torch."""

import re
from collections.abc import Mapping
from typing import Any

# What the locked compilers know (nvcc --list-gpu-code).
KNOWN = {
    "cuda12": (50, 52, 53, 60, 61, 62, 70, 72, 75, 80, 86, 87, 89, 90),
    "cuda13": (75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121),
}
FORM = r"(?:(cuda12|cuda13):)?(\d{1,2})\.?(\d)([af]?)(\+PTX)?"


class BadArchitecture(ValueError):
    """One line."""


def parse(wanted: str) -> list[tuple[str, int, int, str, str]]:
    """(compiler, major, minor, suffix, "+PTX" or "") of each word; one that no compiler is named for goes to the oldest."""
    found = []
    for word in re.split(r"[\s,;]+", wanted.strip()):
        match = re.fullmatch(FORM, word, re.ASCII)
        if not match:
            raise BadArchitecture(
                f"expected entries such as 90, 9.0, 90+PTX or cuda13:90, separated by spaces, got {word!r}"
            )
        compiler, major, minor, suffix, ptx = match.groups("")
        compiler = compiler or ("cuda12" if int(major) < 10 else "cuda13")
        if int(major + minor) not in KNOWN[compiler]:
            known = ", ".join(map(str, KNOWN[compiler]))
            raise BadArchitecture(
                f"nvcc of CUDA {compiler[4:]} does not compile for {major}{minor}, which {word!r} asks for; it does for {known}"
            )
        found.append((compiler, int(major), int(minor), suffix, ptx))
    return list(dict.fromkeys(found))


def one_spelling(wanted: str) -> str:
    """For the build: `80;8.9+PTX` is cuda12:80,cuda12:89+PTX."""
    return ",".join(f"{name}:{major}{minor}{suffix}{ptx}" for name, major, minor, suffix, ptx in parse(wanted))


def torch_list(wanted: str) -> str:
    """TORCH_CUDA_ARCH_LIST: `90+PTX cuda13:10.0` is 9.0+PTX;10.0."""
    return ";".join(dict.fromkeys(f"{major}.{minor}{suffix}{ptx}" for _, major, minor, suffix, ptx in parse(wanted)))


def cuda_variables(table: Mapping[str, Any], base: Mapping[str, str]) -> dict[str, str]:
    """What torch's CUDAExtension, CMake and setup.py files look at. No GPU is asked for.

    table: of the project. base: the variables of the build.
    """
    if base.get("CUSTOMOPS_VARIANT") != "cuda":
        return {"FORCE_CUDA": "0"}
    home = base.get(f"CUDA{table['cuda']}_HOME") or f"/opt/cuda{table['cuda']}"
    variables = {"CUDA_HOME": home, "CUDA_PATH": home, "CUDACXX": f"{home}/bin/nvcc", "FORCE_CUDA": "1"}
    wanted = base.get("CUDA_ARCHS") or table["cuda-archs"]
    if wanted and not base.get("TORCH_CUDA_ARCH_LIST"):
        variables["TORCH_CUDA_ARCH_LIST"] = torch_list(wanted)
    return variables
