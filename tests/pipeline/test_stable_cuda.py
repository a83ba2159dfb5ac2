"""aten = "stable" with VARIANT=cuda: two builds of a project become one wheel, whose Python file chooses a library."""

import importlib.util
import itertools
import json
import os
import re
import shutil
import subprocess
import sys

import check_wheel
import elf
import pytest
import stable_aten
import stable_cuda
from project import BadProject
from record import pack
from test_check_wheel import fat_binary, library  # noqa: F401, a fixture
from wheelfile import Wheel

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is missing")
TABLE = {"cuda-archs": "", "cuda": "13"}
VERSIONS = {"cuda12": "12.4.131", "cuda13": "13.0.88"}
MODULE = "theirs/_C.cpython-311-x86_64-linux-gnu.so"
INFO = "theirs-1.0.dist-info"


@pytest.fixture
def homes(tmp_path):
    """Variables of a build in which both toolkits say their version, and compile nothing."""
    for name, version in VERSIONS.items():
        nvcc = tmp_path / name / "bin/nvcc"
        nvcc.parent.mkdir(parents=True)
        nvcc.write_text(f"#!/bin/sh\necho Cuda compilation tools, release {version[:4]}, V{version}\n")
        nvcc.chmod(0o755)
        (tmp_path / name / "lib").mkdir()
        (tmp_path / name / "lib/libcudart_static.a").touch()
    return {f"{name.upper()}_HOME": str(tmp_path / name) for name in VERSIONS} | {"PATH": "/bin", "PYTHONPATH": "/env"}


def chosen(found):
    return {one.name: one.architectures for one in found}


def test_without_a_word_volta_to_blackwell_and_what_comes_after(homes):
    assert chosen(stable_cuda.toolkits(TABLE, homes)) == {
        "cuda12": ("70", "75", "80", "86", "90+PTX"),
        "cuda13": ("100", "120+PTX"),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("table", "variables", "expected", "label"),
    [
        ("8.0 9.0", {}, {"cuda12": ("80", "90")}, ""),
        ("8.0 cuda13:9.0+PTX", {}, {"cuda12": ("80",), "cuda13": ("90+PTX",)}, ""),
        ("8.0", {"CUDA_ARCHS": "cuda12:90,cuda13:90"}, {"cuda12": ("90",), "cuda13": ("90",)}, "cuda12.sm90.cuda13.sm90"),
        ("8.0", {"TORCH_CUDA_ARCH_LIST": "8.6;12.0+PTX"}, {"cuda12": ("86",), "cuda13": ("120+PTX",)}, "cuda12.sm86.cuda13.sm120ptx"),
    ],
)  # fmt: skip
def test_who_says_for_which_gpus(homes, table, variables, expected, label):
    found = stable_cuda.toolkits(TABLE | {"cuda-archs": table}, homes | variables)
    assert chosen(found) == expected
    assert stable_cuda.label(found, variables) == label


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"CUDA_ARCHS": "90a"}, "compiles for no single GPU such as 9.0a: write 9.0"),
        ({"TORCH_CUDA_ARCH_LIST": "Hopper"}, "expected entries such as 90, 9.0"),
        ({"CUDA12_HOME": "/nowhere"}, "needs /nowhere/bin/nvcc, which is missing"),
    ],
)
def test_what_cannot_be_compiled_for_is_one_line(homes, variables, said):
    with pytest.raises(BadProject, match=said):
        stable_cuda.toolkits(TABLE, homes | variables)


def test_the_variables_of_a_build(homes, tmp_path):
    work, torch = tmp_path / "work", tmp_path / "torch"
    (torch / "include/ATen/ops").mkdir(parents=True)
    own = stable_aten.variables("my-ops", work, torch)
    one = stable_cuda.toolkits(TABLE | {"cuda-archs": "8.0 10.0+PTX"}, homes)[1]
    given = homes | {
        "CXXFLAGS": "-O3 -ffile-prefix-map=/a=.",
        "NVCC_PREPEND_FLAGS": "-G",
        "NVCC_APPEND_FLAGS": "-objtemp",
    }
    found = stable_cuda.variables(one, own, given, work, tmp_path / "a project")
    assert found["CUDA_HOME"] == homes["CUDA13_HOME"]
    assert found["TORCH_CUDA_ARCH_LIST"] == "10.0+PTX"
    assert found["PATH"] == f"{homes['CUDA13_HOME']}/bin:/bin"
    words = found["NVCC_PREPEND_FLAGS"].split()
    assert words.index(f"-I{work}/include") < words.index(f"-I{torch}/include")
    assert {
        "-DATEN_STABLE_PREFIX=my_ops__",
        "-Xcompiler=-fvisibility=hidden",
        "-Xcompiler=-ffile-prefix-map=/a=.",
    } < set(words)
    assert words[-2:] == ["-Xfatbin=-compress-all", "-G"]
    assert not any("-std" in word for word in words)  # torch's BuildExtension says which, and nvcc takes one alone
    assert "libcudart_static.a" in (work / "lib/libcudart.so").read_text()
    assert found["PYTHONPATH"] == f"{work}/site:/env"
    command = found["PYTORCH_NVCC"].replace(f"{one.home}/bin/nvcc", "printf '%s,'")
    words = f"-c '{tmp_path}/a project/csrc/a.cu' '{tmp_path}/a project/b c.cu' -o '{tmp_path}/a project/a.o'"
    run = subprocess.run(["sh", "-c", f"{command} {words}"], capture_output=True, text=True, check=True)
    assert run.stdout.endswith("/a.o,-Xcudafe=--orig_src_path_name csrc/a.cu,")


TORCH = {
    "torch/__init__.py": "from torch.version import cuda\n",
    "torch/version.py": "cuda = None\n",
    "torch/utils/__init__.py": "",
    "torch/utils/cpp_extension.py": "CUDA_HOME = None\ndef home(): return CUDA_HOME\n",
}


def test_torch_takes_the_toolkit_of_the_build(homes, tmp_path):
    """A torch for the CPU, as setup.py sees it."""
    for name, text in TORCH.items():
        path = tmp_path / "site" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    code = "import torch.utils.cpp_extension as e, torch; print(torch.version.cuda, torch.cuda, e.CUDA_HOME, e.home())"
    path = stable_cuda.python_path(tmp_path / "hook", str(tmp_path / "site"))
    env = {"PYTHONPATH": path, "CUDA_HOME": homes["CUDA12_HOME"], "PATH": os.environ["PATH"]}
    run = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["12.4", "12.4", homes["CUDA12_HOME"], homes["CUDA12_HOME"]]


@pytest.fixture
def built(tmp_path, homes, library):  # noqa: F811
    """built({toolkit: units of _C}, archs, label, **files) -> the wheel for every torch, unpacked for check_cuda by checked()."""
    count = itertools.count()

    def make(units, archs="8.0 10.0", label="", more=None):
        wheels = {}
        for name, images in units.items():
            numbers = ",".join(map(str, fat_binary(*images))) if images else "0"
            section = ".nv_fatbin" if images else ".rodata.own"
            code = f'__attribute__((used, section("{section}"))) static const unsigned char f[] = {{{numbers}}};'
            code += "const char *aten_stable_describe(void) { return 0; }"
            folder = tmp_path / f"built{next(count)}"
            folder.mkdir()
            path = folder / "theirs-1.0-cp311-cp311-linux_x86_64.whl"
            files = {
                f"{INFO}/METADATA": b"Metadata-Version: 2.4\nName: theirs\nVersion: 1.0\n\nText\nVersion: 1.0\n",
                f"{INFO}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: cp311-cp311-linux_x86_64\n",
                "theirs/__init__.py": b"",
                MODULE: library({}, code=code),
            }
            pack(path, files | (more or {}).get(name, {}), 0)
            wheels[name] = path
        toolkits = stable_cuda.toolkits(TABLE | {"cuda-archs": archs}, homes)
        cuda = stable_cuda.Built({name: Wheel(path) for name, path in wheels.items()}, toolkits, label)
        return stable_aten.convert(next(iter(wheels.values())), 0, cuda)

    return make


def checked(path):
    wheel, facts = Wheel(path), []
    libraries = {name: elf.read(wheel.read(name)) for name in wheel.names if wheel.read(name).startswith(b"\x7fELF")}
    return check_wheel.collect(check_wheel.check_cuda(wheel, libraries, facts, any_files=True)), facts


UNITS = {"cuda12": [(2, 80, True)], "cuda13": [(2, 100, True)]}


@needs_gcc
def test_two_builds_become_one_wheel(built):
    path = built(UNITS)
    assert path.name == "theirs-1.0-py3-none-linux_x86_64.whl"
    wheel = Wheel(path)
    assert {"theirs/_C.py", "theirs/_C.cuda.json", "theirs/lib_C.cuda12.so", "theirs/lib_C.cuda13.so"} < set(
        wheel.names
    )
    assert MODULE not in wheel.names
    assert json.loads(wheel.read("theirs/_C.cuda.json"))["cuda12"] == {
        "machine_code": [80], "ptx": [], "driver": 12000, "driver_for_ptx": 12040,
    }  # fmt: skip
    assert wheel.build_record()["cuda"]["cuda13"] == {"nvcc": "13.0.88", "architectures": ["100"]}
    assert checked(path) == (
        [],
        ["theirs/lib_C.cuda12.so: sm_80; PTX none", "theirs/lib_C.cuda13.so: sm_100; PTX none"],
    )


@needs_gcc
def test_gpus_of_the_callers_choice_are_in_the_version(built):
    twice = {"cuda12": [(2, 90, True)], "cuda13": [(2, 90, True)]}
    path = built(twice, "cuda12:90 cuda13:90", "cuda12.sm90.cuda13.sm90")
    assert path.name == "theirs-1.0+cuda12.sm90.cuda13.sm90-py3-none-linux_x86_64.whl"
    assert Wheel(path).own("METADATA").endswith(b"\n\nText\nVersion: 1.0\n")
    assert checked(path)[0] == []
    assert checked(built(twice, "cuda12:90 cuda13:90"))[0] == [
        "CUDA: sm_90 is in theirs/lib_C.cuda12.so and in theirs/lib_C.cuda13.so: one of them is dead weight"
    ]


@needs_gcc
def test_a_project_may_be_for_gpus_that_one_toolkit_serves(built):
    path = built({"cuda12": UNITS["cuda12"]}, "8.0")
    assert checked(path)[0] == []
    assert "theirs/lib_C.cuda13.so" not in Wheel(path).names


@needs_gcc
def test_a_module_without_device_code_is_one_library(built, library):  # noqa: F811
    plain = {"theirs/_cpu.so": library({}, code="const char *aten_stable_describe(void) { return 0; }")}
    path = built(UNITS, more=dict.fromkeys(UNITS, plain))
    assert {"theirs/lib_cpu.so", "theirs/_cpu.py", "theirs/lib_C.cuda12.so"} < set(Wheel(path).names)
    assert checked(path)[0] == []


@needs_gcc
@pytest.mark.parametrize(
    ("units", "more", "said"),
    [
        ({"cuda12": [], "cuda13": []}, {}, "no module holds device code.*FORCE_CUDA=1"),
        (UNITS, {"cuda12": {"theirs/_C.cuda.json": b"{}"}, "cuda13": {}}, "holds theirs/_C.cuda.json already"),
        (UNITS, {"cuda12": {"theirs/_D.abi3.so": None}}, "the build by cuda13 made no theirs/_D.abi3.so"),
    ],
)
def test_what_cannot_become_one_wheel_is_one_line(built, library, units, more, said):  # noqa: F811
    body = library({}, code="const char *aten_stable_describe(void) { return 0; }")
    more = {
        name: {file: body if text is None else text for file, text in files.items()} for name, files in more.items()
    }
    with pytest.raises(BadProject, match=said):
        built(units, more=more)


@needs_gcc
def test_files_that_the_builds_do_not_agree_on_are_named(built, capsys):
    built(UNITS, more={"cuda12": {"theirs/v.py": b"12"}, "cuda13": {"theirs/v.py": b"13"}})
    assert "warning: theirs/v.py differs between the builds by CUDA 12 and CUDA 13" in capsys.readouterr().out


@needs_gcc
@pytest.mark.parametrize(
    ("units", "change", "said"),
    [
        (UNITS | {"cuda13": [(2, 90, True)]}, {}, r"lib_C.cuda13.so holds .*\[90\].* in one of its units, expected .*\[100\]"),
        (UNITS | {"cuda13": []}, {}, "lib_C.cuda13.so holds {} in one of its units"),
        (UNITS | {"cuda13": [(2, 100, False)]}, {}, "device code that is not compressed"),
        (UNITS, {"theirs/_C.cuda.json": b"{}"}, "_C.cuda.json says {}, the build record"),
        (UNITS, {"theirs/_C.cuda.json": None}, "_C.cuda.json says {}, the build record"),
        (UNITS, {"theirs/lib_C.cuda13.so": None}, "theirs/lib_C.cuda13.so is missing"),
        (UNITS, {f"{INFO}/build.json": b"{}"}, "_C.cuda.json says .*, the build record {}"),
    ],
)  # fmt: skip
def test_the_check_finds_what_is_not_as_promised(built, units, change, said):
    path = built(units)
    wheel = Wheel(path)
    contents = {name: wheel.read(name) for name in wheel.names if not name.endswith("/RECORD")} | change
    pack(path, {name: body for name, body in contents.items() if body is not None}, 0)
    assert any(re.search(said, problem) for problem in checked(path)[0]), checked(path)[0]


def test_sources_are_what_they_were_before_the_second_build(tmp_path):
    source, copy = tmp_path / "source", tmp_path / "before"
    (source / "csrc").mkdir(parents=True)
    (source / "csrc/a.cu").write_text("1")
    (source / "link").symlink_to("csrc")
    shutil.copytree(source, copy, symlinks=True)
    (source / "csrc/a.cu").write_text("2")
    (source / "build").mkdir()
    (source / "link").unlink()
    (source / "made.py").touch()
    inode = source.stat().st_ino
    stable_cuda.restore(copy, source)
    assert sorted(path.name for path in source.iterdir()) == ["csrc", "link"]
    assert (source / "link/a.cu").read_text() == "1"
    assert source.stat().st_ino == inode


@pytest.fixture
def choice(root):
    spec = importlib.util.spec_from_file_location("choice", root / "aten_stable/_cuda_library.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def held(codes, ptx, major, minor):
    return {"machine_code": codes, "ptx": ptx, "driver": 1000 * major, "driver_for_ptx": 1000 * major + 10 * minor}


RELEASE = {"cuda12": held([70, 75, 80, 86, 90], [90], 12, 4), "cuda13": held([100, 120], [120], 13, 0)}
BOTH = {"cuda12": held([80, 90], [], 12, 4), "cuda13": held([80, 90], [], 13, 0)}


@pytest.mark.parametrize(
    ("libraries", "driver", "gpus", "expected"),
    [
        (RELEASE, 0, [], "cuda12"),
        (RELEASE, 11080, [90], "cuda12"),
        (RELEASE, 12080, [90], "cuda12"),
        (RELEASE, 13000, [90], "cuda12"),  # its machine code is there alone
        (RELEASE, 13000, [70], "cuda12"),
        (RELEASE, 13000, [100], "cuda13"),
        (RELEASE, 13000, [103], "cuda13"),
        (RELEASE, 12080, [100], "cuda12"),  # by PTX
        (RELEASE, 13000, [90, 90, 100], "cuda12"),  # PTX of it serves the third
        (RELEASE, 13000, [], "cuda13"),
        (BOTH, 12080, [90], "cuda12"),
        (BOTH, 13000, [90], "cuda13"),
        (BOTH, 13010, [89], "cuda13"),
    ],
)
def test_which_library(choice, libraries, driver, gpus, expected):
    assert choice._choose(libraries, driver, gpus) == expected
    assert choice._choose(dict(reversed(libraries.items())), driver, gpus) == expected


@pytest.mark.parametrize(
    ("gpu", "driver", "expected"),
    [
        (90, 12000, True),
        (89, 12000, True),
        (87, 12000, False),
        (75, 12000, False),
        (100, 12030, False),
        (100, 12040, True),
    ],
)
def test_what_a_library_serves(choice, gpu, driver, expected):
    assert choice._serves(held([80, 86, 90], [90], 12, 4), gpu, driver) is expected


def test_the_caller_may_name_the_library(choice, tmp_path, monkeypatch):
    (tmp_path / "_C.cuda.json").write_text(json.dumps(BOTH))
    for name in BOTH:
        monkeypatch.setenv("ATEN_STABLE_CUDA", name)
        assert choice._cuda_library(tmp_path / "_C.py") == f"lib_C.{name}.so"
    monkeypatch.setenv("ATEN_STABLE_CUDA", "cuda11")
    with pytest.raises(ImportError, match="ATEN_STABLE_CUDA=cuda11: _C has cuda12, cuda13"):
        choice._cuda_library(tmp_path / "_C.py")


@pytest.mark.parametrize(("gpus", "driver", "warns"), [([61], 13000, True), ([61, 90], 13000, False), ([90], 11080, True), ([], 0, False)])  # fmt: skip
def test_a_gpu_that_nothing_serves_is_named(choice, tmp_path, monkeypatch, recwarn, gpus, driver, warns):
    monkeypatch.delenv("ATEN_STABLE_CUDA", raising=False)
    monkeypatch.setattr(choice, "_gpus", lambda: gpus)
    monkeypatch.setattr(choice, "_driver", lambda: driver)
    (tmp_path / "_C.cuda.json").write_text(json.dumps(BOTH))
    choice._cuda_library(tmp_path / "_C.py")
    said = [str(warning.message) for warning in recwarn]
    assert len(said) == warns
    if warns:
        assert said[0].startswith(
            f"_C has no kernels for a GPU of compute capability {gpus[0] // 10}.{gpus[0] % 10} and a driver"
        )


NVML = """
int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = 3; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **d) { *d = (void *)((char *)0 + (1ul << 40) + i); return i == 1 ? 4 : 0; }
int nvmlDeviceGetCudaComputeCapability(void *d, int *major, int *minor) {
  *major = (unsigned long)d >> 40 ? 9 : 0;
  *minor = (unsigned long)d & 3;
  return 0;
}
"""


@needs_gcc
def test_gpus_are_asked_for_without_starting_cuda(root, tmp_path):
    """A management library of three GPUs, of which the second does not answer."""
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-xc", "-", "-o", tmp_path / "libnvidia-ml.so.1"], input=NVML, text=True, check=True
    )
    driver = "int cuDriverGetVersion(int *v) { *v = 13000; return 0; }"
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-xc", "-", "-o", tmp_path / "libcuda.so.1"], input=driver, text=True, check=True
    )
    code = "import _cuda_library as c; print(c._gpus(), c._driver())"
    env = {"LD_LIBRARY_PATH": str(tmp_path), "PYTHONPATH": str(root / "aten_stable"), "PYTHONDONTWRITEBYTECODE": "1"}
    run = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert run.stdout == "[90, 92] 13000\n"


def test_the_choice_stands_in_the_module(root):
    """The Python file in front of the libraries needs nothing beside it but their JSON."""
    stable_aten.library_folder()
    sys.path.append(str(root))
    from aten_stable.face import cuda_face, face

    assert "\nLIBRARY = _cuda_library(Path(__file__))\n" in cuda_face()
    assert compile(cuda_face(), "_C.py", "exec")
    assert "aten_stable" not in [
        line.split()[1] for line in cuda_face().splitlines() if line.startswith(("import ", "from "))
    ]
    assert '\nLIBRARY = "lib_C.so"\n' in face("lib_C.so")
    assert "_cuda_library" not in face("lib_C.so")
