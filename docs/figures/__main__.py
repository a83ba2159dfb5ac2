"""Writes every table, number and plot of README.md and docs/ from benchmarks/results/: `make figures`.

    python docs/figures [--check]        needs matplotlib

A page says where a table belongs: what stands between `<!-- figures: NAME -->` and `<!-- /figures -->` is written here.
Plots and pictures go to docs/img/, a light and a dark one each. With --check nothing is written: the exit status says
whether all of it is up to date.
"""

import argparse
import re
import sys
import tempfile
from pathlib import Path

import tables
from results import ROOT

BLOCK = re.compile(r"(<!-- figures: ([a-z-]+) -->\n)(.*?)(<!-- /figures -->)", re.DOTALL)


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def filled(page: Path) -> str:
    """The page's text with every generated block as it should be."""

    def block(match: re.Match) -> str:
        if match[2] not in tables.BLOCKS:
            sys.exit(
                f"error: {page} asks for the block {match[2]!r}: docs/figures/tables.py has {', '.join(tables.BLOCKS)}"
            )
        return f"{match[1]}{tables.BLOCKS[match[2]]()}\n{match[4]}"

    text = page.read_text()
    if text.count("<!-- figures:") != len(BLOCK.findall(text)):
        sys.exit(f"error: {page} has a block without its end: <!-- figures: NAME --> ... <!-- /figures -->")
    return BLOCK.sub(block, text)


def images(folder: Path) -> None:
    import pictures
    import plots
    import style

    for theme in style.THEMES:
        style.use(theme)
        for name, make in plots.plots().items():
            style.save(make(theme), folder / "bench" / f"{name}{theme.suffix}.svg")
        for name, make in pictures.PICTURES.items():
            style.save(make(theme), folder / f"{name}{theme.suffix}.svg")


def stale(target: Path, fresh: Path) -> list[str]:
    """Names of images that differ, are missing or are left over."""
    there, wanted = ({p.relative_to(top): p.read_bytes() for p in top.rglob("*.svg")} for top in (target, fresh))
    return sorted(str(target / name) for name in there.keys() | wanted.keys() if there.get(name) != wanted.get(name))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit status 1 if something is out of date")
    check = parser.parse_args().check
    target, changed = ROOT / "docs/img", []
    for page in pages():
        text = filled(page)
        if text != page.read_text():
            changed.append(str(page))
            if not check:
                page.write_text(text)
    with tempfile.TemporaryDirectory() as temporary:
        images(Path(temporary))
        for name in stale(target, Path(temporary)):
            changed.append(name)
            if not check:
                source = Path(temporary, Path(name).relative_to(target))
                Path(name).parent.mkdir(parents=True, exist_ok=True)
                Path(name).write_bytes(source.read_bytes()) if source.exists() else Path(name).unlink()
    for name in changed:
        print(f"{'out of date' if check else 'wrote'}: {Path(name).relative_to(ROOT)}")
    if check and changed:
        print("error: figures are older than benchmarks/results: make figures", file=sys.stderr)
        return 1
    print(f"figures: {len(changed)} files {'out of date' if check else 'changed'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
