"""What a source uses of torch, before anything compiles: names are looked up in the headers here, which say it all.

It reads names, not C++: the compiler has the last word.
"""

import functools
import re
from pathlib import Path

from aten_stable import INCLUDE

SUFFIXES = (".c", ".cc", ".cpp", ".cxx", ".cu", ".cuh", ".h", ".hpp", ".hh")
NO_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|(?<![#\w])"(?:\\.|[^"\\\n])*"', re.DOTALL)
INCLUDES = re.compile(
    r'^[ \t]*#[ \t]*include[ \t]*[<"]((?:torch|ATen|c10|pybind11|THC|caffe2)/[^>"]+|Python\.h)[>"]', re.MULTILINE
)
QUALIFIED = re.compile(r"(?<![\w:])(?:torch|at|c10|py|pybind11)::(?:(?:cuda|autograd|literals|native)::)?(\w+)")
MACRO = re.compile(r"\b(?:(?:AT|TORCH|C10|CUDA)_[A-Z0-9_]+|PYBIND11_\w+)\b")
MEMBER = re.compile(r"(?:\.|->)(\w+)\s*(?:<[^<>;()]*>)?\s*\(")
NESTED = {"cuda", "indexing", "native", "nn", "detail", "impl"}  # namespaces
OWN_MACROS = re.compile(r"TORCH_EXTENSION_NAME|TORCH_VERSION\w*|CUDA_VERSION|CUDA_ARCH\w*")


@functools.cache
def table() -> list[str]:
    """The schema of each operator of ATen's that the headers call."""
    text = re.sub(r"#define X\(name(?:, sign)?\).*?#undef X", _expanded, headers(), flags=re.DOTALL)
    rows = re.findall(
        r'ATEN_STABLE_OPERATOR\(\s*[\w:]+(?:\([^()]*\)|<[^()]*>)?,\s*"\w+",\s*"\w*",\s*((?:"(?:[^"\\]|\\.)*"\s*)+)',
        text,
    )
    return sorted({re.sub(r'"\s*"', "", row.strip())[1:-1].replace('\\"', '"') for row in rows})


def _expanded(match: re.Match) -> str:
    """A macro of names with its uses, for each of them."""
    body, *_ = re.split(r"^(?=X\()", match[0], maxsplit=1, flags=re.MULTILINE)
    names = re.findall(r"\bX\((\w+)[^()]*\)", match[0].removeprefix(body))
    body = re.sub(r"\\\n", "\n", body)
    return "".join(re.sub(r'#name ?("?)', lambda quote, n=n: f'"{n}' if quote[1] else f'"{n}"', body) for n in names)


@functools.cache
def headers() -> str:
    return "\n".join(path.read_text() for path in sorted((INCLUDE / "aten_stable").glob("*.h")))


@functools.cache
def uncovered() -> dict[str, str]:
    """{name: what to write instead}, from the headers' own errors."""
    entries = re.findall(r'ATEN_STABLE_UNCOVERED(?:_FUNCTION)?\((\w+),\s*"([^"]+)"\)', headers())
    entries += re.findall(r'ATEN_STABLE_NO\(\s*"(?:\w+::)*(\w+) is not covered: ((?:[^"]|"\s*")+)"\)', headers())
    entries += re.findall(r'"aten_stable: (?:\w+::)*(\w+) is not covered: ((?:[^"]|"\s*")+)"', headers())
    thrown = re.search(r'#define ATEN_STABLE_NO_ERROR\(name\).*? is not covered: ([^"]+)"', headers(), re.DOTALL)[1]
    entries += [(name, thrown) for name in re.findall(r"\bATEN_STABLE_NO_ERROR\((\w+)\);", headers())]
    return {name: re.sub(r'"\s*"', "", instead) for name, instead in entries}


NO_PYTHON = "uncovered", "take and return tensors, numbers, strings, lists of these, and convert in Python"


@functools.cache
def python_objects() -> set[str]:
    """pybind11's classes of Python objects, which have names that other namespaces have, too."""
    declared = re.search(r'"py::" #name.*?#undef X', headers(), re.DOTALL)[0]
    return set(re.findall(r"X\((\w+)\)", declared))


@functools.cache
def bindings() -> set[str]:
    """pybind11's classes that are covered; torch has some of these names, too."""
    text = "".join((INCLUDE / f"aten_stable/{name}.h").read_text() for name in ("pybind", "classes"))
    return set(re.findall(r"^(?:class|struct) ([a-z]\w*)", text, re.MULTILINE))


# What the stable ABI's own headers declare under ATen's names.
FROM_TORCH = {"kCPU", "kCUDA", "kMeta", "kStrided", "CppTypeToScalarType", "C10_HOST_DEVICE", "C10_DEVICE", "C10_HOST"}
FROM_TORCH |= {
    "C10_WARP_SIZE",
    "C10_LAUNCH_BOUNDS_0",
    "C10_LAUNCH_BOUNDS_1",
    "C10_LAUNCH_BOUNDS_2",
    "CUDA_KERNEL_ASSERT",
}
FROM_TORCH |= {"C10_LIKELY", "C10_UNLIKELY", "C10_RESTRICT", "C10_NOINLINE", "C10_ALWAYS_INLINE"}


@functools.cache
def covered() -> set[str]:
    text = re.sub(r'ATEN_STABLE_UNCOVERED(?:_FUNCTION)?\(\w+,\s*"[^"]+"\)', "", headers())
    names = set(re.findall(r"\b[A-Za-z_]\w*\b", NO_CODE.sub("", text)))
    return (names | FROM_TORCH) - set(uncovered())


@functools.cache
def through_dispatcher() -> set[str]:
    return {re.split(r"[.(]", schema)[0] for schema in table()}


@functools.cache
def members() -> set[str]:
    """Members of ATen's Tensor that only it has, here or in the schemas, so that other classes' are not reported."""
    return set(uncovered()) | through_dispatcher()


def verdict(name: str) -> tuple[str, str]:
    if name in uncovered():
        return "uncovered", uncovered()[name]
    if name in through_dispatcher():
        return "dispatcher", ""
    if name in covered():
        return "covered", ""
    return "uncovered", "no replacement is known: do it in Python, or in your kernel"


def of_use(text: str, name: str) -> tuple[str, str]:
    """The verdict on a name where it stands: py::class_ is another than torch::class_."""
    if text.startswith(("py::", "pybind11::")):
        if name in python_objects():
            return NO_PYTHON
        if name in bindings():
            return "covered", ""
    return verdict(name)


def header(path: str) -> tuple[str, str]:
    if path.startswith(("torch/csrc/stable/", "torch/headeronly/")):
        return "covered", ""
    shadow = INCLUDE / path
    if not shadow.is_file():
        return "uncovered", "include <torch/extension.h> or the header of what you use"
    error = re.search(r'#error "aten_stable: <[^>]+> is not covered: ([^"]+)"', shadow.read_text())
    return ("uncovered", error[1]) if error else ("covered", "")


def uses(text: str):
    """(line, what, verdict, what to write instead) of each use in a source."""
    blank = NO_CODE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    found = [(m.start(), f"<{m[1]}>", *header(m[1])) for m in INCLUDES.finditer(text)]
    for pattern, group in ((QUALIFIED, 1), (MACRO, 0), (MEMBER, 1)):
        for match in pattern.finditer(blank):
            name = match[group]
            if name in NESTED or OWN_MACROS.fullmatch(name) or (pattern is MEMBER and name not in members()):
                continue
            if pattern is MACRO and re.search(rf"#\s*define\s+{name}\b", text):
                continue  # the project's own
            found.append((match.start(group), match[0].lstrip(".->").rstrip("( "), *of_use(match[0], name)))
    for at, *rest in sorted(found):
        yield text.count("\n", 0, at) + 1, *rest


def report(path: Path, everything: bool) -> int:
    if not path.exists():
        raise SystemExit(f"error: {path} does not exist")
    files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.suffix in SUFFIXES and p.is_file())
    if not files:
        raise SystemExit(f"error: {path} holds no C++ or CUDA source ({' '.join(SUFFIXES)})")
    counts = {"covered": 0, "dispatcher": 0, "uncovered": 0}
    for file in files:
        for line, what, kind, instead in uses(file.read_text(errors="replace")):
            counts[kind] += 1
            if kind == "uncovered":
                print(f"{file}:{line}: {what} is not covered: {instead}")
            elif everything:
                print(f"{file}:{line}: {what}: {'covered' if kind == 'covered' else 'through the dispatcher'}")
    print(
        f"{len(files)} files: {counts['covered']} uses covered, {counts['dispatcher']} through the dispatcher, "
        f"{counts['uncovered']} uncovered"
    )
    return 1 if counts["uncovered"] else 0
