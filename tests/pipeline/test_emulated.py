"""What make test ARCH=aarch64 runs: the locked packages, and a library for the right machine."""

import subprocess
import zipfile

import common
import emulated
import pytest


def versions(lock):
    return {entry.package: entry.version for entry in common.read_requirements(lock)}


def test_the_emulated_packages_are_those_of_the_test_image():
    ours, theirs = versions(emulated.PACKAGES), versions(common.LOCKS / "requirements-test.txt")
    assert set(theirs) - set(ours) <= {"execnet", "pytest-xdist", "setuptools"}  # one process, and no torch.compile
    assert {name: ours[name] for name in ours if name != "torch"} == {
        name: theirs[name] for name in ours if name != "torch"
    }
    assert ours["torch"] == "2.10.0"  # the oldest that the library runs on


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_a_library_for_another_machine_is_refused(tmp_path, monkeypatch, machine):
    monkeypatch.setattr(emulated, "CACHE", tmp_path)
    library = tmp_path / "library.so"
    subprocess.run(["gcc", "-shared", "-nostdlib", "-x", "c", "/dev/null", "-o", library], check=True)
    body = bytearray(library.read_bytes())
    if machine == "aarch64":
        body[18:20] = (183).to_bytes(2, "little")
    wheel = tmp_path / "customops-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("customops/_cpu.so", bytes(body))
    if machine == "aarch64":
        assert emulated.library_of(wheel).read_bytes() == body
    else:
        with pytest.raises(common.Failure, match=r"holds no customops/_cpu\.so for aarch64"):
            emulated.library_of(wheel)


def test_a_test_command_finds_the_emulated_pytest(tmp_path):
    launcher = tmp_path / "with space" / "python"
    launcher.parent.mkdir()
    launcher.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    launcher.chmod(0o755)
    program = launcher.parent / "bin" / "pytest"
    emulated.write_pytest(program, launcher)
    run = subprocess.run([program, "-q", "a b"], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines() == ["-m", "pytest", "-q", "a b"]


def test_what_the_launcher_starts_is_python_to_itself(tmp_path):
    """Programs of tests start sys.executable: it must be the launcher, with spaces in its path and in arguments."""
    folder = tmp_path / "with space"
    root = folder / "root"
    (root / "usr/bin").mkdir(parents=True)
    fake = folder / "qemu"
    fake.write_text('#!/bin/sh\nprintf "%s\\n" "$PYTHONHOME" "$QEMU_LD_PREFIX" "$@"\n')
    fake.chmod(0o755)
    launcher = emulated.write_launcher(folder / "python", root, fake)
    said = subprocess.run([launcher, "-c", "a b"], capture_output=True, text=True, check=True).stdout.splitlines()
    assert said == [
        f"{root}/usr",
        str(root),
        "-cpu",
        "max",
        "-0",
        str(launcher),
        f"{root}/usr/bin/python3.11",
        "-c",
        "a b",
    ]
