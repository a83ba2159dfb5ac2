"""Completes a repaired wheel: build record, SBOM, licences; then packs it so that equal contents are equal bytes.

    python docker/record.py WHEEL

Adds to dist-info: `build.json` (which setup.py began; here come source and base), `sboms/customops.cdx.json` (CycloneDX 1.6,
PEP 770), and the licences of what is linked statically. SOURCE_COMMIT, SOURCE_DIRTY and SOURCE_DATE_EPOCH come from
docker/source-facts.sh. Rewrites the wheel in place: sorted names, one time stamp, two modes, one compression.
"""

import argparse
import base64
import hashlib
import importlib.metadata
import io
import json
import os
import platform
import shutil
import subprocess
import time
import zipfile
from pathlib import Path

from elftools.elf.elffile import ELFFile
from packaging.utils import parse_wheel_filename

HERE = Path(__file__).parent
BASE_LOCK = HERE / "debian-build.lock"
DOC = Path("/usr/share/doc")


def compiler_packages() -> list[dict]:
    """The Debian packages that g++ links statically, with the hash that the image's lock gives them.

    On a host without the lock: what its dpkg knows. Elsewhere: the compiler's version alone.
    """
    major = subprocess.check_output(["g++", "-dumpversion"], text=True).split(".")[0].strip()
    names = [f"libstdc++-{major}-dev", f"libgcc-{major}-dev"]
    locked = {}
    if os.environ.get("CUSTOMOPS_BUILD_IMAGE") == "debian":
        fields = [line.split() for line in BASE_LOCK.read_text().splitlines() if not line.startswith("#")]
        locked = {package: {"version": version, "sha256": sha256} for sha256, _, package, version, _ in fields}
    packages = []
    for name in names:
        if name in locked:
            packages.append({"name": name, **locked[name]})
        elif shutil.which("dpkg-query"):
            run = subprocess.run(
                ["dpkg-query", "-W", "-f=${Version}", name], capture_output=True, text=True, check=False
            )
            if run.returncode == 0:
                packages.append({"name": name, "version": run.stdout})
    return packages or [
        {"name": "gcc", "version": subprocess.check_output(["g++", "-dumpfullversion"], text=True).strip()}
    ]


def torch_version() -> str | None:
    try:
        return importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return None


def links_libstdcxx_statically(contents: dict[str, bytes]) -> bool:
    for body in contents.values():
        if body.startswith(b"\x7fELF"):
            dynamic = ELFFile(io.BytesIO(body)).get_section_by_name(".dynamic")
            if "libstdc++.so.6" in [tag.needed for tag in dynamic.iter_tags() if tag.entry.d_tag == "DT_NEEDED"]:
                return False
    return True


def sbom(name: str, version: str, packages: list[dict], torch: str) -> dict:
    """CycloneDX 1.6: the wheel, and what its libraries carry inside."""
    components = []
    for package in packages:
        distro = (
            f"pkg:deb/debian/{package['name'].replace('+', '%2B')}@{package['version'].replace('+', '%2B')}?arch=amd64"
        )
        component = {
            "type": "library",
            "bom-ref": distro,
            "name": package["name"],
            "version": package["version"],
            "purl": distro,
            "description": "linked statically",
            "licenses": [{"expression": "GPL-3.0-or-later WITH GCC-exception-3.1"}],
        }
        if "sha256" in package:
            component["hashes"] = [{"alg": "SHA-256", "content": package["sha256"]}]
        components.append(component)
    components.append(
        {
            "type": "library",
            "bom-ref": "torch-headers",
            "name": "torch",
            "version": torch,
            "purl": f"pkg:pypi/torch@{torch.replace('+', '%2B')}",
            "description": "headers of the stable ABI, compiled in",
            "licenses": [{"license": {"id": "BSD-3-Clause"}}],
        }
    )
    purl = f"pkg:pypi/{name}@{version.replace('+', '%2B')}"
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl},
            "lifecycles": [{"phase": "build"}],
        },
        "components": components,
        "dependencies": [
            {"ref": purl, "dependsOn": [c["bom-ref"] for c in components]},
            *({"ref": c["bom-ref"]} for c in components),
        ],
    }


def pack(path: Path, contents: dict[str, bytes], epoch: int) -> None:
    """Writes a wheel whose bytes depend on names and contents alone (and on zlib, which the image fixes)."""
    (info,) = {name.split("/")[0] for name in contents if ".dist-info/" in name}
    lines = []
    for name in sorted(contents):
        digest = base64.urlsafe_b64encode(hashlib.sha256(contents[name]).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(contents[name])}\n")
    record = f"{info}/RECORD"
    # dist-info comes last, as the wheel format recommends.
    order = sorted(contents, key=lambda name: (".dist-info/" in name, name))
    stamp = max(time.gmtime(epoch)[:6], (1980, 1, 1, 0, 0, 0))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name in [*order, record]:
            entry = zipfile.ZipInfo(name, stamp)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3
            entry.external_attr = (0o100755 if name.endswith(".so") else 0o100644) << 16
            archive.writestr(entry, "".join([*lines, f"{record},,\n"]) if name == record else contents[name])


def complete(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        contents = {n: archive.read(n) for n in archive.namelist() if not n.endswith(("/", ".dist-info/RECORD"))}
    name, version, _, _ = parse_wheel_filename(wheel.name)
    (info,) = {n.split("/")[0] for n in contents if ".dist-info/" in n}
    record = json.loads(contents.get(f"{info}/build.json", b"{}"))
    record["version"] = str(version)
    record["compiler"] = subprocess.check_output(["g++", "--version"], text=True).splitlines()[0]
    record["python"] = platform.python_version()
    record.setdefault("torch", torch_version())
    packages = compiler_packages() if links_libstdcxx_statically(contents) else []
    epoch = int(os.environ["SOURCE_DATE_EPOCH"])
    record["source"] = {
        "commit": os.environ.get("SOURCE_COMMIT") or None,
        "dirty": os.environ.get("SOURCE_DIRTY") != "0",
        "date_epoch": epoch,
    }
    record["base"] = os.environ.get("CUSTOMOPS_BUILD_IMAGE") or "host"
    if os.environ.get("CUSTOMOPS_BUILD_IMAGE") == "debian":
        record["base"] = (
            f"Debian 11 packages, debian-build.lock sha256 {hashlib.sha256(BASE_LOCK.read_bytes()).hexdigest()}"
        )
    record["linked_statically"] = packages
    contents[f"{info}/build.json"] = (json.dumps(record, indent=1, sort_keys=True) + "\n").encode()
    bom = sbom(name, str(version), packages, record["torch"] or "unknown")
    contents[f"{info}/sboms/{name}.cdx.json"] = (json.dumps(bom, indent=1) + "\n").encode()
    for package in packages:
        terms = DOC / package["name"] / "copyright"
        if terms.exists():
            # Resolved, because one source package's binaries share one text.
            contents[f"{info}/licenses/{terms.resolve().parent.name}/copyright"] = terms.read_bytes()
    pack(wheel, contents, epoch)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheel", type=Path)
    complete(parser.parse_args().wheel)


if __name__ == "__main__":
    main()
