"""Fetching: hashes decide, errors name file and remedy, and nothing half-done stays behind."""

import contextlib
import hashlib
import socket
import threading
import time

import common
import fetch
import pytest

CONTENT = b"a Debian package"
SHA256 = hashlib.sha256(CONTENT).hexdigest()
PATH = "pool/main/h/hello/hello_1_amd64.deb"


@pytest.fixture
def serve(tmp_path, serve_folder):
    """serve(content) starts a mirror on loopback that has one package, and returns its address."""

    def start(content):
        folder = tmp_path / f"mirror-{hashlib.sha256(content).hexdigest()[:8]}"
        (folder / PATH).parent.mkdir(parents=True)
        (folder / PATH).write_bytes(content)
        return serve_folder(folder)

    return start


@pytest.fixture
def lock(tmp_path):
    path = tmp_path / "debian-x.lock"
    path.write_text(f"# make lock\n{SHA256} {len(CONTENT)} hello 1 {PATH}\n")
    return path


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(fetch, "RETRY_AFTER_SECONDS", (0, 0, 0))


def test_a_mirror_that_was_away_is_tried_again(lock, cache, serve, monkeypatch):
    monkeypatch.setenv("DEBIAN_MIRROR", serve(CONTENT))
    calls = []
    real = fetch.Deadline.open

    def flaky(self, url):
        calls.append(url)
        if len(calls) < 3:
            raise fetch.urllib.error.URLError("Temporary failure in name resolution")
        return real(self, url)

    monkeypatch.setattr(fetch.Deadline, "open", flaky)
    fetch.fetch_debian(lock, cache)
    assert len(calls) == 3
    assert (cache / "hello_1_amd64.deb").read_bytes() == CONTENT


def test_downloads_once(lock, cache, serve, monkeypatch, capsys):
    monkeypatch.setenv("DEBIAN_MIRROR", serve(CONTENT))
    fetch.fetch_debian(lock, cache)
    monkeypatch.setenv("DEBIAN_MIRROR", "http://127.0.0.1:9")  # a second download could not succeed
    fetch.fetch_debian(lock, cache)
    assert capsys.readouterr().out == "debian-x.lock: 1 files verified, 1 downloaded\n"  # once, although verified twice
    assert [p.name for p in cache.iterdir()] == ["hello_1_amd64.deb"]


def test_a_corrupted_download_is_refused(lock, cache, serve, monkeypatch):
    monkeypatch.setenv("DEBIAN_MIRROR", serve(b"a Debian packagE"))
    got = hashlib.sha256(b"a Debian packagE").hexdigest()
    with pytest.raises(common.Failure, match=rf"hello_1_amd64.deb .*expected sha256 {SHA256}, got {got}"):
        fetch.fetch_debian(lock, cache)
    assert list(cache.iterdir()) == []


def test_the_next_mirror_is_tried(lock, cache, serve, monkeypatch):
    monkeypatch.setenv("DEBIAN_MIRROR", f"http://127.0.0.1:9 {serve(b'wrong')} {serve(CONTENT)}/")
    fetch.fetch_debian(lock, cache)
    assert (cache / "hello_1_amd64.deb").read_bytes() == CONTENT


def test_no_network_and_an_empty_cache(lock, cache, monkeypatch):
    monkeypatch.setenv("DEBIAN_MIRROR", "http://127.0.0.1:9")
    with pytest.raises(common.Failure, match=r"cannot download .*hello_1_amd64.deb .*check the network"):
        fetch.fetch_debian(lock, cache)


def test_a_mirror_that_is_no_url(lock, cache, monkeypatch):
    monkeypatch.setenv("DEBIAN_MIRROR", "mirror.local/debian")
    with pytest.raises(common.Failure, match=r"unknown url type.*set DEBIAN_MIRROR"):
        fetch.fetch_debian(lock, cache)


def test_a_corrupted_cached_file_is_named(lock, cache):
    cache.mkdir()
    (cache / "hello_1_amd64.deb").write_bytes(b"flipped")
    with pytest.raises(common.Failure, match=rf"hello_1_amd64.deb is not the locked file: expected sha256 {SHA256}"):
        fetch.fetch_debian(lock, cache)


def test_a_disk_that_fills_while_fetching_is_one_line(tmp_path, serve, small_disk, monkeypatch):
    content = bytes(40_000)
    lock = tmp_path / "debian-x.lock"
    lock.write_text(f"{hashlib.sha256(content).hexdigest()} {len(content)} hello 1 {PATH}\n")
    monkeypatch.setenv("DEBIAN_MIRROR", serve(content))
    with pytest.raises(SystemExit) as stopped:
        common.main_guard(lambda: fetch.fetch_debian(lock, small_disk), alone=False)
    assert "is full: free some space" in str(stopped.value)
    assert list(small_disk.iterdir()) == []


def test_a_mirror_cannot_fill_the_disk(lock, cache, serve, monkeypatch):
    """The lock says 16 bytes; nothing of the rest is written."""
    monkeypatch.setenv("DEBIAN_MIRROR", serve(CONTENT + bytes(50_000_000)))
    written = []
    real = fetch.copy_locked

    def watched(url, entry, partial, arrived):
        try:
            real(url, entry, partial, arrived)
        finally:
            written.append(partial.stat().st_size)

    monkeypatch.setattr(fetch, "copy_locked", watched)
    with pytest.raises(common.Failure, match="larger than the locked 16 bytes"):
        fetch.fetch_debian(lock, cache)
    assert max(written) <= len(CONTENT)
    assert list(cache.iterdir()) == []


@pytest.mark.parametrize("part", ["header", "body"])
def test_a_mirror_that_trickles_is_given_up(lock, cache, monkeypatch, part):
    """One byte every 0.2 s never reaches a socket's timeout."""
    monkeypatch.setattr(fetch, "LEAST_SECONDS", 1)
    server = socket.create_server(("127.0.0.1", 0))

    def trickle():
        connection = server.accept()[0]
        with contextlib.suppress(OSError), connection:
            connection.sendall(b"HTTP/1.0 200 OK\r\nX: " if part == "header" else b"HTTP/1.0 200 OK\r\n\r\n")
            for _ in range(60):
                connection.sendall(b"a")
                time.sleep(0.2)

    threading.Thread(target=trickle, daemon=True).start()
    monkeypatch.setenv("DEBIAN_MIRROR", f"http://127.0.0.1:{server.getsockname()[1]}")
    started = time.monotonic()
    with server, pytest.raises(common.Failure, match="not complete after 1 s"):
        fetch.fetch_debian(lock, cache)
    assert time.monotonic() - started < 5
    assert list(cache.iterdir()) == []


@pytest.mark.parametrize("line", ["nonsense", "0123 4 hello 1 pool/x.deb"])
def test_a_damaged_lock_line_is_named(lock, cache, line):
    lock.write_text(f"# make lock\n{line}\n")
    with pytest.raises(common.Failure, match=r"debian-x\.lock:2 is not .*run `make lock`"):
        fetch.fetch_debian(lock, cache)


def test_a_requirement_without_hash_is_refused(tmp_path, cache):
    lock = tmp_path / "requirements-x.txt"
    lock.write_text("# make lock\nninja==1.13.2\n")
    with pytest.raises(common.Failure, match=r"requirements-x\.txt:2 .*run `make lock`"):
        fetch.fetch_wheels(lock, cache)


def test_a_corrupted_cached_wheel_is_named(tmp_path, cache):
    cache.mkdir()
    (cache / "hello_world-1.0-py3-none-any.whl").write_bytes(b"flipped")
    lock = tmp_path / "requirements-x.txt"
    lock.write_text(f"hello-world==1.0 --hash=sha256:{SHA256}\n")
    with pytest.raises(common.Failure, match=rf"hello_world-1.0.* is not the locked file: expected sha256 {SHA256}"):
        fetch.fetch_wheels(lock, cache)


def test_pip_without_an_index(tmp_path, cache, monkeypatch):
    lock = tmp_path / "requirements-x.txt"
    lock.write_text(f"hello-world==1.0 --hash=sha256:{SHA256}\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    with pytest.raises(common.Failure, match=r"hello-world==1.0.*pip's index configuration"):
        fetch.fetch_wheels(lock, cache)


def test_pip_is_offered_another_file(tmp_path, cache, monkeypatch):
    """An index whose wheel is not the locked one."""
    index = tmp_path / "index"
    index.mkdir()
    (index / "hello_world-1.0-py3-none-any.whl").write_bytes(CONTENT)
    lock = tmp_path / "requirements-x.txt"
    lock.write_text(f"hello-world==1.0 --hash=sha256:{'0' * 64}\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    with pytest.raises(common.Failure, match=rf"another file .*hello-world==1.0.*{'0' * 64}.*{SHA256}"):
        fetch.fetch_wheels(lock, cache)
    assert list(cache.iterdir()) == []


def test_mirrors_come_from_apt(tmp_path, monkeypatch):
    monkeypatch.delenv("DEBIAN_MIRROR", raising=False)
    monkeypatch.setenv("CUSTOMOPS_APT_DIR", str(tmp_path))
    (tmp_path / "sources.list").write_text(
        "# deb http://off/debian x main\ndeb [arch=amd64] http://one/debian x main\n"
    )
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / "sources.list.d/a.sources").write_text("Types: deb\n# http://off/debian\nURIs: http://two/debian/\n")
    (tmp_path / "sources.list.d/b.list").write_text("deb https://three/other x main\n")
    assert common.debian_mirrors() == ["http://one/debian", "http://two/debian"]


def test_no_mirror_known(tmp_path, monkeypatch):
    monkeypatch.delenv("DEBIAN_MIRROR", raising=False)
    monkeypatch.setenv("CUSTOMOPS_APT_DIR", str(tmp_path))
    with pytest.raises(common.Failure, match="set DEBIAN_MIRROR"):
        common.debian_mirrors()


def test_every_lock_file_is_well_formed(root):
    for lock in sorted((root / "docker/locks").glob("debian-*.lock")):
        assert common.read_debian_lock(lock), lock
    for lock in sorted((root / "docker/locks").glob("requirements-*.txt")):
        assert common.read_requirements(lock), lock


def test_a_download_shows_bytes_of_the_total(monkeypatch, capsys):
    monkeypatch.setattr(fetch, "LINE_SECONDS", 0.05)
    with fetch.Progress("debian-x.lock", 3_000_000, 2) as progress:
        progress.add(1_200_000)
        progress.files += 1
        time.sleep(0.5)
    assert "debian-x.lock: 1 of 2 files, 1.2 of 3.0 MB" in capsys.readouterr().err.splitlines()
    assert not progress.thread.is_alive()


def test_what_is_downloaded_again_counts_once(lock, cache, serve, monkeypatch):
    """The first mirror's file is a wrong one."""
    monkeypatch.setenv("DEBIAN_MIRROR", f"{serve(CONTENT[::-1])} {serve(CONTENT)}")
    (entry,) = common.read_debian_lock(lock)
    counts = []
    cache.mkdir(exist_ok=True)
    fetch.download(entry, cache, common.debian_mirrors(), counts.append)
    assert sum(counts) == entry.size
    assert min(counts) == -entry.size
