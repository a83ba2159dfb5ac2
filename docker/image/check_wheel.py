"""Checks that a repaired wheel runs on every system of its tag, and on every Python and torch that it supports.

    python docker/image/check_wheel.py dist/customops-0.1.0-py3-none-manylinux_2_28_x86_64.whl

Prints its findings; one line for each broken rule, and exit status 1, if there are any. Runs after every repair. The rules
are those of an extension on the LibTorch stable ABI: no CPython, ATen or C++ symbol, so that one file serves every Python
and torch.
"""

import argparse
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

import elf
import fatbin
import loadable
import strict
from provenance import check_record
from strict import Refused
from wheelfile import Wheel

# glibc's own libraries, libgcc_s (torch must unwind our exceptions with the same library), and torch's CPU
# library, which every torch has. A user's machine may lack anything else.
ALLOWED_LIBRARIES = {
    "libc.so.6", "libm.so.6", "libdl.so.2", "librt.so.1", "libpthread.so.0", "ld-linux-x86-64.so.2",
    "ld-linux-aarch64.so.1",    "libgcc_s.so.1", "libtorch_cpu.so",
}  # fmt: skip
# Other people's loops may need it. libtorch_cpu does, too, and a torch of the package index brings it, under this name.
OPENMP = "libgomp.so.1"
# What a process has one of. The loader would give a wheel's library of such a name, or soname, to everybody who needs the real one.
ONE_OF_A_PROCESS = re.compile(
    r"lib(c|m|mvec|dl|rt|pthread|resolv|anl|gcc_s|util|stdc\+\+|cuda|nvidia-[\w-]+|python3[.\d]*t?|c10|c10_cuda|shm"
    r"|torch(_cpu|_cuda|_cuda_linalg|_python|_global_deps)?)\.so(\.\d+)*|ld-linux\S*"
)
# What we link needs no newer glibc than this, although manylinux_2_28 would allow 2.28.
GLIBC_OF_MANYLINUX_2_28 = (2, 17)
MACHINE = "(?:x86_64|aarch64)"
MAX_MEGABYTES = 40
PACKAGE_SUFFIXES = {".py", ".pyi", ".so", ".typed"}
# The sources, for builds on the user's machine.
SOURCES = re.compile(
    r"csrc/((cpu|cuda)/(\w+/)?)?\w+\.(h|cpp|cu|cuh)|csrc/cmake/(FindTorch|Sources)\.cmake"
    r"|csrc/(CMakeLists\.txt|exports\.map|(link_|)flags\.txt|flags_gcc_x86_64\.txt|jobs\.py|sources\.py)"
)
DIST_INFO = re.compile(
    r"(METADATA|WHEEL|RECORD|build\.json|top_level\.txt|entry_points\.txt|licenses/.+|sboms/.+\.json)"
)
# What a build leaves behind by accident.
LEFT_BEHIND = re.compile(
    r"(^|/)(__pycache__|\.git|\.cache)/|^(build/|setup\.py$)|\.(o|lo|a|la|pyc|pyo|d|ninja|gcno|gcda)$"
)
# What Python runs at every start, or what replaces a part of Python or torch, wherever a wheel may put files.
NOT_ASKED_FOR = re.compile(
    r"([^/]+\.data/(purelib|platlib)/)?([^/]+\.(pth|start)|(sitecustomize|usercustomize)(/.+|\.[^/]+)|(torch|torchgen|functorch)/.+)"
    r"|[^/]+\.data/data/(.+/)?python[0-9.t]*/.+|[^/]+\.data/(scripts|data/bin)/(python|pip)[0-9.]*"
)
# What a library may export: what the module in front of one that is built with aten_stable calls.
EXPORTED = {f"aten_stable_{name}" for name in ("describe", "python", "quick", "function", "apply")}
# The libraries that aten_stable's Python file _C.py chooses from: lib_C.cuda12.so and lib_C.cuda13.so.
CUDA_OF_MODULE = re.compile(r"((?:[^/]+/)*)lib(\w+)\.cuda1[0-9]\.so", re.ASCII)
TORCH_CXX = re.compile(r"_Z[A-Z]*(2at|3c10|5torch)")


def version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


def check_tag(wheel: Wheel) -> Iterator[str]:
    """py3-none: no CPython ABI. One manylinux tag, the same in the file name and in WHEEL."""
    names, inside = wheel.file_tags, wheel.tags()
    # auditwheel adds the old name of a level that has one, such as manylinux2014 for manylinux_2_17.
    modern = [name for name in names if not re.search("-manylinux(1|2010|2014)_", name)]
    if len(modern) != 1 or not re.fullmatch(rf"py3-none-manylinux_2_\d+_{MACHINE}", modern[0]):
        yield f"tag: expected py3-none-manylinux_2_N_x86_64 or _aarch64, the file name says {', '.join(names)}"
    if inside != names:
        yield f"tag: the file name says {', '.join(names)}, {wheel.info}/WHEEL says {', '.join(inside)}"


def machines(wheel: Wheel) -> set[str]:
    """Which machines the tags name."""
    return {match[0] for tag in wheel.file_tags if (match := re.search(rf"{MACHINE}$", tag))}


def check_machine(name: str, library: elf.Library, wheel: Wheel) -> Iterator[str]:
    if machines(wheel) != {library.machine}:
        yield f"library: {name} is for {library.machine}, the wheel's tag says {' and '.join(sorted(machines(wheel))) or 'nothing'}"
    named = re.search(rf"-({MACHINE})-linux-gnu\.so$", name)
    if named and named[1] != library.machine:
        yield f"library: {name} is for {library.machine}, where CPython does not look for a module of this name"


def check_names(name: str, library: elf.Library) -> Iterator[str]:
    for called in dict.fromkeys((PurePosixPath(name).name, library.soname or "")):
        if ONE_OF_A_PROCESS.fullmatch(called):
            yield f"library: {name} is called {called}: it might be loaded in place of the system's or torch's"


def glibc_limit(wheel: Wheel) -> tuple[int, ...]:
    match = re.search(r"manylinux_(\d+)_(\d+)", wheel.path.name)
    limit = (int(match[1]), int(match[2])) if match else GLIBC_OF_MANYLINUX_2_28
    return GLIBC_OF_MANYLINUX_2_28 if limit <= (2, 28) else limit


def check_files(wheel: Wheel, any_files: bool = False) -> Iterator[str]:
    """Only the package's own Python files and libraries, and metadata; each as RECORD says.

    any_files: also what other people's projects hold: packages of other names, modules beside them, data.
    """
    package = wheel.info.split("-")[0]
    for name in wheel.names:
        path = PurePosixPath(name)
        if name.startswith(f"{wheel.info}/"):
            expected = DIST_INFO.fullmatch(name.removeprefix(f"{wheel.info}/"))
        else:
            inside = name.removeprefix(f"{package}/")
            known = path.suffix in PACKAGE_SUFFIXES and not inside.startswith("csrc/")
            known = known or inside == "_cuda.json" or path.name == "py.typed" or SOURCES.fullmatch(inside)
            expected = path.parts[0] == package and known and "__pycache__" not in path.parts
            others = any_files and not LEFT_BEHIND.search(name) and not NOT_ASKED_FOR.fullmatch(name)
            expected = expected or others
        if not expected:
            yield f"file: {name} does not belong in the wheel"
    yield from wheel.differs_from_record()
    for name in wheel.names:
        if name.startswith(f"{wheel.info}/") and name.endswith(".json"):
            strict.json_object(wheel.read(name), name)
    wheel.metadata()


def check_library(
    name: str, wheel: Wheel, libraries: dict[str, elf.Library], facts: list[str], openmp: bool = False
) -> Iterator[str]:
    """Needed libraries, search paths, symbol versions and undefined symbols of one shared library, which is kept."""
    body, newest, limit = wheel.read(name), (0,), glibc_limit(wheel)
    library = libraries[name] = elf.read(body)
    yield from loadable.check_library(name, library)
    yield from check_machine(name, library, wheel)
    yield from check_names(name, library)
    for needed in library.needed:
        if needed not in ALLOWED_LIBRARIES and not (openmp and needed == OPENMP):
            yield f"library: {name} needs {needed}, which is not on the allowed list"
    for path in library.search:
        yield f"rpath: {name} searches {path}, a path of the build machine"
    for file, required in library.versions:
        family, _, number = required.partition("_")
        if family in ("GLIBCXX", "CXXABI"):
            yield f"symbol: {name} needs {required} of {file}: libstdc++ must be linked statically"
        elif family == "GLIBC":
            numbered = re.fullmatch(r"[0-9]{1,4}(\.[0-9]{1,4})*", number)
            newest = max(newest, version(number)) if numbered else newest
            if not numbered or version(number) > limit:
                yield f"symbol: {name} needs {required}, the limit is {'.'.join(map(str, limit))}"
    for symbol in library.symbols:
        if not symbol.name:
            continue
        if symbol.defined:
            of_map = symbol.absolute and symbol.name in library.defined_versions
            if symbol.exported and not of_map and symbol.name not in EXPORTED:
                yield f"symbol: {name} exports {symbol.name}, which another library might pick up"
        elif TORCH_CXX.match(symbol.name):
            yield f"symbol: {name} needs {symbol.name}, ATen/c10/torch C++ that changes between torch releases"
        elif symbol.name.startswith("_Z"):
            yield f"symbol: {name} needs the C++ symbol {symbol.name}; only C interfaces are stable"
        elif re.match("_?Py", symbol.name):
            yield f"symbol: {name} needs {symbol.name} of CPython, but the tag says none"
    needed, glibc = ", ".join(library.needed), ".".join(map(str, newest))
    facts.append(f"{name}: {needed}; GLIBC {glibc}; {len(body) / 1000:.0f} kB")


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


def cuda_groups(wheel: Wheel, names: Iterable[str], any_files: bool) -> dict[str, dict[str, str]]:
    """{the file that describes CUDA libraries to whoever chooses one: {cuda12: its library}}.

    One of a wheel of ours; with any_files, one of each module that aten_stable's Python stands in front of.
    """
    modules = {m.groups() for name in wheel.names if any_files and (m := CUDA_OF_MODULE.fullmatch(name))}
    groups = {}
    for folder, stem in sorted(modules):
        groups[f"{folder}{stem}.cuda.json"] = {name: f"{folder}lib{stem}.{name}.so" for name in names}
    package = wheel.info.split("-")[0]
    return groups or {f"{package}/_cuda.json": {name: f"{package}/_{name}.so" for name in names}}


def check_cuda(
    wheel: Wheel, libraries: dict[str, elf.Library], facts: list[str], any_files: bool = False
) -> Iterator[str]:
    """Device code: as the build record and the loader's JSON say, in every unit, compressed, no GPU served twice."""
    record = wheel.build_record() or {}
    check_record(record)
    expected = expected_cuda(record)
    if record.get("variant") == "cuda" and not expected:
        yield "CUDA: the build record promises CUDA kernels and names no library"
    groups, known = cuda_groups(wheel, expected, any_files), {}
    for file, members in groups.items():
        described = strict.json_object(wheel.read(file), file) if file in wheel.names else {}
        if described != expected:
            yield f"CUDA: {PurePosixPath(file).name} says {described}, the build record {expected}"
        for library in members.values() - libraries.keys():
            yield f"CUDA: {library} is missing"
        known |= {library: (name, file) for name, library in members.items()}
    # Of other people's, the project's own table says for which GPUs it is.
    if expected and "+" not in wheel.version and not any_files and expected.keys() != {"cuda12", "cuda13"}:
        yield f"CUDA: a wheel without label must hold cuda12 and cuda13, this one holds {', '.join(expected)}"
    owners: dict[tuple[str, int], str] = {}
    for file, library in sorted(libraries.items()):
        try:
            units = fatbin.units(library)
        except Refused as error:
            yield f"CUDA: {file} {error}"
            continue
        name, group = known.get(file, (None, ""))
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
            first = owners.setdefault((group, architecture), file)
            if first != file and "+" not in wheel.version:
                yield f"CUDA: sm_{architecture} is in {first} and in {file}: one of them is dead weight"


def collect(findings: Iterator[str], where: str = "file: it cannot be read: ") -> list[str]:
    """All findings of a rule, and why it could not go on."""
    found = []
    try:
        for finding in findings:
            found.append(finding)
    except Refused as error:
        found += [text if text.startswith("file: ") else where + text for text in error.problems]
    return found


def check(path: Path, any_files: bool = False, megabytes: int = MAX_MEGABYTES) -> tuple[list[str], list[str]]:
    """(problems, facts) of a wheel. What cannot be read in one way only is a problem, never an exception."""
    facts = [f"{path.name}: {path.stat().st_size / 1000:.0f} kB"]
    return collect(check_contents(path, facts, any_files, megabytes)), facts


def check_contents(path: Path, facts: list[str], any_files: bool, megabytes: int) -> Iterator[str]:
    wheel = Wheel(path)
    yield from collect(check_tag(wheel))
    yield from collect(check_files(wheel, any_files))
    libraries: dict[str, elf.Library] = {}
    compiled = [name for name in wheel.names if wheel.read(name).startswith(b"\x7fELF")]
    for name in compiled:
        yield from collect(check_library(name, wheel, libraries, facts, any_files), f"library: {name} ")
    if not compiled:
        yield "file: the wheel holds no compiled library"
    yield from collect(check_cuda(wheel, libraries, facts, any_files))
    yield from check_size(wheel, megabytes)


def check_size(wheel: Wheel, megabytes: int) -> Iterator[str]:
    if len(wheel.data) > megabytes * 1e6:
        yield f"size: {len(wheel.data) / 1e6:.1f} MB, the limit is {megabytes} MB: max-megabytes in [tool.customops-build]"


# What a finding is about, where a library may break a rule once for each symbol; the remedy.
PER_SYMBOL = {
    r"symbol: (\S+) exports (\S+), which": "symbol: {file} exports {count} symbols, such as {first}: link with "
    "-Wl,--exclude-libs,ALL and a version script, or compile with -fvisibility=hidden",
    r"symbol: (\S+) needs (\S+), ATen": "symbol: {file} needs {count} C++ symbols of torch, such as {first}, which change between "
    'torch releases: use the stable ABI, or policy = "torch-pinned" in [tool.customops-build]',
    r"symbol: (\S+) needs the C\+\+ symbol (\S+);": "symbol: {file} needs {count} C++ symbols of other libraries, such as {first}: "
    'link with -static-libstdc++, or policy = "torch-pinned" in [tool.customops-build]',
    r"symbol: (\S+) needs (\S+) of CPython": "symbol: {file} needs {count} symbols of CPython, such as {first}, but the tag says none: "
    'load it with torch.ops.load_library, or policy = "torch-pinned" in [tool.customops-build]',
}


def one_line_each(problems: list[str]) -> list[str]:
    """One line for each finding: what a library does with forty symbols is one."""
    groups: dict[tuple[str, str], list[str]] = {}
    kept: list[str | tuple[str, str]] = []
    for problem in problems:
        found = next(((text, m) for pattern, text in PER_SYMBOL.items() if (m := re.match(pattern, problem))), None)
        if not found:
            kept.append(problem)
            continue
        key = found[0], found[1][1]
        if key not in groups:
            kept.append(key)
        groups.setdefault(key, []).append(found[1][2])
    return [
        entry if isinstance(entry, str)
        else entry[0].format(file=entry[1], count=len(groups[entry]), first=groups[entry][0])
        for entry in kept
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheel", type=Path, nargs="+")
    parser.add_argument("--policy", choices=("strict", "torch-pinned"), default="strict")
    parser.add_argument("--max-megabytes", type=int, default=MAX_MEGABYTES)
    parser.add_argument(
        "--any-files", action="store_true", help="strict: packages of other names, and data, belong in the wheel"
    )
    args = parser.parse_args()
    failed = False
    for wheel in args.wheel:
        if args.policy == "strict":
            problems, facts = check(wheel, args.any_files, args.max_megabytes)
        else:
            import torch_pinned  # not at the top: it imports this module

            problems, facts = torch_pinned.check(wheel, args.max_megabytes)
        print("\n".join(facts))
        for problem in one_line_each(problems):
            failed = True
            print(f"error: {wheel.name}: {problem}", file=sys.stderr)
    sys.exit(failed)


if __name__ == "__main__":
    main()
