"""Runs the linters and formatters of every language here, from their locked versions: `make lint`, `make format`."""

import argparse
import subprocess
import sys

from fetch import main_guard
from make_wheel import ROOT, environment, virtual_environment


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fix", action="store_true", help="rewrite files instead of complaining")
    fix = parser.parse_args().fix
    tools = virtual_environment("lint")
    cxx = sorted(p for suffix in ("cpp", "h", "cu", "cuh") for p in ROOT.glob(f"csrc/**/*.{suffix}"))
    commands = [
        ["ruff", "check", *(["--fix"] if fix else []), "."],
        ["ruff", "format", *([] if fix else ["--check"]), "."],
        ["clang-format", *(["-i"] if fix else ["--dry-run", "--Werror"]), *cxx],
        ["shellcheck", *sorted(ROOT.glob("docker/*.sh")), ROOT / ".ci/run"],
    ]
    failed = []
    for command in commands:
        run = subprocess.run([tools / command[0], *command[1:]], cwd=ROOT, env=environment(tools), check=False)
        if run.returncode:
            failed.append(command[0])
    if failed:
        sys.exit(f"error: {', '.join(dict.fromkeys(failed))} complained, see above; `make format` mends most of it")
    print("lint: ruff, clang-format and shellcheck found nothing")


if __name__ == "__main__":
    main_guard(main)
