"""Rebuilds a wheel from the commit that it records, and compares: `make verify WHEEL=...`.

Prints `identical`, or reports what differs and fails. The rebuild uses the scripts, locks and Dockerfile of that commit, in
a clone under .cache/verify, so a wheel stays verifiable after the project has changed.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import engine as engines
from common import CACHE, ROOT, Failure, environment, fresh_folder, main_guard, read_record, sha256_of
from images import image_name
from reproduce import report


def variant_of(record: dict) -> str:
    return record.get("variant", "cpu")  # the first releases had no other


def rebuild(record: dict, engine: str) -> Path:
    """Runs `make wheel` on the commit of a record, in a clone of this repository; returns the new wheel."""
    commit = record["source"]["commit"]
    if not re.fullmatch("[0-9a-f]{40}([0-9a-f]{24})?", commit):
        raise Failure(f"{commit!r} is not a commit")
    source = fresh_folder("verify") / "source"
    clone = subprocess.run(["git", "clone", "--quiet", "--no-checkout", ROOT, source], check=False)
    checkout = subprocess.run(["git", "-C", source, "checkout", "--quiet", commit], capture_output=True, check=False)
    if clone.returncode or checkout.returncode:
        raise Failure(f"this repository has no commit {commit}: fetch it first (git fetch --all)")
    script = source / "docker/make_wheel.py"  # every commit has it there
    for name in ("debian", "wheels"):  # saves downloads; the rebuild verifies them again
        if (CACHE / name).exists():
            shutil.copytree(CACHE / name, source / ".cache" / name, copy_function=os.link)
    env = environment(SOURCE_DATE_EPOCH=str(record["source"]["date_epoch"]), CUSTOMOPS_TESTED="1")
    base = "manylinux" if "@sha256:" in record["base"] else "debian"
    command = [sys.executable, script, "wheel", "--engine", engine, "--base", base, "--variant", variant_of(record)]
    if archs := [f"{name}:{arch}" for name, cuda in record.get("cuda", {}).items() for arch in cuda["architectures"]]:
        command += ["--cuda-archs", " ".join(archs)]
    subprocess.run(command, check=True, env=env)
    return next((source / "dist").glob("*.whl"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engine", default="auto")
    parser.add_argument("wheel", type=Path)
    args = parser.parse_args()
    if not args.wheel.is_file():
        raise Failure(f"there is no wheel {args.wheel}: make verify WHEEL=path/to/customops-....whl")
    record = read_record(args.wheel)
    source = record["source"]
    if not source["commit"] or source["dirty"]:
        raise Failure(f"{args.wheel.name} was built from uncommitted changes: nobody can rebuild it")
    engine = "host" if record["base"] == "host" else engines.choose(args.engine)[0]
    if record["base"] != "host" and engine == "host":
        raise Failure(f"{args.wheel.name} was built in a container: start docker or podman to verify it")
    again = rebuild(record, engine)
    expected, actual = sha256_of(args.wheel), sha256_of(again)
    print(f"{expected}  {args.wheel.name}\n{actual}  rebuilt from commit {source['commit']}", flush=True)
    if expected != actual:
        report(engine, image_name("build", variant_of(record)), args.wheel.resolve(), again)
        raise Failure(f"{args.wheel.name} is not what its commit builds, see above")
    print("identical")


if __name__ == "__main__":
    main_guard(main)
