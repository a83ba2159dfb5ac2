"""What mkdocs does beyond its plugins: pages from the root of the repository, links out of docs/, public names, dark plots."""

import re
import sys
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "csrc"))
import readme  # noqa: E402

PAGES = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md", "SECURITY.md": "security.md"}
# Where a public name is defined -> how it is imported. The modules of ops have the names of their functions.
DEFINED = re.compile(
    r"customops\.(?:_loader\.(?=load\b)|(?:add2|axpy|bias_act|depthwise_conv2d|flatten_copy|upfirdn2d)\.(?=\w))"
)
JIT = re.compile(r"customops\._(?:build|recipes)\.")


# In a table, a long name may break between its parts, and nowhere else: `CUSTOMOPS_`, `COMPILER`; versions and `sm_90` stay whole.
TABLE = re.compile(r"<table>.*?</table>", re.DOTALL)
BREAK_AFTER = re.compile(
    r"(?<=[A-Za-z0-9+]{3})([_=:-]+|\.(?!\d))(?=[A-Za-z0-9<$*]{3}|\d+\.)|(?<=[a-z0-9])(/|::|,)(?=[A-Za-z*{])|(?<=[a-z]{3})()(?=[A-Z][a-z])"
)
TAG = re.compile(r"(<[^>]*>|&[^;\s]+;)")


def breakable(match: re.Match) -> str:
    """A table whose names may break between their parts."""
    parts = TAG.split(match[0])  # text, tag, text, ...
    parts[::2] = [BREAK_AFTER.sub(lambda found: f"{found[0]}<wbr>", text) for text in parts[::2]]
    return "".join(parts)


def public(text: str) -> str:
    return JIT.sub("customops.jit.", DEFINED.sub("customops.", text))


def on_config(config):
    """Edit links, if pyproject.toml says where the repository is."""
    url = readme.repository()
    if url:
        config["repo_url"], config["edit_uri"] = url, "edit/HEAD/docs/"
        config["repo_name"] = url.rpartition("/")[2]
    return config


def on_files(files, config):
    """Pages from files at the root of the repository, where readers of a repository expect them."""
    for name, page in PAGES.items():
        if (ROOT / name).exists():
            text = (ROOT / name).read_text()
            for other, target in PAGES.items():
                text = text.replace(f"]({other})", f"]({target})")
            text = re.sub(r"\]\(docs/([^)]+)\)", r"](\1)", text)
            files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown, page, **_):
    """A relative link that leaves docs/ goes to the repository, or becomes text."""

    def outside(match: re.Match) -> str:
        return readme.absolute(match[0], readme.repository(), "docs")

    if page.edit_url and page.file.src_uri in PAGES.values():
        page.edit_url = f"{readme.repository()}/edit/HEAD/{next(n for n, p in PAGES.items() if p == page.file.src_uri)}"
    return re.sub(r"\[[^\]]*\]\(\.\./[^)]+\)", outside, markdown)


def on_page_content(html, page, **_):
    """Sphinx's roles in docstrings, which help() shows as they are, become code; images with a dark twin get it."""

    def twins(match: re.Match) -> str:
        source = match[1]
        if not (ROOT / "docs" / "img" / source.rpartition("img/")[2].replace(".svg", "-dark.svg")).exists():
            return match[0]
        dark = source.replace(".svg", "-dark.svg")
        pair = ((f"{source}#only-light", source), (f"{dark}#only-dark", dark))
        # A link each: a tap on a phone shows the plot alone, where it can be enlarged.
        return "".join(f'<a href="{file}">{match[0].replace(source, shown)}</a>' for shown, file in pair)

    html = re.sub(r":(?:func|class|mod|meth):(<code>)", r"\1", html)
    html = re.sub(r'<img [^>]*src="([^"]*img/[^"]+\.svg)"[^>]*>', twins, html)
    html = TABLE.sub(breakable, html)
    if page.file.src_uri == "api.md":
        html = public(html)
        for item in page.toc:
            rename(item)
    return html


def rename(item) -> None:
    item.id, item.title = public(item.id), public(item.title)
    for child in item.children:
        rename(child)
