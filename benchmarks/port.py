"""What a port from ATen to the stable ABI changes: one op, softclip, compiled in several ways from benchmarks/ports.

    python benchmarks/port.py [--json FILE] [PYTHON ...]        needs torch and c++, not customops; takes about two minutes

For each way: which other interpreters (PYTHON, each with a torch) run the same file, how many C++ symbols of torch and symbols of
CPython it takes, its size, the seconds of CPU that it compiles for, and microseconds of CPU of a call on 4 numbers.
"""

import argparse
import datetime
import importlib.util
import json
import re
import resource
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path
from types import ModuleType

import torch
from torch.utils.cpp_extension import include_paths, library_paths

SOURCES = Path(__file__).parent / "ports"
CALLS, ROUNDS = 200, 501
ATEN = ["-lc10", "-ltorch_cpu"]
STABLE = ["-DTORCH_TARGET_VERSION=0x020a000000000000", "-ltorch_cpu", "-static-libstdc++", "-Wl,--exclude-libs,ALL"]
WAYS = {  # what each takes beside its source, and how it is called
    "pybind11": (["-DTORCH_EXTENSION_NAME=pybind11", *ATEN, "-ltorch_python"], "module"),
    "library": (ATEN, "torch.ops.ports_aten.softclip.default"),
    "stable": (STABLE, "torch.ops.ports_stable.softclip.default"),
    "direct": (STABLE, "torch.ops.ports_direct.softclip.default"),
}
# In another interpreter: loads the file and compares one result with torch's own.
TRY = """
import sys, torch, importlib.util
name, path, call = sys.argv[1:]
if call == "module":
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    f = module.softclip
else:
    torch.ops.load_library(path)
    f = eval(call)
x = torch.linspace(-3, 3, 7)
torch.testing.assert_close(f(x, 2.0), 2 * torch.tanh(x / 2))
"""


def compile_way(name: str, folder: Path) -> tuple[Path, float]:
    """The library, and the seconds of CPU that it took."""
    options, _ = WAYS[name]
    includes = [f"-isystem{path}" for path in (*include_paths(), sysconfig.get_path("include"))]
    target = folder / f"{name}.so"
    command = ["c++", "-std=c++17", "-O3", "-shared", "-fPIC", "-fvisibility=hidden", "-s", "-Wl,--gc-sections", *includes,
               SOURCES / f"{name}.cpp", "-o", target, *(f"-L{path}" for path in library_paths()), *options]  # fmt: skip
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return target, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def symbols(library: Path) -> dict[str, int]:
    """What it takes from others: C++ symbols of torch, and symbols of CPython."""
    listed = subprocess.check_output(["nm", "-D", "--undefined-only", library], text=True)
    names = [line.split()[-1].split("@")[0] for line in listed.splitlines()]
    cxx = [name for name in names if re.match(r"_Z.*(2at|3c10|5torch|6caffe2)", name)]
    return {"torch_symbols": len(cxx), "python_symbols": sum(name.startswith(("Py", "_Py")) for name in names)}


def module(name: str, path: Path) -> ModuleType:
    """The Python or extension module in a file."""
    spec = importlib.util.spec_from_file_location(name, path)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def loaded(name: str, library: Path):
    """The op of this process."""
    if WAYS[name][1] == "module":
        return module(name, library).softclip
    torch.ops.load_library(library)
    return eval(WAYS[name][1])  # one of the texts above


def elsewhere(name: str, library: Path, interpreter: str) -> dict:
    version = "import platform, torch; print(f'CPython {platform.python_version()}, torch {torch.__version__}')"
    environment = subprocess.check_output([interpreter, "-c", version], text=True).strip()
    command = [interpreter, "-c", TRY, name, library, WAYS[name][1]]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    missing = re.search(r"undefined symbol: (\w+)", done.stderr)
    if missing:
        why = f"undefined symbol {subprocess.check_output(['c++filt', missing[1]], text=True).strip()}"
    else:
        why = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
    return {"where": environment, "fails": why if done.returncode else ""}


def microseconds(calls: dict) -> dict[str, float]:
    """Medians over short rounds in which the calls take turns; of CPU time, so that other programs count less."""
    times = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            start = time.thread_time()
            for _ in range(CALLS):
                call()
            times[name].append((time.thread_time() - start) / CALLS * 1e6)
    return {name: round(statistics.median(values), 2) for name, values in times.items()}


def machine() -> dict:
    """The CPU and the versions, for the results."""
    model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    compiler = subprocess.check_output(["c++", "-dumpfullversion"], text=True).strip()
    return {"date": datetime.date.today().isoformat(), "device": model[1], "threads": 1, "torch": torch.__version__,
            "python": sys.version.split()[0], "compiler": f"g++ {compiler}"}  # fmt: skip


def report(facts: dict, path: Path | None) -> None:
    """Prints them as JSON, and writes them to the file, if one is named."""
    text = json.dumps(facts, indent=1)
    print(text)
    if path:
        path.write_text(text + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path)
    parser.add_argument("interpreters", nargs="*")
    given = parser.parse_args()
    torch.set_num_threads(1)
    x = torch.linspace(-3, 3, 4)
    rows, calls = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        for name in WAYS:
            library, seconds = compile_way(name, Path(folder))
            op = loaded(name, library)
            torch.testing.assert_close(op(x, 2.0), 2 * torch.tanh(x / 2))
            calls[name] = lambda op=op: op(x, 2.0)
            rows[name] = {"way": name, "bytes": library.stat().st_size, "compile_seconds": round(seconds, 1), **symbols(library),
                          "elsewhere": [elsewhere(name, library, other) for other in given.interpreters]}  # fmt: skip
        for name, us in microseconds(calls).items():
            rows[name]["us"] = us
    facts = {
        "about": "benchmarks/port.py: softclip on 4 numbers, compiled in several ways",
        **machine(),
        "rows": list(rows.values()),
    }
    report(facts, given.json)


if __name__ == "__main__":
    main()
