"""What make test ARCH=aarch64 runs: the locked packages, and a library for the right machine."""

import subprocess
import zipfile

import common
import emulated
import emulated_torch
import project_run
import pytest
from project import Pair


def versions(lock):
    return {entry.package: entry.version for entry in common.read_requirements(lock)}


def test_the_emulated_packages_are_those_of_the_test_image():
    ours, theirs = versions(emulated.PACKAGES), versions(common.LOCKS / "requirements-test.txt")
    assert set(theirs) - set(ours) <= {"execnet", "pytest-xdist", "setuptools"}  # one process, and no torch.compile
    assert {name: ours[name] for name in ours if name != "torch"} == {
        name: theirs[name] for name in ours if name != "torch"
    }
    assert ours["torch"] == "2.10.0"  # the oldest that the library runs on


def test_tests_import_what_their_lock_names(tmp_path, monkeypatch, capsys):
    """For ARM what the pipeline has for it, whatever its version; pure Python from the lock; nothing else."""
    site, wheels, folder = tmp_path / "site", tmp_path / "wheels", tmp_path / "project"
    for name, version in (("torch", "2.10.0+cpu"), ("scipy", "1.17.1")):
        (site / name).mkdir(parents=True)
        (site / f"{name}-{version}.dist-info").mkdir()
        (site / f"{name}-{version}.dist-info/RECORD").write_text(f"{name}/__init__.py,,\n")
    for path in (wheels, folder / "locks"):
        path.mkdir(parents=True)
    with zipfile.ZipFile(wheels / "einops-0.8-py3-none-any.whl", "w") as archive:
        archive.writestr("einops.py", "")
    (wheels / "pandas-3.0-cp311-cp311-manylinux_2_28_x86_64.whl").touch()
    (folder / "pyproject.toml").write_text("")
    lock = "".join(f"{name} --hash=sha256:{'0' * 64}\n" for name in ("einops==0.8", "pandas==3.0", "torch==2.13.0"))
    (folder / "locks/requirements-test.txt").write_text(lock)
    monkeypatch.setattr(emulated, "prepared", lambda: tmp_path)
    monkeypatch.setattr(emulated, "fresh_folder", lambda name: (tmp_path / name).mkdir() or tmp_path / name)
    monkeypatch.setattr(project_run, "WHEELS", wheels)
    made = emulated.environment_for(project_run.load(folder), Pair("3.11", "2.13.0"))
    assert {path.name for path in made.iterdir()} == {"torch", "bin", "einops.py"}
    assert (made / "torch").resolve() == site / "torch"
    said = capsys.readouterr().out
    assert "torch==2.10.0+cpu for 2.13.0" in said
    assert "without pandas==3.0: compiled, and docker/locks/aarch64 has none" in said


@pytest.mark.parametrize(
    ("pairs", "refused"),
    [
        ([("3.11", "2.13.0")], False),
        ([("3.13", "2.13.0")], True),
        ([("3.11", "2.13.0"), ("3.13", "2.13.0")], True),
        ([("3.11", "2.10.0"), ("3.11", "2.13.0")], True),  # the same wheel twice: there is one torch for ARM
    ],
)
def test_one_python_and_one_torch_are_emulated(pairs, refused):
    pairs = [Pair(*pair) for pair in pairs]
    if not refused:
        return emulated.check_pairs(pairs)
    with pytest.raises(common.Failure, match=f"PYTHONS=3.11 TORCHES={pairs[0].torch}"):
        emulated.check_pairs(pairs)


def test_torches_are_those_that_are_locked(tmp_path):
    for version, lock in emulated_torch.locked().items():
        assert versions(lock)["torch"] == version
    with pytest.raises(common.Failure, match=r"no lock of torch 1\.0, it has 2\.13\.0"):
        emulated_torch.prepared("1.0", tmp_path)


def test_libraries_that_are_missing_are_empty_ones(tmp_path):
    """What torch names and nobody has; not what it has itself, or the CUDA runtime or the system."""
    site, root = tmp_path / "site", tmp_path / "root"
    own = site / "torch/lib"
    for path in (own / "libtorch_cuda.so", site / "nvidia/cu13/lib/libcudart.so.13", root / "lib/libm.so.6"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    command = ["gcc", "-shared", "-nostdlib", "-x", "c", "/dev/null", "-o"]
    wanted = [tmp_path / name for name in ("libcublas.so.13", "libtorch_cuda.so", "libcudart.so.13", "libm.so.6")]
    for path in wanted:
        subprocess.run([*command, path, f"-Wl,-soname={path.name}"], check=True)
    subprocess.run([*command, own / "libtorch.so", "-Wl,--no-as-needed", "-x", "none", *wanted], check=True)
    subprocess.run([*command, own / "libtorch_cuda.so"], check=True)
    assert emulated_torch.link_missing(site, root) == ["libcublas.so.13"]
    assert (own / "libcublas.so.13").readlink().name == emulated_torch.EMPTY


def test_emulated_programs_read_of_an_arm_processor(tmp_path):
    emulated.describe_processor(tmp_path)
    assert "CPU implementer\t: 0x41\n" in (tmp_path / "proc/cpuinfo").read_text()
    assert (tmp_path / "sys/devices/system/cpu/possible").read_text() == "0\n"


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
        "max,sme=off",
        "-0",
        str(launcher),
        f"{root}/usr/bin/python3.11",
        "-c",
        "a b",
    ]
