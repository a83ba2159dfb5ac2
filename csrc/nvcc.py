"""Compiles csrc/cuda/ into customops/_cuda12.so and customops/_cuda13.so; setup.py calls it for CUDA builds.

Each architecture is compiled once, by the oldest compiler that knows it, so that the library which serves it needs the
oldest driver possible. customops/_cuda.json tells the loader what each library holds. No GPU is looked for.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import sources
from jobs import jobs

CSRC = Path("csrc")  # relative, because builds run in the project's folder and objects must not know where that is

# What each library holds in a release: machine code for these, and PTX of CUDA 12's last for what comes after. A GPU runs the
# code of its major version's smaller minors: 7.5 that of 7.0, 8.6 and 8.9 that of 8.0, 10.3 that of 10.0. No kernel here has
# anything newer to use, and each architecture took some 5 MB of the 48 MB that a wheel for seven had.
# On ARM: T4G beside Graviton, A100, Grace Hopper and RTX cards; Thor, whose 11.0 no other architecture serves.
RELEASES = {
    "x86_64": {"cuda12": ("70", "80", "90+PTX"), "cuda13": ("100", "120")},
    "aarch64": {"cuda12": ("75", "80", "90+PTX"), "cuda13": ("100", "110", "120")},
}
# sysconfig says it, because this may be a cross build: docker/image/target.py.
MACHINE = sysconfig.get_platform().removeprefix("linux-")
RELEASE = RELEASES.get(MACHINE, RELEASES["x86_64"])
TARGET = {"aarch64": "sbsa-linux"}.get(MACHINE, "x86_64-linux")  # NVIDIA's name of a folder of libraries
# The compiler must be of this CUDA version; its machine code runs on every driver of the same major version.
MAJOR = {"cuda12": 12, "cuda13": 13}
# What the locked compilers know (nvcc --list-gpu-code), from 70 on: csrc/cuda/transposed.cuh needs __grid_constant__.
KNOWN = {
    "cuda12": (70, 72, 75, 80, 86, 87, 89, 90),
    "cuda13": (75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121),
}


def architectures(wanted: str | None) -> dict[str, tuple[str, ...]]:
    """What to compile for, by library: the release, or what CUDA_ARCHS asks for, such as `90 100` or `8.0 cuda13:90+PTX`.

    An architecture without a library's name goes where the release has it, a newer one to cuda13.
    """
    if not wanted:
        return RELEASE
    chosen: dict[str, list[str]] = {}
    for word in re.split(r"[\s,;]+", wanted.strip()):
        match = re.fullmatch(r"(?:(cuda12|cuda13):)?(\d{1,2})\.?(\d)(\+PTX)?", word)
        if not match:
            sys.exit(
                f"error: CUDA_ARCHS: expected entries such as 90, 9.0, 90+PTX or cuda13:90, separated by spaces, got {word!r}"
            )
        library, major, minor, ptx = match.groups()
        library = library or ("cuda12" if int(major) < 10 else "cuda13")
        if int(major + minor) not in KNOWN[library]:
            sys.exit(
                f"error: CUDA_ARCHS: nvcc of CUDA {MAJOR[library]} does not compile for {major}{minor}, which {word!r} asks "
                f"for; it does for {', '.join(map(str, KNOWN[library]))}"
            )
        chosen.setdefault(library, []).append(f"{major}{minor}{ptx or ''}")
    return {name: tuple(dict.fromkeys(chosen[name])) for name in sorted(chosen)}


def variant() -> tuple[str, dict[str, tuple[str, ...]]]:
    """(CUSTOMOPS_VARIANT, architectures). Stops here when a compiler is missing: a CUDA build never turns into a CPU one."""
    name = os.environ.get("CUSTOMOPS_VARIANT", "cpu")
    if name not in ("cpu", "cuda"):
        sys.exit(f"error: CUSTOMOPS_VARIANT must be cpu or cuda, got {name!r}")
    archs = architectures(os.environ.get("CUDA_ARCHS")) if name == "cuda" else {}
    for library in archs:
        home(library)
    return name, archs


def label(archs: dict[str, tuple[str, ...]]) -> str:
    """Local version label: empty for the release; otherwise it names what there is, so that nobody takes it for one."""
    if archs == RELEASE:
        return ""
    words = [f"{name}.{'.'.join(f'sm{a}' for a in entries)}" for name, entries in archs.items()]
    return "+" + ".".join(words).replace("+PTX", "ptx")


def home(name: str) -> Path:
    """The CUDA toolkit for a library: $CUDA12_HOME or $CUDA13_HOME, which has to have nvcc of that version."""
    variable = name.upper() + "_HOME"
    folder = Path(os.environ.get(variable) or f"/opt/{name}")
    nvcc = folder / "bin/nvcc"
    remedy = f"set {variable}, narrow CUDA_ARCHS, or let `make wheel VARIANT=cuda` install it"
    if not nvcc.exists():
        sys.exit(f"error: a CUDA build needs nvcc of CUDA {MAJOR[name]}, and {nvcc} is not there: {remedy}")
    version = re.search(r"release (\d+)", subprocess.check_output([nvcc, "--version"], text=True))
    if version is None or int(version[1]) != MAJOR[name]:
        sys.exit(f"error: {nvcc} is of CUDA {version[1] if version else '?'}, {MAJOR[name]} is needed: {remedy}")
    if not library_folders(folder):
        sys.exit(f"error: {folder} has no libcudart_static.a in lib64 or lib: {remedy}")
    return folder


def library_folders(cuda: Path) -> list[Path]:
    """Where a toolkit keeps the static runtime: lib64 in NVIDIA's own packages, lib in wheels."""
    folders = [cuda / name for name in ("lib64", "lib", f"targets/{TARGET}/lib")]
    return [folder for folder in folders if (folder / "libcudart_static.a").exists()]


def version(name: str) -> str:
    """Of the compiler, such as 12.4.131."""
    text = subprocess.check_output([home(name) / "bin/nvcc", "--version"], text=True)
    return re.search(r", V([\d.]+)", text)[1]


def record(archs: dict[str, tuple[str, ...]]) -> dict:
    """For the wheel's build record."""
    return {name: {"nvcc": version(name), "architectures": entries} for name, entries in archs.items()}


def description(archs: dict[str, tuple[str, ...]]) -> dict:
    """What the loader needs to know of each library; versions are CUDA's numbers, 12040 for 12.4.

    A driver runs machine code of its own major version, but compiles PTX only up to its own version.
    """
    facts = {}
    for name, entries in archs.items():
        major, minor = version(name).split(".")[:2]
        facts[name] = {
            "machine_code": [int(entry.removesuffix("+PTX")) for entry in entries],
            "ptx": [int(entry.removesuffix("+PTX")) for entry in entries if entry.endswith("+PTX")],
            "driver": MAJOR[name] * 1000,
            "driver_for_ptx": int(major) * 1000 + int(minor) * 10,
        }
    return facts


def gencode(entry: str) -> str:
    number = entry.removesuffix("+PTX")
    code = f"[sm_{number},compute_{number}]" if entry.endswith("+PTX") else f"sm_{number}"
    return f"-gencode=arch=compute_{number},code={code}"


def words(*arguments) -> str:
    """Arguments of a command as a ninja file takes them."""
    return " ".join(shlex.quote(str(argument)).replace("$", "$$") for argument in arguments)


def paths(*files) -> str:
    """Files in ninja's build lines, which know no quotes."""
    return " ".join(str(file).replace("$", "$$").replace(" ", "$ ").replace(":", "$:") for file in files)


def headers_of_another_machine() -> list[str]:
    """The folders that a cross build names in CXXFLAGS, which the C++ compiler reads and nvcc does not."""
    return [word[2:] for word in shlex.split(os.environ.get("CXXFLAGS", "")) if word.startswith("-I")]


def ninja_file(extension, name: str, entries: tuple[str, ...], target: Path, folder: Path) -> str:
    """Rules for one library.

    nvcc names internal symbols after the source's path and after temporary files: two of the options make objects the
    same bytes wherever and whenever they are compiled. A source without any external function that is no template gets
    nvcc's process id in these names, which no option prevents: give it one (`make reproduce` tells).
    """
    cuda, cxx = home(name), os.environ.get("CXX", "c++")
    compile_args = sources.for_nvcc(["-fPIC", *extension.extra_compile_args])
    for torch in headers_of_another_machine():
        compile_args += [f"-I{torch}", f"-Xcompiler=-ffile-prefix-map={torch}=torch/include"]
    compile_args += [f"-I{include}" for include in extension.include_dirs]
    compile_args += [*map(gencode, entries), "-objtemp", "--threads=2", f"-ccbin={cxx}"]
    if MAJOR[name] >= 13:  # every driver for it decompresses Zstandard, by which device code is a fifth smaller
        compile_args.append("--compress-mode=size")
    link_args = shlex.split(os.environ.get("LDFLAGS", ""))  # first, as setuptools has it: libraries of another machine
    link_args += [f"-L{path}" for path in (*library_folders(cuda), *extension.library_dirs)]
    link_args += [f"-l{library}" for library in (*extension.libraries, *sources.CUDA_LIBRARIES)]
    # ccache preprocesses for one architecture only, and knows a compiler by its name: hash every header, and both programs.
    headers = sources.headers(CSRC, "cuda")
    hashed = ":".join(map(str, (cuda / "bin/nvcc", cuda / "bin/ptxas", "$in", *headers)))
    ccache = f"CCACHE_EXTRAFILES={hashed} ccache " if shutil.which("ccache") else ""
    objects = {str(folder / name / sources.object_name(CSRC, Path(source))): source for source in extension.sources}
    lines = [
        f"builddir = {paths(folder)}",  # where ninja keeps its log
        f"rule nvcc_{name}",
        f"  command = {ccache}{words(cuda / 'bin/nvcc')} -c $in -o $out -MD -MF $out.d '-Xcudafe=--orig_src_path_name $in' "
        + words(*compile_args),
        "  depfile = $out.d",
        "  deps = gcc",
        f"  description = nvcc {version(name)} for {' '.join(entries)}: $in",
        f"rule link_{name}",
        f"  command = {words(cxx, '-shared')} $in -o $out {words(*link_args, *extension.extra_link_args)}",
        "  description = link $out",
        *(f"build {paths(out)}: nvcc_{name} {paths(source)}" for out, source in objects.items()),
        f"build {paths(target)}: link_{name} {paths(*objects)}",
    ]
    return "\n".join(lines) + "\n"


def remove_stale(package: Path) -> None:
    """What an earlier build of another variant left: the loader would take it for this one's."""
    for path in (*package.glob("_cuda1?.so"), package / "_cuda.json"):
        path.unlink(missing_ok=True)


def command(build_ext: type, archs: dict[str, tuple[str, ...]]) -> type:
    """A build_ext that compiles the extensions named like the keys of `archs` with nvcc and ninja, the rest as before."""

    class Build(build_ext):
        def build_extensions(self) -> None:
            mine = {name: e for e in self.extensions for name in archs if e.name.endswith(f"._{name}")}
            everything = self.extensions
            self.extensions = [e for e in everything if e not in mine.values()]
            remove_stale(Path(self.build_lib, "customops"))
            super().build_extensions()
            self.extensions = everything
            folder = Path(self.build_temp).resolve()
            folder.mkdir(parents=True, exist_ok=True)
            if not mine:
                return
            script = folder / "cuda.ninja"  # one for both libraries, so that no core waits for the other's last source
            targets = {name: Path(self.get_ext_fullpath(e.name)).resolve() for name, e in mine.items()}
            script.write_text(
                "".join(ninja_file(e, name, archs[name], targets[name], folder) for name, e in mine.items())
            )
            verbose = ["-v"] if os.environ.get("V") == "1" else []
            if subprocess.run(["ninja", *verbose, "-f", script, f"-j{jobs()}"], check=False).returncode:
                sys.exit(f"error: {', '.join(mine)} could not be compiled, see the messages above")
            for target in targets.values():
                target.with_name("_cuda.json").write_text(json.dumps(description(archs), indent=1) + "\n")

        def copy_extensions_to_source(self) -> None:
            """For editable installs."""
            remove_stale(Path("customops"))
            super().copy_extensions_to_source()
            if archs:
                shutil.copy(Path(self.build_lib, "customops/_cuda.json"), "customops")

    return Build
