"""The wheel check, on one good wheel and on wheels made bad on purpose: one per rule."""

import base64
import hashlib
import json
import re
import shutil
import struct
import subprocess
import zipfile

import check_wheel
import pytest
import torch_pinned

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="bad libraries are made with gcc, which is missing")

TAG = "py3-none-manylinux_2_28_x86_64"
INFO = "customops-0.1.0.dist-info"


@pytest.fixture
def library(tmp_path):
    """library(needs={symbol: (soname, version)}, rpath=None, code="", link=()) -> bytes of a library with just these needs."""

    def build(needs, rpath=None, code="", link=()):
        calls, links = [], []
        for number, (symbol, (soname, version)) in enumerate(needs.items()):
            stub = tmp_path / f"stub{number}"
            stub.mkdir(exist_ok=True)
            (stub / "stub.c").write_text(f"void f(void) __asm__({symbol!r}); void f(void) {{}}".replace("'", '"'))
            (stub / "map").write_text(f"{version or 'NONE'} {{ global: {symbol}; }};\n")
            script = [f"-Wl,--version-script={stub / 'map'}"] if version else []
            gcc("-o", stub / soname, f"-Wl,-soname,{soname}", *script, stub / "stub.c")
            links.append(stub / soname)
            calls.append(
                f'void f{number}(void) __asm__("{symbol}"); __attribute__((used)) static void g{number}(void) {{ f{number}(); }}'
            )
        (tmp_path / "lib.c").write_text("\n".join([*calls, code]))
        search = [f"-Wl,-rpath,{rpath}"] if rpath else []
        gcc("-o", tmp_path / "lib.so", tmp_path / "lib.c", *links, *search, *link)
        return (tmp_path / "lib.so").read_bytes()

    def gcc(*arguments):
        subprocess.run(["gcc", "-shared", "-fPIC", "-nostdlib", "-w", *arguments], check=True)

    return build


@pytest.fixture
def wheel(tmp_path, library):
    """wheel(files={}, tag=TAG, inner_tag=None, spoil=None, version="0.1.0") -> path of a wheel with a correct RECORD."""

    def build(files=None, tag=TAG, inner_tag=None, spoil=None, version="0.1.0"):
        contents = {
            "customops/__init__.py": b"",
            "customops/_cpu.so": library(
                {"aoti_torch_get_dim": ("libtorch_cpu.so", None), "memcpy": ("libc.so.6", "GLIBC_2.14")}
            ),
            f"{INFO}/METADATA": b"Metadata-Version: 2.4\nName: customops\nVersion: 0.1.0\n",
            f"{INFO}/WHEEL": f"Wheel-Version: 1.0\nTag: {inner_tag or tag}\n".encode(),
        } | (files or {})
        contents = {name.replace("0.1.0", version): body for name, body in contents.items()}
        info = INFO.replace("0.1.0", version)
        contents[f"{info}/METADATA"] = contents[f"{info}/METADATA"].replace(b"0.1.0", version.encode())
        record = []
        for name, body in contents.items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(body).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(body)}\n")
        contents[f"{info}/RECORD"] = "".join([*record, f"{info}/RECORD,,\n"]).encode()
        if spoil:
            contents[spoil] += b"\n"
        path = tmp_path / f"customops-{version}-{tag}.whl"
        with zipfile.ZipFile(path, "w") as archive:
            archive.mkdir("customops")
            for name, body in contents.items():
                archive.writestr(name, body)
        return path

    return build


def test_a_good_wheel_passes(wheel):
    problems, facts = check_wheel.check(wheel())
    assert problems == []
    assert facts[1].startswith("customops/_cpu.so: libtorch_cpu.so, libc.so.6; GLIBC 2.14; ")


@pytest.mark.parametrize("tag", ["cp311-cp311-manylinux_2_28_x86_64", "py3-none-linux_x86_64", "py3-none-any"])
def test_wrong_tag(wheel, tag):
    assert (
        f"tag: expected py3-none-manylinux_2_N_x86_64 or _aarch64, the file name says {tag}"
        in check_wheel.check(wheel(tag=tag))[0]
    )


def test_the_old_name_of_a_level_is_accepted(wheel):
    both = "py3-none-manylinux2014_x86_64\nTag: py3-none-manylinux_2_17_x86_64"
    path = wheel(tag="py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64", inner_tag=both)
    assert check_wheel.check(path)[0] == []


def test_tag_inside_differs(wheel):
    (problem,) = check_wheel.check(wheel(inner_tag="py3-none-linux_x86_64"))[0]
    assert problem == f"tag: the file name says {TAG}, {INFO}/WHEEL says py3-none-linux_x86_64"


@pytest.mark.parametrize(
    ("needs", "expected"),
    [
        (
            {"f": ("libcudart.so.13", None)},
            "library: customops/_cpu.so needs libcudart.so.13, which is not on the allowed",
        ),
        ({"f": ("libc10.so", None)}, "needs libc10.so"),
        ({"f": ("libc.so.6", "GLIBC_2.18")}, "symbol: customops/_cpu.so needs GLIBC_2.18, the limit is 2.17"),
        (
            {"f": ("libstdc++.so.6", "GLIBCXX_3.4")},
            "needs GLIBCXX_3.4 of libstdc++.so.6: libstdc++ must be linked statically",
        ),
        ({"f": ("libstdc++.so.6", "CXXABI_1.3")}, "needs CXXABI_1.3 of libstdc++.so.6"),
        ({"_ZN2at3addEv": ("libtorch_cpu.so", None)}, "needs _ZN2at3addEv, ATen/c10/torch C++ that changes"),
        ({"_ZNK3c1010TensorImpl4sizeEv": ("libtorch_cpu.so", None)}, "ATen/c10/torch C++ that changes"),
        ({"_ZN5torch8autograd4NodeE": ("libtorch_cpu.so", None)}, "ATen/c10/torch C++ that changes"),
        ({"_ZN3foo3barEv": ("libtorch_cpu.so", None)}, "needs the C++ symbol _ZN3foo3barEv"),
        ({"PyObject_Call": ("libtorch_cpu.so", None)}, "needs PyObject_Call of CPython, but the tag says none"),
    ],
)
def test_what_a_library_must_not_need(wheel, library, needs, expected):
    problems = check_wheel.check(wheel({"customops/_cpu.so": library(needs)}))[0]
    assert any(expected in problem for problem in problems), problems


def test_the_glibc_limit_follows_a_newer_tag(wheel, library):
    files = {"customops/_cpu.so": library({"f": ("libc.so.6", "GLIBC_2.34")})}
    assert check_wheel.check(wheel(files, tag="py3-none-manylinux_2_34_x86_64"))[0] == []
    (problem,) = check_wheel.check(wheel(files, tag="py3-none-manylinux_2_31_x86_64"))[0]
    assert "needs GLIBC_2.34, the limit is 2.31" in problem


def test_an_unnumbered_glibc_version(wheel, library):
    files = {"customops/_cpu.so": library({"f": ("libc.so.6", "GLIBC_ABI_DT_RELR")})}
    (problem,) = check_wheel.check(wheel(files))[0]
    assert "needs GLIBC_ABI_DT_RELR" in problem


def test_exported_symbol(wheel, library):
    (problem,) = check_wheel.check(wheel({"customops/_cpu.so": library({}, code="int leaked(void) { return 1; }")}))[0]
    assert problem == "symbol: customops/_cpu.so exports leaked, which another library might pick up"


def test_what_a_module_of_aten_stable_exports(wheel, library):
    code = "const char *aten_stable_describe(void) { return 0; } int leaked(void) { return 1; }"
    (problem,) = check_wheel.check(wheel({"customops/_cpu.so": library({}, code=code)}))[0]
    assert "exports leaked" in problem


def test_no_library_at_all(wheel):
    assert "file: the wheel holds no compiled library" in check_wheel.check(wheel({"customops/_cpu.so": b"text"}))[0]


def test_rpath(wheel, library):
    (problem,) = check_wheel.check(wheel({"customops/_cpu.so": library({}, rpath="/home/me/lib")}))[0]
    assert problem == "rpath: customops/_cpu.so searches /home/me/lib, a path of the build machine"


@pytest.mark.parametrize(
    "name",
    ["csrc/library.cpp", "customops/csrc/nvcc.py", "customops/csrc/library.o", "customops/csrc/cpu/deep/er/a.cpp",
     "customops/csrc/deep/a.cpp",
     "customops/csrc/_cpu.so", "tests/test_add2.py", "customops/add2.o", "customops/__pycache__/a.cpython-311.pyc",
     "customops/notes.txt", f"{INFO}/direct_url.json", "setup.py"],
)  # fmt: skip
def test_stray_file(wheel, name):
    assert f"file: {name} does not belong in the wheel" in check_wheel.check(wheel({name: b"x"}))[0]


@pytest.mark.parametrize("name", ["other/__init__.py", "single.py", "customops/data/rates.csv", "customops/kernel.cu"])
def test_what_other_peoples_projects_hold(wheel, name):
    path = wheel({name: b"x"})
    assert check_wheel.check(path)[0] == [f"file: {name} does not belong in the wheel"]
    assert check_wheel.check(path, any_files=True)[0] == []


def test_other_peoples_projects_may_use_openmp(wheel, library):
    path = wheel({"customops/_cpu.so": library({"GOMP_parallel": ("libgomp.so.1", "GOMP_4.0")})})
    assert check_wheel.check(path)[0] == [
        "library: customops/_cpu.so needs libgomp.so.1, which is not on the allowed list"
    ]
    assert check_wheel.check(path, any_files=True)[0] == []


@pytest.mark.parametrize(("tagged", "problems"), [("2_28", 0), ("2_17", 1)])
def test_glibcs_vector_mathematics_is_on_every_system_of_the_tag(wheel, library, tagged, problems):
    """What -ffast-math makes of exp() in a loop. libmvec is part of glibc from 2.22 on."""
    body = library({"_ZGVbN2v_exp": ("libmvec.so.1", "GLIBC_2.22")})
    path = wheel({"customops/_cpu.so": body}, tag=f"cp311-cp311-manylinux_{tagged}_x86_64")
    said = [line for line in torch_pinned.check(path, 40)[0] if "libmvec" in line]
    assert len(said) == problems, said
    assert all(
        line.startswith("symbol: customops/_cpu.so needs GLIBC_2.22 of libmvec.so.1, newer than") for line in said
    )


@pytest.mark.parametrize("name", ["other/a.o", "other/__pycache__/a.py", "build/lib/a.py", "setup.py"])
def test_what_a_build_left_behind(wheel, name):
    assert check_wheel.check(wheel({name: b"x"}), any_files=True)[0] == [f"file: {name} does not belong in the wheel"]


NOT_ASKED_FOR = [
    "evil.pth",
    "evil.start",
    "sitecustomize.py",
    "usercustomize/__init__.py",
    "torch/_extra.py",
    "customops-0.1.0.data/purelib/evil.pth",
    "customops-0.1.0.data/platlib/sitecustomize.cpython-311-x86_64-linux-gnu.so",
    "customops-0.1.0.data/data/lib/python3.11/site-packages/evil.pth",
    "customops-0.1.0.data/scripts/python3",
]


@pytest.mark.parametrize("name", NOT_ASKED_FOR)
def test_what_would_run_without_being_asked(wheel, name):
    """Whatever the policy: other people's projects may hold much, but not this."""
    path = wheel({name: b"x"})
    (problem,) = check_wheel.check(path, any_files=True)[0]
    assert problem == f"file: {name} does not belong in the wheel"
    assert any(said.startswith(problem) for said in torch_pinned.check(path, 40)[0])


def test_what_is_like_it_and_harmless(wheel):
    names = ["other/evil.pth.txt", "other/sitecustomize.py", "torchlike/a.py", "customops-0.1.0.data/scripts/pipx-run"]
    path = wheel(dict.fromkeys(names, b"x"))
    assert check_wheel.check(path, any_files=True)[0] == []
    assert not any("does not belong" in said for said in torch_pinned.check(path, 40)[0])


def test_the_sources_travel(wheel, root, sources):
    """All that setup.py takes along is known to the check, and all that the loader and CMake compile is taken."""
    taken = {path.relative_to(root).as_posix() for path in sources.packaged(root / "csrc")}
    assert check_wheel.check(wheel({f"customops/{name}": b"x" for name in taken}))[0] == []
    compiled = {
        path.relative_to(root).as_posix()
        for ending in ("h", "cpp", "cu", "cuh", "cmake", "map", "txt")
        for path in root.glob(f"csrc/**/*.{ending}")
    }
    assert compiled | {"csrc/jobs.py", "csrc/sources.py"} == taken


def test_a_file_that_record_does_not_cover(wheel):
    (problem,) = check_wheel.check(wheel(spoil="customops/__init__.py"))[0]
    assert problem.startswith("file: customops/__init__.py is not what RECORD says: expected sha256=")


def test_a_file_that_record_names_is_missing(wheel):
    path = wheel()
    with zipfile.ZipFile(path) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, body in contents.items():
            if name != "customops/__init__.py":
                archive.writestr(name, body)
    assert check_wheel.check(path)[0] == ["file: RECORD names customops/__init__.py, which is not there"]


def fat_binary(*images):
    """What nvcc leaves in .nv_fatbin for (kind, architecture, compressed) images, as far as it is read."""
    entries = b""
    for kind, architecture, compressed in images:
        body = b"code" * 4
        entries += struct.pack(
            "<HHIQIIHHI", kind, 0x101, 64, len(body), len(body) if compressed else 0, 0, 1, 7, architecture
        )
        entries += bytes(32) + body
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(entries)) + entries


@pytest.fixture
def cuda_wheel(wheel, library):
    """cuda_wheel(held={library: (unit, unit)}, recorded={library: architectures}, described=None, version) -> path"""

    def build(held, recorded, described=None, version="0.1.0"):
        files = {}
        for name, units in held.items():
            data = bytes(8).join(fat_binary(*unit) for unit in units)  # padding between translation units
            numbers = ",".join(map(str, data))
            code = f'__attribute__((used, section(".nv_fatbin"))) static const unsigned char f[] = {{{numbers}}};'
            files[f"customops/_{name}.so"] = library({}, code=code)
        nvcc = {"cuda12": "12.4.131", "cuda13": "13.0.88"}
        record = {name: {"nvcc": nvcc[name], "architectures": archs} for name, archs in recorded.items()}
        files[f"{INFO}/build.json"] = json.dumps({"variant": "cuda", "cuda": record}).encode()
        facts = {
            name: {
                "machine_code": [int(arch.removesuffix("+PTX")) for arch in archs],
                "ptx": [int(arch.removesuffix("+PTX")) for arch in archs if "+" in arch],
                "driver": {"cuda12": 12000, "cuda13": 13000}[name],
                "driver_for_ptx": {"cuda12": 12040, "cuda13": 13000}[name],
            }
            for name, archs in recorded.items()
        }
        files["customops/_cuda.json"] = json.dumps(facts if described is None else described).encode()
        return wheel(files, version=version)

    return build


UNIT12, UNIT13 = [(2, 80, True), (2, 90, True), (1, 90, True)], [(2, 100, True)]
HELD, RECORDED = {"cuda12": (UNIT12, UNIT12), "cuda13": (UNIT13,)}, {"cuda12": ["80", "90+PTX"], "cuda13": ["100"]}


def test_good_cuda_libraries_are_reported(cuda_wheel):
    problems, facts = check_wheel.check(cuda_wheel(HELD, RECORDED))
    assert problems == []
    assert facts[-2:] == ["customops/_cuda12.so: sm_80, sm_90; PTX [90]", "customops/_cuda13.so: sm_100; PTX none"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"recorded": RECORDED | {"cuda12": ["80", "90"]}}, r"_cuda12.so holds .*'ptx': \[90\]} in one of its units"),
        ({"held": HELD | {"cuda12": (UNIT12, UNIT12[:2])}}, r"holds .*'ptx': \[\]} in one of its units, expected"),
        ({"held": {"cuda12": HELD["cuda12"]}}, "CUDA: customops/_cuda13.so is missing"),
        ({"held": {}}, "CUDA: customops/_cuda13.so is missing"),
        ({"held": HELD | {"cuda13": ([(2, 100, False)],)}}, "device code that is not compressed"),
        ({"held": HELD | {"cuda13": ()}}, r"_cuda13.so holds {} in one of its units, expected"),
        ({"held": HELD | {"cuda13": ([(2, 90, True)],)}, "recorded": RECORDED | {"cuda13": ["90"]}},
         "sm_90 is in customops/_cuda12.so and in customops/_cuda13.so"),
        ({"held": {"cuda12": HELD["cuda12"]}, "recorded": {"cuda12": RECORDED["cuda12"]}}, "must hold cuda12 and cuda13"),
        ({"described": {}}, "_cuda.json says {}, the build record"),
    ],
)  # fmt: skip
def test_bad_cuda_libraries(cuda_wheel, changes, message):
    problems = check_wheel.check(cuda_wheel(**{"held": HELD, "recorded": RECORDED} | changes))[0]
    assert any(re.search(message, problem) for problem in problems), problems


@pytest.mark.parametrize("true", [b"{}", b'{"cuda13": {}}'])
def test_another_cuda_json_does_not_stand_for_the_loaders(wheel, true):
    """The last one of that name used to count, wherever it was."""
    files = {"customops/_cuda.json": b'{"cuda12": {"machine_code": [90]}}', "customops/zz/_cuda.json": true}
    problems = check_wheel.check(wheel(files))[0]
    assert "file: customops/zz/_cuda.json does not belong in the wheel" in problems
    assert "CUDA: _cuda.json says {'cuda12': {'machine_code': [90]}}, the build record {}" in problems


def test_a_record_that_promises_nothing_for_cuda(cuda_wheel):
    problems = check_wheel.check(cuda_wheel({}, {}))[0]
    assert "CUDA: the build record promises CUDA kernels and names no library" in problems


def test_a_labelled_build_may_serve_a_gpu_twice_or_hold_one_library(cuda_wheel):
    twice = {"cuda12": ([(2, 90, True)],), "cuda13": ([(2, 90, True)],)}
    assert check_wheel.check(cuda_wheel(twice, {"cuda12": ["90"], "cuda13": ["90"]}, version="0.1.0+dev"))[0] == []
    one = {"cuda13": twice["cuda13"]}
    assert check_wheel.check(cuda_wheel(one, {"cuda13": ["90"]}, version="0.1.0+dev"))[0] == []


@pytest.mark.parametrize("policy", ["strict", "torch-pinned"])
def test_size_limit(wheel, library, monkeypatch, capsys, policy):
    """The project's own limit holds, whatever the policy."""
    large = library({}, code="__attribute__((used)) static char large[2 << 20] = {1};", link=["-Wl,-z,noexecstack"])
    path = wheel({"customops/_large.so": large})
    with zipfile.ZipFile(path) as archive:
        assert archive.getinfo("customops/_large.so").compress_size > 2e6
    for limit, status in (("3", 0), ("2", 1)):
        monkeypatch.setattr("sys.argv", ["check_wheel.py", "--policy", policy, "--max-megabytes", limit, str(path)])
        with pytest.raises(SystemExit) as stopped:
            check_wheel.main()
        assert stopped.value.code == status
    assert re.search(r"error: \S+: size: 2\.\d MB, the limit is 2 MB: max-megabytes", capsys.readouterr().err)


@pytest.mark.parametrize(
    ("file", "soname", "refused"),
    [
        ("libcuda.so.1", None, True),
        ("_cpu.so", "libcuda.so.1", True),
        ("_cpu.so", "libc.so.6", True),
        ("_cpu.so", "libtorch_cpu.so", True),
        ("libpython3.11.so.1.0", None, True),
        ("libstdc++.so.6", None, True),
        ("libtorchmyops.so", "libtorchmyops.so", False),
        ("_cpu.so", "libmine.so.1", False),
    ],
)
def test_a_library_that_answers_to_another_s_name(wheel, library, file, soname, refused):
    path = wheel({f"customops/{file}": library({}, link=[f"-Wl,-soname,{soname}"] if soname else [])})
    expected = f"library: customops/{file} is called {soname or file}: it might be loaded in place of"
    for problems in (check_wheel.check(path, any_files=True)[0], torch_pinned.check(path, 40)[0]):
        assert any(problem.startswith(expected) for problem in problems) == refused


@pytest.mark.parametrize(
    ("path", "refused"),
    [
        ("$ORIGIN", False),
        ("$ORIGIN/../customops.libs", False),
        ("$ORIGIN/../torch/lib:$ORIGIN", False),
        ("/tmp/build/lib", True),
        ("$ORIGIN:", True),  # the folder of whoever starts the program
        ("$ORIGINAL/lib", True),  # no variable of the loader's: a folder of this name, from there
        ("$ORIGIN/../../../../../../tmp", True),
        ("$ORIGIN/lib:$ORIGIN/../..", True),
    ],
)
def test_a_search_path_that_leaves_the_wheel(wheel, library, path, refused):
    problems = torch_pinned.check(wheel({"customops/_cpu.so": library({}, rpath=path)}), 40)[0]
    assert any(problem.startswith(f"rpath: customops/_cpu.so searches {path}, ") for problem in problems) == refused


def test_command_line(wheel, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["check_wheel.py", str(wheel(tag="py3-none-any"))])
    with pytest.raises(SystemExit) as stopped:
        check_wheel.main()
    assert stopped.value.code == 1
    assert "error: customops-0.1.0-py3-none-any.whl: tag:" in capsys.readouterr().err
