"""Wheels that somebody made to pass the check: each would install or load something that its listings do not show."""

import io
import shutil
import stat
import struct
import zipfile

import check_wheel
import fatbin
import pytest
from strict import Refused
from test_check_wheel import INFO, library, wheel  # noqa: F401, the fixtures

SHT_DYNSYM = 11
pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="bad libraries are made with gcc, which is missing")


@pytest.fixture
def with_entry(wheel):  # noqa: F811
    """with_entry(name, change): a good wheel with one more entry, its ZipInfo as changed."""

    def build(name, change=lambda entry: None):
        path = wheel()
        entry = zipfile.ZipInfo("placeholder")
        entry.filename = name
        change(entry)
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr(entry, b"import os\n")
        return path

    return build


def problems(path):
    return " ".join(check_wheel.check(path)[0])


@pytest.mark.parametrize(
    "name",
    [
        f"{INFO}/licenses/../../evil.pth",
        "../evil.py",
        "/etc/evil.py",
        "customops//evil.py",
        "customops/./evil.py",
        "customops\\evil.py",
        "customops/e\u0301vil.py",
        "customops/evil\n.py",
    ],
)
def test_names_that_lead_elsewhere(with_entry, name):
    assert "not a plain path below the top" in problems(with_entry(name))


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("name", ["customops/__init__.py", "customops/__INIT__.py"])
def test_two_entries_for_one_file(with_entry, name):
    assert "is in the wheel twice" in problems(with_entry(name))


def test_a_link(with_entry):
    def link(entry):
        entry.create_system, entry.external_attr = 3, (stat.S_IFLNK | 0o777) << 16

    assert "is a link or a special file" in problems(with_entry("customops/link.py", link))


def test_a_file_that_record_names_twice(wheel):  # noqa: F811
    path = wheel()
    with zipfile.ZipFile(path) as archive:
        contents = {name: archive.read(name) for name in archive.namelist() if not name.endswith("/")}
    first = contents[f"{INFO}/RECORD"].splitlines(keepends=True)[0]
    contents[f"{INFO}/RECORD"] += first
    with zipfile.ZipFile(path, "w") as archive:
        for name, body in contents.items():
            archive.writestr(name, body)
    assert "RECORD names a file twice" in problems(path)


def header(body, offset, value, form="<H"):
    changed = bytearray(body)
    struct.pack_into(form, changed, offset, value)
    return bytes(changed)


def segments(body):
    """(offset of the header, type) of each segment."""
    (start,) = struct.unpack_from("<Q", body, 32)
    size, count = struct.unpack_from("<HH", body, 54)
    return [(start + i * size, *struct.unpack_from("<I", body, start + i * size)) for i in range(count)]


def section(body, kind):
    """Offset of the header of the first section of a type."""
    (start,) = struct.unpack_from("<Q", body, 40)
    size, count = struct.unpack_from("<HH", body, 58)
    return next(
        at for at in range(start, start + size * count, size) if struct.unpack_from("<I", body, at + 4) == (kind,)
    )


def test_a_library_without_section_headers(wheel, library):  # noqa: F811
    body = library({}, rpath="/tmp/evil")
    stripped = header(header(header(body, 40, 0, "<Q"), 60, 0), 62, 0)
    text = problems(wheel({"customops/_cpu.so": stripped}))
    assert "a dynamic segment that its section headers do not show" in text


def test_a_dynamic_segment_that_is_not_the_section(wheel, library):  # noqa: F811
    body = library({}, rpath="/tmp/evil")
    (dynamic,) = (at for at, kind in segments(body) if kind == 2)
    moved = header(body, dynamic + 8, 0, "<Q")
    assert "has a dynamic segment that is not at its address" in problems(wheel({"customops/_cpu.so": moved}))


def test_a_table_that_is_not_the_section(wheel, library):  # noqa: F811
    """Section .dynsym shows other symbols than those that the loader finds."""
    body = library({"memcpy": ("libc.so.6", "GLIBC_2.14")})
    dynsym = section(body, SHT_DYNSYM)
    (address,) = struct.unpack_from("<Q", body, dynsym + 16)
    text = problems(wheel({"customops/_cpu.so": header(body, dynsym + 16, address + 24, "<Q")}))
    assert "DT_SYMTAB that is not its section .dynsym" in text


def test_symbols_beyond_the_section(wheel, library):  # noqa: F811
    body = library({}, code="void exported(void) {}")
    dynsym = section(body, SHT_DYNSYM)
    text = problems(wheel({"customops/_cpu.so": header(body, dynsym + 32, 24, "<Q")}))
    assert "symbols beyond the end of section .dynsym" in text


def test_memory_to_write_and_execute(wheel, library):  # noqa: F811
    body = library({})
    code = next(at for at, kind in segments(body) if kind == 1)
    assert "written and executed" in problems(wheel({"customops/_cpu.so": header(body, code + 4, 7, "<I")}))


def test_a_library_for_another_machine(wheel, library):  # noqa: F811
    body = header(library({}), 18, 183)  # EM_AARCH64
    assert "_cpu.so is for aarch64, the wheel's tag says x86_64" in problems(wheel({"customops/_cpu.so": body}))


@pytest.mark.parametrize("kept", [5, 20, 63, 64, 200, 1000])
def test_a_library_that_is_cut(wheel, library, kept):  # noqa: F811
    assert problems(wheel({"customops/_cpu.so": library({})[:kept]}))


@pytest.mark.parametrize("record", [b"{", b"[]", b'{"cuda": 1}', b"\xff", b"[" * 100_000])
def test_a_build_record_that_is_not_one(wheel, record):  # noqa: F811
    assert "cannot be read" in problems(wheel({f"{INFO}/build.json": record}))


def test_a_file_that_is_no_archive(tmp_path):
    path = tmp_path / "customops-0.1.0-py3-none-manylinux_2_28_x86_64.whl"
    path.write_bytes(b"PK\x03\x04")
    assert "it is no zip archive" in problems(path)


@pytest.mark.parametrize(
    "unit",
    [
        struct.pack("<IHHQ", fatbin.MAGIC, 1, 0, 0),  # the next unit would begin where this one does
        struct.pack("<IHHQ", fatbin.MAGIC, 1, 16, 0),
        struct.pack("<IHHQ", fatbin.MAGIC, 1, 16, 2**63),
        struct.pack("<IHHQ", fatbin.MAGIC, 1, 16, 64) + struct.pack("<HHIQ", 2, 0, 64, 2**63) + bytes(48),
        struct.pack("<IHHQ", fatbin.MAGIC, 1, 16, 64) + struct.pack("<HHIQ", 2, 0, 0, 0) + bytes(48),
    ],
)
def test_a_unit_of_device_code_that_never_ends(unit):
    with pytest.raises(Refused, match=r"has a unit of device code|has device code of unknown kind"):
        fatbin.read_units(unit + bytes(64))


def test_a_file_that_grows(with_entry):
    path = with_entry("customops/large.py")
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("customops/zeros.py", io.BytesIO(bytes(4 << 20)).read())
    assert "has 4194304 bytes, out of" in problems(path)


@pytest.mark.parametrize(
    ("link", "expected"),
    [
        ("-Wl,--audit=/tmp/evil.so", "has DT_AUDIT"),
        ("-Wl,--depaudit=/tmp/evil.so", "has DT_DEPAUDIT"),
        ("-Wl,--filter=evil.so", "has DT_FILTER"),
        ("-Wl,--auxiliary=evil.so", "has DT_AUXILIARY"),
        ("-Wl,-z,interpose", "has DT_FLAGS_1 0x400"),
        ("-Wl,-z,initfirst", "has DT_FLAGS_1 0x20"),
        ("-Wl,-z,global", "has DT_FLAGS_1 0x2"),
        ("-Wl,-z,execstack", "written and executed (PT_GNU_STACK)"),
        ("-Wl,--dynamic-linker=/tmp/evil", "names an interpreter"),
        ("-Wl,--omagic", "has DT_STRTAB in memory that it may write"),
    ],
)
def test_what_makes_a_loader_do_more(wheel, library, link, expected):  # noqa: F811
    code = (
        '__attribute__((used, section(".interp"))) static const char i[] = "/tmp/evil";'
        if "dynamic-linker" in link
        else ""
    )
    assert expected in problems(wheel({"customops/_cpu.so": library({}, code=code, link=[link])}))


def test_code_that_is_relocated(wheel, library):  # noqa: F811
    code = '__asm__(".text\\n.quad f\\nf: ret");'
    assert "has relocations in its code" in problems(
        wheel({"customops/_cpu.so": library({}, code=code, link=["-Wl,-z,notext"])})
    )


def dynamic(body, tag, change):
    """The library with an entry of its dynamic segment changed: (tag, value) -> (tag, value)."""
    (at,) = (struct.unpack_from("<Q", body, at + 8)[0] for at, kind in segments(body) if kind == 2)
    while struct.unpack_from("<Q", body, at) != (tag,):
        at += 16
    changed = bytearray(body)
    struct.pack_into("<QQ", changed, at, *change(*struct.unpack_from("<QQ", body, at)))
    return bytes(changed)


@pytest.mark.parametrize(
    ("tag", "change", "expected"),
    [
        (6, lambda tag, value: (5, value), "has DT_STRTAB 2 times"),
        (5, lambda tag, value: (tag, 1 << 40), "which the file does not fill"),
        (10, lambda tag, value: (tag, 3), "has a name beyond the end of its strings"),
        (0x6FFFFEF5, lambda tag, value: (tag, value + 1), "customops/_cpu.so"),
        (0x6FFFFFFF, lambda tag, value: (tag, value + 1), "a chain of versions that ends elsewhere"),
        (0x6FFFFFFF, lambda tag, value: (tag, 1 << 60), "versions, no library has so many"),
        (0x6FFFFFF0, lambda tag, value: (0x6FFFFFF1, value), "has DT_0x6ffffff1"),
    ],
)
def test_a_dynamic_entry_that_a_loader_reads_otherwise(wheel, library, tag, change, expected):  # noqa: F811
    body = library({"memcpy": ("libc.so.6", "GLIBC_2.14")})
    found = check_wheel.check(wheel({"customops/_cpu.so": dynamic(body, tag, change)}))[0]
    assert any(expected in problem for problem in found), found
    assert all("\n" not in problem for problem in found)


def test_segments_that_overlap(wheel, library):  # noqa: F811
    """The later one is what a loader leaves in memory; a reader that takes the first sees other tables."""
    body = library({})
    loads = [at for at, kind in segments(body) if kind == 1]
    offset, place = struct.unpack_from("<QQ", body, loads[1] + 8)
    moved = header(body, loads[1] + 16, offset % 4096, "<Q")  # the page of the first
    assert place != offset % 4096
    assert "segments that overlap in memory" in problems(wheel({"customops/_cpu.so": moved}))


HELD = b"".join(
    [struct.pack("<IHHQ", fatbin.MAGIC, 1, 16, 80), struct.pack("<HHIQIIHHI", 2, 0, 64, 16, 16, 0, 1, 7, 90), bytes(48)]
)


def embedded(data, section, wrapped=True):
    """C code that holds device code in a section, and the wrapper that hands it to the CUDA runtime."""
    numbers = ",".join(map(str, data))
    wrapper = (
        "static struct { int magic, version; const void *data, *more; } w = {0x466243b1, 1, code, 0};"
        if wrapped
        else ""
    )
    wrapper = wrapper and f'__attribute__((used, section("renamed_segment"))) {wrapper}'
    return f'__attribute__((used, aligned(8), section("{section}"))) static const unsigned char code[] = {{{numbers}}};{wrapper}'


@pytest.mark.parametrize("wrapped", [True, False])
@pytest.mark.parametrize("section", [".nv_fatbin", ".rodata.renamed", ".text.renamed"])
def test_device_code_in_any_section(wheel, library, section, wrapped):  # noqa: F811
    code = embedded(HELD, section, wrapped)
    if "text" in section:
        code = '__asm__(".section .text.renamed,\\"ax\\",@progbits");' + code
    text = problems(wheel({"customops/_cpu.so": library({}, code=code)}))
    assert "holds {'machine_code': [90], 'ptx': []} in one of its units" in text


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (HELD[:8] + struct.pack("<Q", 0) + HELD[16:], "a unit of device code with 16 + 0 bytes"),
        (HELD[:8] + struct.pack("<Q", 1 << 40) + HELD[16:], "a unit of device code with 16 +"),
        (b"none" * 8, "where no unit begins"),
    ],
)
def test_registered_device_code_that_is_broken(wheel, library, data, expected):  # noqa: F811
    found = check_wheel.check(wheel({"customops/_cpu.so": library({}, code=embedded(data, ".rodata.renamed"))}))[0]
    assert [problem for problem in found if expected in problem] == found, found
    assert len(found) == 1
