"""What a CUDA build compiles, with what, and how many at a time. No compiler is needed: nvcc is a script here."""

import json
import os
import re
import subprocess
import sys

import pytest


@pytest.fixture
def modules(root, monkeypatch):
    monkeypatch.syspath_prepend(str(root / "csrc"))
    monkeypatch.delenv("MAX_JOBS", raising=False)
    import jobs
    import nvcc

    return nvcc, jobs


@pytest.fixture
def nvcc(modules):
    return modules[0]


@pytest.fixture
def jobs(modules):
    return modules[1]


@pytest.fixture
def homes(tmp_path, monkeypatch):
    """homes(cuda12="12.4.131", cuda13="13.0.88"): CUDA homes whose nvcc says that it is of this version."""

    def make(**versions):
        for name in ("cuda12", "cuda13"):
            monkeypatch.setenv(f"{name.upper()}_HOME", str(tmp_path / name))
        for name, version in versions.items():
            program = tmp_path / name / "bin/nvcc"
            program.parent.mkdir(parents=True)
            release = ".".join(version.split(".")[:2])
            program.write_text(f"#!/bin/sh\necho 'Cuda compilation tools, release {release}, V{version}'\n")
            program.chmod(0o755)
            (tmp_path / name / "lib64").mkdir()
            (tmp_path / name / "lib64/libcudart_static.a").touch()

    return make


def test_a_release_serves_volta_to_blackwell_and_what_comes_after(nvcc):
    assert nvcc.architectures(None) == nvcc.architectures("") == {
        "cuda12": ("70", "80", "90+PTX"),
        "cuda13": ("100", "120"),
    }  # fmt: skip
    assert nvcc.label(nvcc.RELEASE) == ""
    spelled_out = " ".join(f"{name}:{arch}" for name, archs in nvcc.RELEASE.items() for arch in archs)
    assert nvcc.architectures(spelled_out) == nvcc.RELEASE


def test_a_cross_build_for_arm_has_its_own_release_list(root):
    code = "import sys; sys.path.insert(0, 'csrc'); import nvcc; print(nvcc.RELEASE, nvcc.TARGET, nvcc.label(nvcc.RELEASE) == '')"
    for machine, *expected in (
        ("linux-aarch64", "('75', '80', '90+PTX')", "('100', '110', '120')", "sbsa-linux True"),
        ("linux-x86_64", "('70', '80', '90+PTX')", "('100', '120')", "x86_64-linux True"),
    ):
        env = os.environ | {"_PYTHON_HOST_PLATFORM": machine}
        run = subprocess.run(
            [sys.executable, "-c", code], cwd=root, env=env, capture_output=True, text=True, check=True
        )
        assert all(words in run.stdout for words in expected), run.stdout


@pytest.mark.parametrize(
    ("wanted", "chosen", "label"),
    [
        ("90", {"cuda12": ("90",)}, "+cuda12.sm90"),
        ("9.0 10.0", {"cuda12": ("90",), "cuda13": ("100",)}, "+cuda12.sm90.cuda13.sm100"),
        ("80;8.9+PTX", {"cuda12": ("80", "89+PTX")}, "+cuda12.sm80.sm89ptx"),
        ("cuda13:90, cuda12:90", {"cuda12": ("90",), "cuda13": ("90",)}, "+cuda12.sm90.cuda13.sm90"),
    ],
)
def test_cuda_archs_narrows_the_list_and_the_version_says_so(nvcc, wanted, chosen, label):
    assert nvcc.architectures(wanted) == chosen
    assert nvcc.label(chosen) == label


@pytest.mark.parametrize("wanted", ["hopper", "9", "90a", "sm_90", "cuda14:90", "90PTX"])
def test_wrong_cuda_archs(nvcc, wanted):
    with pytest.raises(SystemExit, match=r"CUDA_ARCHS: expected entries such as 90, 9\.0, 90\+PTX or cuda13:90"):
        nvcc.architectures(wanted)


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ("35", "nvcc of CUDA 12 does not compile for 35, which '35' asks for; it does for 70, 72, 75"),
        ("90 999", "nvcc of CUDA 13 does not compile for 999, .* it does for 75, .*, 121$"),
        ("cuda13:70", "nvcc of CUDA 13 does not compile for 70, which 'cuda13:70' asks for; it does for 75"),
        ("cuda12:100+PTX", "nvcc of CUDA 12 does not compile for 100, .*, 90$"),
    ],
)
def test_architectures_that_the_compiler_does_not_know(nvcc, wanted, message):
    with pytest.raises(SystemExit, match=f"CUDA_ARCHS: {message}"):
        nvcc.architectures(wanted)


@pytest.mark.parametrize(
    ("versions", "archs", "message"),
    [
        ({}, "", "a CUDA build needs nvcc of CUDA 12, and .*/cuda12/bin/nvcc is not there: set CUDA12_HOME"),
        ({"cuda12": "12.4.131"}, "", "needs nvcc of CUDA 13, and .*/cuda13/bin/nvcc is not there"),
        ({"cuda12": "13.0.88"}, "90", "cuda12/bin/nvcc is of CUDA 13, 12 is needed"),
    ],
)
def test_a_missing_or_wrong_compiler_stops_the_build_at_once(root, homes, versions, archs, message):
    homes(**versions)
    code = "import sys; sys.path.insert(0, 'csrc'); import nvcc; nvcc.variant()"
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=root, env=os.environ | {"CUSTOMOPS_VARIANT": "cuda", "CUDA_ARCHS": archs},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 1
    assert run.stderr.startswith("error: ")
    assert len(run.stderr.splitlines()) == 1
    assert re.search(message, run.stderr)


def test_a_toolkit_without_the_static_runtime(nvcc, homes, tmp_path):
    homes(cuda12="12.4.131")
    (tmp_path / "cuda12/lib64/libcudart_static.a").unlink()
    with pytest.raises(SystemExit, match=r"cuda12 has no libcudart_static\.a in lib64 or lib"):
        nvcc.home("cuda12")


def test_what_an_earlier_variant_left_is_removed(nvcc, tmp_path):
    for name in ("_cpu.so", "_cuda12.so", "_cuda13.so", "_cuda.json", "_cuda.py"):
        (tmp_path / name).touch()
    nvcc.remove_stale(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["_cpu.so", "_cuda.py"]


@pytest.mark.parametrize("wanted", ["80;8.9+PTX", "80 cuda12:89+PTX", "80,8.9+PTX, 80"])
def test_containers_get_one_spelling(wanted):
    import make_wheel

    assert make_wheel.cuda_architectures("cuda", wanted) == {"CUDA_ARCHS": "cuda12:80,cuda12:89+PTX"}


def test_the_factorys_compilers_know_what_our_sources_are_compiled_for(nvcc):
    import architectures

    for library, known in nvcc.KNOWN.items():
        assert set(known) <= set(architectures.KNOWN[library])


@pytest.mark.parametrize(
    ("wanted", "for_torch"), [("90+PTX cuda13:10.0", "9.0+PTX;10.0"), ("90a,8.6", "9.0a;8.6"), ("80 cuda13:80", "8.0")]
)
def test_architectures_as_torch_names_them(wanted, for_torch):
    import architectures

    assert architectures.torch_list(wanted) == for_torch


def test_unknown_variant(nvcc, monkeypatch):
    monkeypatch.setenv("CUSTOMOPS_VARIANT", "gpu")
    with pytest.raises(SystemExit, match="CUSTOMOPS_VARIANT must be cpu or cuda, got 'gpu'"):
        nvcc.variant()


def test_description_for_the_loader(nvcc, homes):
    homes(cuda12="12.4.131", cuda13="13.0.88")
    found = nvcc.description(nvcc.RELEASE)
    assert json.loads(json.dumps(found)) == {
        "cuda12": {"machine_code": [70, 80, 90], "ptx": [90], "driver": 12000, "driver_for_ptx": 12040},
        "cuda13": {"machine_code": [100, 120], "ptx": [], "driver": 13000, "driver_for_ptx": 13000},
    }
    assert nvcc.record(nvcc.RELEASE)["cuda13"]["nvcc"] == "13.0.88"


@pytest.mark.parametrize(
    ("own", "files", "expected"),
    [
        ("0::/\n", {"cpu.max": "150000 100000", "memory.max": "3000000000"}, (1.5, 3e9)),
        ("0::/\n", {"cpu.max": "max 100000", "memory.max": "max"}, (float("inf"), float("inf"))),
        ("0::/a/b\n", {"a/cpu.max": "400000 100000", "a/b/cpu.max": "max 100000", "a/memory.max": "8000"}, (4, 8000)),
        ("4:memory:/docker/x\n7:cpu,cpuacct:/docker/x\n",  # in a container the path is the host's
         {"memory/memory.limit_in_bytes": "5000", "cpu,cpuacct/cpu.cfs_quota_us": "200000", "cpu,cpuacct/cpu.cfs_period_us": "100000"},
         (2, 5000)),
        ("7:cpu,cpuacct:/\n", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, (float("inf"), float("inf"))),
        ("0::/x\n", {"unified/x/cpu.max": "100000 100000"}, (1, float("inf"))),
        ("", {}, (float("inf"), float("inf"))),
    ],
)  # fmt: skip
def test_limits_of_the_cgroup(jobs, tmp_path, own, files, expected):
    (tmp_path / "own").write_text(own)
    for name, text in files.items():
        path = tmp_path / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    assert jobs.limits(tmp_path / "cgroup", tmp_path / "own") == expected


@pytest.mark.parametrize(
    ("limits", "cpus", "expected"), [((1.5, 64e9), 8, 1), ((8, 5e9), 8, 2), ((64, 64e9), 2, 2), ((1, 1e9), 8, 1)]
)
def test_jobs_follow_the_tightest_limit(jobs, monkeypatch, limits, cpus, expected):
    monkeypatch.setattr(jobs, "limits", lambda: limits)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cpus)))
    monkeypatch.setattr(os, "sysconf", lambda name: 1 if name == "SC_PAGE_SIZE" else 256e9)
    assert jobs.jobs() == expected


def test_max_jobs_wins(jobs, monkeypatch):
    monkeypatch.setenv("MAX_JOBS", "7")
    assert jobs.jobs() == 7


@pytest.mark.parametrize("value", ["x", "-1", "0", "2.5"])
def test_a_max_jobs_that_is_no_number_is_named(jobs, monkeypatch, value):
    monkeypatch.setenv("MAX_JOBS", value)
    with pytest.raises(ValueError, match=f"MAX_JOBS must be a positive whole number, got '{value}'"):
        jobs.jobs()
