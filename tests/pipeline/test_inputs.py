"""No step of fetch, image or build can use an input that no lock file names."""

import hashlib
import re
import subprocess

import pytest

# What a Dockerfile may copy from the build context: our own scripts and locks, and downloads, which are verified against
# a lock where they are used (install-python.sh; pip with --require-hashes; install-cuda.sh).
ALLOWED_COPY = re.compile(
    r"docker/(image|locks)/[\w.*-]+|docker/locks/aarch64/[\w.-]+|\.cache/wheels-aarch64/(torch-\*\.whl|nvidia_cuda_runtime\*)|\.cache/debian/python3\.11_\*\.orig\.tar\.gz|\.cache/wheels"
    r"|aten_stable|\.cache/wheels/nvidia_\*|\.cache/debian/nvidia-cuda-toolkit_\*\.deb"
)


@pytest.fixture(params=["Dockerfile.cpu", "Dockerfile.cuda", "docker/Dockerfile.aarch64"])
def dockerfile(root, request):
    text = (root / request.param).read_text()
    return re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE))


def test_nothing_else_is_copied(dockerfile):
    copies = re.findall(r"^COPY (?!--from)(.*)$", dockerfile, re.MULTILINE)
    assert copies
    for copy in copies:
        for source in copy.split()[:-1]:
            assert ALLOWED_COPY.fullmatch(source), source
    assert not re.search(r"^ADD ", dockerfile, re.MULTILINE)


def test_nothing_is_downloaded_and_pip_requires_hashes(dockerfile):
    assert not re.search(r"\b(curl|wget|apt-get|dnf|yum|git clone)\b", dockerfile)
    for command in re.findall(r"pip install .*", dockerfile):
        assert "--no-index" in command
        assert "--require-hashes" in command


def test_no_script_downloads_or_installs_unlocked(root):
    """Only fetch.py (and lock.py, which writes the locks) may; matrix.py installs what users would, for tests alone."""
    for script in [*root.glob("docker/**/*.sh"), *root.glob("docker/**/*.py")]:
        text = script.read_text()
        if script.name not in ("fetch.py", "lock.py", "lock_project.py"):
            tools = r"urlopen|\b(curl|wget) " + (r"|\bapt-get " if script.suffix == ".sh" else "")
            assert not re.search(tools, text), script
        if script.relative_to(root / "docker").as_posix() in (
            "common.py",
            "image/environment.py",
            "image/test_project.py",
        ):
            assert "--no-index" in text
            assert "--require-hashes" in text or "[*install, wheel]" in text


def test_every_base_is_an_argument(dockerfile):
    for base in re.findall(r"^FROM (\S+)", dockerfile, re.MULTILINE):
        assert re.fullmatch(r"\$\{(BUILD|TEST|CROSS)_(BASE|IMAGE)\}|python|tools|build", base), base


def test_every_container_runs_without_a_network(root):
    """Each list that starts an engine's build, run or create names --network=none."""
    for script in sorted((root / "docker").glob("*.py")):
        for call in re.findall(r"\[\s*engine,\s*\"(?:build|run|create)\".*?\]", script.read_text(), re.DOTALL):
            assert "--network=none" in call, f"{script.name}: {call}"
    assert '"--network=none", *create' in (root / "docker/make_wheel.py").read_text()


def test_only_the_needed_files_reach_the_builder(root):
    lines = [line for line in (root / ".dockerignore").read_text().splitlines() if not line.startswith("#")]
    assert lines[0] == "*"
    assert {line.removeprefix("!") for line in lines[1:]} == {
        "docker/image", "docker/locks", ".cache/debian/python3.11_*.orig.tar.gz", ".cache/debian/nvidia-cuda-toolkit_*.deb", ".cache/wheels", ".cache/wheels-aarch64/torch-*.whl",
        ".cache/wheels-aarch64/nvidia_cuda_runtime*", "aten_stable", "aten_stable/include/ATen/ops", "**/__pycache__",
    }  # fmt: skip


def test_another_tarball_than_the_locked_one_is_not_unpacked(root, tmp_path):
    lock = tmp_path / "debian-source.lock"
    lock.write_text(f"# make lock\n{hashlib.sha256(b'locked').hexdigest()} 6 python3.11 3.11.2 pool/python.tar.gz\n")
    (tmp_path / "python.tar.gz").write_bytes(b"another")
    run = subprocess.run(
        ["bash", root / "docker/image/install-python.sh", lock, tmp_path], capture_output=True, text=True, check=False
    )
    assert run.returncode != 0
    assert "python.tar.gz: FAILED" in run.stdout


@pytest.mark.parametrize("what", ["wheel", "package"])
def test_another_cuda_compiler_than_the_locked_one_is_not_unpacked(root, tmp_path, what):
    inputs = tmp_path / "inputs"
    inputs.mkdir()
    for name in ("cuda12", "cuda13", "cudart12"):
        (inputs / f"requirements-{name}.txt").write_text("# make lock\n")
    sha256 = "0" * 64 if what == "package" else hashlib.sha256(b"another").hexdigest()
    (inputs / "debian-cuda.lock").write_text(f"# make lock\n{sha256} 6 toolkit 1 pool/toolkit_1.deb\n")
    (inputs / "toolkit_1.deb").write_text("another")
    if what == "wheel":
        (inputs / "requirements-cuda13.txt").write_text(f"nvidia-x==1.0 --hash=sha256:{'0' * 64}\n")
        (inputs / "nvidia_x-1.0-py3-none-any.whl").write_text("another")
    run = subprocess.run(
        ["bash", root / "docker/image/install-cuda.sh", tmp_path / "out", inputs, inputs, inputs],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode != 0
    assert ("nvidia_x-1.0-py3-none-any.whl: FAILED" if what == "wheel" else "toolkit_1.deb: FAILED") in run.stdout
    assert not (tmp_path / "out").exists()


def test_a_wheel_that_is_not_locked_is_not_installed(tmp_path):
    """pip itself refuses: the lock's hash decides, not the name."""
    (tmp_path / "hello_world-1.0-py3-none-any.whl").write_bytes(b"another")
    lock = tmp_path / "requirements.txt"
    lock.write_text(f"hello-world==1.0 --hash=sha256:{'0' * 64}\n")
    run = subprocess.run(
        ["python3", "-m", "pip", "install", "--no-index", f"--find-links={tmp_path}", "--require-hashes",
         f"--target={tmp_path / 'site'}", f"--requirement={lock}"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode != 0
    assert "DO NOT MATCH THE HASHES" in run.stderr
