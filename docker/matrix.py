"""Runs the op tests against the one wheel of dist/ on several (Python, torch) pairs: `make test-matrix`.

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
import interpreters
from common import CACHE, DIST, IMAGE_SCRIPTS, ROOT, Failure, environment, main_guard

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


def run_pair(python: str, torch: str) -> str:
    tools, reason = prepare(python, torch)
    if tools is None:
        return f"skipped: {reason}"
    run = children.run(
        ["bash", IMAGE_SCRIPTS / "test-wheel.sh", DIST, ROOT / "tests"], env=environment(tools), text=True,
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
    args = parser.parse_args()
    pairs = pair_up(args.pythons, args.torches)
    wheels = [wheel.name for wheel in DIST.glob("customops-*.whl")]
    if len(wheels) != 1:
        raise Failure(f"{DIST} must hold exactly one wheel, found {len(wheels)}: run `make wheel` first")
    results = {}
    for pair in pairs:
        results[pair] = run_pair(*pair)
        print(f"python {pair[0]}, torch {pair[1]}: {results[pair]}", flush=True)
    print(f"\n{wheels[0]}")
    for (python, torch), result in results.items():
        print(f"  python {python:6} torch {torch:8} {result}")
    if any(result.startswith("FAILED") for result in results.values()):
        sys.exit("error: the wheel failed on a pair above")
    if not any(result.startswith("passed") for result in results.values()):
        sys.exit("error: no pair could be tested; see the reasons above")


if __name__ == "__main__":
    main_guard(main)
