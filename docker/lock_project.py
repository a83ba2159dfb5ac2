"""Resolves what a project's build and tests require into hash-locked files in the project: `make lock PROJECT=...`.

The names come from [build-system] requires, from what the build backend asks for when it is called, from [project] dependencies
and from test-requires of [tool.cibuildwheel]. pip resolves them for the CPython and platform of the image, and prefers the
versions that the image holds; torch is the one that the project's table names. The backend is code of the project: it runs
without a network, in the build image or, with ENGINE=host, on this machine. Only this step resolves versions; the lock names no
host.
"""

import argparse
import json
import re
import subprocess
import tempfile
from pathlib import Path

import children
import engine as engines
import interpreters
import project_run
from common import LOCKS, ROOT, Failure, main_guard, pip_target, read_requirements
from image.project import Pair, Project

# Modules that setup.py files import without saying so, and what brings them. Nothing else is added on a project's word.
KNOWN_MODULES = {name: name for name in ("torch", "numpy", "packaging", "pybind11", "wheel", "ninja", "setuptools")} | {
    "Cython": "cython", "pkg_resources": "setuptools<81",
}  # fmt: skip


# torch's BuildExtension compiles one source at a time without ninja, and importing torch warns without numpy.
WITH_TORCH = ["ninja", "numpy"]
TORCH = re.compile(r"torch\b(?![-_.])")


def versions_held() -> dict[str, str]:
    """What the images hold. A lock prefers it: a container that is started by hand then needs no other wheels."""
    locks = (LOCKS / f"requirements-{kind}.txt" for kind in ("test", "build"))
    return {entry.package: entry.version for lock in locks for entry in read_requirements(lock)}


def resolve(requirements: list[str], pair: Pair) -> list[dict]:
    """pip's choice, as the items of its report."""
    names = {re.match(r"[A-Za-z0-9._-]+", line)[0].lower() for line in requirements}
    wanted = [*requirements, f"torch=={pair.torch}"] if "torch" in names else requirements
    python = interpreters.locked() if pair.python == interpreters.LOCKED else interpreters.find_python(pair.python)
    if python is None:
        raise Failure(
            f"locking for CPython {pair.python} needs one on the PATH or under pyenv: environment markers are its own"
        )
    with tempfile.TemporaryDirectory() as folder:
        asked, held, report, unused = (
            Path(folder, name) for name in ("asked.txt", "held.txt", "report.json", "unused")
        )
        asked.write_text("".join(f"{line}\n" for line in wanted))
        held.write_text("".join(f"{name}=={version}\n" for name, version in versions_held().items()))
        for preferred in ([f"--constraint={held}"], []):
            run = children.run(
                [interpreters.with_pip(), "-m", "pip", "--python", python, "install",
                 "--quiet", "--dry-run", "--ignore-installed", "--disable-pip-version-check", f"--target={unused}",
                 f"--report={report}", *pip_target(pair.python), f"--requirement={asked}", *preferred],
                stderr=subprocess.PIPE, text=True, check=False,
            )  # fmt: skip
            if run.returncode == 0:
                return json.loads(report.read_text())["install"]
        errors = [line for line in run.stderr.splitlines() if line.startswith("ERROR: ")]
        raise Failure(
            f"pip cannot resolve {', '.join(wanted)}: {(errors or [run.stderr[-200:]])[-1].removeprefix('ERROR: ')}"
        )


def lines_of(items: list[dict]) -> list[str]:
    found = []
    for item in items:
        meta, hashes = item["metadata"], item["download_info"]["archive_info"]["hashes"]
        found.append(f"{meta['name'].lower().replace('_', '-')}=={meta['version']} --hash=sha256:{hashes['sha256']}")
    return sorted(found)


def write(path: Path, items: list[dict], pair: Pair, digest: str, own: bool) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    header = "# make lock" + ("" if own else " PROJECT=...")
    path.write_text("\n".join([header, f"# CPython {pair.python}; inputs {digest}", *lines_of(items)]) + "\n")
    print(f"{path}: {len(items)} wheels", flush=True)


def lock(project: Project, pair: Pair, engine: str) -> None:
    wanted, asked = project.build_requires, None
    if any(map(TORCH.match, wanted)):
        wanted = [*wanted, *WITH_TORCH]
    while True:
        items = resolve(wanted, pair)
        write(project.lock("build", pair), items, pair, project.inputs_digest(pair), project.folder == ROOT)
        asked = project_run.ask_backend(project, pair, engine)
        extra = asked.get("requires", [])
        if missing := asked.get("missing"):
            if missing not in KNOWN_MODULES:
                raise Failure(
                    f"the build imports {missing}, which no requirement brings: add it to build-requires in [tool.customops-build]"
                )
            print(
                f"{KNOWN_MODULES[missing]}: added, the build imports {missing} and [build-system] requires does not name it",
                flush=True,
            )
            extra = [KNOWN_MODULES[missing], *(WITH_TORCH if missing == "torch" else [])]
        new = [line for line in extra if line not in wanted]
        if not new:
            break
        wanted = [*wanted, *new]
    tests = project_run.tests_of(project, pair)
    needed = [*asked.get("dependencies", []), *extras_of(project, tests["extras"]), *tests["requires"]]
    if any(item["metadata"]["name"] == "torch" for item in items) and not any(map(TORCH.match, needed)):
        needed.append("torch")
    if any(map(TORCH.match, needed)):
        needed.append("numpy")
    if not tests["command"] and any((project.folder / name).exists() for name in project.table["tests"]):
        needed.append("pytest")
    write(
        project.lock("test", pair),
        resolve(needed, pair) if needed else [],
        pair,
        project.inputs_digest(pair),
        project.folder == ROOT,
    )


def extras_of(project: Project, extras: list[str]) -> list[str]:
    """What test-extras of cibuildwheel's settings names."""
    optional = project.pyproject.get("project", {}).get("optional-dependencies", {})
    if unknown := [extra for extra in extras if extra not in optional]:
        raise Failure(f"test-extras of [tool.cibuildwheel]: [project.optional-dependencies] has no {unknown[0]}")
    return [line for extra in extras for line in optional[extra]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--project", type=Path, default=ROOT)
    parser.add_argument("--pythons", default="")
    parser.add_argument("--torches", default="")
    args = parser.parse_args()
    project = project_run.load(args.project)
    engine, reason = engines.choose(args.engine)
    print(f"ENGINE={engine} ({reason})", flush=True)
    for pair in project_run.pairs(project, args.pythons, args.torches):
        lock(project, pair, engine)


if __name__ == "__main__":
    main_guard(main)
