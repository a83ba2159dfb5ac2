"""The site of docs/ and the figures in it and in the README: `make docs`, `make figures`, `make test-docs`.

    docs.py             builds the site into build/site; a broken link, or an unknown op in the reference, is an error
    docs.py figures     writes every table, number and plot from benchmarks/results/ (docs/figures)
    docs.py test        figures are up to date, and each page of build/site looks right in headless Chromium (tests/site)

tests/ways/test_docs.py runs the code blocks of its pages.
"""

import argparse
import shutil

import children
from common import ROOT, Failure, environment, main_guard, virtual_environment

SITE = ROOT / "build/site"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def build(tools) -> None:
    command = [tools / "python", "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", SITE]
    if children.run(command, cwd=ROOT, env=environment(tools, NO_MKDOCS_2_WARNING="1"), check=False).returncode:
        raise Failure("the site could not be built, see above")
    print(f"docs: {SITE / 'index.html'}")


def figures(tools) -> None:
    children.run([tools / "python", "docs/figures"], cwd=ROOT, env=environment(tools))


def test(tools) -> None:
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        raise Failure("the pages are looked at in Chromium, which is not on the PATH: apt-get install chromium")
    build(tools)
    env = environment(tools, CUSTOMOPS_BROWSER=browser, CUSTOMOPS_SITE=str(SITE))
    command = [tools / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/site"]
    if children.run(command, cwd=ROOT, env=env, check=False).returncode:
        raise Failure("the tests of the site failed, see above; `make figures` brings tables and plots up to date")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    actions = {"build": build, "figures": figures, "test": test}
    parser.add_argument("action", choices=actions, nargs="?", default="build")
    actions[parser.parse_args().action](virtual_environment("docs"))


if __name__ == "__main__":
    main_guard(main)
