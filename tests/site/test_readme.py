"""README.md as the package's page shows it: links and images from one setting, and its length."""

import re
import sys

import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "csrc"))
import readme

TARGET = re.compile(r"\]\(([^)\s]+)\)")
README = (ROOT / "README.md").read_text()


def test_is_short():
    assert len(README.splitlines()) <= 120


def test_every_relative_link_is_there():
    for target in [t for t in TARGET.findall(README) if not t.startswith(("http", "#"))]:
        assert (ROOT / target.partition("#")[0]).exists(), f"README.md links to {target}"
    for target in re.findall(r'(?:src|srcset)="([^"]+)"', README):
        assert (ROOT / target).exists(), f"README.md shows {target}"


def test_with_an_address_everything_is_absolute():
    text = readme.absolute(README, "https://example.invalid/someone/customops")
    targets = TARGET.findall(text)
    assert len(targets) > 15 and all(target.startswith("https://") for target in targets)
    assert "(https://example.invalid/someone/customops/raw/HEAD/docs/img/bench/speedup.svg)" in text
    assert "<picture>" not in text


def test_without_an_address_nothing_leads_nowhere():
    text = readme.absolute(README, "")
    assert not TARGET.findall(text) and "<img" not in text
    assert "write an op" in text  # what a link said stays


@pytest.mark.parametrize("toml, expected", [
    ("[project]\nname = 'x'\n", ""),
    ('[project.urls]\nSource = "https://a.invalid/b/"\n[tool.x]\n', "https://a.invalid/b"),
    ('[project.urls]\nDocs = "https://d.invalid"\n[tool.x]\nSource = "https://no.invalid"\n', ""),
    ('# [project.urls]\n# Source = "https://no.invalid"\n', ""),
])  # fmt: skip
def test_the_setting(tmp_path, monkeypatch, toml, expected):
    (tmp_path / "pyproject.toml").write_text(toml)
    monkeypatch.setattr(readme, "ROOT", tmp_path)
    assert readme.repository() == expected


def test_links_from_docs_are_relative_to_their_folder():
    assert (
        readme.absolute("[x](../csrc/a.cpp)", "https://a.invalid", "docs")
        == "[x](https://a.invalid/blob/HEAD/csrc/a.cpp)"
    )
