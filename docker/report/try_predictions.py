"""Are the predictions right? For each wheel and interpreter: what the report says, then what pip and the loader say.

    python docker/report/try_predictions.py --wheels FOLDER PYTHON ... > table.md

Needs the packages of pyproject.toml. Installs into temporary folders only. This runs the wheels' libraries: give it wheels that
you would install.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))
from common import PIP_INSTALL
from wheel_report import environment, matrix, wheel

# Loads each library as its users would, in a process of its own: a module as imports do, others with every symbol resolved
# at once, as Python does. torch is imported first, once.
LOAD = """
import ctypes, importlib.util, json, os, sys
try:
    import torch
except ImportError:
    pass
for path, module in json.loads(sys.argv[1]):
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if module:
                name = path.rsplit("/", 1)[-1].split(".")[0]
                importlib.util.module_from_spec(importlib.util.spec_from_file_location(name, path))
            else:
                ctypes.CDLL(path)
        except BaseException as error:
            os.write(writing, (str(error) or type(error).__name__).encode()[:2000])
        else:
            os.write(writing, b"+")
        os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    print(json.dumps(os.read(reading, 4000).decode(errors="replace") or "it ends at once"))
"""


def attempt(opened: wheel.Wheel, interpreter: str) -> list[str]:
    """Why the wheel does not work, from pip and from the loader; empty if it does."""
    with tempfile.TemporaryDirectory() as folder:
        install = [interpreter, *PIP_INSTALL, "--no-deps", "--target", folder, opened.path]
        done = subprocess.run(install, capture_output=True, text=True, check=False)
        if done.returncode:
            return [next((line for line in done.stderr.splitlines() if line.startswith("ERROR")), done.stderr)]
        found = []
        env = {"PATH": "/usr/bin:/bin", "PYTHONPATH": folder}
        check = subprocess.run(
            [interpreter, "-m", "pip", "check"], capture_output=True, text=True, env=env, check=False
        )
        found += [
            line
            for line in check.stdout.splitlines()
            if line.startswith(opened.name) and "has requirement torch" in line
        ]
        said = dict(zip([lib.name for lib in opened.libraries], load(folder, opened, interpreter), strict=True))
        for members in matrix.families(opened).values():
            if all(said[member.name] != "+" for member in members):
                found.append(said[members[0].name])
        return found


def load(folder: str, opened: wheel.Wheel, interpreter: str) -> list[str]:
    """What the loader says of each library, + for nothing."""
    programs = [library for library in opened.libraries if ".data/scripts/" in library.name]
    paths = [(f"{folder}/{library.name}", library.module) for library in opened.libraries if library not in programs]
    command = [interpreter, "-c", LOAD, json.dumps(paths)]
    said = iter(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines())
    found = []
    for library in opened.libraries:
        if library in programs:
            done = subprocess.run(
                [f"{folder}/bin/{library.file}", "--version"], capture_output=True, text=True, check=False
            )
            found.append("+" if done.returncode == 0 else done.stderr.strip())
        else:
            found.append(json.loads(next(said)).strip().splitlines()[0])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--wheels", type=Path, required=True)
    parser.add_argument("interpreters", nargs="+")
    given = parser.parse_args()
    print("| wheel | environment | predicted | tried | why (predicted / tried) |\n|---|---|---|---|---|")
    wrong = total = 0
    for interpreter in given.interpreters:
        there = environment.read(interpreter)
        for path in sorted(given.wheels.glob("*.whl")):
            opened = wheel.read(path)
            predicted, tried = environment.verdict(opened, there), attempt(opened, interpreter)
            total, right = total + 1, bool(predicted) == bool(tried)
            wrong += not right
            words = [("fails" if reasons else "works") for reasons in (predicted, tried)]
            why = " / ".join(reasons[0][:140] for reasons in (predicted, tried) if reasons).replace("|", "\\|")
            print(
                f"| {path.name} | {there} | {words[0]} | {words[1]}{'' if right else ' (**wrong**)'} | {why} |",
                flush=True,
            )
    print(f"\n{total - wrong} of {total} predictions were right.")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
