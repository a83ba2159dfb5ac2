"""Turns the wheels of dist/ into a static package index that pip and uv install from: `make index`.

    python3 -m http.server -d dist/simple-root 8000
    pip install --index-url http://127.0.0.1:8000/simple customops

Writes dist/simple-root/: `simple/` (PEP 503 HTML beside PEP 691/700 JSON, as index.html and index.json) and `files/` (the
wheels, each with its metadata file of PEP 658/714). Every link carries a sha256, which pip and uv check.
"""

import argparse
import html
import json
import shutil
from pathlib import Path
from typing import NamedTuple

from common import DIST, Failure, main_guard, read_wheel, sha256_of
from wheelfile import normalize

PAGE = """<!DOCTYPE html>
<html><head><meta name="pypi:repository-version" content="1.1"><title>{title}</title></head>
<body>
{links}
</body></html>
"""


class File(NamedTuple):
    """One wheel of the index, and what installers read before they download it."""

    name: str
    project: str
    version: str
    sha256: str
    size: int
    requires_python: str
    metadata_sha256: str


def add_wheel(path: Path, files: Path) -> File:
    """Copies a wheel into the index, and its METADATA beside it."""
    wheel = read_wheel(path)
    metadata, fields = wheel.own("METADATA"), wheel.metadata()
    (files / path.name).write_bytes(wheel.data)
    beside = files / f"{path.name}.metadata"
    beside.write_bytes(metadata)
    return File(
        path.name, normalize(wheel.name), wheel.version, wheel.sha256, len(wheel.data),
        fields.get("requires-python", [""])[0], sha256_of(beside),
    )  # fmt: skip


def link(file: File) -> str:
    # + is legal in a file name and means a space in some URL decoders.
    url = f"../../files/{file.name.replace('+', '%2B')}#sha256={file.sha256}"
    attributes = {
        "data-requires-python": file.requires_python,
        "data-core-metadata": f"sha256={file.metadata_sha256}",
        "data-dist-info-metadata": f"sha256={file.metadata_sha256}",  # the name of PEP 658, for older installers
    }
    text = "".join(f' {key}="{html.escape(value)}"' for key, value in attributes.items() if value)
    return f'<a href="{url}"{text}>{html.escape(file.name)}</a><br>'


def entry(file: File) -> dict:
    return {
        "filename": file.name,
        "url": f"../../files/{file.name.replace('+', '%2B')}",
        "hashes": {"sha256": file.sha256},
        "size": file.size,
        **({"requires-python": file.requires_python} if file.requires_python else {}),
        "core-metadata": {"sha256": file.metadata_sha256},
        "dist-info-metadata": {"sha256": file.metadata_sha256},
        "yanked": False,
    }


def write_page(folder: Path, title: str, links: list[str], data: dict) -> None:
    folder.mkdir(parents=True)
    (folder / "index.html").write_text(PAGE.format(title=html.escape(title), links="\n".join(links)))
    (folder / "index.json").write_text(json.dumps({"meta": {"api-version": "1.1"}, **data}, indent=1) + "\n")


def write_index(dist: Path) -> Path:
    """Writes the index of all wheels in a folder to its subfolder simple-root, in place of an earlier one."""
    wheels = sorted(dist.glob("*.whl"))
    if not wheels:
        raise Failure(f"{dist} holds no wheel: run `make wheel` first")
    root, partial = dist / "simple-root", dist / ".simple-root.partial"
    shutil.rmtree(partial, ignore_errors=True)
    (partial / "files").mkdir(parents=True)
    files = [add_wheel(wheel, partial / "files") for wheel in wheels]
    projects = sorted({file.project for file in files})
    links = [f'<a href="{name}/">{name}</a><br>' for name in projects]
    write_page(partial / "simple", "Simple index", links, {"projects": [{"name": name} for name in projects]})
    for name in projects:
        own = [file for file in files if file.project == name]
        data = {"name": name, "versions": sorted({file.version for file in own}), "files": [entry(f) for f in own]}
        write_page(partial / "simple" / name, f"Links for {name}", [link(file) for file in own], data)
    shutil.rmtree(root, ignore_errors=True)
    partial.rename(root)
    return root


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dist", type=Path, default=DIST, help="folder with the wheels")
    dist = parser.parse_args().dist
    root = write_index(dist)
    for wheel in sorted((root / "files").glob("*.whl")):
        print(f"{sha256_of(wheel)}  {wheel.name}")
    print(
        f"serve it: python3 -m http.server -d {root} 8000; install: pip install --index-url http://127.0.0.1:8000/simple ..."
    )


if __name__ == "__main__":
    main_guard(main)
