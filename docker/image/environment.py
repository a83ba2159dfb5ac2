"""Makes the folder of what a build or a test may import: exactly what a lock names, no more.

    python docker/image/environment.py LOCK TARGET --wheels FOLDER [--held LOCK FOLDER]

Run by the Python that it is for. Distributions that the image holds already (the same name, version and hash, installed in
the folder of --held) are linked, which saves installing torch for each build; the rest is installed by pip from wheels that
were downloaded before, each with its hash. Without a network. Standard library only.
"""

import argparse
import contextlib
import csv
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from lockfile import read_requirements
from strict import Refused


def read_lock(lock: Path) -> list[str]:
    return [f"{entry.path} --hash=sha256:{entry.sha256}" for entry in read_requirements(lock)]


def normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def entries(folder: Path) -> dict[str, set[str]]:
    """Distribution -> the names below the folder that are its files' first parts, programs as bin/NAME."""
    found = {}
    for info in folder.glob("*.dist-info"):
        name, _, version = info.name.removesuffix(".dist-info").rpartition("-")
        with (info / "RECORD").open(newline="") as file:
            paths = [row[0] for row in csv.reader(file) if row]
        # `pip install --target` moves programs to bin/ and leaves ../../bin/NAME in RECORD.
        names = {f"bin/{path.rsplit('/', 1)[1]}" if path.startswith("../") else path.split("/")[0] for path in paths}
        names.discard("__pycache__")
        found[f"{normalized(name)}=={version}"] = {name for name in names if (folder / name).exists()}
    return found


def of_another_python(program: Path) -> bool:
    """Whether this is a script that another Python than this one would run."""
    with program.open("rb") as file:
        first = file.readline(500).decode(errors="replace").split()
    named = first[0].removeprefix("#!") if first and first[0].startswith("#!") else ""
    return "python" in Path(named).name and Path(named).resolve() != Path(sys.executable).resolve()


def link(lines: list[str], held_lock: Path, held: Path, target: Path) -> list[str]:
    """Links what is held; returns the lines that are not. A folder that two distributions share is not linked, and no program
    that the image's Python would run while the tests are another's: pytest is then installed for that one."""
    known, installed = set(read_lock(held_lock)), entries(held)
    owners: dict[str, int] = {}
    for names in installed.values():
        for name in names:
            owners[name] = owners.get(name, 0) + 1
    rest = []
    for line in lines:
        name, _, version = line.split(" ")[0].partition("==")
        names = installed.get(f"{normalized(name)}=={version}")
        kept = line in known and names and not any(owners[name] > 1 for name in names)
        if not kept or any(name.startswith("bin/") and of_another_python(held / name) for name in names):
            rest.append(line)
            continue
        for name in names:
            (target / name).parent.mkdir(exist_ok=True)
            (target / name).symlink_to(held / name)
    return rest


def install(lines: list[str], wheels: list[Path], target: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        wanted = Path(folder, "requirements.txt")
        wanted.write_text("".join(f"{line}\n" for line in lines))
        run = subprocess.run(
            [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--require-hashes",
             "--no-compile", "--disable-pip-version-check", "--root-user-action=ignore", "--no-cache-dir",
             *(f"--find-links={path}" for path in wheels), f"--target={folder}/installed", f"--requirement={wanted}"],
            stderr=subprocess.PIPE, text=True, check=False, env=os.environ | {"PYTHONPATH": "", "PIP_CONFIG_FILE": os.devnull},
        )  # fmt: skip
        if run.returncode:
            missing = re.search(r"No matching distribution found for (\S+)", run.stderr)
            if missing:
                sys.exit(
                    f"error: {missing[1]} is in the project's lock, and neither in this image nor among the downloaded wheels: "
                    "`make wheel PROJECT=...` fetches it; a container started by hand needs -v .cache/project-wheels:/wheels:ro"
                )
            sys.exit(f"error: the locked requirements cannot be installed: {run.stderr.strip()[-400:]}")
        for path in Path(folder, "installed").iterdir():
            if path.name == "bin":
                (target / "bin").mkdir(exist_ok=True)
                for program in path.iterdir():
                    with contextlib.suppress(FileNotFoundError):
                        (target / "bin" / program.name).unlink()
                    shutil.move(program, target / "bin" / program.name)
            else:
                shutil.move(path, target / path.name)


def make(lock: Path, target: Path, wheels: list[Path], held: list[tuple[Path, Path]]) -> None:
    """The environment appears under its name when it is complete."""
    partial = target.with_name(f".{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    (partial / "bin").mkdir(parents=True)
    lines = read_lock(lock)
    for held_lock, folder in held:
        if held_lock.is_file() and folder.is_dir():
            lines = link(lines, held_lock, folder, partial)
    if lines:
        install(lines, [path for path in wheels if path.is_dir()], partial)
    (partial / "requirements").write_text("".join(f"{line}\n" for line in read_lock(lock)))
    (partial / "python-version").write_text(f"{platform.python_version()}\n")
    shutil.rmtree(target, ignore_errors=True)
    partial.rename(target)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("lock", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--wheels", type=Path, action="append", default=[])
    parser.add_argument("--held", type=Path, nargs=2, action="append", default=[])
    args = parser.parse_args()
    if not args.lock.is_file():
        sys.exit(
            f"error: the project has no {args.lock.name}: make lock PROJECT=... resolves its requirements once, with a network"
        )
    try:
        make(args.lock, args.target, args.wheels, args.held)
    except Refused as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
