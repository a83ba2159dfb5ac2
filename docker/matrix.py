"""Runs the tests of a project against the wheels of its dist/ on several (Python, torch) pairs: `make test-matrix`.

    python3 docker/matrix.py --pythons "3.10 3.13" --torches "2.10.0 2.15.0"      pairs them up in order

Finds interpreters on the PATH and in pyenv's folder; each pair has a virtual environment under .cache/matrix/. torch comes
from pip's index and is not locked: the wheel must work with what users get. Expect 5 to 7 GB a pair, because most torch
versions are CUDA builds.
"""

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

import children
import images
import interpreters
import project_run
from common import CACHE, IMAGE_SCRIPTS, ROOT, Failure, environment, main_guard, virtual_environment
from image.project import Pair, Project

GIGABYTES_NEEDED = 8
TEST_PACKAGES = ("hypothesis", "numpy", "pytest", "pytest-xdist", "scipy")


def pair_up(pythons: str, torches: str) -> list[tuple[str, str]]:
    left, right = pythons.split(), torches.split()
    if not left and not right:
        raise Failure('PYTHONS and TORCHES are empty: make test-matrix PYTHONS="3.10 3.13" TORCHES="2.10.0 2.15.0"')
    if len(left) != len(right):
        raise Failure(
            f"PYTHONS and TORCHES are paired in order and must be equally many, got {len(left)} ({pythons}) and {len(right)} ({torches})"
        )
    return list(zip(left, right, strict=True))


def prepare(python: str, torch: str) -> tuple[Path | None, str]:
    """(bin folder of the environment, ""), or (None, reason)."""
    interpreter = interpreters.find_python(python)
    if interpreter is None:
        return None, f"there is no python{python} on the PATH or under pyenv"
    folder = CACHE / "matrix" / f"python{python}-torch{torch}"
    complete, packages = folder / "complete", [f"torch=={torch}", *TEST_PACKAGES]
    if complete.exists() and complete.read_text().split() == packages:
        return folder / "bin", ""
    folder.parent.mkdir(parents=True, exist_ok=True)
    if (free := shutil.disk_usage(folder.parent).free / 1e9) < GIGABYTES_NEEDED:
        return None, f"{folder.parent} has {free:.0f} GB left, a torch may take {GIGABYTES_NEEDED}"
    print(f"python {python}, torch {torch}: installing", flush=True)
    if not complete.exists():  # a failed installation; a complete one only lacks packages
        shutil.rmtree(folder, ignore_errors=True)
    if subprocess.run([interpreter, "-m", "venv", folder], capture_output=True, check=False).returncode:
        return None, f"{interpreter} cannot make a virtual environment"
    install = subprocess.run(
        [folder / "bin/pip", "install", "--quiet", "--disable-pip-version-check", *packages],
        stderr=subprocess.PIPE, text=True, check=False, env=environment(),
    )  # fmt: skip
    if install.returncode:
        shutil.rmtree(folder)
        errors = [line for line in install.stderr.splitlines() if line.startswith("ERROR")]
        return None, f"pip: {(errors or ['?'])[-1][:150]}"
    complete.write_text("\n".join(packages))
    return folder / "bin", ""


def run_pair(project: Project, python: str, torch: str) -> str:
    folder, reason = prepare(python, torch)
    if folder is None:
        return f"skipped: {reason}"
    tools, pair = virtual_environment("tools"), Pair(python, torch)
    (site,) = folder.parent.glob("lib/python3*/site-packages")
    env = environment(
        tools, BUILD_PAIR=" ".join(pair), BUILD_ENVIRONMENT=str(site), BUILD_INTERPRETER=str(folder / "python")
    )
    run = children.run(
        [tools / "python", IMAGE_SCRIPTS / "test_project.py", project.dist, project.folder], env=env, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
    )  # fmt: skip
    lines = run.stdout.strip().splitlines() or ["no output"]
    if run.returncode == 0:
        return f"passed: {lines[-1].strip('= ')}"
    print(run.stdout, flush=True)
    return f"FAILED: {lines[-1].strip('= ')}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pythons", required=True)
    parser.add_argument("--torches", required=True)
    parser.add_argument("--project", type=Path, default=ROOT)
    args = parser.parse_args()
    project = project_run.load(args.project)
    pairs = pair_up(args.pythons, args.torches)
    wheels = [wheel.name for wheel in images.own_wheels(project.dist)]
    if len(wheels) != 1 and not (wheels and all("+torch" in name for name in wheels)):  # one for each torch
        raise Failure(f"{project.dist} must hold exactly one wheel, found {len(wheels)}: run `make wheel` first")
    results = {}
    for pair in pairs:
        results[pair] = run_pair(project, *pair)
        print(f"python {pair[0]}, torch {pair[1]}: {results[pair]}", flush=True)
    print(f"\n{', '.join(wheels)}")
    for (python, torch), result in results.items():
        print(f"  python {python:6} torch {torch:8} {result}")
    if any(result.startswith("FAILED") for result in results.values()):
        sys.exit("error: the wheel failed on a pair above")
    if not any(result.startswith("passed") for result in results.values()):
        sys.exit("error: no pair could be tested; see the reasons above")


if __name__ == "__main__":
    main_guard(main)
