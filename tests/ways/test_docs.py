"""The pages of docs/ and the README: their Python runs, what they quote is in the source, programs named are there."""

import re
import subprocess
import sys

import pytest
from conftest import ROOT

PAGES = [*sorted(ROOT.glob("docs/*.md")), ROOT / "README.md"]
BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)


def blocks(page, language):
    """(title, code) of every block in some language."""
    return [(title, code) for found, title, code in BLOCK.findall(page.read_text()) if found == language]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_code_blocks_run(page, tmp_path):
    """In one program a page, in order, as a reader would."""
    program = "\n".join(code for title, code in blocks(page, "python") if not title)
    if not program:
        return
    run = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_quotations_are_in_the_source(page):
    quoted = [block for language in ("cpp", "python") for block in blocks(page, language) if block[0]]
    for title, code in quoted:
        assert code in (ROOT / title).read_text(), f"{title} has no longer:\n{code}"
    assert quoted or page.name not in ("write-an-op.md", "three-ways.md")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_programs_that_shell_blocks_start_are_there(page):
    for _, code in blocks(page, "sh"):
        for path in re.findall(r"(?:python3? |-S |bash )((?:examples|benchmarks|docker|csrc)\S*)", code):
            assert (ROOT / path).exists(), f"{page.name} names {path}"


def test_every_public_op_is_in_the_reference():
    import customops

    text = (ROOT / "docs/api.md").read_text()
    for module, names in customops.OPS.items():
        for name in names:
            assert f"::: customops.{module}.{name}\n" in text, f"docs/api.md lacks {name}"
