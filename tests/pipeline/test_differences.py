"""What `make reproduce` says of two wheels that differ: the file, what it holds in each, and why."""

import zipfile

import differences
import pytest


@pytest.fixture
def wheel(tmp_path):
    """wheel(name, {member: bytes}) -> its path"""

    def make(name, members):
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            for member, body in members.items():
                archive.writestr(zipfile.ZipInfo(member), body)
        return tmp_path / name

    return make


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        (b"in /tmp/one/source/a.c", b"in /tmp/two/source/a.c", "a path of the build: "),
        (b"built 12:00:01", b"built 12:00:02", "the time of the build: "),
        (b"built Nov 24 2025", b"built Jan 2 2026", "the time of the build: "),
        (b"cccccccc", b"dddddddd", ""),
    ],
)
def test_a_library_is_named_with_what_it_holds_and_why(wheel, first, second, reason):
    left, right = (
        wheel(name, {"p/x.so": b"\x7fELF\0same text\0" + text + b"\0", "p/same.py": b"x = 1\n"})
        for name, text in (("1.whl", first), ("2.whl", second))
    )
    name, held = differences.list_differences(left, right)
    assert name == "p/x.so differs"
    assert held.strip().startswith(f"{first.decode()!r} and {second.decode()!r}")
    assert held.endswith("'") if not reason else reason in held


BUILD_ID = b"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0"


@pytest.mark.parametrize("noise", [b'"2)y^^', BUILD_ID + b'\x01\x02"2)y^^hash' + b"\xff" * 8])
@pytest.mark.parametrize("of_first", [True, False])
def test_what_only_looks_like_text_hides_no_reason(wheel, noise, of_first):
    """Machine code and hashes may hold bytes that look like text, in one build and not in the other."""
    left, right = (
        wheel(name, {"p/x.so": b"\x7fELF\0" + (noise if first == of_first else b"") + b"\0in " + path + b"/a.c\0"})
        for name, first, path in (("1.whl", True, b"/tmp/one"), ("2.whl", False, b"/tmp/two"))
    )
    _, held = differences.list_differences(left, right)
    assert held.strip().startswith("'in /tmp/one/a.c' and 'in /tmp/two/a.c': a path of the build: ")


def test_a_build_id_is_no_text(wheel):
    left, right = (
        wheel(f"{n.decode()}.whl", {"p/x.so": b"\x7fELF" + BUILD_ID + n * 20 + b"text after it\0"})
        for n in (b"a", b"b")
    )
    (line,) = differences.list_differences(left, right)
    assert line.startswith("p/x.so differs: only in what is no text")


def test_bytes_that_are_no_text(wheel):
    left, right = (wheel(f"{n}.whl", {"p/x.so": b"\x7fELF" + bytes([n])}) for n in (1, 2))
    (line,) = differences.list_differences(left, right)
    assert line.startswith("p/x.so differs: only in what is no text")


def test_a_file_of_one_and_a_record_that_follows(wheel):
    left = wheel("1.whl", {"p/a.py": b"", "p-1.dist-info/RECORD": b"p/a.py,sha256=aaaaaaaa"})
    right = wheel("2.whl", {"p/b.py": b"", "p-1.dist-info/RECORD": b"p/b.py,sha256=bbbbbbbb"})
    assert differences.list_differences(left, right) == [
        "p/a.py is only in the first",
        "p-1.dist-info/RECORD differs",
        "p/b.py is only in the second",
    ]


def test_equal_contents_packed_differently(wheel):
    left = wheel("1.whl", {"p/a.py": b"1", "p/b.py": b"2"})
    right = wheel("2.whl", {"p/b.py": b"2", "p/a.py": b"1"})
    assert differences.list_differences(left, right) == [
        "the contents are equal: order, time stamps, modes or compression differ"
    ]


def test_no_wheel(wheel, tmp_path):
    (tmp_path / "2.whl").write_bytes(b"no archive")
    (line,) = differences.list_differences(wheel("1.whl", {"p/a.py": b""}), tmp_path / "2.whl")
    assert line.startswith("one of them is no wheel: ")
