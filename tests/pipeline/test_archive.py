"""Archives that two readers understand differently, and texts of a wheel that two parsers do: each is one finding."""

import shutil
import struct
import tempfile
import zipfile
import zlib
from pathlib import Path

import check_wheel
import common
import index
import provenance
import pytest
import record
import seeds
from seeds import INFO

NAME = "customops-0.1.0-py3-none-manylinux_2_28_x86_64.whl"
EVIL = "customops/evil.py"


def entry(name, body, local=None, central=None, method=8):
    """(local part, directory entry without its offset) of a file; the parts may be told to say something else."""
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    stored = deflate.compress(body) + deflate.flush() if method == 8 else body
    facts = {"flags": 0, "method": method, "crc": zlib.crc32(body), "stored": len(stored), "size": len(body), "name": name,
             "extra": b"", "data": stored, "mode": 0o644, "needs": 20}  # fmt: skip
    here, there = facts | (local or {}), facts | (central or {})
    head = struct.pack("<4s5H3L2H", b"PK\3\4", here["needs"], here["flags"], here["method"], 0, 0x21, here["crc"],
                       here["stored"], here["size"], len(here["name"]), len(here["extra"]))  # fmt: skip
    listed = struct.pack("<4s6H3L5H2L", b"PK\1\2", 0x314, there["needs"], there["flags"], there["method"], 0, 0x21,
                         there["crc"], there["stored"], there["size"], len(there["name"]), len(there["extra"]), 0, 0, 0,
                         there["mode"] << 16, 0)  # fmt: skip
    return head + here["name"].encode() + here["extra"] + here["data"], listed + there["name"].encode() + there["extra"]


def archive(*entries, before=b"", between=b"", after=b"", comment=b"", bare=()):
    body, directory = before, b""
    for local, listed in entries:
        directory += listed[:42] + struct.pack("<L", len(body)) + listed[46:]
        body += local + between
    for local in bare:
        body += local
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, len(entries), len(entries), len(directory), len(body), len(comment))
    return body + directory + end + comment + after


@pytest.fixture
def problems(tmp_path):
    """problems(*entries, ...): what the check says of a good wheel with more entries."""

    def run(*more, **options):
        record.pack(tmp_path / NAME, seeds.contents(), 0)
        with zipfile.ZipFile(tmp_path / NAME) as packed:
            good = [entry(name, packed.read(name)) for name in packed.namelist()]
        (tmp_path / NAME).write_bytes(archive(*good, *more, **options))
        return check_wheel.check(tmp_path / NAME)[0]

    return run


def test_the_good_archive_of_these_tests_is_read(problems):
    assert not [problem for problem in problems() if problem.startswith("file: ")]


both = {"local": {"flags": 1}, "central": {"flags": 1}}
UNICODE_PATH = struct.pack("<HHBL", 0x7075, 5 + 9, 1, zlib.crc32(EVIL.encode())) + b"../evil.p"


@pytest.mark.parametrize(
    ("more", "options", "expected"),
    [
        ([entry("customops/good.py", b"x", local={"name": EVIL.ljust(17, "_")})], {}, "another name where its data is"),
        ([entry(EVIL, b"import os", local={"crc": 1})], {}, "described in two ways"),
        ([entry(EVIL, b"import os", local={"size": 3})], {}, "described in two ways"),
        ([entry(EVIL, b"import os", local={"method": 0})], {}, "described in two ways"),
        ([entry(EVIL, b"import os", local={"flags": 8}, central={"flags": 8})], {}, "is cut|does not begin|two ways"),
        ([], {"bare": [entry(EVIL, b"import os")[0]]}, "bytes that belong to no entry"),
        ([], {"between": entry(EVIL, b"import os")[0]}, "does not begin where the entry before it ends"),
        ([], {"before": b"#!/bin/sh\n"}, "does not begin where the entry before it ends"),
        ([], {"after": b"PK"}, "bytes follow its end"),
        ([], {"comment": b"PK\5\6" + bytes(18)}, "with a comment, or with bytes around|has no entry"),
        ([entry(EVIL, b"x", central={"extra": UNICODE_PATH})], {}, "extra field 0x7075"),
        ([entry(EVIL, b"x", local={"extra": UNICODE_PATH})], {}, "extra field 0x7075"),
        ([entry(EVIL, b"x", central={"extra": b"\1\0\x08\0" + bytes(8)})], {}, "extra field 0x0001"),
        ([entry(EVIL, b"x", **both)], {}, "encrypted, or compressed by a method"),
        ([entry(EVIL, b"x", local={"method": 12}, central={"method": 12})], {}, "compressed by a method"),
        ([entry(EVIL, b"x", local={"crc": 1}, central={"crc": 1})], {}, "another size or checksum"),
        ([entry(EVIL, b"xy", local={"size": 1}, central={"size": 1})], {}, "another size|does not end where"),
        ([entry("customops/__init__.py/evil.py", b"x")], {}, "is below another file"),
        ([entry(EVIL, b"x", central={"mode": 0o104755})], {}, "is a link or a special file"),
        ([entry("customops/evil.py ", b"x")], {}, "not a plain path"),
        ([entry("customops/evil.py.", b"x")], {}, "not a plain path"),
        ([entry("C:/evil.py", b"x")], {}, "not a plain path"),
    ],
)  # fmt: skip
def test_an_archive_that_readers_see_differently(problems, more, options, expected):
    found = problems(*more, **options)
    assert any(word in problem for problem in found for word in expected.split("|")), found
    assert all("\n" not in problem for problem in found)


def test_compressed_data_that_goes_on(problems):
    local, listed = entry(EVIL, b"import os")
    longer = local + b"hidden"
    sizes = struct.pack("<L", len(longer) - 30 - len(EVIL))
    found = problems((longer[:18] + sizes + longer[22:], listed[:20] + sizes + listed[24:]))
    assert any("does not end where the archive says" in problem for problem in found), found


@pytest.fixture
def packed(tmp_path):
    """packed(name, body): a wheel whose dist-info has this file, with a RECORD that fits."""

    def build(name, body):
        path = tmp_path / "dist" / NAME
        path.parent.mkdir(exist_ok=True)
        files = seeds.contents() | {f"{INFO}/{name}": body}
        if name == "RECORD":
            path.write_bytes(seeds.zipped(files))
        else:
            record.pack(path, files, 0)
        return path

    return build


@pytest.mark.parametrize(
    ("name", "body", "expected"),
    [
        ("METADATA", seeds.METADATA.replace(b"License", b"name: evil\nLicense"), "has 2 fields Name"),
        ("METADATA", seeds.METADATA.replace(b": customops", b": other"), "METADATA says other 0.1.0"),
        ("METADATA", seeds.METADATA.replace(b": 0.1.0", b": 0.2.0"), "METADATA says customops 0.2.0"),
        ("METADATA", seeds.METADATA.replace(b"License:", b"License"), "is not `Field: value`"),
        ("METADATA", seeds.METADATA.replace(b"Name", b"X: y\rName"), "control character"),
        ("METADATA", b"\n" + seeds.METADATA, "is empty, and nothing is above it"),
        ("METADATA", seeds.METADATA.replace(b">=3.10", b"'><script>"), "Requires-Python"),
        ("WHEEL", seeds.TAGS + seeds.TAGS, "has 2 fields Wheel-Version"),
        ("WHEEL", seeds.TAGS.replace(b"1.0", b"2.0"), "Wheel-Version other than 1"),
        ("RECORD", b"customops/__init__.py,md5=x,0\n", "expected sha256="),
        ("RECORD", b"customops/__init__.py,,\n", "expected no hash"),
        ("RECORD", b"a,b\n", "got 2 fields"),
        ("build.json", b'{"cuda": {}, "cuda": {}}', "a key twice"),
        ("build.json", b'{"source": {"date_epoch": "1; rm"}}', "source.date_epoch"),
        ("build.json", b'{"cuda": {"cuda12": {"nvcc": "12.4", "architectures": ["90;x"]}}}', "has to be a list like"),
        ("build.json", b'{"x": NaN}', "is not JSON"),
        ("build.json", b'{"x": 1e999}', "too large"),
        ("build.json", b'{"x": ' + b"1" * 5000 + b"}", "is not JSON that can be read"),
        ("sboms/x.cdx.json", b"[" * 100_000, "is not JSON that can be read"),
    ],
)  # fmt: skip
def test_a_text_that_parsers_see_differently(packed, name, body, expected):
    found = check_wheel.check(packed(name, body))[0]
    assert any(expected in problem for problem in found), found
    assert all("\n" not in problem for problem in found)


def test_an_index_holds_no_other_name_than_the_files(packed):
    """Name decides the folder of the page: this one was written wherever it said."""
    outside = Path(tempfile.gettempdir(), "written-by-make-index")
    path = packed("METADATA", seeds.METADATA.replace(b": customops", f": {outside}".encode()))
    try:
        with pytest.raises(common.Failure, match=f"METADATA says {outside} 0.1.0, the file name"):
            index.write_index(path.parent)
        assert not outside.exists()
    finally:
        shutil.rmtree(outside, ignore_errors=True)


@pytest.mark.parametrize(
    "body", [b'{"source": 1, "base": "x"}', b'{"source": {"commit": 1, "dirty": 1}, "base": []}', b"\xff"]
)
def test_a_record_of_another_shape_is_no_record(packed, body):
    with pytest.raises(provenance.NoRecord, match="carries no complete build record"):
        provenance.read_record(packed("build.json", body))
