"""Builds the site of docs/ into build/site: `make docs`. A broken link, or an unknown op in api.md, is an error.

tests/ways/test_docs.py runs the code blocks of its pages.
"""

import argparse
import subprocess
import sys

from common import ROOT, environment, main_guard, virtual_environment


def main() -> None:
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    tools = virtual_environment("docs")
    command = [tools / "python", "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", "build/site"]
    if subprocess.run(command, cwd=ROOT, env=environment(tools, NO_MKDOCS_2_WARNING="1"), check=False).returncode:
        sys.exit("error: the site could not be built, see above")
    print(f"docs: {ROOT / 'build/site/index.html'}")


if __name__ == "__main__":
    main_guard(main)
