"""A wheel for another machine: what the build is told, what the check refuses, what the record says. No cross compiler runs."""

import configparser
import json
import os
import platform
import shutil
import subprocess
import sys
import zipfile

import check_wheel
import common
import fetch
import images
import lockfile
import make_wheel
import provenance
import pytest
import record
import target
import torch_pinned
import verify
from test_check_wheel import library, wheel  # noqa: F401, the fixtures
from test_record import facts, raw_wheel, read  # noqa: F401, the fixtures

OTHER = {"x86_64": "aarch64", "aarch64": "x86_64"}[platform.machine()]
EM = {"x86_64": 62, "aarch64": 183}
TAG = """
from setuptools import Distribution, Extension
distribution = Distribution({"name": "toy", "version": "1", "ext_modules": [Extension("toy", ["toy.c"])]})
build = distribution.get_command_obj("build_ext")
build.ensure_finalized()
wheel = distribution.get_command_obj("bdist_wheel")
wheel.ensure_finalized()
print(wheel.get_tag()[2], build.get_ext_filename("toy"))
from setuptools._distutils.ccompiler import new_compiler
from setuptools._distutils.sysconfig import customize_compiler
compiler = new_compiler()
customize_compiler(compiler)
print(*compiler.compiler_so)
print(*compiler.linker_so)
"""


def code_for(machine, body):
    """A library whose header names a machine."""
    return body[:18] + EM[machine].to_bytes(2, "little") + body[20:]


def test_without_a_target_nothing_changes(monkeypatch):
    monkeypatch.delenv("CUSTOMOPS_TARGET", raising=False)
    assert target.machine() == platform.machine()
    assert target.variables(sys.executable) == {}
    monkeypatch.setenv("CUSTOMOPS_TARGET", platform.machine())
    assert target.variables(sys.executable) == {}


def test_setuptools_compiles_links_and_tags_for_the_target(monkeypatch, tmp_path):
    """Torch's headers and libraries of the other machine come before every other folder."""
    tools = common.virtual_environment("tools")
    for name in ("CC", "CXX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CUSTOMOPS_TARGET", OTHER)
    monkeypatch.setenv("CUSTOMOPS_TARGET_SITE", "/other")
    environment = os.environ | target.variables(tools / "python")
    (setuptools,) = [
        entry
        for entry in common.read_requirements(common.LOCKS / "requirements-test.txt")
        if entry.package == "setuptools"
    ]
    lock = tmp_path / "requirements.txt"
    lock.write_text(f"{setuptools.path} --hash=sha256:{setuptools.sha256}\n")
    fetch.fetch_wheels(lock, common.CACHE / "wheels")
    zipfile.ZipFile(fetch.find_wheel(common.CACHE / "wheels", setuptools.path)).extractall(tmp_path)
    run = subprocess.run([tools / "python", "-c", TAG], cwd=tmp_path, env=environment | {"PYTHONPATH": str(tmp_path)},
                         capture_output=True, text=True, check=True)  # fmt: skip
    names, compile_command, link = run.stdout.splitlines()
    assert names == f"linux_{OTHER} toy.cpython-311-{OTHER}-linux-gnu.so"
    assert compile_command.startswith(f"{OTHER}-linux-gnu-gcc ")
    assert "-I/other/torch/include -I/other/torch/include/torch/csrc/api/include" in compile_command
    assert link.startswith(f"{OTHER}-linux-gnu-gcc -shared -L/other/torch/lib ")


@pytest.mark.parametrize("tagged", ["x86_64", "aarch64"])
@pytest.mark.parametrize("compiled", ["x86_64", "aarch64"])
def test_a_wheel_of_one_machine_holds_libraries_for_it_alone(wheel, library, compiled, tagged):  # noqa: F811
    files = {"customops/_cpu.so": code_for(compiled, library({"memcpy": ("libc.so.6", "GLIBC_2.17")}))}
    path = wheel(files, tag=f"py3-none-manylinux_2_28_{tagged}")
    expected = f"library: customops/_cpu.so is for {compiled}, the wheel's tag says {tagged}"
    assert (expected in check_wheel.check(path)[0]) == (compiled != tagged)
    assert (expected in torch_pinned.check(path, 40)[0]) == (compiled != tagged)
    assert not [problem for problem in check_wheel.check(path)[0] if problem.startswith("tag:")]


@pytest.mark.parametrize("named", ["x86_64", "aarch64"])
def test_a_module_is_named_after_its_machine(wheel, library, named):  # noqa: F811
    name = f"customops/_core.cpython-311-{named}-linux-gnu.so"
    body = code_for("aarch64", library({"memcpy": ("libc.so.6", "GLIBC_2.17")}))
    found = torch_pinned.check(wheel({name: body}, tag="cp311-cp311-manylinux_2_28_aarch64"), 40)[0]
    expected = f"library: {name} is for aarch64, where CPython does not look for a module of this name"
    assert (expected in found) == (named != "aarch64")


def test_the_other_machine_s_wheel_is_not_taken_for_this_one_s(tmp_path):
    names = [f"theirs-1.0-py3-none-manylinux_2_28_{machine}.whl" for machine in (OTHER, "x86_64")]
    for name in (*names, "pure-1.0-py3-none-any.whl"):
        (tmp_path / name).touch()
    assert [path.name for path in images.own_wheels(tmp_path)] == ["pure-1.0-py3-none-any.whl", names[1]]


def test_verify_installs_the_torch_of_the_build_machine():
    locked = ["ninja==1.13 --hash=sha256:" + "ab" * 32, "torch==2.13.0 --hash=sha256:" + "cd" * 32]
    own = {"torch": "2.13.0+cpu", "requirements": locked}
    assert verify.torch_of(own) == "2.13.0+cpu"
    assert verify.torch_of(own | {"torch": "2.10.0", "machine": "aarch64"}) == "2.13.0"
    assert verify.torch_of({"requirements": locked[:1], "machine": "aarch64"}) is None


def test_cmake_is_told_the_machine_by_a_toolchain_file(monkeypatch, tmp_path):
    """Compiler, processor, torch and the name of a module, as CMake itself understands the file."""
    if shutil.which("cmake") is None:
        pytest.skip("no cmake on the PATH")
    for command in ("gcc", "g++"):
        (tmp_path / f"{OTHER}-linux-gnu-{command}").symlink_to(shutil.which(command))
    monkeypatch.setenv("CUSTOMOPS_TARGET", OTHER)
    monkeypatch.setenv("CUSTOMOPS_TARGET_SITE", "/other")
    for name in ("CC", "CXX"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.21)\nproject(toy LANGUAGES CXX)\n"
        'message(STATUS "told ${CMAKE_CROSSCOMPILING} ${CMAKE_SYSTEM_PROCESSOR} ${Torch_DIR} ${PYTHON_MODULE_EXTENSION}")\n'
    )
    env = os.environ | target.variables(sys.executable) | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    run = subprocess.run(
        ["cmake", "-S", tmp_path, "-B", tmp_path / "build"], env=env, capture_output=True, text=True, check=True
    )
    suffix = f".cpython-{sys.version_info[0]}{sys.version_info[1]}-{OTHER}-linux-gnu.so"
    assert f"told TRUE {OTHER} /other/torch/share/cmake/Torch {suffix}" in run.stdout
    assert f"/{OTHER}-linux-gnu-g++" in run.stdout


def test_sysconfig_names_modules_for_the_target(monkeypatch, tmp_path):
    """FindPython of CMake, Meson and nanobind ask it, and no variable of theirs says otherwise."""
    asked = "import sysconfig; print(*map(sysconfig.get_config_var, ('EXT_SUFFIX', 'SOABI', 'MULTIARCH', 'prefix')))"

    def said(variables):
        env = os.environ | variables | {"PYTHONPATH": str(tmp_path)}
        return subprocess.check_output([sys.executable, "-c", asked], env=env, text=True).split()

    own = said(target.describe_python(sys.executable, tmp_path))
    monkeypatch.setenv("CUSTOMOPS_TARGET", OTHER)
    *names, prefix = said(target.describe_python(sys.executable, tmp_path))
    assert names == [name.replace(platform.machine(), OTHER) for name in own[:3]]
    assert OTHER in names[0] and prefix == own[3]


def test_meson_is_told_the_machine_by_a_cross_file(monkeypatch, tmp_path):
    """A tool that a project's meson.build asks for runs on this machine; one that is not there is not named."""
    tool = tmp_path / "numpy-config"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    for name in ("CC", "CXX"):
        monkeypatch.delenv(name, raising=False)
    assert target.config_settings("mesonpy", str(tmp_path), tmp_path) == []
    monkeypatch.setenv("CUSTOMOPS_TARGET", OTHER)
    assert target.config_settings("setuptools.build_meta", str(tmp_path), tmp_path) == []
    assert target.config_settings("mesonpy", str(tmp_path), tmp_path) == [
        f"setup-args=--cross-file={tmp_path}/cross.ini"
    ]
    found = configparser.ConfigParser()
    found.read(tmp_path / "cross.ini")
    assert found["binaries"]["cpp"] == f"'{OTHER}-linux-gnu-g++'"
    assert found["binaries"]["numpy-config"] == f"'{tool}'" and "cython" not in found["binaries"]
    assert found["host_machine"]["cpu_family"] == f"'{OTHER}'"


def test_a_wheel_of_two_machines_is_refused(wheel):  # noqa: F811
    both = ["py3-none-manylinux_2_28_aarch64", "py3-none-manylinux_2_28_x86_64"]
    path = wheel(tag="py3-none-manylinux_2_28_aarch64.manylinux_2_28_x86_64", inner_tag="\nTag: ".join(both))
    problems = check_wheel.check(path)[0]
    assert any(problem.startswith("tag: expected py3-none-manylinux_2_N_x86_64 or _aarch64") for problem in problems)
    assert any("the wheel's tag says aarch64 and x86_64" in problem for problem in problems)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="crosses to aarch64")
def test_the_record_names_the_machine_and_the_cross_compilers_packages(raw_wheel, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.setenv("CUSTOMOPS_TARGET", "aarch64")
    monkeypatch.setenv("CUSTOMOPS_BUILD_IMAGE", "debian")
    monkeypatch.setenv("CXX", "g++")
    major = subprocess.check_output(["g++", "-dumpversion"], text=True).split(".")[0].strip()
    names = [f"{name}-arm64-cross" for name in (f"libstdc++-{major}-dev", f"libgcc-{major}-dev", "libc6-dev")]
    below, cross = tmp_path / "debian-build.lock", tmp_path / "debian-cross.lock"
    below.write_text(f"# make lock\n{'ab' * 32} 10 libc6-dev 2.0 pool/z.deb\n")
    cross.write_text("# make lock\n" + "".join(f"{'cd' * 32} 10 {name} 1.0 pool/{name}.deb\n" for name in names))
    monkeypatch.setattr(record, "BASE_LOCK", below)
    monkeypatch.setattr(record, "CROSS_LOCK", cross)
    monkeypatch.setattr(record, "DOC", tmp_path / "doc")
    for name in names:
        (tmp_path / "doc" / name).mkdir(parents=True)
        (tmp_path / "doc" / name / "copyright").write_text("terms")
    path = raw_wheel("one")
    record.complete(path)
    found = read(path, "build.json")
    assert found["machine"] == "aarch64"
    assert [package["name"] for package in found["linked_statically"]] == names
    assert "debian-build.lock sha256" in found["base"] and "debian-cross.lock sha256" in found["base"]
    components = read(path, "sboms/customops.cdx.json")["components"]
    assert components[2]["purl"] == "pkg:deb/debian/libc6-dev-arm64-cross@1.0?arch=all"
    assert components[2]["licenses"] == [{"expression": "LGPL-2.1-or-later"}]


def test_provenance_names_the_cross_compiler_and_torch_of_the_target(root):
    locks = root / "docker/locks"
    own, arm = ({item["name"] for item in provenance.materials(locks, "Debian 11 packages", False, machine=machine)}
                for machine in ("x86_64", "aarch64"))  # fmt: skip
    cross = {entry.path.rsplit("/", 1)[1] for entry in lockfile.read_debian(locks / "aarch64/debian-cross.lock")}
    assert arm - own == cross | {"torch==2.10.0"}
    assert own < arm
    runtimes = {"nvidia-cuda-runtime==13.0.96", "nvidia-cuda-runtime-cu12==12.9.79"}
    linked = {
        (item["name"], item["digest"]["sha256"])
        for item in provenance.materials(locks, "Debian 11 packages", True, machine="aarch64")
    }
    not_linked = {
        (item["name"], item["digest"]["sha256"]) for item in provenance.materials(locks, "Debian 11 packages", True)
    }
    assert {name for name, _ in linked - not_linked} == {entry for entry in arm - own} | runtimes


def test_the_sbom_names_the_cuda_runtime_of_the_target(monkeypatch):
    """The same version as on x86-64 and another file."""
    found = {}
    for machine in ("x86_64", "aarch64"):
        monkeypatch.setenv("CUSTOMOPS_TARGET", machine)
        found[machine] = {p["name"]: p for p in record.cuda_packages(["cuda12", "cuda13"])}
    assert found["x86_64"].keys() == found["aarch64"].keys()
    for name, package in found["aarch64"].items():
        own = found["x86_64"][name]
        assert package["version"] == own["version"]
        assert (package["sha256"] == own["sha256"]) == ("cccl" in name)


def test_the_cross_compiler_is_the_images_own_gcc(root):
    """Of the same release and version, and without a second copy of a package that the image has."""
    entries = [
        lockfile.read_debian(root / "docker/locks" / name)
        for name in ("debian-build.lock", "aarch64/debian-cross.lock")
    ]
    below, cross = ({entry.package: entry.version for entry in lock} for lock in entries)
    assert cross["g++-10-aarch64-linux-gnu"].startswith(below["g++-10"])
    assert not below.keys() & cross.keys()
    assert {name for name in cross if name.startswith("libc6")} == {"libc6-arm64-cross", "libc6-dev-arm64-cross"}


def test_a_step_takes_the_wheel_of_its_machine(root, tmp_path):
    """In the environment of that step, which has cibuildwheel."""
    python = common.virtual_environment("tools") / "python"
    for machine in ("x86_64", "aarch64"):
        (tmp_path / f"toy-1-py3-none-manylinux_2_28_{machine}.whl").touch()

    def found(**variables):
        code = "import pathlib, project, test_project; print(test_project.wheel_for(pathlib.Path(%r), project.Pair('3.11', '2.13.0')))"
        run = subprocess.run([python, "-c", code % str(tmp_path)], capture_output=True, text=True, check=False,
                             env=common.environment(PYTHONPATH=str(root / "docker/image"), **variables))  # fmt: skip
        return run.stdout + run.stderr

    assert f"_{platform.machine()}.whl" in found()
    assert f"_{OTHER}.whl" in found(CUSTOMOPS_TARGET=OTHER)
    next(tmp_path.glob(f"*_{OTHER}.whl")).unlink()
    assert "must hold exactly one wheel" in found(CUSTOMOPS_TARGET=OTHER)


@pytest.mark.parametrize("machine", images.MACHINES)
def test_a_new_wheel_replaces_those_of_its_machine_alone(tmp_path, monkeypatch, machine):
    class Project:
        dist = tmp_path / "dist"

    def name(version, machine):
        return f"toy-{version}-py3-none-manylinux_2_28_{machine}.whl"

    Project.dist.mkdir()
    for other in images.MACHINES:
        for file in (name(1, other), name(1, other) + ".provenance.json"):
            (Project.dist / file).touch()
    out = tmp_path / "out"
    out.mkdir()
    info = {"source": {"commit": None, "dirty": True}, "base": "host"}
    record.pack(out / name(2, machine), {"toy-2.dist-info/build.json": json.dumps(info).encode()}, 0)
    make_wheel.publish(Project, out)
    (kept,) = set(images.MACHINES) - {machine}
    wheels = {name(2, machine), name(1, kept)}
    assert {path.name for path in Project.dist.iterdir()} == wheels | {f"{file}.provenance.json" for file in wheels}


def test_the_image_for_another_machine_is_named_after_what_it_is_made_from(root, tmp_path):
    assert images.digest_names("cuda", "debian", machine="aarch64")["build"].startswith("customops-build:cuda-aarch64-")
    names = images.digest_names("cpu", "debian", machine="aarch64")
    assert set(names) == {"build"}
    assert names["build"].startswith("customops-build:cpu-aarch64-")
    assert names != images.digest_names("cpu", "debian")
