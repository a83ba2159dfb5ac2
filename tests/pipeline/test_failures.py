"""Why a build failed, out of logs as gcc, nvcc, ninja, setuptools and build write them."""

import failures
import memory
import pytest

GCC = """[1/2] c++ -MMD -O2 -c /tmp/a/csrc/x.cpp -o x.o
FAILED: x.o
c++ -MMD -O2 -c /tmp/a/csrc/x.cpp -o x.o
In file included from csrc/x.cpp:1:
csrc/y.h: In function 'int f()':
csrc/y.h:3:10: error: 'z' was not declared in this scope
    3 |   return z;
      |          ^
ninja: build stopped: subcommand failed.
Traceback (most recent call last):
  File "/env/torch/utils/cpp_extension.py", line 2000, in _run_ninja_build
    subprocess.run(
subprocess.CalledProcessError: Command '['ninja', '-v']' returned non-zero exit status 1.
ERROR Backend subprocess exited when trying to invoke build_wheel
"""


def test_the_compilers_own_message_and_no_more(capsys):
    line = failures.explain(GCC, [])
    assert line == "csrc/y.h failed to compile: the compiler's message is above"
    assert capsys.readouterr().out.splitlines() == GCC.splitlines()[3:8]


def test_nvcc(capsys):
    line = failures.explain(
        '[1/1] nvcc -c k.cu\ncsrc/k.cu(7): error: identifier "q" is undefined\n    q = 1;\n    ^\n\nninja\n', []
    )
    assert line.startswith("csrc/k.cu failed to compile")
    assert "ninja" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("log", "reached", "said"),
    [
        ("fatal: unable to access", ["host.invalid"], "tried to reach host.invalid, and a build has no network"),
        ("ModuleNotFoundError: No module named 'torch'", [], "imports torch, which no requirement brings: add it to"),
        (
            "ERROR Unmet dependencies (checked against /opt/python):\n\tsetuptools>=99\n\t\twanted: >=99\n\tninja\n",
            [],
            "does not hold what the build requires (setuptools>=99; ninja)",
        ),
        (
            "c++: fatal error: Killed signal terminated program cc1plus",
            [],
            "killed, most likely for memory: MAX_JOBS=1",
        ),
        ("OSError: CUDA_HOME environment variable is not set.", [], "setup.py asks for CUDA's compiler: VARIANT=cuda"),
        ("FileNotFoundError: [Errno 2] No such file or directory: '/usr/local/cuda/bin/nvcc'", [], "VARIANT=cuda"),
        (
            "RuntimeError:\nThe detected CUDA version (13.0) mismatches the version that was used to compile\nPyTorch (12.8). Please",
            [],
            'the locked torch is for CUDA 12: cuda = "12" in [tool.customops-build]',
        ),
        (
            "c10/cuda/CUDAMacros.h:8:10: fatal error: c10/cuda/impl/cuda_cmake_macros.h: No such file or directory",
            [],
            "the locked torch is built without CUDA: choose torches",
        ),
        ("something else", [], "the project's build backend failed, see above; `make shell PROJECT=...` opens"),
        (
            "ERROR: No matching distribution found for cython<4",
            [],
            "pip was to install cython<4, and a build has no network: name it in build-requires",
        ),
        (
            "LookupError: setuptools-scm was unable to detect version for /tmp/x.",
            [],
            'environment = { SETUPTOOLS_SCM_PRETEND_VERSION = "1.2.3" } in [tool.cibuildwheel]',
        ),
        ("x.c:1:10: fatal error: jpeglib.h: No such file or directory", [], "jpeglib.h is not in the image: bring it"),
        ("/usr/bin/ld: cannot find -lgsl\ncollect2: error: ld returned 1", [], "-lgsl is not in the image"),
        ("-- Could NOT find Doxygen\nother", [], "the project's build backend failed"),
        ("CMake Error at Find.cmake:230 (message):\n  Could NOT find OpenSSL, try", [], "OpenSSL is not in the image"),
        ("FileNotFoundError: [Errno 2] No such file or directory: 'swig'", [], "swig is not in the image"),
    ],
)
def test_other_failures(log, reached, said):
    assert said in failures.explain(log, reached)


LINKED = "[14/15] Linking CXX shared module _core.cpython-311-aarch64-linux-gnu.so\n[15/15] Generating _core.pyi\n"
ABSENT_CORE = "ModuleNotFoundError: No module named '_core'\n"


@pytest.mark.parametrize(
    ("log", "what"),
    [
        (LINKED + ABSENT_CORE, "_core"),  # stubs of nanobind
        ("sh: 1: ./make_tables: cannot execute binary file: Exec format error\n", "./make_tables"),
        ("OSError: [Errno 8] Exec format error: '/b/make_tables'\n", "/b/make_tables"),
        ("meson.build:3:9: ERROR: Can not run test applications in this cross environment.\n", "a program"),
        (ABSENT_CORE, None),  # nothing of the name was compiled
    ],
)
def test_a_build_across_that_runs_what_it_compiled(log, what, monkeypatch):
    monkeypatch.setattr(failures.target, "machine", lambda: "aarch64")
    monkeypatch.setattr(failures.target, "is_another", lambda: True)
    line = failures.explain(log, [])
    assert line.startswith(
        f"the build runs {what}, which it has compiled for aarch64" if what else "the build imports _core"
    )
    monkeypatch.setattr(failures.target, "is_another", lambda: False)
    assert "which it has compiled" not in failures.explain(log, [])


def test_jobs_follow_measured_memory(monkeypatch):
    monkeypatch.setattr(memory, "limits", lambda: (8.0, 10e9))
    assert memory.jobs({})[0] == 3  # 2.5 GB assumed, 9 of 10 GB given away
    assert memory.jobs({"a.cu": 5e9, "b.cpp": 1e9, "c.cpp": 1e9})[0] == 8  # all three fit at once
    assert memory.jobs({"a.cu": 5e9, "b.cu": 5e9, "c.cu": 5e9})[0] == 1
    assert memory.jobs({"a.cu": 99e9})[0] == 1
    assert memory.jobs({}, "6") == (6, "MAX_JOBS")
    with pytest.raises(memory.BadProject, match="MAX_JOBS must be a positive whole number, got 'x'"):
        memory.jobs({}, "x")


def test_a_compilers_memory_is_that_of_all_it_starts():
    """make -> nvcc k.cu -> gcc k.cu -> cc1plus, and cicc; an unrelated process does not count."""
    found = {
        1: (0, "", 1),
        2: (1, "k.cu", 10),
        3: (2, "k.cu", 20),
        4: (3, "", 300),
        5: (2, "", 400),
        9: (0, "x.cpp", 7),
    }
    watch = memory.Watch()
    watch.sample(found, 1)
    watch.sample({2: (1, "k.cu", 10)}, 1)
    assert watch.peaks == {"k.cu": 730}


def test_a_spoiled_record_counts_as_none(tmp_path):
    for text in ("", "[]", '{"a.cpp": "x", "b.cpp": -1}'):
        (tmp_path / "peaks").write_text(text)
        assert memory.read(tmp_path / "peaks") == {}
