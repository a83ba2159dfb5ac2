"""The base file system: only the packages' bytes decide it."""

import hashlib
import io
import tarfile
from pathlib import Path

import common
import pytest
import rootfs


def make_deb(files, links=()):
    """A .deb by hand: an `ar` archive with debian-binary, control.tar and data.tar."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:xz") as tar:
        for name, text in files.items():
            info = tarfile.TarInfo("./" + name)
            info.size, info.mode, info.mtime, info.uid, info.uname = len(text), 0o755, 1_600_000_000, 1000, "builder"
            tar.addfile(info, io.BytesIO(text))
        for name, target in links:
            info = tarfile.TarInfo("./" + name)
            info.type, info.linkname = tarfile.LNKTYPE, "./" + target
            tar.addfile(info)
    archive = b"!<arch>\n"
    for name, body in (("debian-binary", b"2.0\n"), ("control.tar.xz", b"x"), ("data.tar.xz", data.getvalue())):
        archive += (
            f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(body):<10}`\n".encode() + body + b"\n" * (len(body) % 2)
        )
    return archive


@pytest.fixture
def packages(tmp_path):
    """A lock of two packages, and the folder they lie in."""
    lock = tmp_path / "debian-x.lock"
    lines = []
    for name, deb in {
        "compiler": make_deb(
            {"usr/bin/gcc": b"gcc", "usr/share/man/gcc.1": b"manual"}, [("usr/bin/gcc-10", "usr/bin/gcc")]
        ),
        "library": make_deb(
            {"lib/libx.so": b"x", "usr/share/doc/x/copyright": b"terms", "usr/share/doc/x/README": b"r"}
        ),
    }.items():
        (tmp_path / f"{name}.deb").write_bytes(deb)
        lines.append(f"{hashlib.sha256(deb).hexdigest()} {len(deb)} {name} 1 pool/{name}.deb")
    lock.write_text("\n".join(lines) + "\n")
    return lock, tmp_path


def test_contents(packages, tmp_path):
    rootfs.assemble(*packages, tmp_path / "out.tar")
    with tarfile.open(tmp_path / "out.tar") as tar:
        names = tar.getnames()
        assert tar.extractfile("usr/bin/gcc-10").read() == b"gcc"
        assert tar.getmember("usr/bin/cc").linkname == "gcc"
        assert {(m.uid, m.gid, m.uname) for m in tar} == {(0, 0, "")}
    assert {"usr/bin/gcc", "lib/libx.so", "usr/share/doc/x/copyright", "etc/passwd"} <= set(names)
    assert not {"usr/share/man/gcc.1", "usr/share/doc/x/README", "usr/bin/c++"} & set(names)
    assert len(names) == len(set(names))


def test_same_bytes_twice(packages, tmp_path):
    for name in ("one.tar", "two.tar"):
        rootfs.assemble(*packages, tmp_path / name)
    assert common.sha256_of(tmp_path / "one.tar") == common.sha256_of(tmp_path / "two.tar")


def test_what_is_unpacked_is_what_was_hashed(packages, tmp_path, monkeypatch):
    """Every file is read once: another content on a second reading cannot get in."""
    read = []
    real = Path.open

    def counted(self, *arguments, **options):
        if self.suffix == ".deb":
            read.append(self.name)
        return real(self, *arguments, **options)

    monkeypatch.setattr(Path, "open", counted)
    rootfs.assemble(*packages, tmp_path / "out.tar")
    assert sorted(read) == ["compiler.deb", "library.deb"]


def test_a_tampered_package_is_refused(packages, tmp_path):
    deb = tmp_path / "library.deb"
    deb.write_bytes(deb.read_bytes()[:-1] + b"!")
    with pytest.raises(common.Failure, match=r"library\.deb is not the locked file"):
        rootfs.assemble(*packages, tmp_path / "out.tar")
    assert not (tmp_path / "out.tar").exists()


def ar_header(name=b"data.tar", size=b"4", end=b"`\n"):
    return name.ljust(16) + b"0".ljust(12) + b"0".ljust(6) * 2 + b"100644".ljust(8) + size.ljust(10) + end


@pytest.mark.parametrize("header", [
    ar_header(size=b"-60"), ar_header(size=b"four"), ar_header(size=b""), ar_header(size=b"99"), ar_header(end=b"??"),
    ar_header(name=b"\xff"),
])  # fmt: skip
def test_a_package_with_a_broken_header_is_refused(tmp_path, header):
    with pytest.raises(common.Failure, match="no header of a file, or only a part of the file, at byte 8"):
        list(rootfs.deb_members(tmp_path / "x.deb", b"!<arch>\n" + header + b"abcd"))


def test_a_package_in_one_piece(tmp_path):
    data = b"!<arch>\n" + ar_header(size=b"3") + b"abc\n" + ar_header(name=b"two/") + b"abcd"
    assert list(rootfs.deb_members(tmp_path / "x.deb", data)) == [("data.tar", b"abc"), ("two", b"abcd")]


@pytest.mark.parametrize("size", ["-1", "1e3", "x", "\u0663", "9" * 5000])
def test_a_lock_with_a_size_that_is_no_number_is_refused(tmp_path, size):
    (tmp_path / "x.lock").write_text(f"{'0' * 64} {size} package 1.0 pool/package.deb\n")
    with pytest.raises(common.Failure, match=r"x\.lock:1 is not"):
        common.read_debian_lock(tmp_path / "x.lock")
