"""Opens a wheel for everything here that reads one: check, record, provenance, index, publish and verify.

    wheel = Wheel(path)              Refused if the archive, or the name, may be read in two ways
    wheel.names, wheel.read(name), wheel.metadata(), wheel.tags(), wheel.build_record(), wheel.differs_from_record()

The file is read once, so that what is checked, hashed and copied is the same. Standard library only.
"""

import base64
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

import strict
from archive import Archive
from strict import Refused

VERSION = r"(\d+!)?\d+(\.\d+)*((a|b|rc)\d+)?(\.post\d+)?(\.dev\d+)?(\+[a-z0-9]+([._][a-z0-9]+)*)?"
FILE_NAME = re.compile(
    rf"(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._]*[A-Za-z0-9])?)-(?P<version>{VERSION})(-(?P<build>\d[A-Za-z0-9_.]*))?"
    r"-(?P<python>[a-z0-9_.]+)-(?P<abi>[a-z0-9_.]+)-(?P<platform>[a-zA-Z0-9_.]+)\.whl",
    re.ASCII,
)
TAG = re.compile(r"[a-z0-9_.]+-[a-z0-9_.]+-[a-zA-Z0-9_.]+")
PROJECT = re.compile("[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
PYTHONS = re.compile(r"[<>=!~]=?=? ?[0-9]+(\.[0-9*]+)*( ?, ?[<>=!~]=?=? ?[0-9]+(\.[0-9*]+)*)*|")


def normalize(name: str) -> str:
    """The one spelling of a project's name, as indexes use it."""
    return re.sub("[-_.]+", "-", name).lower()


class Wheel:
    def __init__(self, path: Path, **limits: int):
        self.path = path
        self.data = path.read_bytes()
        self.sha256 = hashlib.sha256(self.data).hexdigest()
        match = FILE_NAME.fullmatch(path.name)
        if not match:
            raise Refused(
                f"file: {strict.one_line(path.name)} is not the name of a wheel, name-version-python-abi-platform.whl"
            )
        self.name, self.version = match["name"], match["version"]
        self.file_tags = expand(match["python"], match["abi"], match["platform"])
        self.archive = Archive(self.data, **limits)
        self.names = self.archive.names
        self.info = self._find_info()

    def read(self, name: str) -> bytes:
        return self.archive.read(name)

    def _find_info(self) -> str:
        tops = {name.split("/")[0] for name in self.archive.entries}
        found = sorted(top for top in tops if top.lower().endswith(".dist-info"))
        expected = f"{normalize(self.name)}-{self.version}.dist-info"
        named = [info for info in found if f"{normalize(info.split('-')[0])}-{info.partition('-')[2]}" == expected]
        if len(found) != 1 or named != found:
            raise Refused(f"file: expected one .dist-info folder, {expected}, found {found}")
        return found[0]

    def own(self, name: str) -> bytes:
        """A file of dist-info that has to be there."""
        path = f"{self.info}/{name}"
        if path not in self.archive.entries:
            raise Refused(f"file: {path} is missing")
        return self.read(path)

    def has(self, name: str) -> bool:
        return f"{self.info}/{name}" in self.archive.entries

    def metadata(self) -> dict[str, list[str]]:
        """The fields of METADATA; Name and Version are those of the file name."""
        fields = strict.headers(self.own("METADATA"), f"{self.info}/METADATA")
        name, version = (strict.single(fields, field, "METADATA") for field in ("Name", "Version"))
        strict.single(fields, "Metadata-Version", "METADATA")
        if not PROJECT.fullmatch(name) or (normalize(name), version) != (normalize(self.name), self.version):
            said = strict.one_line(f"{name} {version}")
            raise Refused(f"file: METADATA says {said}, the file name {self.name} {self.version}")
        if not PYTHONS.fullmatch(wanted := strict.single(fields, "Requires-Python", "METADATA", required=False)):
            raise Refused(f"file: METADATA has Requires-Python {strict.one_line(wanted)}")
        return fields

    def tags(self) -> list[str]:
        """The tags of WHEEL, sorted."""
        fields = strict.headers(self.own("WHEEL"), f"{self.info}/WHEEL")
        if not re.fullmatch(r"1\.[0-9]+", strict.single(fields, "Wheel-Version", "WHEEL")):
            raise Refused("file: WHEEL has a Wheel-Version other than 1")
        strict.single(fields, "Root-Is-Purelib", "WHEEL", required=False)
        for value in fields.get("tag", []):
            if not TAG.fullmatch(value):
                raise Refused(f"file: WHEEL has the tag {strict.one_line(value)}")
        return sorted(tag for value in fields.get("tag", []) for tag in expand(*value.split("-")))

    def build_record(self) -> dict | None:
        """dist-info/build.json, or None."""
        return strict.json_object(self.own("build.json"), f"{self.info}/build.json") if self.has("build.json") else None

    def differs_from_record(self) -> Iterator[str]:
        """A line for each file that is not as RECORD says."""
        rows = strict.record_rows(self.own("RECORD"), f"{self.info}/RECORD")
        own = f"{self.info}/RECORD"
        for name in rows.keys() - set(self.names):
            yield f"file: RECORD names {strict.one_line(name)}, which is not there"
        for name in self.names:
            if name == own:
                continue
            body, row = self.read(name), rows.get(name)
            actual = base64.urlsafe_b64encode(hashlib.sha256(body).digest()).rstrip(b"=").decode()
            expected = f"sha256={row.sha256}" if row and row.sha256 else "no hash"
            if expected != f"sha256={actual}" or row.size != len(body):
                yield f"file: {name} is not what RECORD says: expected {expected}, got sha256={actual}"


def expand(python: str, abi: str = "", platform: str = "") -> list[str]:
    """py2.py3-none-any as ["py2-none-any", "py3-none-any"]."""
    return sorted(f"{p}-{a}-{o}" for p in python.split(".") for a in abi.split(".") for o in platform.split("."))
