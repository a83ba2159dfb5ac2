"""Whether a CUDA release is small enough, estimated from a wheel for one architecture: CI has no time to build a release.

    python3 docker/release_size.py WHEEL

WHEEL is one of `CUDA_ARCHS=90+PTX`. Each architecture of a release (csrc/nvcc.py) is taken to need as many bytes as the
machine code of WHEEL, or its PTX; those of CUDA 13, whose compiler compresses more, CUDA_13 of that.
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
CUDA_13 = 0.74  # sm_100 of CUDA 13 by sm_90 of CUDA 12, in a release of 2026-11-28


def parts(path: Path) -> dict[str, float]:
    """Bytes of a wheel: of machine code and of PTX, both of one architecture, and of the rest."""
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
    share = len(zlib.compress(body, 9)) / len(body)  # of what is stored, in the wheel
    found = {kind: share * sum(i.bytes for i in images if i.kind == kind) for kind in ("machine_code", "ptx")}
    return found | {"rest": path.stat().st_size - sum(found.values())}


def estimate(found: dict[str, float], release: dict[str, tuple[str, ...]]) -> float:
    """Bytes of a release, of which csrc/nvcc.py names the architectures."""
    total = found["rest"]
    for library, entries in release.items():
        for entry in entries:
            size = found["machine_code"] + (found["ptx"] if entry.endswith("+PTX") else 0)
            total += size * (CUDA_13 if library == "cuda13" else 1)
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
