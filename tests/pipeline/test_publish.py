"""The index and the upload, over HTTP on loopback, with pip and uv as the judges."""

import base64
import hashlib
import json
import os
import socket
import subprocess
import sys
import time
import types
import urllib.request
from pathlib import Path

import common
import index
import make_wheel as make_wheel_module
import publish
import pytest
import record

BIN = Path(sys.executable).parent
NAME = "customops-0.1.0+cpu-py3-none-any.whl"
FOR_MACHINES = [NAME.replace("-any", f"-manylinux_2_28_{machine}") for machine in ("aarch64", "x86_64")]
METADATA = b"Metadata-Version: 2.1\nName: customops\nVersion: 0.1.0+cpu\nSummary: a test\nRequires-Python: >=3.10\nDescription-Content-Type: text/plain\n\nA test.\n"


def make_wheel(dist, dirty=False, commit="c0ffee", name=NAME):
    """A small wheel that stands for the real one: installable where its name says, with a build record."""
    info = "customops-0.1.0+cpu.dist-info"
    source = {"commit": commit, "dirty": dirty, "date_epoch": 1700000000}
    tag = name.split("-", 2)[2].removesuffix(".whl")
    contents = {
        "customops/__init__.py": b"answer = 42\n",
        f"{info}/METADATA": METADATA,
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: {tag}\n".encode(),
        f"{info}/build.json": json.dumps({"source": source, "base": "host"}).encode(),
    }
    dist.mkdir(exist_ok=True)
    record.pack(dist / name, contents, 1700000000)
    return dist / name


@pytest.fixture
def dist(tmp_path):
    return tmp_path / "dist"


def install(tool, url, target):
    """Installs customops from an index into a folder, with pip or uv, and nothing else configured."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "UV_"))} | {
        "PIP_CONFIG_FILE": "/dev/null",
        "UV_NO_CONFIG": "1",
    }
    command = {
        "pip": [sys.executable, "-m", "pip", "install", "--no-cache-dir", "--disable-pip-version-check"],
        "uv": [BIN / "uv", "pip", "install", "--no-cache", "--python", sys.executable],
    }[tool]
    return subprocess.run(
        [*command, "--target", target, "--index-url", f"{url}/simple/", "customops"],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("tool", ["pip", "uv"])
def test_installs_from_the_index(dist, serve_folder, tmp_path, tool):
    make_wheel(dist)
    run = install(tool, serve_folder(index.write_index(dist)), tmp_path / "site")
    assert run.returncode == 0, run.stderr
    assert (tmp_path / "site/customops/__init__.py").read_text() == "answer = 42\n"


@pytest.mark.parametrize("tool", ["pip", "uv"])
def test_a_tampered_wheel_is_refused(dist, serve_folder, tmp_path, tool):
    wheel = make_wheel(dist)
    root = index.write_index(dist)
    served = root / "files" / NAME
    body = bytearray(served.read_bytes())
    body[body.index(b"PK\x01\x02") + 12] ^= 1  # a time stamp: still a valid zip, only its hash is wrong
    served.write_bytes(body)
    run = install(tool, serve_folder(root), tmp_path / "site")
    assert run.returncode != 0
    said = run.stdout + run.stderr
    assert common.sha256_of(wheel) in said
    assert hashlib.sha256(body).hexdigest() in said
    assert "customops" in said
    assert not (tmp_path / "site/customops").exists()


@pytest.mark.parametrize("name", FOR_MACHINES)
def test_each_machine_gets_its_wheel_of_the_index(dist, serve_folder, tmp_path, name):
    for each in FOR_MACHINES:
        make_wheel(dist, name=each)
    url = serve_folder(index.write_index(dist))
    pip = [sys.executable, "-m", "pip", "download", "--no-cache-dir", "--isolated", "--no-deps", "--only-binary=:all:"]
    platform = f"--platform={name.split('-')[4].removesuffix('.whl')}"
    run = [*pip, platform, f"--dest={tmp_path / 'got'}", f"--index-url={url}/simple/", "customops"]
    subprocess.run(run, check=True, capture_output=True)
    assert [path.name for path in (tmp_path / "got").iterdir()] == [name]


def test_pages(dist):
    wheel = make_wheel(dist)
    root = index.write_index(dist)
    data = json.loads((root / "simple/customops/index.json").read_text())
    (file,) = data["files"]
    assert data["meta"] == {"api-version": "1.1"}
    assert (data["name"], data["versions"]) == ("customops", ["0.1.0+cpu"])
    assert (file["filename"], file["size"], file["requires-python"]) == (NAME, wheel.stat().st_size, ">=3.10")
    assert file["hashes"] == {"sha256": common.sha256_of(wheel)}
    assert (root / "files" / f"{NAME}.metadata").read_bytes() == METADATA
    assert file["core-metadata"] == {"sha256": hashlib.sha256(METADATA).hexdigest()}
    assert json.loads((root / "simple/index.json").read_text())["projects"] == [{"name": "customops"}]
    page = (root / "simple/customops/index.html").read_text()
    assert f'#sha256={common.sha256_of(wheel)}" data-requires-python="&gt;=3.10"' in page


def test_the_index_is_made_anew(dist):
    make_wheel(dist)
    (index.write_index(dist) / "files/old.whl").touch()
    assert not (index.write_index(dist) / "files/old.whl").exists()


def test_nothing_to_index(tmp_path):
    with pytest.raises(common.Failure, match="holds no wheel: run `make wheel` first"):
        index.write_index(tmp_path)


@pytest.fixture
def upload_server(tmp_path):
    """pypiserver on loopback, with one user; yields (address, folder of uploads)."""
    folder = tmp_path / "uploads"
    folder.mkdir()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    password = tmp_path / "htpasswd"
    digest = base64.b64encode(hashlib.sha1(b"secret").digest()).decode()
    password.write_text(f"founder:{{SHA}}{digest}\n")
    server = subprocess.Popen(
        [BIN / "pypi-server", "run", "-i", "127.0.0.1", "-p", str(port), "-P", password, "--disable-fallback", folder],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    for _ in range(100):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=1).close()
            break
        except OSError:
            time.sleep(0.1)
    yield f"http://127.0.0.1:{port}", folder
    server.terminate()
    server.wait()


@pytest.fixture
def run_publish(dist, tmp_path, monkeypatch):
    """run_publish(url): publishes the wheels of dist/, as reproduced unless told otherwise."""
    monkeypatch.setenv("TWINE_USERNAME", "founder")
    monkeypatch.setenv("TWINE_PASSWORD", "secret")
    monkeypatch.setattr(publish, "CACHE", tmp_path / "cache")

    def run(url, reproduced=True):
        for wheel in dist.glob("*.whl") if reproduced else ():
            proof = tmp_path / "cache/reproduced" / common.sha256_of(wheel)
            proof.parent.mkdir(parents=True, exist_ok=True)
            proof.touch()
        monkeypatch.setattr("sys.argv", ["publish.py", "--dist", str(dist), "--repository-url", url])
        publish.main()

    return run


def test_upload_then_install(dist, upload_server, run_publish, tmp_path):
    url, uploads = upload_server
    wheel = make_wheel(dist)
    run_publish(url)
    assert (uploads / NAME).read_bytes() == wheel.read_bytes()
    run = install("pip", url, tmp_path / "site")
    assert run.returncode == 0, run.stderr
    assert (tmp_path / "site/customops/__init__.py").exists()


def test_the_wheels_of_both_machines_are_uploaded(dist, upload_server, run_publish):
    url, uploads = upload_server
    for name in FOR_MACHINES:
        make_wheel(dist, name=name)
    run_publish(url)
    assert sorted(path.name for path in uploads.iterdir()) == FOR_MACHINES


def test_two_wheels_for_one_machine_are_not_uploaded(dist, upload_server, run_publish):
    url, uploads = upload_server
    for name in (FOR_MACHINES[0], FOR_MACHINES[0].replace("2_28", "2_17")):
        make_wheel(dist, name=name)
    with pytest.raises(common.Failure, match="must hold one wheel for a machine, found 2"):
        run_publish(url)
    assert list(uploads.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "reproduced", "message"),
    [
        ({"dirty": True}, True, "was built from uncommitted changes, so nobody can rebuild it: commit them"),
        ({"commit": None}, True, r"was built outside a git checkout \(an unpacked tarball\?\) and names no commit"),
        ({}, False, r"has not been reproduced, and cannot be here \(.*\): run `make wheel reproduce` in a clone"),
    ],
)
def test_an_undeserving_wheel_is_not_uploaded(dist, upload_server, run_publish, options, reproduced, message):
    url, uploads = upload_server
    make_wheel(dist, **options)
    with pytest.raises(common.Failure, match=message):
        run_publish(url, reproduced)
    assert list(uploads.iterdir()) == []


def test_reproducing_is_advised_where_the_commit_is(dist, tmp_path):
    def git(*arguments):
        command = ["git", "-C", tmp_path, "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    wheel = make_wheel(dist, commit="0" * 40)
    with pytest.raises(common.Failure, match=r"cannot be here \(no git history here: the wheel names no commit"):
        publish.check(wheel, tmp_path)
    git("init", "--quiet")
    git("commit", "--quiet", "--allow-empty", "--message=first")
    with pytest.raises(common.Failure, match=r"cannot be here \(.* has no commit 000000000000\)"):
        publish.check(wheel, tmp_path)
    wheel = make_wheel(dist, commit=git("rev-parse", "HEAD"))
    with pytest.raises(common.Failure, match=r"has not been reproduced: run `make reproduce` on the same commit"):
        publish.check(wheel, tmp_path)


def test_a_wheel_that_installers_see_differently_is_not_uploaded(dist, upload_server, run_publish):
    url, uploads = upload_server
    wheel = make_wheel(dist)
    wheel.write_bytes(b"#!/bin/sh\n" + wheel.read_bytes())
    with pytest.raises(common.Failure, match="cannot be trusted to be one wheel for everybody"):
        run_publish(url)
    assert list(uploads.iterdir()) == []


def test_a_host_wheel_is_not_tested_in_a_container(dist):
    make_wheel(dist)
    project = types.SimpleNamespace(dist=dist)
    with pytest.raises(
        common.Failure, match=r"was built on a host: make test ENGINE=host, or make wheel ENGINE=docker"
    ):
        make_wheel_module.test_wheel(project, [], "docker", "cpu", "debian", {})
