"""Links of README.md and docs/ for readers outside of the repository: the package's page and the site.

Files name each other by relative paths, which work in a checkout and wherever a repository is shown. Elsewhere they need
the repository's address. `Source` in [project.urls] of pyproject.toml is the one place that says it; while it is empty or
absent, links become plain text and images their descriptions, so that nothing leads nowhere.
"""

import posixpath
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
IMAGE = re.compile(r"!\[([^\]]*)\]\((?!https?:|#|/)([^)\s]+)\)")
LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?!https?:|#|mailto:)([^)\s]+)\)")
PICTURE = re.compile(r'<picture>.*?<img alt="([^"]*)" src="([^"]*)">\s*</picture>', re.DOTALL)


def repository() -> str:
    """The address, without a slash at its end; empty if pyproject.toml does not say."""
    text = (ROOT / "pyproject.toml").read_text()
    urls = re.search(r"^\[project\.urls\]$(.*?)(?=^\[|\Z)", text, re.MULTILINE | re.DOTALL)
    source = re.search(r'^Source\s*=\s*"([^"]*)"', urls[1], re.MULTILINE) if urls else None
    return source[1].rstrip("/") if source else ""


def absolute(markdown: str, url: str, folder: str = "") -> str:
    """Relative links and images of a file in `folder` of the repository, made absolute."""

    def path(target: str) -> str:
        return posixpath.normpath(posixpath.join(folder, target))

    def image(match: re.Match) -> str:
        return f"![{match[1]}]({url}/raw/HEAD/{path(match[2])})" if url else match[1]

    def link(match: re.Match) -> str:
        return f"[{match[1]}]({url}/blob/HEAD/{path(match[2])})" if url else match[1]

    markdown = PICTURE.sub(lambda match: f"![{match[1]}]({match[2]})", markdown)  # for readers that know no <picture>
    return LINK.sub(link, IMAGE.sub(image, markdown))


def description() -> str:
    """README.md as the package's page shows it."""
    return absolute((ROOT / "README.md").read_text(), repository())
