"""Whether a CUDA release is small enough, estimated from a wheel for one architecture: CI has no time to build a release.

    python3 docker/release_size.py WHEEL

WHEEL is one of `CUDA_ARCHS=90+PTX`. A release (csrc/nvcc.py) has the same PTX, and for each architecture as much machine
code as WHEEL, times its SHARES. nvcc compresses it already: deflate takes a fifth off what CUDA 12's leaves, nothing off
CUDA 13's.
"""

import sys
import zlib
from pathlib import Path

from common import ROOT, Failure, main_guard, read_wheel

sys.path += [str(ROOT / "docker/image"), str(ROOT / "csrc")]
import elf
import fatbin
import nvcc
from check_wheel import MAX_MEGABYTES

LIBRARY = "/_cuda12.so"  # in the package, whatever its name
# An architecture's machine code by that of sm_90, both as the wheel holds them, in a release of 2026-11-30; 75 and 110 are from
# eight files of csrc/cuda, beside 70 and 100. Others count as 1.
SHARES = {"70": 0.83, "75": 0.82, "80": 0.90, "100": 0.64, "110": 0.63, "120": 0.58}


def parts(path: Path) -> dict[str, float]:
    """Bytes of a wheel: machine code and PTX, both of one architecture, the rest of the CUDA library, the rest of the wheel."""
    wheel = read_wheel(path)
    libraries = [name for name in wheel.names if name.endswith(LIBRARY)]
    if len(libraries) != 1:
        raise Failure(
            f"{path.name} has {len(libraries)} libraries *{LIBRARY}: name a wheel of one, of CUDA_ARCHS=90+PTX"
        )
    body = wheel.read(libraries[0])
    images = [image for unit in fatbin.units(elf.read(body)) for image in unit]
    if {(image.kind, image.architecture) for image in images} != {("machine_code", 90), ("ptx", 90)}:
        raise Failure(f"{path.name} must have machine code and PTX of sm_90, and no more: CUDA_ARCHS=90+PTX")
    found = {kind: sum(deflated(i.content) for i in images if i.kind == kind) for kind in ("machine_code", "ptx")}
    found["library"] = deflated(body) - sum(found.values())
    return found | {"wheel": path.stat().st_size - sum(found.values())}


def deflated(data: bytes) -> int:
    return len(zlib.compress(data, 9))


def estimate(found: dict[str, float], release: dict[str, tuple[str, ...]]) -> float:
    """Bytes of a release, of which csrc/nvcc.py names the architectures."""
    total = found["wheel"] + len(release) * found["library"]
    for entry in (entry for entries in release.values() for entry in entries):
        architecture, _, ptx = entry.partition("+")
        total += SHARES.get(architecture, 1) * found["machine_code"] + (found["ptx"] if ptx else 0)
    return total


def main() -> None:
    if len(sys.argv) != 2:
        raise Failure("name one wheel: python3 docker/release_size.py WHEEL")
    found = parts(Path(sys.argv[1]))
    sizes = {machine: estimate(found, release) / 1e6 for machine, release in nvcc.RELEASES.items()}
    for machine, megabytes in sizes.items():
        print(f"a CUDA release for {machine}: about {megabytes:.1f} MB, at most {MAX_MEGABYTES} MB")
    if max(sizes.values()) > MAX_MEGABYTES:
        raise Failure(
            "a CUDA release would be too large: compile fewer kernels, or for fewer architectures (csrc/nvcc.py)"
        )


if __name__ == "__main__":
    main_guard(main, alone=False)
