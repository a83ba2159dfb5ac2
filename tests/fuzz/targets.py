"""What the fuzzers call: each takes bytes that somebody else wrote. A refusal (Refused, Failure) is an answer; any other
exception, a hang, or an accepted input that another reader understands differently, is a finding.
"""

import email.parser
import email.policy
import html.parser
import io
import json
import tempfile
import warnings
import zipfile
from hashlib import sha256
from pathlib import Path

import archive
import check_wheel
import common
import elf
import fatbin
import index
import loadable
import provenance
import record
import rootfs
import seeds
import strict
from common import Failure
from strict import Refused

warnings.simplefilter("ignore")  # zipfile's, for names that are there twice
FOLDER = tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None)
SCRATCH = Path(FOLDER.name)
WHEEL = SCRATCH / "customops-0.1.0-py3-none-manylinux_2_28_x86_64.whl"


def wheel(data: bytes) -> None:
    """The first byte says which part of a wheel the others are."""
    part, body = data[:1], data[1:]
    if part in seeds.PARTS:
        name = seeds.PARTS[part]
        files = seeds.contents() | {f"{seeds.INFO}/{name}": body}
        if name == "RECORD":
            WHEEL.write_bytes(seeds.zipped(files))
        else:
            record.pack(WHEEL, files, 0)
        whole_wheel()
        {"METADATA": headers, "WHEEL": headers, "RECORD": rows}.get(name, json_text)(body)
        return
    WHEEL.write_bytes(data)
    whole_wheel()
    try:
        ours = archive.Archive(data, max_file=1 << 20, max_total=1 << 22)
        held = {name: ours.read(name) for name in ours.names}
    except Refused:
        return
    with zipfile.ZipFile(io.BytesIO(data)) as theirs:
        assert {n: theirs.read(n) for n in theirs.namelist() if not n.endswith("/")} == held, "zipfile sees other files"


def whole_wheel() -> None:
    problems, _ = check_wheel.check(WHEEL)
    assert all("\n" not in problem for problem in problems), "a finding has two lines"
    try:
        provenance.read_record(WHEEL)
    except provenance.NoRecord as error:
        assert "\n" not in str(error), "a finding has two lines"


def json_text(body: bytes) -> None:
    try:
        found = strict.json_object(body, "x.json")
    except Refused:
        return
    assert json.loads(json.dumps(found)) == json.loads(body.decode()), "json sees something else"


def headers(body: bytes) -> None:
    """The fields are those that pip finds with the parser of email."""
    try:
        ours = strict.headers(body, "METADATA")
    except Refused:
        return
    theirs = email.parser.Parser(policy=email.policy.compat32).parsestr(body.decode(), headersonly=True)
    found: dict[str, list[str]] = {}
    for key, value in theirs.items():
        found.setdefault(key.lower(), []).append(" ".join(str(value).split()))
    mine = {key: [" ".join(value.split()) for value in values] for key, values in ours.items()}
    assert mine == found, f"email sees {found}, we {mine}"


def rows(body: bytes) -> None:
    try:
        found = strict.record_rows(body, "RECORD")
    except Refused:
        return
    assert all(row.size is None or row.size >= 0 for row in found.values())


def library(data: bytes) -> None:
    """An ELF file."""
    try:
        found = elf.read(data)
    except Refused:
        return
    findings = list(loadable.check_library("x.so", found))
    assert all("\n" not in finding for finding in findings), "a finding has two lines"
    try:
        units = fatbin.units(found)
    except Refused:
        return
    assert sum(image.bytes for unit in units for image in unit) <= len(data), "more device code than bytes"


def device_code(data: bytes) -> None:
    """The first byte: executable or not; the second: how many of the next words are registered addresses."""
    if len(data) < 2:
        return
    count = data[1] % 4
    registered = {int.from_bytes(data[2 + 2 * i : 4 + 2 * i], "little") for i in range(count)}
    body = data[2 + 2 * count :]
    try:
        units = fatbin.read_units(body, registered, code=bool(data[0] & 1))
    except Refused:
        return
    assert len(units) >= len(registered), "a registered unit was not read"
    assert sum(16 + sum(64 + image.bytes for image in unit) for unit in units) <= len(body), "units overlap"
    for unit in units:
        fatbin.architectures(unit)


def deb(data: bytes) -> None:
    """A .deb; the first byte says whether the others are a whole one or its data.tar."""
    body = seeds.deb(data[1:]) if data[:1] == b"t" else data[1:]
    package = SCRATCH / "x.deb"
    package.write_bytes(body)
    lock = SCRATCH / "x.lock"
    lock.write_text(f"{sha256(body).hexdigest()} {len(body)} x 1 pool/x.deb\n")
    try:
        rootfs.assemble(lock, SCRATCH, SCRATCH / "root.tar")
    except Failure:
        return
    with rootfs.tarfile.open(SCRATCH / "root.tar") as tar:
        for info in tar:
            assert not info.name.startswith("/") and ".." not in info.name.split("/"), info.name


def lock(data: bytes) -> None:
    """A lock file of either kind."""
    path = SCRATCH / "debian-x.lock"
    path.write_bytes(data)
    for read in (common.read_debian_lock, common.read_requirements):
        try:
            entries = read(path)
        except Failure as error:
            assert "\n" not in str(error), "a message has two lines"
            continue
        for entry in entries:
            assert len(entry.sha256) == 64 and entry.size >= 0
            assert (SCRATCH / Path(entry.path).name).parent == SCRATCH and Path(entry.path).name not in ("", ".", "..")
            assert not entry.path.startswith(("/", "-")) and ".." not in entry.path.split("/")


class Links(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))


def static_index(data: bytes) -> None:
    """METADATA of a wheel that `make index` takes; what it writes stays inside, and its HTML says what its JSON says."""
    dist = SCRATCH / "dist"
    dist.mkdir(exist_ok=True)
    record.pack(dist / WHEEL.name, seeds.contents() | {f"{seeds.INFO}/METADATA": data}, 0)
    try:
        root = index.write_index(dist)
    except Failure as error:
        assert "\n" not in str(error), "a message has two lines"
        return
    written = sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())
    pages = ["simple/customops/index.html", "simple/customops/index.json", "simple/index.html", "simple/index.json"]
    assert written == [f"files/{WHEEL.name}", f"files/{WHEEL.name}.metadata", *pages], written
    (file,) = json.loads((root / "simple/customops/index.json").read_text())["files"]
    links = Links()
    links.feed((root / "simple/customops/index.html").read_text())
    (anchor,) = (attributes for tag, attributes in links.found if tag == "a")
    assert anchor.get("data-requires-python", "") == file.get("requires-python", ""), "HTML and JSON differ"
    assert [tag for tag, _ in links.found] == ["html", "head", "meta", "title", "body", "a", "br"], links.found


TARGETS = {"wheel": wheel, "elf": library, "fatbin": device_code, "deb": deb, "lock": lock, "index": static_index}
