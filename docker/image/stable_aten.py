"""aten = "stable" in a project's table: its sources, unchanged, against aten_stable's headers, into one wheel for every Python and torch.

build_project.py asks here for the flags that come before torch's own include folder, and hands over the wheel that the project's
build backend made: each of its modules becomes a library without a symbol of CPython and the Python module in front of it, and the
wheel says py3-none and torch>=2.10. The headers lie in the image, or in the checkout. Standard library only.
"""

import hashlib
import re
import shutil
import sys
from pathlib import Path

import check_wheel
import elf
import stable_cuda
from project import BadProject, Project
from record import pack
from wheelfile import Wheel, normalize

HERE = Path(__file__).resolve().parent
MODULE = re.compile(r"(?P<path>(?:[^/]+/)*)(?P<name>[A-Za-z_]\w*)(?P<suffix>\.cpython-3\d+t?-[\w-]+|\.abi3|)\.so")
DESCRIBES = "aten_stable_describe"
REQUIRED = "torch>=2.10"
EXPORTS = f"{{ global: {'; '.join(sorted(check_wheel.EXPORTED))}; local: *; }};\n"
WHY = 'aten = "stable" in [tool.customops-build]'


def library_folder() -> Path:
    """The folder that holds the package aten_stable: the image's, or the checkout's."""
    for folder in (HERE.parent, HERE.parents[1]):
        if (folder / "aten_stable/include").is_dir():
            return folder
    raise BadProject(
        f"{WHY} needs the headers of aten_stable, which this image lacks: `make image` builds one that has them"
    )


def prefix(project_name: str) -> str:
    """What the operators' namespace begins with, before the name of a module: theirs__ for theirs._C."""
    return f"{re.sub('[^A-Za-z0-9]+', '_', project_name)}__"


def variables(name: str, work: Path, torch: Path) -> dict[str, str]:
    """CFLAGS, CXXFLAGS and LDFLAGS of the build, which stand before its own; work is a folder for the headers."""
    if not (torch / "include").is_dir():
        raise BadProject(
            f"{WHY}: the build has no torch: name torch in [build-system] requires, then make lock PROJECT=..."
        )
    above = library_folder()
    if str(above) not in sys.path:
        sys.path.append(str(above))
    from aten_stable.build import factory_flags

    shutil.rmtree(work, ignore_errors=True)
    include = work / "include"
    shutil.copytree(above / "aten_stable/include", include, ignore=shutil.ignore_patterns("__pycache__"))
    (work / "exports.map").write_text(EXPORTS)
    flags = [
        *factory_flags(prefix(name), include, torch),
        f"-ffile-prefix-map={work}=aten_stable",
        "-fvisibility=hidden",
        "-ffunction-sections",
    ]
    std = "-std=c++17 "  # for GCC 10, whose default is older; torch's BuildExtension says which, later
    # dlsym is in a library of its own before glibc 2.34. Of what CppExtension names besides, nothing is taken: c10, torch_python.
    link = ["-static-libstdc++", "-Wl,--exclude-libs,ALL", f"-Wl,--version-script={work / 'exports.map'}",
            "-Wl,--gc-sections,--strip-all", f"-L{libraries(work / 'lib', torch)}", "-Wl,--no-as-needed", "-ldl", "-Wl,--as-needed"]  # fmt: skip
    return {"CFLAGS": " ".join(flags), "CXXFLAGS": std + " ".join(flags), "LDFLAGS": " ".join(link)}


def libraries(folder: Path, torch: Path) -> Path:
    """Linker scripts in place of the libraries that a build names: libstdc++ comes along, hidden, and is searched before torch's.

    torch's libraries define functions of C++20's library, which an object would take from there, and then from no other torch.
    """
    folder.mkdir(parents=True)
    (folder / "libstdc++.so").write_text("INPUT ( -l:libstdc++.a )\n")
    for name in ("c10", "torch", "torch_cpu", "torch_python", "c10_cuda", "torch_cuda"):
        (folder / f"lib{name}.so").write_text(
            f"INPUT ( -l:libstdc++.a AS_NEEDED ( {torch / 'lib/libtorch_cpu.so'} ) )\n"
        )
    return folder


def before(own: dict[str, str], given: dict[str, str]) -> dict[str, str]:
    """The variables of a build with ours in front of what it has in them."""
    return given | {key: f"{value} {given.get(key, '')}".strip() for key, value in own.items()}


def exports(body: bytes) -> set[str]:
    return {symbol.name for symbol in elf.read(body).symbols if symbol.defined and symbol.exported}


def faces(wheel: Wheel) -> dict[str, re.Match]:
    """The libraries of a wheel that Python imports, or would have: by the name of their file, or by what they describe."""
    found = {}
    for name in wheel.names:
        match = MODULE.fullmatch(name)
        if match and wheel.read(name).startswith(b"\x7fELF"):
            body = wheel.read(name)
            taken = [s.name for s in elf.read(body).symbols if not s.defined and re.match("_?Py", s.name)]
            if taken:
                raise BadProject(
                    f"{name} takes {len(taken)} symbols of CPython, such as {taken[0]}: {WHY} is for sources that include "
                    "<torch/extension.h> and bind with PYBIND11_MODULE or TORCH_LIBRARY; is the other module needed?"
                )
            if match["suffix"] or DESCRIBES in exports(body):
                found[name] = match
    return found


def place(contents: dict[str, bytes], found: dict[str, re.Match], built: str, cuda: stable_cuda.Built | None) -> bool:
    """Puts libraries and the Python in front of them where the modules were; returns whether one has device code."""
    from aten_stable.face import face

    with_kernels = False
    for name, match in found.items():
        placed = cuda.files(name, match["path"], match["name"]) if cuda else {}
        with_kernels |= bool(placed)
        library, module = f"lib{match['name']}.so", f"{match['path']}{match['name']}.py"
        placed = placed or {f"{match['path']}{library}": contents[name], module: face(library).encode()}
        del contents[name]
        for new in placed:
            if new in contents:
                raise BadProject(f"{built} holds {new} already, where {WHY} puts its own")
        contents |= placed
        print(f"{name}: {', '.join(sorted(placed))}", flush=True)
    return with_kernels


def convert(path: Path, epoch: int, cuda: stable_cuda.Built | None = None) -> Path:
    """Writes the wheel for every Python and torch beside the one that was built, which it removes.

    cuda: the wheels of all toolkits, of which path is the first.
    """
    library_folder()
    wheel = Wheel(path)
    contents = {name: wheel.read(name) for name in wheel.names if not name.endswith(".dist-info/RECORD")}
    found = faces(wheel)
    if not found:
        raise BadProject(f"{path.name} holds no extension module: {WHY} has nothing to do here")
    names = [match["name"] for match in found.values()]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise BadProject(
            f"{path.name} holds two modules called {twice[0]}, whose operators would have one name: {WHY} needs other names"
        )
    with_kernels = place(contents, found, path.name, cuda)
    version = wheel.version
    if cuda:
        version, contents = cuda.complete(contents, wheel, with_kernels)
    for name in contents:
        if (
            name.endswith(".py")
            and re.search(rb"load_library\(", contents[name])
            and name not in {f"{match['path']}{match['name']}.py" for match in found.values()}
        ):
            print(
                f"warning: {name} calls load_library: what it loads by a path is now a Python module: import it instead",
                flush=True,
            )
    (info,) = {name.split("/")[0] for name in contents if ".dist-info/" in name}
    platforms = sorted({tag.split("-")[2] for tag in wheel.file_tags})
    tags = [f"py3-none-{platform}" for platform in platforms]
    lines = [
        line
        for line in contents[f"{info}/WHEEL"].decode().splitlines()
        if line and not line.startswith(("Tag:", "Root-Is-Purelib:"))
    ]
    contents[f"{info}/WHEEL"] = "".join(
        f"{line}\n" for line in [*lines, "Root-Is-Purelib: false", *(f"Tag: {t}" for t in tags)]
    ).encode()
    contents[f"{info}/METADATA"] = require(contents[f"{info}/METADATA"].decode()).encode()
    name = "-".join([*path.name.split("-")[:-3], "py3", "none", f"{'.'.join(platforms)}.whl"])
    target = path.with_name(name.replace(f"-{wheel.version}-", f"-{version}-", 1))
    path.unlink()
    pack(target, contents, epoch)
    return target


def require(metadata: str) -> str:
    """The metadata with torch>=2.10; what else they say of torch stays."""
    lines = metadata.split("\n")
    end = lines.index("") if "" in lines else len(lines)
    head = [line for line in lines[:end] if not re.fullmatch(r"Requires-Dist:\s*torch\s*", line)]
    at = next(number for number, line in enumerate(head) if line.startswith("Version:"))
    head.insert(at + 1, f"Requires-Dist: {REQUIRED}")
    return "\n".join([*head, *lines[end:]])


def name_of(project: Project) -> str:
    """A name that no other project has: the distribution's, where a file says it, and else a digest of setup.py."""
    named = project.pyproject.get("project", {}).get("name")
    if isinstance(named, str):
        return normalize(named)
    for file, pattern in (
        ("PKG-INFO", r"^Name: ([\w.-]+)$"),
        ("setup.cfg", r"^name *= *([\w.-]+)$"),
        ("setup.py", r"\bname *= *[\"']([\w.-]+)[\"']"),
    ):
        path = project.folder / file
        if path.is_file() and (match := re.search(pattern, path.read_text(errors="replace"), re.MULTILINE)):
            return normalize(match[1])
    return f"p{hashlib.sha256((project.folder / 'setup.py').read_bytes()).hexdigest()[:12]}"
