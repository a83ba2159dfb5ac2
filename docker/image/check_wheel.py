"""Checks that a repaired wheel runs on every system of its tag, and on every Python and torch that it supports.

    python docker/image/check_wheel.py dist/customops-0.1.0-py3-none-manylinux_2_28_x86_64.whl

Prints its findings; one line for each broken rule, and exit status 1, if there are any. Runs after every repair. The rules
are those of an extension on the LibTorch stable ABI: no CPython, ATen or C++ symbol, so that one file serves every Python
and torch.
"""

import argparse
import base64
import csv
import hashlib
import io
import json
import re
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import fatbin
import loadable
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection
from packaging.utils import parse_wheel_filename

# glibc's own libraries, libgcc_s (torch must unwind our exceptions with the same library), and torch's CPU
# library, which every torch has. A user's machine may lack anything else.
ALLOWED_LIBRARIES = {
    "libc.so.6", "libm.so.6", "libdl.so.2", "librt.so.1", "libpthread.so.0", "ld-linux-x86-64.so.2",
    "libgcc_s.so.1", "libtorch_cpu.so",
}  # fmt: skip
# What we link needs no newer glibc than this, although manylinux_2_28 would allow 2.28.
GLIBC_OF_MANYLINUX_2_28 = (2, 17)
MAX_MEGABYTES = 40
PACKAGE_SUFFIXES = {".py", ".pyi", ".so", ".typed"}
# The sources, for builds on the user's machine.
SOURCES = re.compile(
    r"csrc/((cpu|cuda)/(\w+/)?)?\w+\.(h|cpp|cu|cuh)|csrc/cmake/(FindTorch|Sources)\.cmake"
    r"|csrc/(CMakeLists\.txt|exports\.map|flags\.txt|link_flags\.txt|jobs\.py|sources\.py)"
)
DIST_INFO = re.compile(
    r"(METADATA|WHEEL|RECORD|build\.json|top_level\.txt|entry_points\.txt|licenses/.+|sboms/.+\.json)"
)
TORCH_CXX = re.compile(r"_Z[A-Z]*(2at|3c10|5torch)")


def version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


def check_tag(wheel: Path, archive: zipfile.ZipFile) -> Iterator[str]:
    """py3-none: no CPython ABI. One manylinux tag, the same in the file name and in WHEEL."""
    tags = parse_wheel_filename(wheel.name)[3]
    names = sorted(map(str, tags))
    # auditwheel adds the old name of a level that has one, such as manylinux2014 for manylinux_2_17.
    modern = [name for name in names if not re.search("-manylinux(1|2010|2014)_", name)]
    if len(modern) != 1 or not re.fullmatch(r"py3-none-manylinux_2_\d+_x86_64", modern[0]):
        yield f"tag: expected py3-none-manylinux_2_N_x86_64, the file name says {', '.join(names)}"
    for name in archive.namelist():
        if name.endswith(".dist-info/WHEEL"):
            inside = re.findall(r"^Tag: (\S+)", archive.read(name).decode(), re.MULTILINE)
            if sorted(inside) != names:
                yield f"tag: the file name says {', '.join(names)}, {name} says {', '.join(inside)}"


def glibc_limit(wheel: Path) -> tuple[int, ...]:
    match = re.search(r"manylinux_(\d+)_(\d+)", wheel.name)
    limit = (int(match[1]), int(match[2])) if match else GLIBC_OF_MANYLINUX_2_28
    return GLIBC_OF_MANYLINUX_2_28 if limit <= (2, 28) else limit


def check_files(archive: zipfile.ZipFile) -> Iterator[str]:
    """Only the package's own Python files and libraries, and metadata; each as RECORD says."""
    dist_info = {name.split("/")[0] for name in archive.namelist() if ".dist-info/" in name}
    if len(dist_info) != 1:
        yield f"file: expected one .dist-info folder, found {sorted(dist_info)}"
        return
    (info,) = dist_info
    package = info.split("-")[0]
    files = [name for name in archive.namelist() if not name.endswith("/")]
    for name in files:
        path = PurePosixPath(name)
        if name.startswith(f"{info}/"):
            expected = DIST_INFO.fullmatch(name.removeprefix(f"{info}/"))
        else:
            inside = name.removeprefix(f"{package}/")
            known = path.suffix in PACKAGE_SUFFIXES and not inside.startswith("csrc/")
            known = known or path.name == "_cuda.json" or SOURCES.fullmatch(inside)
            expected = path.parts[0] == package and known and "__pycache__" not in path.parts
        if not expected:
            yield f"file: {name} does not belong in the wheel"
    record = archive.read(f"{info}/RECORD").decode()
    rows = list(csv.reader(io.StringIO(record)))
    hashes = {name: digest for name, digest, _ in rows}
    if len(hashes) != len(rows):
        yield "file: RECORD names a file twice"
    for name in hashes.keys() - set(files):
        yield f"file: RECORD names {name}, which is not there"
    for name in files:
        if name != f"{info}/RECORD":
            digest = base64.urlsafe_b64encode(hashlib.sha256(archive.read(name)).digest()).rstrip(b"=").decode()
            if hashes.get(name) != f"sha256={digest}":
                yield f"file: {name} is not what RECORD says: expected {hashes.get(name)}, got sha256={digest}"


def check_library(name: str, elf: ELFFile, limit: tuple[int, ...], facts: list[str]) -> Iterator[str]:
    """Needed libraries, search paths, symbol versions and undefined symbols of one shared library."""
    needed, newest = [], (0,)
    for section in elf.iter_sections():
        if isinstance(section, DynamicSection):
            for tag in section.iter_tags():
                if tag.entry.d_tag == "DT_NEEDED":
                    needed.append(tag.needed)
                    if tag.needed not in ALLOWED_LIBRARIES:
                        yield f"library: {name} needs {tag.needed}, which is not on the allowed list"
                elif tag.entry.d_tag in ("DT_RPATH", "DT_RUNPATH"):
                    path = tag.rpath if tag.entry.d_tag == "DT_RPATH" else tag.runpath
                    yield f"rpath: {name} searches {path}, a path of the build machine"
        elif isinstance(section, GNUVerNeedSection):
            for file, versions in section.iter_versions():
                for required in versions:
                    family, _, number = required.name.partition("_")
                    if family in ("GLIBCXX", "CXXABI"):
                        yield f"symbol: {name} needs {required.name} of {file.name}: libstdc++ must be linked statically"
                    elif family == "GLIBC":
                        numbered = re.fullmatch(r"[\d.]+", number)
                        newest = max(newest, version(number)) if numbered else newest
                        if not numbered or version(number) > limit:
                            yield f"symbol: {name} needs {required.name}, the limit is {'.'.join(map(str, limit))}"
    symbols = elf.get_section_by_name(".dynsym")
    for symbol in symbols.iter_symbols() if symbols else ():
        if not symbol.name:
            continue
        if symbol.entry.st_shndx != "SHN_UNDEF":
            if symbol.entry.st_shndx != "SHN_ABS" and symbol.entry.st_info.bind != "STB_LOCAL":
                yield f"symbol: {name} exports {symbol.name}, which another library might pick up"
            continue
        if TORCH_CXX.match(symbol.name):
            yield f"symbol: {name} needs {symbol.name}, ATen/c10/torch C++ that changes between torch releases"
        elif symbol.name.startswith("_Z"):
            yield f"symbol: {name} needs the C++ symbol {symbol.name}; only C interfaces are stable"
        elif re.match("_?Py", symbol.name):
            yield f"symbol: {name} needs {symbol.name} of CPython, but the tag says none"
    facts.append(f"{name}: {', '.join(needed)}; GLIBC {'.'.join(map(str, newest))}")


def expected_cuda(record: dict) -> dict[str, dict]:
    """What a build record says of CUDA libraries, in the terms of _cuda.json."""
    expected = {}
    for name, cuda in record.get("cuda", {}).items():
        major, minor = version(cuda["nvcc"])[:2]
        expected[name] = {
            "machine_code": [int(entry.removesuffix("+PTX")) for entry in cuda["architectures"]],
            "ptx": [int(entry.removesuffix("+PTX")) for entry in cuda["architectures"] if entry.endswith("+PTX")],
            "driver": major * 1000,
            "driver_for_ptx": major * 1000 + minor * 10,
        }
    return expected


def check_cuda(wheel: Path, libraries: dict[str, ELFFile], archive: zipfile.ZipFile, facts: list[str]) -> Iterator[str]:
    """Device code: as the build record and the loader's _cuda.json say, in every unit, compressed, no GPU served twice."""
    record, described = {}, {}
    for name in archive.namelist():
        if name.endswith(".dist-info/build.json"):
            record = json.loads(archive.read(name))
        elif name.endswith("/_cuda.json"):
            described = json.loads(archive.read(name))
    expected = expected_cuda(record)
    if record.get("variant") == "cuda" and not expected:
        yield "CUDA: the build record promises CUDA kernels and names no library"
    if described != expected:
        yield f"CUDA: _cuda.json says {described}, the build record {expected}"
    if expected and "+" not in wheel.name.split("-")[1] and expected.keys() != {"cuda12", "cuda13"}:
        yield f"CUDA: a wheel without label must hold cuda12 and cuda13, this one holds {', '.join(expected)}"
    owners: dict[int, str] = {}
    files = {name: f"{wheel.name.split('-')[0]}/_{name}.so" for name in expected}
    for name in files.values() - libraries.keys():
        yield f"CUDA: {name} is missing"
    for file, elf in sorted(libraries.items()):
        units = fatbin.units(elf)
        name = next((name for name, path in files.items() if path == file), None)
        if not units and name is None:
            continue
        promised = {kind: sorted(expected.get(name, {}).get(kind, ())) for kind in ("machine_code", "ptx")}
        for held in [fatbin.architectures(unit) for unit in units] or [{}]:
            if held != promised:
                yield f"CUDA: {file} holds {held} in one of its units, expected {promised}"
        if not all(image.compressed for unit in units for image in unit):
            yield f"CUDA: {file} holds device code that is not compressed: nvcc -Xfatbin=-compress-all"
        facts.append(f"{file}: sm_{', sm_'.join(map(str, promised['machine_code']))}; PTX {promised['ptx'] or 'none'}")
        for architecture in promised["machine_code"]:
            first = owners.setdefault(architecture, file)
            if first != file and "+" not in wheel.name:
                yield f"CUDA: sm_{architecture} is in {first} and in {file}: one of them is dead weight"


def check(wheel: Path) -> tuple[list[str], list[str]]:
    """(problems, facts) of a wheel. What nothing can read is one problem: others may have made the file."""
    facts = [f"{wheel.name}: {wheel.stat().st_size / 1000:.0f} kB"]
    try:
        with zipfile.ZipFile(wheel) as archive:
            problems = list(loadable.check_names(archive))
            return problems or check_contents(wheel, archive, facts), facts
    except Exception as error:  # of the parsers, which raise dozens of types for files that are cut or made up
        return [f"file: it cannot be read: {type(error).__name__}: {error}"], facts


def check_contents(wheel: Path, archive: zipfile.ZipFile, facts: list[str]) -> list[str]:
    problems = [*check_tag(wheel, archive), *check_files(archive)]
    contents = {name: archive.read(name) for name in archive.namelist()}
    libraries = {n: ELFFile(io.BytesIO(body)) for n, body in contents.items() if body.startswith(b"\x7fELF")}
    for name, elf in libraries.items():
        problems += loadable.check_segments(name, elf)
        problems += check_library(name, elf, glibc_limit(wheel), facts)
        facts[-1] += f"; {len(contents[name]) / 1000:.0f} kB"
    if not libraries:
        problems.append("file: the wheel holds no compiled library")
    problems += check_cuda(wheel, libraries, archive, facts)
    if wheel.stat().st_size > MAX_MEGABYTES * 1e6:
        problems.append(f"size: {wheel.stat().st_size / 1e6:.1f} MB, the limit is {MAX_MEGABYTES} MB")
    return problems


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheel", type=Path, nargs="+")
    failed = False
    for wheel in parser.parse_args().wheel:
        problems, facts = check(wheel)
        print("\n".join(facts))
        for problem in problems:
            failed = True
            print(f"error: {wheel.name}: {problem}", file=sys.stderr)
    sys.exit(failed)


if __name__ == "__main__":
    main()
