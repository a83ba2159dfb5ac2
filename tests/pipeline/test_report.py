"""`make report`: verdicts and what forces them on wheels made for it; requirements and exit status; damaged wheels."""

import json
import os
import shutil
import struct
import subprocess
import sys
import zipfile

import common
import pytest
from test_check_wheel import fat_binary, library, wheel  # noqa: F401 -- fixtures

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="libraries are made with gcc, which is missing")


@pytest.fixture(scope="session")
def python():
    return common.virtual_environment("report") / "python"


@pytest.fixture
def run(python, root):
    def start(*arguments):
        env = os.environ | {"PYTHONPATH": str(root / "docker/report"), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [python, "-m", "wheel_report", *arguments]
        return subprocess.run(command, env=env, capture_output=True, text=True, check=False)

    return start


@pytest.fixture
def report(run):
    """report(path, *arguments) -> the report as data."""
    return lambda path, *arguments: json.loads(run(path, "--json", *arguments).stdout)


def verdicts(report, axis):
    return {value: cell["verdict"] for value, cell in report["works_on"][axis].items()}


def test_a_stable_wheel(report, wheel):  # noqa: F811
    found = report(wheel())
    assert set(verdicts(found, "CPython").values()) == {"works"}
    assert verdicts(found, "torch build") == {"CPU": "works", "CUDA 12": "works", "CUDA 13": "works"}
    assert verdicts(found, "torch")["2.8"] == "fails"
    assert found["floors"]["glibc"] == {"version": "2.28", "forced_by": "the tag manylinux_2_28"}
    assert found["floors"]["torch"]["version"] == "2.9"
    assert found["problems"] == []


@pytest.mark.parametrize(
    ("needs", "axis", "expected", "why"),
    [
        ({"torch_parallel_for": ("libtorch_cpu.so", None)}, "torch", {"2.9": "fails", "2.10": "works"}, "torch_parallel_for"),
        ({"torch_has_storage": ("libtorch_cpu.so", None)}, "torch", {"2.13": "fails", "2.14": "works"}, "torch_has_storage"),
        ({"_ZN2at3addEv": ("libtorch_cpu.so", None)}, "torch", {"2.10": "not known", "2.15": "not known"}, "at::add"),
        ({"f": ("libcudart.so.12", None)}, "torch build", {"CPU": "fails", "CUDA 12": "works", "CUDA 13": "fails"}, "libcudart.so.12"),
        ({"f": ("libtorch_cuda.so", None)}, "torch build", {"CPU": "fails", "CUDA 13": "works"}, "libtorch_cuda.so"),
        ({"f": ("libc.so.6", "GLIBC_2.34")}, "glibc", {"2.31": "fails", "2.34": "works"}, "f in customops/_cpu.so"),
        ({"PyObject_Vectorcall": ("libc10.so", None)}, "CPython", {"3.11": "fails", "3.12": "works", "3.13": "works", "3.14t": "fails"},
         "PyObject_Vectorcall in customops/_cpu.so came with CPython 3.12"),
        ({"_PyObject_New_Private": ("libc10.so", None)}, "CPython", {"3.12": "not known"}, "_PyObject_New_Private"),
    ],
)  # fmt: skip
def test_what_a_symbol_decides(report, wheel, library, needs, axis, expected, why):  # noqa: F811
    found = report(wheel({"customops/_cpu.so": library(needs)}))
    row = verdicts(found, axis)
    assert {value: row[value] for value in expected} == expected
    assert any(why in cell["why"] for cell in found["works_on"][axis].values()), found["works_on"][axis]


def test_a_torch_that_brings_what_a_library_needs_is_named_with_it(report, wheel, library):  # noqa: F811
    row = report(wheel({"customops/_gpu.so": library({"f": ("libc10_cuda.so", None)})}))["works_on"]["torch build"]
    assert row["CUDA 13"] == {"verdict": "works", "why": "it brings libc10_cuda.so, which customops/_gpu.so needs"}
    assert report(wheel())["works_on"]["torch build"]["CUDA 13"]["why"] == "nothing of CUDA is asked of torch"


def test_metadata_decides(report, wheel):  # noqa: F811
    text = "Metadata-Version: 2.4\nName: customops\nVersion: 0.1.0\nRequires-Python: >=3.12\nRequires-Dist: torch==2.13.0\n"
    found = report(wheel({"customops-0.1.0.dist-info/METADATA": text.encode()}))
    assert verdicts(found, "CPython")["3.11"] == "fails"
    assert [value for value, verdict in verdicts(found, "torch").items() if verdict == "works"] == ["2.13"]


def device(library, *units):  # noqa: F811
    numbers = ",".join(map(str, bytes(8).join(fat_binary(*unit) for unit in units)))
    return library(
        {}, code=f'__attribute__((used, section(".nv_fatbin"))) static const unsigned char f[] = {{{numbers}}};'
    )


def test_gpus(report, wheel, library):  # noqa: F811
    found = report(wheel({"customops/_gpu.so": device(library, [(2, 80, True), (1, 90, True)])}))
    row = found["works_on"]["GPU"]
    assert verdicts(found, "GPU") | {
        "sm_75": "fails",
        "sm_80": "works",
        "sm_89": "works",
        "sm_90": "works",
    } == verdicts(found, "GPU")
    assert "machine code for sm_80" in row["sm_89"]["why"]
    assert "PTX for compute_90" in row["sm_120"]["why"]


@pytest.mark.parametrize(
    ("architectures", "oldest"),
    [((100,), "570"), ((121,), "580"), ((110,), "580"), ((103, 120), "570")],
)
def test_a_driver_knows_the_gpus_that_came_before_it(report, wheel, library, architectures, oldest):  # noqa: F811
    """Machine code alone, for GPUs that came in the middle of CUDA 12: an older driver of that CUDA cannot run it."""
    code = device(library, [(2, architecture, True) for architecture in architectures])
    row = verdicts(report(wheel({"customops/_gpu.so": code})), "CUDA driver")
    assert [driver for driver, verdict in row.items() if verdict == "works"] == [
        d for d in row if int(d) >= int(oldest)
    ]


def test_of_alternatives_the_one_with_machine_code_is_named(report, wheel, library):  # noqa: F811
    """A release: PTX of CUDA 12 would do for the GPU, but they run the code of CUDA 13."""
    row = report(
        wheel(
            {
                "customops/_cuda12.so": device(library, [(2, 90, True), (1, 90, True)]),
                "customops/_cuda13.so": device(library, [(2, 100, True)]),
            }
        )
    )["works_on"]["GPU"]
    assert row["sm_103"] == {"verdict": "works", "why": "machine code for sm_100 in customops/_cuda13.so"}
    assert "PTX for compute_90 in customops/_cuda12.so" in row["sm_120"]["why"]


def test_libraries_that_differ_by_a_number_are_alternatives(report, wheel, library):  # noqa: F811
    both = {
        "customops/_cuda12.so": device(library, [(2, 80, True)]),
        "customops/_cuda13.so": device(library, [(2, 100, True)]),
    }
    row = verdicts(report(wheel(both)), "GPU")
    assert (row["sm_75"], row["sm_80"], row["sm_100"]) == ("fails", "works", "works")
    both = {"customops/_a.so": both["customops/_cuda12.so"], "customops/_b.so": both["customops/_cuda13.so"]}
    assert verdicts(report(wheel(both)), "GPU")["sm_80"] == "not known"


def test_of_alternatives_the_driver_may_run_either(report, wheel, library):  # noqa: F811
    """Machine code of CUDA before 13, whose version is 1.7, asks for no driver; that of CUDA 13 does."""
    new = bytes(8) + fat_binary((2, 90, True))
    old = new.replace(struct.pack("<HHI", 1, 7, 90), struct.pack("<HHI", 7, 1, 90))
    bodies = {
        name: library(
            {},
            code=f'__attribute__((used, section(".nv_fatbin"))) static const unsigned char f[] = {{{",".join(map(str, data))}}};',
        )
        for name, data in (("old", old), ("new", new))
    }
    found = report(wheel({"customops/lib_C.cuda12.so": bodies["old"], "customops/lib_C.cuda13.so": bodies["new"]}))
    assert set(verdicts(found, "CUDA driver").values()) == {"works"}
    assert "CUDA driver" not in found["floors"]
    found = report(wheel({"customops/lib_C.cuda12.so": bodies["new"], "customops/lib_D.so": bodies["old"]}))
    assert verdicts(found, "CUDA driver")["570"] == "fails"
    assert found["floors"]["CUDA driver"]["version"] == "580"


def test_problems_and_hazards(report, wheel, library):  # noqa: F811
    aarch64 = bytearray(library({}))
    aarch64[18:20] = (183).to_bytes(2, "little")
    code = '__attribute__((used)) static const char where[] = "/home/me/project/a.c built Jan  5 2026 at 10:11:12, tested Feb 05 2026";'
    files = {"customops/_arm.so": bytes(aarch64), "customops/tool.dll": b"MZ\0\0", "customops/_a.so": library({}, code=code),
             "customops/_b.so": b"\x7fELF and no more", "customops/_c.so": library({}, rpath="/opt/mine/lib")}  # fmt: skip
    found = report(wheel(files, spoil="customops/__init__.py"))
    for expected in ("_arm.so is for aarch64, the wheel is for", "tool.dll is a program for Windows", "__init__.py is not what RECORD",
                     "_b.so is cut"):  # fmt: skip
        assert any(expected in problem for problem in found["problems"]), (expected, found["problems"])
    for expected in ("_a.so: paths of the build /home/me/project/a.c", "_a.so: a date Jan  5 2026, Feb 05 2026: ", "_a.so: a time 10:11:12",
                     "_c.so: searches /opt/mine/lib"):  # fmt: skip
        assert any(expected in hazard for hazard in found["reproducibility_hazards"]), (
            expected,
            found["reproducibility_hazards"],
        )


def test_a_tag_that_promises_too_much(report, wheel, library):  # noqa: F811
    files = {"customops/_cpu.so": library({"f": ("libc.so.6", "GLIBC_2.34")})}
    assert (
        "the tag says manylinux_2_28_x86_64, the symbols need manylinux_2_34_x86_64" in report(wheel(files))["problems"]
    )


def test_libraries_for_another_machine_than_the_tag_says(run, wheel):  # noqa: F811
    done = run("--json", wheel(tag="py3-none-manylinux_2_28_aarch64"))
    assert done.stderr == ""
    (problem,) = json.loads(done.stdout)["problems"]
    assert problem == "customops/_cpu.so is for x86_64, the wheel is for manylinux_2_28_aarch64"


def test_an_sbom_is_listed_and_not_scanned(report, wheel):  # noqa: F811
    sbom = {"bomFormat": "CycloneDX", "components": [{"name": "zlib", "version": "1.2.13"}]}
    found = report(wheel({"customops-0.1.0.dist-info/sboms/a.cdx.json": json.dumps(sbom).encode()}))
    assert list(found["sboms"].values()) == [["zlib 1.2.13"]]
    assert found["vulnerabilities"].startswith("not scanned")


@pytest.mark.parametrize(
    ("terms", "status", "message"),
    [
        ("torch>=2.10 python>=3.10 glibc<=2.28 cpu cuda13", 0, ""),
        ("torch>=2.8", 1, "torch 2.8: fails"),
        ("glibc<=2.17", 1, "glibc<=2.17: it needs 2.28 (the tag manylinux_2_28)"),
        ("sm_90", 1, "sm_90: the wheel has no device code"),
        ("torch>=99", 2, "no version that this report knows"),
        ("colour>=2", 2, "expected terms such as torch>=2.10"),
    ],
)
def test_a_requirement_decides_the_exit_status(run, wheel, terms, status, message):  # noqa: F811
    done = run(wheel(), "--require", terms)
    assert (done.returncode, message in done.stderr) == (status, True), done.stderr
    assert len(done.stderr.splitlines()) <= 2


def test_a_real_environment(run, wheel, library):  # noqa: F811
    """This interpreter: what is bound to libc loads, what nobody has does not."""
    assert (
        run(
            wheel({"customops/_cpu.so": library({"memcpy": ("libc.so.6", "GLIBC_2.14")})}), "--against", sys.executable
        ).returncode
        == 0
    )
    done = run(wheel({"customops/_cpu.so": library({"f": ("libnobody.so.3", None)})}), "--against", sys.executable)
    assert (done.returncode, "libnobody.so.3: nobody has it" in done.stderr) == (1, True)
    done = run(
        wheel({"customops/_cpu.so": library({"no_such_function": ("libc.so.6", None)})}), "--against", sys.executable
    )
    assert (done.returncode, "undefined symbol no_such_function" in done.stderr) == (1, True)


def test_files_that_are_no_wheels(run, tmp_path, wheel):  # noqa: F811
    good = wheel()
    cut = tmp_path / "cut" / good.name
    cut.parent.mkdir()
    cut.write_bytes(good.read_bytes()[:-30])
    twice = tmp_path / "twice" / good.name
    twice.parent.mkdir()
    with zipfile.ZipFile(twice, "w") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("a", "1")
        archive.writestr("a", "2")
    for path in (cut, twice, tmp_path / "missing.whl"):
        done = run(path)
        assert (done.returncode, len(done.stderr.splitlines()), done.stdout) == (2, 1, ""), done.stderr
        assert done.stderr.startswith("error: ")


def test_make(root):
    done = subprocess.run(
        ["make", "report", f"PYTHON={sys.executable}"], cwd=root, capture_output=True, text=True, check=False
    )
    assert done.returncode
    assert "error: WHEEL is not set: make report WHEEL=dist/" in done.stderr


def test_it_installs_alone(root, python, tmp_path):
    """As pipx does, but without fetching what it requires: the readers of docker/image travel in the package."""
    tools = common.virtual_environment("build")
    copy = tmp_path / "docker"
    shutil.copytree(root / "docker", copy, ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__"))
    build = [tools / "python", "-m", "pip", "wheel", "--quiet", "--no-index", "--no-deps", "--no-build-isolation"]
    subprocess.run([*build, "--wheel-dir", tmp_path, copy / "report"], check=True, env=common.environment(tools))
    (made,) = tmp_path.glob("wheel_report-*.whl")
    shutil.rmtree(copy)
    with zipfile.ZipFile(made) as archive:
        archive.extractall(tmp_path / "site")
    env = os.environ | {"PYTHONPATH": str(tmp_path / "site")}
    shown = subprocess.run([python, "-m", "wheel_report", made], capture_output=True, text=True, env=env, check=False)
    assert shown.returncode == 0, shown.stderr
    assert "CPython" in shown.stdout
