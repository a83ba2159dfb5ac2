"""`make lock`: only Debian's own keys are trusted, whatever this machine's apt would accept."""

import hashlib
import shutil
import subprocess

import common
import lock
import pytest

pytestmark = pytest.mark.skipif(shutil.which("apt-get") is None, reason="needs apt")
PACKAGES = b"""Package: hello
Version: 1
Architecture: amd64
Filename: pool/hello_1_amd64.deb
Size: 1
SHA256: 0000000000000000000000000000000000000000000000000000000000000000
"""


LISTS = {
    lock.SUITE: {"main/binary-amd64/Packages": PACKAGES},
    **{suite: {"main/source/Sources": b""} for _, suite, _, _ in lock.PYTHON_SOURCES},
}
LISTS[lock.CUDA_SUITE] = LISTS.get(lock.CUDA_SUITE, {}) | {"non-free/binary-amd64/Packages": b""}


def release(suite):
    components = " ".join(dict.fromkeys(name.split("/")[0] for name in LISTS[suite]))
    sums = "".join(f" {hashlib.sha256(text).hexdigest()} {len(text)} {name}\n" for name, text in LISTS[suite].items())
    return (
        f"Origin: Debian\nSuite: {suite}\nCodename: {suite}\nDate: Sat, 01 Jan 2000 00:00:00 UTC\n"
        f"Architectures: amd64\nComponents: {components}\nSHA256:\n{sums}"
    )


@pytest.fixture
def archive(tmp_path):
    """A mirror with one package that nobody signed."""
    folder = tmp_path / "debian"
    for suite, lists in LISTS.items():
        for name, content in lists.items():
            path = folder / "dists" / suite / name
            path.parent.mkdir(parents=True)
            path.write_bytes(content)
        (folder / "dists" / suite / "Release").write_text(release(suite))
    return folder


@pytest.fixture
def careless_apt(tmp_path, monkeypatch):
    """This machine's apt takes anything."""
    config = tmp_path / "careless.conf"
    config.write_text(
        'Acquire::AllowInsecureRepositories "true";\nAcquire::AllowWeakRepositories "true";\n'
        'APT::Get::AllowUnauthenticated "true";\nAcquire::AllowDowngradeToInsecureRepositories "true";\n'
    )
    monkeypatch.setenv("APT_CONFIG", str(config))
    monkeypatch.delenv("http_proxy", raising=False)


def lock_hello(mirror, folder, monkeypatch):
    monkeypatch.setattr(lock, "LOCKS", folder)
    (folder / "debian-x.txt").write_text("hello\n")
    with lock.isolated_apt(mirror) as apt:
        lock.lock_debian(apt, folder / "debian-x.txt")
    return (folder / "debian-x.lock").read_text()


def test_an_unsigned_package_is_not_locked(archive, careless_apt, serve_folder, tmp_path, monkeypatch):
    with pytest.raises(common.Failure, match="is not signed by Debian's keys"):
        lock_hello(serve_folder(archive), tmp_path, monkeypatch)
    assert not (tmp_path / "debian-x.lock").exists()


@pytest.fixture
def sign(archive, tmp_path, monkeypatch):
    """sign() signs the archive with a new key that the keyring holds; returns its fingerprint."""
    if shutil.which("gpg") is None:
        pytest.skip("needs gpg")
    home = tmp_path / "gpg"
    home.mkdir(mode=0o700)
    monkeypatch.setattr(lock, "KEYRING", tmp_path / "keyring.gpg")

    def gpg(*arguments):
        command = [
            "gpg",
            "--homedir",
            home,
            "--batch",
            "--quiet",
            "--pinentry-mode=loopback",
            "--passphrase=",
            *arguments,
        ]
        return subprocess.run(command, check=True, capture_output=True)

    def run():
        gpg("--quick-generate-key", "test@localhost", "rsa3072", "sign")
        fingerprint = gpg("--list-keys", "--with-colons").stdout.decode().split("fpr:::::::::")[1].split(":")[0]
        for suite in LISTS:
            folder = archive / "dists" / suite
            gpg("--clearsign", "--output", folder / "InRelease", folder / "Release")
        gpg("--export", "--output", lock.KEYRING)
        return fingerprint

    return run


def test_a_key_that_is_not_named_does_not_count(archive, careless_apt, sign, serve_folder, tmp_path, monkeypatch):
    """It is in the machine's keyring, and not one of KEYS."""
    sign()
    with pytest.raises(common.Failure, match="is not signed by Debian's keys"):
        lock_hello(serve_folder(archive), tmp_path, monkeypatch)


def test_a_signed_package_is_locked_with_its_release(archive, sign, serve_folder, tmp_path, monkeypatch):
    monkeypatch.setattr(lock, "KEYS", {lock.SUITE: (sign(),)})
    text = lock_hello(serve_folder(archive), tmp_path, monkeypatch)
    sha256 = common.sha256_of(archive / "dists" / lock.SUITE / "InRelease")
    assert text.splitlines() == [
        "# make lock",
        f"# {lock.SUITE}, InRelease of Sat, 01 Jan 2000 00:00:00 UTC, sha256 {sha256}",
        "# sha256 size package version path-on-a-mirror",
        f"{'0' * 64} 1 hello 1 pool/hello_1_amd64.deb",
    ]
    assert [entry.path for entry in common.read_debian_lock(tmp_path / "debian-x.lock")] == ["pool/hello_1_amd64.deb"]


def test_every_debian_lock_says_its_release(root):
    for path in (root / "docker/locks").glob("debian-*.lock"):
        assert (
            path.read_text()
            .splitlines()[1]
            .startswith("# trixie" if {"cuda", "pythons"} & set(path.stem.split("-")) else "# b")
        ), path
        assert " sha256 " in path.read_text().splitlines()[1]
