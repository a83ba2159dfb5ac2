"""The estimate of a release's size from a wheel for one architecture: docker/release_size.py."""

import random
import zlib
from pathlib import Path

import pytest
import release_size
from common import Failure

FOUND = {"machine_code": 5e6, "ptx": 7e6, "library": 1e6, "wheel": 3e6}


def test_each_architecture_and_library_counts():
    share = release_size.SHARES["70"]
    assert release_size.estimate(FOUND, {"cuda12": ("70", "90+PTX")}) == pytest.approx(4e6 + (share + 1) * 5e6 + 7e6)
    assert release_size.estimate(FOUND, {"cuda12": ("90",), "cuda13": ("999",)}) == 3e6 + 2e6 + 10e6


def test_there_is_a_share_for_every_architecture_of_a_release():
    entries = {e for release in release_size.nvcc.RELEASES.values() for library in release.values() for e in library}
    assert entries <= {*release_size.SHARES, "90+PTX"}
    assert all(0.3 < share < 1 for share in release_size.SHARES.values())


def test_parts_of_a_wheel(monkeypatch, tmp_path):
    """Machine code, which is compressed, counts as it is, and host code as what deflate leaves of it."""
    code, ptx, host = random.Random(1).randbytes(8000), bytes(range(250)) * 4, bytes(10240)
    images = [("machine_code", 90, code[:6000]), ("machine_code", 90, code[6000:]), ("ptx", 90, ptx)]
    path = wheel_of(monkeypatch, tmp_path, images, code + ptx + host)
    found = release_size.parts(path)
    assert 8000 <= found["machine_code"] < 8050
    assert found["ptx"] == len(zlib.compress(ptx, 9)) < 300
    assert abs(found["library"]) < 100
    assert sum(found.values()) == path.stat().st_size


@pytest.mark.parametrize(
    "images",
    [
        [("machine_code", 90, b"1")],
        [("machine_code", 90, b"1"), ("ptx", 80, b"1")],
        [("machine_code", 90, b"1"), ("machine_code", 80, b"1"), ("ptx", 90, b"1")],
    ],
)
def test_other_architectures_are_refused(images, monkeypatch, tmp_path):
    with pytest.raises(Failure, match="machine code and PTX of sm_90, and no more"):
        release_size.parts(wheel_of(monkeypatch, tmp_path, images, b"x"))


def test_a_release_that_is_too_large(monkeypatch, capsys):
    monkeypatch.setattr(release_size, "parts", lambda path: FOUND)
    monkeypatch.setattr("sys.argv", ["release_size.py", "a.whl"])
    monkeypatch.setattr(release_size.nvcc, "RELEASES", {"x86_64": {"cuda12": ("90+PTX",)}})
    release_size.main()
    assert "a CUDA release for x86_64: about 16.0 MB, at most 40 MB" in capsys.readouterr().out
    monkeypatch.setattr(release_size.nvcc, "RELEASES", {"x86_64": {"cuda12": ("90+PTX",) * 4}})
    with pytest.raises(Failure, match="would be too large"):
        release_size.main()


@pytest.mark.parametrize("libraries", [(), ("a/_cuda12.so", "b/_cuda12.so")])
def test_no_library_and_two_are_refused(libraries, monkeypatch, tmp_path):
    images = [("machine_code", 90, b"1"), ("ptx", 90, b"1")]
    with pytest.raises(Failure, match=rf"has {len(libraries)} libraries \*/_cuda12.so"):
        release_size.parts(wheel_of(monkeypatch, tmp_path, images, b"x", libraries))


def wheel_of(monkeypatch, folder: Path, images: list, body: bytes, libraries=("package/_cuda12.so",)) -> Path:
    """A file of 50,000 bytes that is read as a wheel with these libraries, of that body and those images."""

    class Wheel:
        names = libraries

        def read(self, name):
            assert name == libraries[0]
            return body

    held = [
        release_size.fatbin.Image(kind, number, len(content), True, (1, 7), False, content)
        for kind, number, content in images
    ]
    monkeypatch.setattr(release_size, "read_wheel", lambda path: Wheel())
    monkeypatch.setattr(release_size.elf, "read", lambda data: data)
    monkeypatch.setattr(release_size.fatbin, "units", lambda library: [held[:1], held[1:]])
    path = folder / "x.whl"
    path.write_bytes(bytes(50_000))
    return path
