"""Every project of tests/projects that needs no GPU compiler, through the factory: what comes out, or what is said.

The gate has time for some, most of them in one place. All of them, in containers and on the host:

    CUSTOMOPS_EVERY_PROJECT=1 .cache/venv/pipeline/bin/pytest tests/pipeline/test_projects.py
"""

import json
import os
import shutil
import subprocess
import sys

import elf
import engine
import images
import pytest
from wheelfile import Wheel

ENGINE = engine.choose("auto")[0]
HAS_IMAGES = ENGINE != "host" and all(
    images.inspect(ENGINE, name, "{{.Id}}") for name in images.digest_names("cpu", "debian").values()
)
in_container = pytest.param(
    ENGINE, marks=pytest.mark.skipif(not HAS_IMAGES, reason="no container engine, or no images yet: make image")
)
on_demand = pytest.mark.skipif(
    not os.environ.get("CUSTOMOPS_EVERY_PROJECT"), reason="CUSTOMOPS_EVERY_PROJECT is not set"
)
on_both = pytest.mark.parametrize("where", ["host", in_container])
in_one = pytest.mark.parametrize("where", [ENGINE if HAS_IMAGES else "host"])
in_one_or_on_demand = pytest.mark.parametrize(
    "where", [pytest.param("host", marks=on_demand if HAS_IMAGES else ()), in_container]
)


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """What is downloaded and installed is shared; what a run writes is not."""
    own, root = tmp_path_factory.mktemp("cache"), images.ROOT
    for name in ("debian", "wheels", "wheels-aarch64", "venv", "project-wheels", "environments", "pythons"):
        (root / ".cache" / name).mkdir(parents=True, exist_ok=True)
        (own / name).symlink_to(root / ".cache" / name)
    return own


@pytest.fixture
def factory(root, cache, tmp_path):
    """factory(script, project, engine, *options) -> the finished process; the project is a copy, in `factory.project`."""

    def run(script, name, where, *options):
        source = root / "tests/projects" / name  # or a folder of its own
        run.project = tmp_path / source.name
        shutil.copytree(source, run.project, ignore=shutil.ignore_patterns("dist"))
        step = ["wheel"] if script == "make_wheel.py" else []
        command = [
            sys.executable,
            root / "docker" / script,
            *step,
            f"--engine={where}",
            f"--project={run.project}",
            *options,
        ]
        env = os.environ | {"CUSTOMOPS_CACHE": str(cache)}
        return subprocess.run(command, env=env, capture_output=True, text=True, check=False)

    return run


def the_wheel(run, project):
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-3000:]
    (path,) = (project / "dist").glob("*.whl")
    return Wheel(path)


@in_one_or_on_demand
def test_the_limited_api_gives_one_wheel(factory, where):
    run = factory("make_wheel.py", "abi3-c", where)
    wheel = the_wheel(run, factory.project)
    assert all(tag.startswith("cp310-abi3-manylinux") for tag in wheel.tags())
    assert wheel.version == "0.3.0"  # no torch, no label
    assert wheel.build_record()["linked_statically"] == []
    assert not [name for name in wheel.names if "/licenses/" in name]  # nothing of others is in it


def plain_run(project):
    """docker run -v "$PWD":/project customops-build:cpu, with the name of this checkout's image."""
    image = images.digest_names("cpu", "debian")["build"]
    command = [ENGINE, "run", "--rm", "--network=none", f"--volume={project}:/project", image]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", ["abi3-c", pytest.param("pybind11-aten", marks=on_demand)])
@pytest.mark.parametrize("where", [in_container])
def test_plain_docker_run_gives_the_same_bytes(factory, where, name):
    """Without wheels beside it: the image holds all that the lock names."""
    made = the_wheel(factory("make_wheel.py", name, where), factory.project)
    before = made.path.read_bytes()
    shutil.rmtree(factory.project / "dist")
    assert the_wheel(plain_run(factory.project), factory.project).path.read_bytes() == before


@on_demand
@on_both
def test_a_namespace_with_two_modules_and_a_data_file(factory, where):
    run = factory("make_wheel.py", "two-modules", where)
    wheel = the_wheel(run, factory.project)
    assert "acme.ledger: with Python 3.11" in run.stdout  # imported, before its tests ran
    assert {"acme/ledger/rates.csv", "acme/ledger/__init__.py"} <= set(wheel.names)
    assert len([name for name in wheel.names if name.endswith(".so")]) == 2


@on_demand
@on_both
def test_each_cpython_gets_a_wheel_that_its_own_pytest_has_tested(factory, where):
    """The image's pytest is for CPython 3.11, which cannot import the other's module."""
    run = factory("make_wheel.py", "scikit-build-core", where, "--pythons=3.11 3.13")
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-3000:]
    tags = sorted(path.name.split("-")[2] for path in (factory.project / "dist").glob("*.whl"))
    assert tags == ["cp311", "cp313"]
    assert [f"with Python {python}" in run.stdout for python in ("3.11", "3.13")] == [True, True]
    assert run.stdout.count("6 passed") == 2


@on_demand
@pytest.mark.parametrize("where", [in_container])
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("abi3-c", "popcount: with Python 3.11"),
        ("meson-python", "7 passed"),
        ("scikit-build-core", "6 passed"),
        ("two-modules", "acme.ledger: with Python 3.11"),
        ("pybind11-aten", "4 passed"),
        ("torch-library-aten", "9 passed"),
    ],
)
def test_a_wheel_for_arm_passes_its_tests_under_qemu(factory, where, name, said):
    run = factory("make_wheel.py", name, where, "--arch=aarch64")
    wheel = the_wheel(run, factory.project)
    assert {elf.read(wheel.read(file)).machine for file in wheel.names if file.endswith(".so")} == {"aarch64"}
    assert said in run.stdout


@on_demand
@pytest.mark.parametrize("where", [in_container])
def test_meson_builds_at_another_time(factory, where):
    """It compares the times of sources with the clock, which libfaketime sets."""
    run = factory("reproduce.py", "meson-python", where)
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-3000:]
    assert "gave the same bytes" in run.stdout


@pytest.mark.parametrize("where", [in_container])
def test_an_aten_wheel_requires_its_torch(factory, where):
    run = factory("make_wheel.py", "pybind11-aten", where)
    wheel = the_wheel(run, factory.project)
    assert wheel.path.name.startswith("softclip-1.2.0+torch2.13.0.cpu-cp311-cp311-manylinux")
    assert [line for line in wheel.metadata()["requires-dist"] if "torch" in line] == ["torch==2.13.0"]
    record = wheel.build_record()
    (library,) = record["torch_symbols"]
    taken = {symbol.name for symbol in elf.read(wheel.read(library)).symbols if not symbol.defined}
    assert set(record["torch_symbols"][library]) <= taken
    assert record["torch"].startswith("2.13.0")
    lock = (factory.project / "locks/requirements-build.txt").read_text().splitlines()
    assert record["requirements"] == [line for line in lock if not line.startswith("#")]
    assert "4 passed" in run.stdout
    statement = json.loads((wheel.path.parent / f"{wheel.path.name}.provenance.json").read_text())
    inputs = {entry["name"] for entry in statement["predicate"]["buildDefinition"]["resolvedDependencies"]}
    assert any(name.startswith("torch==2.13.0") for name in inputs)


@in_one
@pytest.mark.parametrize(
    ("name", "module", "passed"),
    [
        ("scikit-build-core", "movemax", "6 passed"),
        pytest.param("meson-python", "ringdist", "7 passed", marks=on_demand),
    ],
)
def test_other_build_backends(factory, where, name, module, passed):
    run = factory("make_wheel.py", name, where)
    wheel = the_wheel(run, factory.project)
    assert all(tag.startswith("cp311-cp311-manylinux") for tag in wheel.tags())
    assert f"{module}: with Python 3.11" in run.stdout
    assert passed in run.stdout


@on_demand
@in_one
def test_ops_without_pybind11_need_one_torch_and_any_cpython(factory, where):
    run = factory("make_wheel.py", "torch-library-aten", where)
    wheel = the_wheel(run, factory.project)
    assert wheel.version == "0.5.0+torch2.13.0.cpu"
    assert [line for line in wheel.metadata()["requires-dist"] if "torch" in line] == ["torch==2.13.0"]


@on_both
def test_a_download_is_named(factory, where):
    run = factory("make_wheel.py", "downloads", where)
    assert run.returncode == 1
    assert run.stderr.splitlines()[-1] == (
        "error: the build tried to reach headers.example.com, and a build has no network: put what it downloads into the project, "
        "or into a package that [build-system] requires names"
    )
    assert not (factory.project / "dist").exists()


@on_both
def test_a_compile_error_is_the_compilers_message_and_no_more(factory, where):
    run = factory("make_wheel.py", "compile-error", where)
    assert run.returncode == 1
    said = run.stderr.splitlines()
    assert said[-1] == "error: broken.cpp failed to compile: the compiler's message is above"
    assert where != "host" or len(said) == 1
    assert "Traceback" not in run.stderr
    assert "Command [" not in run.stderr  # how cibuildwheel names what it started
    lines = run.stdout.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("broken.cpp: In function"))
    assert "broken.cpp:1:23: error: " in lines[start + 1]
    assert lines[start + 2].split("|")[1].strip() == "int answer() { return forty_two; }"
    assert not [line for line in lines[start + 4 :] if "Traceback" in line or line.startswith("ERROR")]


def test_what_differs_is_named_with_its_reason(factory):
    run = factory("reproduce.py", "unrepeatable", "host")
    assert run.returncode == 1
    assert run.stderr.splitlines()[-1] == "error: the two builds differ, see above"
    lines = run.stdout.splitlines()
    start = next(number for number, line in enumerate(lines) if line.endswith(".so differs"))
    assert lines[start].strip().startswith("unrepeatable.cpython-311")
    assert "a path of the build: " in lines[start + 1]
    assert "the time of the build: " in lines[start + 1]
