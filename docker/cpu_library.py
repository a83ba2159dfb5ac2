"""Compiles the CPU's library for a test, with flags and a compiler of one's own; sanitize_cpu.py and emulated.py call it."""

import concurrent.futures
import itertools
import sys
from hashlib import sha256
from pathlib import Path

import children
from common import ROOT

sys.path.append(str(ROOT / "csrc"))
import jobs
import sources

CSRC = ROOT / "csrc"


def compile_library(
    compiler: str, flags: list[str], torch: Path, folder: Path, link: list[str], left_out: tuple[str, ...] = ()
) -> Path:
    """libcustomops.so in a folder that keeps its objects: those whose sources or command changed are compiled again.

    Args:
        flags: instead of those of csrc/flags.txt for optimisation and debugging, and beside all others.
        torch: the folder of its package, which has the headers, and libraries for the same machine as the compiler.
        link: flags of the linker beside those of csrc/link_flags.txt.
        left_out: what to leave out of csrc/link_flags.txt, by a part of the flag.
    """
    kept = [flag for flag in sources.flags(CSRC) if not flag.startswith(("-O", "-g"))]
    command = [compiler, *kept, *flags, "-fPIC", f"-I{torch}/include"]
    state = sha256("\0".join(command).encode())
    for path in sources.headers(CSRC, "cpu"):
        state.update(path.read_bytes())

    all_sources = sources.sources(CSRC, "cpu")
    begun = itertools.count(1)

    def compile_one(source: Path) -> Path:
        key = sha256(state.digest() + source.read_bytes()).hexdigest()[:16]
        target = folder / f"{sources.object_name(CSRC, source).replace('/', '-')}.{key}.o"
        number = next(begun)
        if not target.exists():
            print(f"[{number}/{len(all_sources)}] {source.relative_to(ROOT)}", flush=True)
            children.run([*command, "-c", source, "-o", target.with_suffix(".partial")])
            target.with_suffix(".partial").replace(target)
        return target

    folder.mkdir(parents=True, exist_ok=True)
    with concurrent.futures.ThreadPoolExecutor(jobs.jobs()) as pool:
        objects = list(pool.map(compile_one, all_sources))
    library = folder / "libcustomops.so"
    own = [flag for flag in sources.link_flags(CSRC) if not any(part in flag for part in left_out)]
    children.run([compiler, "-shared", *objects, *own, *link, f"-L{torch}/lib", "-ltorch_cpu", "-ldl", "-o", library])
    return library
