"""Completes a repaired wheel: build record, SBOM, licences; then packs it so that equal contents give equal bytes.

    python docker/image/record.py WHEEL

Adds to dist-info: `build.json` (setup.py starts it, this adds source and base), `sboms/customops.cdx.json` (CycloneDX 1.6,
PEP 770), and the licences of what is linked statically. SOURCE_COMMIT, SOURCE_DIRTY and SOURCE_DATE_EPOCH come from
docker/image/source-facts.sh. Rewrites the wheel in place: sorted names, one time stamp, two modes, one compression.
"""

import argparse
import base64
import csv
import hashlib
import importlib.metadata
import io
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import time
import zipfile  # to write
from collections.abc import Iterable
from pathlib import Path

import elf
import target
from lockfile import read_debian, read_requirements
from pinning import pin, torch_symbols
from project import Project
from provenance import check_record, purl
from strict import Refused
from wheelfile import Wheel, normalize

LOCKS = Path(__file__).resolve().parents[1] / "locks"
BASE_LOCK, CROSS_LOCK = LOCKS / "debian-build.lock", LOCKS / "aarch64/debian-cross.lock"
DOC = Path("/usr/share/doc")


def compiler(*arguments: str) -> str:
    """Output of the compiler that BuildExtension uses."""
    return subprocess.check_output([*shlex.split(target.compiler()), *arguments], text=True).strip()


def base_locks() -> list[Path]:
    """The locks of the image's Debian packages."""
    return [BASE_LOCK, CROSS_LOCK] if target.is_another() else [BASE_LOCK]


def sha256_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def compiler_packages() -> list[dict]:
    """The packages whose objects g++ links statically, with their hash from the image's lock.

    On a host: their versions from dpkg; without dpkg, only the compiler's version.
    """
    major = compiler("-dumpversion").split(".")[0]
    names = [f"libstdc++-{major}-dev", f"libgcc-{major}-dev", "libc6-dev"]  # the last for crti.o and libc_nonshared.a
    if target.is_another():
        names = [f"{name}-{target.DEBIAN[target.machine()]}-cross" for name in names]
    if os.environ.get("CUSTOMOPS_BUILD_IMAGE") == "debian":
        entries = [entry for lock in base_locks() for entry in read_debian(lock)]
        locked = {e.package: {"version": e.version, "sha256": e.sha256} for e in entries}
        return [{"name": name, "distribution": "debian", **locked[name]} for name in names]
    packages = []
    for name in names if shutil.which("dpkg-query") else ():
        run = subprocess.run(["dpkg-query", "-W", "-f=${Version}", name], capture_output=True, text=True, check=False)
        if run.returncode == 0:
            vendor = platform.freedesktop_os_release().get("ID", "debian")
            packages.append({"name": name, "distribution": vendor, "version": run.stdout})
    return packages or [{"name": "gcc", "version": compiler("-dumpversion")}]


# The packages inside each CUDA library of a wheel: (requirements set that locks it, name).
CUDA_PACKAGES = {
    "cuda12": (("cudart12", "nvidia-cuda-runtime-cu12"), ("cuda12", "nvidia-cuda-cccl-cu12")),
    "cuda13": (("cuda13", "nvidia-cuda-runtime"), ("cuda13", "nvidia-cuda-cccl")),
}


def cuda_packages(libraries: Iterable[str]) -> list[dict]:
    """The static CUDA runtime, and headers, with their locked hashes."""
    packages = []
    runtimes = read_requirements(LOCKS / "aarch64/requirements-cudart.txt") if target.is_another() else []
    for library in libraries:
        for requirements, name in CUDA_PACKAGES[library]:
            entries = runtimes + read_requirements(LOCKS / f"requirements-{requirements}.txt")
            entry = next(entry for entry in entries if entry.package == name)
            facts = {"version": entry.version, "sha256": entry.sha256}
            packages.append({"name": name, "distribution": "pypi", **facts})
    return packages


def cuda_terms(package: dict) -> bytes | None:
    """The licence that docker/image/install-cuda.sh kept."""
    for library in CUDA_PACKAGES:
        path = Path(os.environ.get(f"{library.upper()}_HOME", "/nowhere"), "licenses", package["name"], "License.txt")
        if path.exists():
            return path.read_bytes()
    return None


def torch_distribution() -> importlib.metadata.Distribution | None:
    """The torch that the wheel was built against, in the environment of its build."""
    folder = target.site() or os.environ.get("BUILD_ENVIRONMENT")
    return next(
        iter(importlib.metadata.distributions(name="torch", **({"path": [str(folder)]} if folder else {}))), None
    )


def torch_version() -> str | None:
    found = torch_distribution()
    return found.version if found else None


def torch_terms() -> bytes | None:
    """Torch's own licence: its headers are compiled in."""
    found = torch_distribution()
    files = (found.files or []) if found else []
    return next((f.locate().read_bytes() for f in files if f.match("*.dist-info/licenses/LICENSE")), None)


def python_version() -> str:
    """Of the Python that the wheel was built by; environment.py keeps it."""
    kept = Path(os.environ.get("BUILD_ENVIRONMENT", "/nowhere"), "python-version")
    return kept.read_text().strip() if kept.exists() else platform.python_version()


def cuda_version() -> str:
    """Of the compiler that a CUDA build of another's project uses, as in cu130; empty for a CPU build."""
    if os.environ.get("CUSTOMOPS_VARIANT") != "cuda":
        return ""
    major = Project(Path(os.environ["BUILD_SOURCE"])).table["cuda"]
    nvcc = Path(os.environ.get(f"CUDA{major}_HOME") or f"/opt/cuda{major}", "bin/nvcc")
    return re.search(r"release ([0-9.]+)", subprocess.check_output([nvcc, "--version"], text=True))[1]


def links_libstdcxx_statically(contents: dict[str, bytes]) -> bool:
    """Whether no library of the wheel needs libstdc++ at run time, and one holds its type information, as all but plain C does."""
    bodies = [body for body in contents.values() if body.startswith(b"\x7fELF")]
    holds = any(b"N10__cxxabiv1" in body for body in bodies)
    return holds and not any("libstdc++.so.6" in elf.read(body).needed for body in bodies)


def package_component(package: dict) -> dict:
    if package.get("distribution") == "pypi":
        url = purl("pypi", package["name"], package["version"])
    elif "distribution" in package:
        url = purl(f"deb/{package['distribution']}", package["name"], package["version"])
        # Debian's packages of a cross compiler are of no architecture.
        url += "?arch=all" if package["name"].endswith("-cross") else f"?arch={target.DEBIAN[target.machine()]}"
    else:
        url = purl("generic", package["name"], package["version"])
    if package["name"].startswith("libc6-dev"):
        terms = {"expression": "LGPL-2.1-or-later"}
    elif "cccl" in package["name"]:
        terms = {"expression": "Apache-2.0 WITH LLVM-exception AND BSD-3-Clause AND BSL-1.0"}
    elif package["name"].startswith("nvidia-"):
        terms = {"license": {"name": "NVIDIA CUDA Toolkit End User License Agreement"}}
    else:
        terms = {"expression": "GPL-3.0-or-later WITH GCC-exception-3.1"}
    component = {
        "type": "library",
        "bom-ref": url,
        "name": package["name"],
        "version": package["version"],
        "purl": url,
        "description": "headers, compiled in" if "cccl" in package["name"] else "linked statically",
        "licenses": [terms],
    }
    if "sha256" in package:
        component["hashes"] = [{"alg": "SHA-256", "content": package["sha256"]}]
    return component


def sbom(name: str, version: str, packages: list[dict], torch: str | None) -> dict:
    """CycloneDX 1.6: the wheel, and the packages inside its libraries."""
    components = [package_component(package) for package in packages]
    if torch:
        components.append(
            {
                "type": "library",
                "bom-ref": "torch-headers",
                "name": "torch",
                "version": torch,
                "purl": purl("pypi", "torch", torch),
                "description": "headers, compiled in",
                "licenses": [{"license": {"id": "BSD-3-Clause"}}],
            }
        )
    own = purl("pypi", name, version)
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {"type": "library", "bom-ref": own, "name": name, "version": version, "purl": own},
            "lifecycles": [{"phase": "build"}],
        },
        "components": components,
        "dependencies": [
            {"ref": own, "dependsOn": [c["bom-ref"] for c in components]},
            *({"ref": c["bom-ref"]} for c in components),
        ],
    }


def pack(path: Path, contents: dict[str, bytes], epoch: int) -> None:
    """Writes a wheel whose bytes depend only on names and contents (and on zlib, which the image pins)."""
    (info,) = {name.split("/")[0] for name in contents if ".dist-info/" in name}
    record = f"{info}/RECORD"
    listing = io.StringIO()
    rows = csv.writer(listing, lineterminator="\n")
    for name in sorted(contents):
        digest = base64.urlsafe_b64encode(hashlib.sha256(contents[name]).digest()).rstrip(b"=").decode()
        rows.writerow([name, f"sha256={digest}", len(contents[name])])
    rows.writerow([record, "", ""])
    # dist-info comes last, as the wheel format recommends.
    order = sorted(contents, key=lambda name: (".dist-info/" in name, name))
    stamp = max(time.gmtime(epoch)[:6], (1980, 1, 1, 0, 0, 0))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name in [*order, record]:
            entry = zipfile.ZipInfo(name, stamp)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3
            entry.external_attr = (0o100755 if name.endswith(".so") else 0o100644) << 16
            archive.writestr(entry, listing.getvalue() if name == record else contents[name])


def complete(wheel: Path, policy: str = "strict") -> None:
    """Rewrites the wheel; by policy torch-pinned, one that uses torch's C++ symbols gets a label, and another name for it."""
    given = Wheel(wheel)
    contents = {name: given.read(name) for name in given.names if not name.endswith(".dist-info/RECORD")}
    name, version, info = normalize(given.name), given.version, given.info
    record = given.build_record() or {}
    check_record(record)
    taken = torch_symbols(contents) if policy == "torch-pinned" else {}
    if taken and torch_version():
        contents, version = pin(contents, version, torch_version(), cuda_version())
        info = info.replace(f"-{given.version}.dist-info", f"-{version}.dist-info")
        record["torch_symbols"] = taken
    record["version"] = version
    record["compiler"] = compiler("--version").splitlines()[0]
    record["python"] = python_version()
    if torch_version():
        record.setdefault("torch", torch_version())
    requirements = Path(os.environ.get("BUILD_ENVIRONMENT", "/nowhere"), "requirements")
    if requirements.exists():
        record["requirements"] = requirements.read_text().splitlines()
    packages = compiler_packages() if links_libstdcxx_statically(contents) else []
    packages += cuda_packages(record.get("cuda", {}))
    epoch = int(os.environ["SOURCE_DATE_EPOCH"])
    record["source"] = {
        "commit": os.environ.get("SOURCE_COMMIT") or None,
        "dirty": os.environ.get("SOURCE_DIRTY") != "0",
        "date_epoch": epoch,
    }
    if target.machine() != "x86_64":
        record["machine"] = target.machine()
    record["base"] = os.environ.get("CUSTOMOPS_BUILD_IMAGE") or "host"
    if os.environ.get("CUSTOMOPS_BUILD_IMAGE") == "debian":
        hashes = (f"{lock.name} sha256 {sha256_of(lock)}" for lock in base_locks())
        record["base"] = f"Debian 11 packages, {', '.join(hashes)}"
    record["linked_statically"] = packages
    contents[f"{info}/build.json"] = (json.dumps(record, indent=1, sort_keys=True) + "\n").encode()
    bom = sbom(name, version, packages, record.get("torch"))
    contents[f"{info}/sboms/{name}.cdx.json"] = (json.dumps(bom, indent=1) + "\n").encode()
    for package in packages:
        if package.get("distribution") == "pypi":
            licence = cuda_terms(package)
            if licence:
                contents[f"{info}/licenses/{package['name']}/License.txt"] = licence
            elif record["base"].startswith("Debian"):
                sys.exit(f"error: the licence of {package['name']} is not in the image's CUDA folders")
            continue
        terms = DOC / package["name"] / "copyright"
        if terms.exists():
            # Resolved, because the packages of one source share one file.
            contents[f"{info}/licenses/{terms.resolve().parent.name}/copyright"] = terms.read_bytes()
        elif record["base"].startswith("Debian"):
            sys.exit(f"error: the licence of {package['name']} is not in the image: {terms} is missing")
    if terms := torch_terms():
        contents[f"{info}/licenses/torch/LICENSE"] = terms
    pack(wheel, contents, epoch)
    wheel.rename(wheel.with_name(wheel.name.replace(f"-{given.version}-", f"-{version}-", 1)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--policy", default="strict")
    args = parser.parse_args()
    wheel = args.wheel
    try:
        complete(wheel, args.policy)
    except Refused as error:
        sys.exit(f"error: {wheel.name}: {error}")


if __name__ == "__main__":
    main()
