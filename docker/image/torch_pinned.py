"""The policy `torch-pinned` of the wheel check: C++ symbols of torch and CPython's are allowed, if the wheel says what it needs.

A library may use torch's C++ interface, which changes with every release: the wheel then requires exactly the release that it was
built against, and its version says so. It may use CPython's: the tag then names that CPython. What holds for every wheel holds
here, too: one platform tag, RECORD, libraries that every user of torch has, no search path of the build machine.
"""

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

import elf
import loadable
from check_wheel import (
    ALLOWED_LIBRARIES,
    MACHINE,
    NOT_ASKED_FOR,
    check_machine,
    check_names,
    check_size,
    collect,
    version,
)
from pinning import TORCH_CXX
from wheelfile import Wheel

# What a torch brings, beside what every system of the tag has.
OF_TORCH = re.compile(
    r"lib(torch|torch_cpu|torch_cuda|torch_python|c10|c10_cuda|shm)\.so"
    r"|lib(cudart|cublas|cublasLt|cusparse|cusolver|curand|cufft|cudnn\w*|nvrtc|nvJitLink|nccl|cupti|cuda)\.so(\.\d+)*"
)
EVERYWHERE = ALLOWED_LIBRARIES | {"libstdc++.so.6", "libgomp.so.1", "libz.so.1"} | {
    "libutil.so.1", "libresolv.so.2", "libanl.so.1", "libmvec.so.1",  # glibc's, too; the last one for loops under -ffast-math
}  # fmt: skip
PINNED = re.compile(r"torch\s*==\s*([0-9][0-9.]*)")


def check_tag(wheel: Wheel) -> Iterator[str]:
    inside = wheel.tags()
    if inside != wheel.file_tags:
        yield f"tag: the file name says {', '.join(wheel.file_tags)}, {wheel.info}/WHEEL says {', '.join(inside)}"
    for tag in wheel.file_tags:
        if not re.fullmatch(rf"(py3|cp3\d+)-(none|abi3|cp3\d+t?)-manylinux(_2_\d+|1|2010|2014)_{MACHINE}", tag):
            yield f"tag: {tag} is not one of CPython on manylinux: a wheel without a manylinux tag runs on no known system"


def leaves(name: str, path: str) -> bool:
    """Whether a search path of a library leads out of the folder that the wheel is installed into."""
    start, _, rest = path.partition("/")
    folder = posixpath.dirname(re.sub(r"^[^/]+\.data/[^/]+/", "", name)) or "."
    return start != "$ORIGIN" or posixpath.normpath(f"{folder}/{rest}").split("/")[0] == ".."


def check_library(name: str, body: bytes, wheel: Wheel, facts: list[str]) -> Iterator[str]:
    library = elf.read(body)
    yield from loadable.check_library(name, library)
    yield from check_machine(name, library, wheel)
    yield from check_names(name, library)
    beside = {path.rsplit("/", 1)[-1] for path in wheel.names}
    unknown = [n for n in library.needed if n not in EVERYWHERE | beside and not OF_TORCH.fullmatch(n)]
    if unknown:
        yield f"library: {name} needs {', '.join(unknown)}, which users may lack: link it statically, or let auditwheel copy it in"
    for path in library.search:
        if any(leaves(name, part) for part in path.split(":")):
            yield f"rpath: {name} searches {path}, which is not in the wheel's folder: remove -Wl,-rpath from the link"
    limits = [(int(a), int(b)) for a, b in re.findall(r"manylinux_(\d+)_(\d+)", wheel.path.name)]
    newest = (0,)
    for file, required in library.versions:
        family, _, number = required.partition("_")
        if family == "GLIBC" and re.fullmatch(r"[0-9]{1,4}(\.[0-9]{1,4})*", number):
            newest = max(newest, version(number))
            if limits and version(number) > max(limits):
                yield f'symbol: {name} needs {required} of {file}, newer than the tag says: manylinux = "auto" in [tool.customops-build]'
    taken = [symbol.name for symbol in library.symbols if not symbol.defined]
    torch = [symbol for symbol in taken if TORCH_CXX.match(symbol)]
    python = [symbol for symbol in taken if re.match("_?Py", symbol)]
    if torch:
        pins = [PINNED.fullmatch(line) for line in wheel.metadata().get("requires-dist", [])]
        pins = [match[1] for match in pins if match]
        if len(pins) != 1 or f"torch{pins[0]}" not in wheel.version:
            yield (
                f"torch: {name} uses {len(torch)} C++ symbols of torch, such as {torch[0]}, and the wheel does not require and name "
                "the one torch that has them: is torch among the requirements of the build?"
            )
    abi = {tag.split("-")[1] for tag in wheel.file_tags}
    if python and "none" in abi:
        yield f"symbol: {name} needs {len(python)} symbols of CPython, such as {python[0]}, but the tag says none: tag it for the CPython"
    if private := [
        symbol for symbol in python if symbol.startswith("_Py") and "abi3" in abi and symbol not in STABLE_PRIVATE
    ]:
        yield f"symbol: {name} needs {', '.join(private[:3])}, which abi3 does not promise: define Py_LIMITED_API"
    glibc = ".".join(map(str, newest))
    facts.append(
        f"{name}: {', '.join(library.needed)}; GLIBC {glibc}; {len(torch)} C++ symbols of torch, {len(python)} of CPython; "
        f"{len(body) / 1000:.0f} kB"
    )


# Private names that are in the limited API all the same.
STABLE_PRIVATE = {
    "_Py_Dealloc", "_Py_NoneStruct", "_Py_TrueStruct", "_Py_FalseStruct", "_Py_EllipsisObject", "_Py_NotImplementedStruct",
    "_Py_IncRef", "_Py_DecRef", "_Py_BuildValue_SizeT", "_PyArg_Parse_SizeT", "_PyArg_ParseTuple_SizeT", "_Py_NegativeRefcount",
    "_PyArg_ParseTupleAndKeywords_SizeT", "_PyObject_New", "_PyObject_NewVar", "_PyObject_GC_New", "_PyObject_GC_NewVar",
    "_PyObject_GC_Resize", "_PyArg_VaParse_SizeT", "_PyObject_CallFunction_SizeT", "_PyObject_CallMethod_SizeT",
    "_Py_CheckRecursiveCall", "_PyErr_BadInternalCall", "_PyWeakref_RefType", "_PyWeakref_ProxyType",
    "_PyWeakref_CallableProxyType", "_Py_VaBuildValue_SizeT", "_PyArg_VaParseTupleAndKeywords_SizeT",
}  # fmt: skip


def findings(path: Path, megabytes: int, facts: list[str]) -> Iterator[str]:
    wheel = Wheel(path)
    yield from collect(check_tag(wheel))
    yield from collect(wheel.differs_from_record())
    for name in filter(NOT_ASKED_FOR.fullmatch, wheel.names):
        yield f"file: {name} does not belong in the wheel: it would run without being asked, or replace a part of Python or torch"
    compiled = [name for name in wheel.names if wheel.read(name).startswith(b"\x7fELF")]
    for name in compiled:
        yield from collect(check_library(name, wheel.read(name), wheel, facts), f"library: {name} ")
    if not compiled:
        yield "file: the wheel holds no compiled library: build it with `python -m build`, it needs no container"
    yield from check_size(wheel, megabytes)


def check(path: Path, megabytes: int) -> tuple[list[str], list[str]]:
    """(problems, facts) of a wheel."""
    facts = [f"{path.name}: {path.stat().st_size / 1000:.0f} kB"]
    return collect(findings(path, megabytes, facts)), facts
