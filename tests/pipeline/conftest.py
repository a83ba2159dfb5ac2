"""The scripts of docker/ and docker/image/ are imported as modules. Downloads and tool environments are shared with the project; dist is not touched."""

import functools
import http.server
import subprocess
import sys
import threading
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FUZZ = ROOT / "tests/fuzz"
sys.path[:0] = [str(ROOT / "docker"), str(ROOT / "docker/image"), str(FUZZ)]


@pytest.fixture(autouse=True)
def no_test_options(monkeypatch):
    """`make test TEST_OPTIONS=` chooses among the op tests of a wheel; the wheels that are built here have other tests."""
    monkeypatch.delenv("TEST_OPTIONS", raising=False)


@pytest.fixture
def root():
    return ROOT


@pytest.fixture
def s3(monkeypatch):
    """A running fake_s3.FakeS3; the environment names it and its key."""
    import fake_s3
    import s3_store

    s3_store.library()  # before a test moves the folder of its environment
    for name in ("AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_REGION", "AWS_ENDPOINT_URL_S3", "AWS_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    with fake_s3.FakeS3() as running:
        threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True).start()
        variables = {"ACCESS_KEY_ID": fake_s3.KEY_ID, "SECRET_ACCESS_KEY": fake_s3.SECRET, "ENDPOINT_URL": running.url}
        for name, value in (variables | {"EC2_METADATA_DISABLED": "true"}).items():
            monkeypatch.setenv(f"AWS_{name}", value)
        yield running
        running.shutdown()


@pytest.fixture
def lock_like_ours():
    """lock_like_ours(project, *packages): the project's lock of its build, of lines of our own."""

    def write(project, *packages):
        lines = (ROOT / "docker/locks/requirements-build.txt").read_text().splitlines()
        wanted = {"build", "packaging", "pyproject-hooks", "setuptools", *packages}
        (project / "locks").mkdir()
        lock = "".join(f"{line}\n" for line in lines if line.split("==")[0] in wanted)
        (project / "locks/requirements-build.txt").write_text(lock)

    return write


@pytest.fixture
def host_environment(lock_like_ours):
    """host_environment(project, **variables): what build-wheel.sh gets on a host, for a project without a lock."""
    import common
    import host_build
    import project_run

    def make(folder, **variables):
        lock_like_ours(folder)
        tools, project = common.virtual_environment("tools"), project_run.load(folder)
        (pair,) = project.pairs
        project_run.fetch_locks(project, pair, "build")
        built = project_run.make_environment(project, "build", pair, "host", "")
        variables |= project_run.pair_variables(pair, built) | host_build.host_variables(pair)
        return common.environment(tools, MANYLINUX="auto", **variables)

    return make


@pytest.fixture
def small_disk(tmp_path):
    """A folder on a file system of 16 kB that is full but for some bytes."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", folder]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a file system needs root")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.fixture
def sources(monkeypatch):
    """csrc/sources.py."""
    monkeypatch.syspath_prepend(str(ROOT / "csrc"))
    import sources

    return sources


@pytest.fixture
def serve_folder():
    """serve_folder(path) -> address of an HTTP server on loopback that serves it."""
    servers = []

    def start(folder):
        handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=folder)
        handler.log_message = lambda *_: None
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()
