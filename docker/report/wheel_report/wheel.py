"""One wheel, read strictly: names, tags, metadata, RECORD, libraries. Nothing is extracted or run."""

import base64
import email.message
import email.parser
import hashlib
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

import strict
from archive import Archive
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.tags import Tag
from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from . import hazards, library

FOREIGN = {b"MZ": "Windows", b"\xfe\xed\xfa\xcf": "macOS", b"\xcf\xfa\xed\xfe": "macOS", b"\xca\xfe\xba\xbe": "macOS"}
SIZE_PARTS = {".py": "Python", ".pyi": "Python", ".pyc": "compiled Python"}


@dataclass
class Wheel:
    path: Path
    name: str
    version: str
    tags: list[Tag]
    metadata: email.message.Message
    libraries: list[library.Library] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)  # ELF files that the reader refuses
    problems: list[str] = field(default_factory=list)
    hazards: list[str] = field(default_factory=list)
    sizes: Counter = field(default_factory=Counter)
    largest: list[tuple[int, str]] = field(default_factory=list)
    sboms: dict[str, list[str]] = field(default_factory=dict)  # file -> components

    @property
    def platforms(self) -> list[str]:
        return sorted({tag.platform for tag in self.tags})

    @property
    def requires_python(self) -> SpecifierSet:
        return SpecifierSet(self.metadata.get("Requires-Python", ""))

    def requires(self, name: str) -> SpecifierSet | None:
        """The versions of another package that an installer would take; None if it asks for none."""
        found = None
        for line in self.metadata.get_all("Requires-Dist", []):
            requirement = Requirement(line)
            if requirement.name.lower() == name and "extra" not in str(requirement.marker or ""):
                found = requirement.specifier if found is None else found & requirement.specifier
        return found


def read(path: Path) -> Wheel:
    """strict.Refused if the file is no wheel that everybody would read alike."""
    try:
        name, version, _, tags = parse_wheel_filename(path.name)
        archive = Archive(path.read_bytes())
        info = dist_info(archive)
        data = archive.read(f"{info}/METADATA")
        wheel = Wheel(path, str(name), str(version), sorted(tags, key=str), email.parser.BytesParser().parsebytes(data))
        wheel.requires_python, wheel.requires("torch")
        try:
            strict.headers(data, "METADATA")
        except strict.Refused as refused:  # nothing below depends on it: named, not refused
            wheel.problems += refused.problems
        read_contents(wheel, archive, info)
    except (InvalidWheelFilename, InvalidRequirement, InvalidSpecifier) as error:
        raise strict.Refused(strict.one_line(error, 300)) from None
    return wheel


def dist_info(archive: Archive) -> str:
    found = {name.split("/")[0] for name in archive.names if name.split("/")[0].endswith(".dist-info")}
    if len(found) != 1:
        raise strict.Refused(f"expected one .dist-info folder, found {sorted(found) or 'none'}")
    (info,) = found
    for name in ("METADATA", "WHEEL", "RECORD"):
        if f"{info}/{name}" not in archive.entries:
            raise strict.Refused(f"{info}/{name} is missing")
    return info


def read_contents(wheel: Wheel, archive: Archive, info: str) -> None:
    rows = strict.record_rows(archive.read(f"{info}/RECORD"), "RECORD")
    for name in archive.names:
        data, suffix = archive.read(name), PurePosixPath(name).suffix
        if name != f"{info}/RECORD":
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            if name not in rows:
                wheel.problems.append(f"{name} is not in RECORD: an uninstaller leaves it behind")
            elif rows[name].sha256 and rows[name].sha256 != digest:
                wheel.problems.append(f"{name} is not what RECORD says: an installer refuses it")
        wheel.largest.append((len(data), name))
        foreign = next((system for magic, system in FOREIGN.items() if data.startswith(magic)), None)
        if data.startswith(b"\x7fELF"):
            read_library(wheel, name, data)
        elif foreign and suffix in (".dll", ".pyd", ".exe", ".dylib", ".so", ""):
            wheel.sizes[f"for {foreign}"] += len(data)
            wheel.problems.append(f"{name} is a program for {foreign}, the wheel is for {', '.join(wheel.platforms)}")
        else:
            wheel.sizes["metadata" if name.startswith(info) else SIZE_PARTS.get(suffix, "other files")] += len(data)
        if name.startswith(f"{info}/sboms/") and suffix == ".json":
            wheel.sboms[name] = components(strict.json_object(data, name))
    wheel.problems += [
        f"RECORD names {name}, which is not in the wheel" for name in sorted(rows.keys() - set(archive.names))
    ]
    inside = strict.headers(archive.read(f"{info}/WHEEL"), "WHEEL").get("tag", [])
    if set(inside) != set(map(str, wheel.tags)):
        wheel.problems.append(
            f"the file name says {', '.join(map(str, wheel.tags))}; WHEEL says {', '.join(sorted(inside))}"
        )
    wheel.largest = sorted(wheel.largest, reverse=True)[:5]
    wheel.hazards += hazards.of_archive(archive)


def read_library(wheel: Wheel, name: str, data: bytes) -> None:
    machine = library.machine(data)
    if "any" in wheel.platforms:
        wheel.problems.append(f"{name} is machine code for {machine}, in a wheel that says it runs on any machine")
    elif not any(platform.endswith(f"_{machine}") for platform in wheel.platforms):
        wheel.problems.append(f"{name} is for {machine}, the wheel is for {', '.join(wheel.platforms)}")
    try:
        found = library.read(name, data)
    except strict.Refused as refused:
        wheel.sizes["code and data"] += len(data)
        wheel.unread.append(name)
        wheel.problems += [f"{name} {problem}: what it needs is not known" for problem in refused.problems]
        return
    wheel.libraries.append(found)
    wheel.sizes.update(found.parts)
    wheel.problems += [f"{name} {finding}" for finding in found.findings]
    wheel.hazards += hazards.of_library(name, data, found)


def components(sbom: dict) -> list[str]:
    """What a CycloneDX file lists, as name and version."""
    listed = sbom.get("components", [])
    listed = listed if isinstance(listed, list) else []
    return [f"{part.get('name', '?')} {part.get('version', '')}".strip() for part in listed if isinstance(part, dict)]
