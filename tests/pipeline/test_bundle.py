"""One archive replaces the network, and is believed no more than the network is."""

import hashlib
import io
import subprocess
import tarfile

import bundle
import common
import fetch
import pytest

DEB, WHEEL = b"a Debian package", b"a wheel"
LONG = "hello_world-1.0-py3-none-" + ".".join(f"manylinux_2_{minor}_x86_64" for minor in range(17, 24)) + ".whl"
SHA256 = {content: hashlib.sha256(content).hexdigest() for content in (DEB, WHEEL)}


@pytest.fixture
def locks(tmp_path, monkeypatch):
    """Two locks, a cache with what they name, and no network."""
    locks = tmp_path / "locks"
    for folder in ("locks", "cache/debian", "cache/wheels"):
        (tmp_path / folder).mkdir(parents=True)
    (locks / "debian-x.lock").write_text(f"{SHA256[DEB]} {len(DEB)} hello 1 pool/hello_1_amd64.deb\n")
    (locks / "requirements-x.txt").write_text(f"hello-world==1.0 --hash=sha256:{SHA256[WHEEL]}\n")
    (tmp_path / "cache/debian/hello_1_amd64.deb").write_bytes(DEB)
    (tmp_path / "cache/wheels" / LONG).write_bytes(WHEEL)
    monkeypatch.setattr(bundle, "LOCKS", locks)
    monkeypatch.setattr(bundle, "CACHE", tmp_path / "cache")
    monkeypatch.setenv("DEBIAN_MIRROR", "http://127.0.0.1:9")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("BUNDLE", str(tmp_path / "inputs.tar"))
    return locks


def take(locks, folder):
    fetch.fetch_debian(locks / "debian-x.lock", folder)
    fetch.fetch_wheels(locks / "requirements-x.txt", folder)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_everything_comes_from_the_bundle(locks, tmp_path, capsys):
    bundle.write(tmp_path / "inputs.tar")
    expected = {"hello_1_amd64.deb": DEB, LONG: WHEEL}
    assert take(locks, tmp_path / "empty") == expected
    assert "1 from BUNDLE" in capsys.readouterr().out
    bundle.write(tmp_path / "again.tar")
    assert (tmp_path / "again.tar").read_bytes() == (tmp_path / "inputs.tar").read_bytes()


def test_a_projects_own_lock_is_bundled(locks, tmp_path, monkeypatch):
    import project_run

    own, other = tmp_path / "own.txt", b"another wheel"
    own.write_text(f"softclip==2.0 --hash=sha256:{hashlib.sha256(other).hexdigest()}\n")
    (tmp_path / "project-wheels").mkdir()
    (tmp_path / "project-wheels/softclip-2.0-py3-none-any.whl").write_bytes(other)
    monkeypatch.setattr(project_run, "WHEELS", tmp_path / "project-wheels")
    bundle.write(tmp_path / "inputs.tar", [own])
    fetch.fetch_wheels(own, tmp_path / "empty")
    assert (tmp_path / "empty/softclip-2.0-py3-none-any.whl").read_bytes() == other


def test_the_locks_of_pairs_that_were_asked_for_are_bundled(locks, tmp_path, monkeypatch):
    """PYTHONS and TORCHES choose pairs that the project's own table does not name: each has locks of its own."""
    import project_run

    folder, found = tmp_path / "project", tmp_path / "project-wheels"
    for path in (folder / "locks", found):
        path.mkdir(parents=True)
    (folder / "pyproject.toml").write_text("")
    for suffix, content in (("", b"for 3.11"), ("-cp313-torch2.13.0", b"for 3.13")):
        line = f"softclip==2.0 --hash=sha256:{hashlib.sha256(content).hexdigest()}\n"
        for kind in ("build", "test"):
            (folder / f"locks/requirements-{kind}{suffix}.txt").write_text(line)
        python = "cp313" if suffix else "cp311"
        (found / f"softclip-2.0-{python}-{python}-linux_x86_64.whl").write_bytes(content)
    monkeypatch.setattr(project_run, "WHEELS", found)
    monkeypatch.setattr(project_run, "CACHE", tmp_path / "cache")
    monkeypatch.setattr(fetch, "fetch_debian_set", lambda *_: None)
    monkeypatch.setattr(fetch, "fetch_set", lambda *_: None)
    target = tmp_path / "inputs.tar"
    monkeypatch.setattr("sys.argv", ["bundle.py", str(target), f"--project={folder}", "--pythons=3.11 3.13", "--torches=2.13.0"])  # fmt: skip
    bundle.main()
    with tarfile.open(target) as tar:
        assert {"wheels/softclip-2.0-cp311-cp311-linux_x86_64.whl", "wheels/softclip-2.0-cp313-cp313-linux_x86_64.whl"} < {*tar.getnames()}  # fmt: skip


@pytest.fixture
def for_arm(locks, tmp_path):
    """(folder of the locks for ARM, what they name, a requirement of the same name and version as one for this machine)."""
    package, wheel = b"a Debian package for ARM", b"a wheel for ARM"
    folder, kept = locks / "aarch64", tmp_path / "cache/wheels-aarch64"
    folder.mkdir()
    kept.mkdir()
    line = f"{hashlib.sha256(package).hexdigest()} {len(package)} hello 1 pool/hello_1_arm64.deb\n"
    (folder / "debian-x.lock").write_text(line)
    (folder / "requirements-x.txt").write_text(f"hello-world==1.0 --hash=sha256:{hashlib.sha256(wheel).hexdigest()}\n")
    (tmp_path / "cache/debian/hello_1_arm64.deb").write_bytes(package)
    (kept / "hello_world-1.0-py3-none-manylinux_2_28_aarch64.whl").write_bytes(wheel)
    return folder, {"hello_1_arm64.deb": package, "hello_world-1.0-py3-none-manylinux_2_28_aarch64.whl": wheel}


def test_what_a_build_for_arm_takes_is_bundled_when_asked_for(locks, tmp_path, for_arm):
    folder, expected = for_arm
    bundle.write(tmp_path / "inputs.tar", machine="aarch64")
    assert take(folder, tmp_path / "theirs") == expected
    assert take(locks, tmp_path / "ours") == {"hello_1_amd64.deb": DEB, LONG: WHEEL}


def test_a_bundle_without_arm_names_the_command_that_makes_one(locks, tmp_path, for_arm):
    bundle.write(tmp_path / "inputs.tar")
    with pytest.raises(common.Failure, match=r"lacks pool/hello_1_arm64\.deb.*run `make bundle ARCH=aarch64` again"):
        take(for_arm[0], tmp_path / "theirs")


@pytest.mark.parametrize("target", ["fetch", "bundle"])
def test_make_passes_the_pairs_on(root, target):
    command = ["make", "-n", target, "PROJECT=x", "PYTHONS=3.11 3.13", "TORCHES=2.13.0", "ARCH=aarch64"]
    said = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout
    assert '--project "x" --pythons "3.11 3.13" --torches "2.13.0" --arch "aarch64"' in said


def archive(path, members, manifest=None):
    """An archive by hand: {name: bytes, or a link's target}."""
    lines = [f"{SHA256[DEB]} {len(DEB)} debian/hello_1_amd64.deb", f"{SHA256[WHEEL]} {len(WHEEL)} wheels/hello_world-1.0-py3-none-any.whl"]  # fmt: skip
    members = {"manifest.txt": "\n".join(manifest or lines).encode()} | members
    with tarfile.open(path, "w") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            if isinstance(content, str):
                info.type, info.linkname = tarfile.SYMTYPE, content
            else:
                info.size = len(content)
            tar.addfile(info, io.BytesIO(content) if isinstance(content, bytes) else None)


@pytest.mark.parametrize(
    ("members", "manifest", "message"),
    [
        ({"debian/hello_1_amd64.deb": b"a Debian packagE"}, None, r"is not the locked file: expected sha256"),
        ({"debian/hello_1_amd64.deb": DEB + b"more"}, None, "has 20 bytes, 16 are expected"),
        ({"debian/hello_1_amd64.deb": "/etc/passwd"}, None, "is not a file"),
        ({}, None, r"holds no debian/hello_1_amd64\.deb"),
        ({}, [f"{'0' * 64} 1 debian/other"], "lacks pool/hello_1_amd64.deb, it was made from other locks"),
        ({}, [f"{SHA256[DEB]} 16 debian/../../evil"], "is not `sha256 size name`"),
        ({}, [f"{SHA256[DEB]} 16 /etc/passwd"], "is not `sha256 size name`"),
        ({"manifest.txt": "/dev/zero"}, None, "manifest.txt is not a file"),
    ],
)
def test_what_is_not_locked_is_refused(locks, tmp_path, members, manifest, message):
    archive(tmp_path / "inputs.tar", members, manifest)
    with pytest.raises(common.Failure, match=message):
        take(locks, tmp_path / "empty")
    assert list((tmp_path / "empty").iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"no archive", None])
def test_no_bundle(locks, tmp_path, content):
    if content is not None:
        (tmp_path / "inputs.tar").write_bytes(content)
    with pytest.raises(common.Failure, match=r"is not a bundle|there is no bundle|holds no manifest\.txt"):
        take(locks, tmp_path / "empty")


def test_a_file_of_holes_does_not_fill_the_disk(locks, tmp_path):
    """No lock names the size of a wheel: one of 300 MB in an archive of 10 kB was written before its hash was wrong."""
    name, size = "hello_world-1.0-py3-none-any.whl", 300_000_000
    (tmp_path / "wheels").mkdir()
    with (tmp_path / "wheels" / name).open("wb") as file:
        file.truncate(size)
    (tmp_path / "debian").mkdir()
    (tmp_path / "debian/hello_1_amd64.deb").write_bytes(DEB)
    (tmp_path / "manifest.txt").write_text(
        f"{SHA256[DEB]} {len(DEB)} debian/hello_1_amd64.deb\n{SHA256[WHEEL]} {size} wheels/{name}\n"
    )
    command = [
        "tar",
        "--sparse",
        "--format=gnu",
        "-cf",
        tmp_path / "inputs.tar",
        "-C",
        tmp_path,
        "manifest.txt",
        "debian",
        "wheels",
    ]
    subprocess.run(command, check=True)
    assert (tmp_path / "inputs.tar").stat().st_size < 100_000
    with pytest.raises(common.Failure, match=rf"wheels/{name} is not a file"):
        take(locks, tmp_path / "empty")


def test_headers_that_make_no_sense_are_one_line(locks, tmp_path):
    with tarfile.open(tmp_path / "inputs.tar", "w", format=tarfile.PAX_FORMAT) as tar:
        info = tarfile.TarInfo("x")
        info.pax_headers = {"GNU.sparse.map": "x", "GNU.sparse.size": "y"}
        tar.addfile(info)
    with pytest.raises(common.Failure, match=r"is not a bundle \(.*\): run `make bundle` again") as failure:
        take(locks, tmp_path / "empty")
    assert str(failure.value).isprintable()


def test_a_cache_that_changed_is_not_bundled(locks, tmp_path):
    (tmp_path / "cache/wheels" / LONG).write_bytes(b"flipped")
    with pytest.raises(common.Failure, match="is not the locked file"):
        bundle.write(tmp_path / "inputs.tar")
    assert not (tmp_path / "inputs.tar").exists()


def test_the_archive_is_asked_for_what_the_mirror_forgot(locks, tmp_path, serve_folder, monkeypatch):
    """The mirror answers 404; the second source has the file, and its bytes count for no more."""
    monkeypatch.delenv("BUNDLE")
    for name, content in (("mirror", None), ("archive", DEB)):
        (tmp_path / name / "pool").mkdir(parents=True)
        if content:
            (tmp_path / name / "pool/hello_1_amd64.deb").write_bytes(content)
    monkeypatch.setenv("DEBIAN_MIRROR", serve_folder(tmp_path / "mirror"))
    with pytest.raises(common.Failure, match=r"404.*DEBIAN_ARCHIVE"):
        fetch.fetch_debian(locks / "debian-x.lock", tmp_path / "empty")
    monkeypatch.setenv("DEBIAN_ARCHIVE", serve_folder(tmp_path / "archive") + "/")
    fetch.fetch_debian(locks / "debian-x.lock", tmp_path / "empty")
    assert (tmp_path / "empty/hello_1_amd64.deb").read_bytes() == DEB
