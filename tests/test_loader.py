"""Importing the package: what it costs, what it needs, and what it says when it cannot."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from common import INSTRUCTION_SETS, in_forks, python

import customops
from customops import _recipes, _state

CHECK_ALL_DTYPES = """
import customops, torch
for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
    for n in (1, 7, 8, 15, 16, 17, 513, 100003):
        a, b = torch.randn(2, n, dtype=torch.float64).mul(100).to(dtype)
        eps = torch.finfo(dtype).eps
        for ours, expected in (
            (customops.add2(a, b), a.double() + b.double()),
            (customops.axpy(a, b, 0.7), 0.7 * a.double() + b.double()),
            (customops.flatten_copy(a[::2]), a[::2].double()),
        ):
            torch.testing.assert_close(ours, expected.to(dtype), rtol=eps, atol=200 * eps)
    x, weight = (torch.randn(shape, dtype=torch.float64).to(dtype) for shape in ((1, 20, 9, 9), (20, 1, 3, 3)))
    expected = torch.nn.functional.conv2d(x.double(), weight.double(), padding=1, groups=20)
    for image in (x, x.contiguous(memory_format=torch.channels_last)):
        ours = customops.depthwise_conv2d(image, weight, padding=1)
        torch.testing.assert_close(ours.double(), expected, rtol=eps, atol=20 * min(eps, 1e-6))
print(torch.ops.customops._cpu_capability())  # that far only if all is right
"""


def test_every_instruction_set_is_right():
    order = INSTRUCTION_SETS
    choose = "os.environ['CUSTOMOPS_CPU_CAPABILITY'] = {!r}\n"
    run = python(in_forks("import customops, torch", [choose.format(one) + CHECK_ALL_DTYPES for one in order]))
    found = run.stdout.split()
    assert found == [min(one, found[-1], key=order.index) for one in order], run.stderr
    slow = found[-1] == "avx512_bf16" and "GenuineIntel" in Path("/proc/cpuinfo").read_text()
    assert torch.ops.customops._cpu_capability() == ("avx512" if slow else found[-1])


@pytest.mark.parametrize("n", [1, 300_000])
def test_unknown_capability_is_refused(n):
    code = f"import customops, torch; customops.add2(torch.ones({n}), torch.ones({n}))"
    run = python(code, CUSTOMOPS_CPU_CAPABILITY="sse9")
    *all_but_last, last = INSTRUCTION_SETS
    names = f"{', '.join(all_but_last)} or {last}" if all_but_last else last
    assert f"CUSTOMOPS_CPU_CAPABILITY must be {names}, got sse9" in run.stderr


@pytest.mark.parametrize("shadow", ["torch/__init__.py", "torch.py"])
def test_a_folder_or_file_named_torch_is_named_as_the_cause(tmp_path, shadow):
    path = tmp_path / shadow
    path.parent.mkdir(exist_ok=True)
    path.touch()
    run = python("import customops", cwd=tmp_path)
    assert run.returncode != 0
    assert f"`import torch` found {tmp_path / shadow.removesuffix('/__init__.py')}, which is not PyTorch" in run.stderr
    assert "Rename it" in run.stderr


def test_an_old_torch_is_named_as_the_cause():
    uses = ("customops.add2", "from customops import axpy", "customops.nn")
    run = python(in_forks("import torch; torch.__version__ = '2.9.1'; import customops", uses))
    assert run.returncode == 0  # the import itself does no harm
    reason = "customops needs PyTorch 2.10 or newer, found 2.9.1"
    assert run.stderr.count(f"ImportError: {reason}: pip install -U") == len(uses)
    run = python("import torch; torch.__version__ = '2.9.1'; from customops.__main__ import main; main()")
    assert f"error: {reason}" in run.stdout


def test_no_torch_at_all(tmp_path):
    run = python("import sys; sys.modules['torch'] = None; import customops")
    assert "customops needs PyTorch 2.10 or newer: pip install torch" in run.stderr


def test_a_missing_dependency_of_torch_is_not_called_a_missing_torch():
    run = python("import sys; sys.modules['typing_extensions'] = None; import customops")
    assert run.returncode != 0
    assert "pip install torch" not in run.stderr


@pytest.mark.parametrize("requires_grad", [False, True])
def test_other_kinds_of_tensors_are_refused(requires_grad):
    """They meet what stands where the CUDA kernels are missing until their first use."""
    x = torch.ones(3, requires_grad=requires_grad).to_sparse()
    with pytest.raises(NotImplementedError, match=r"add2: expected dense tensors on cpu or cuda, got torch.sparse_coo"):
        customops.add2(x, x)


@pytest.mark.filterwarnings("ignore")
def test_quantized_tensors_are_refused():
    x = torch.quantize_per_tensor(torch.ones(3), 1.0, 0, torch.quint8)
    with pytest.raises(NotImplementedError, match=r"flatten_copy: .* got torch\.strided quantized on cpu"):
        customops.flatten_copy(x)


def test_a_gpu_that_torch_cannot_start_does_not_break_the_report(monkeypatch):
    """NVML may see a GPU for which the driver is too old."""

    def fail(index):
        raise RuntimeError("the driver is too old\nsecond line")

    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_capability", fail)
    machine = customops._cuda.machine()
    assert (machine.capabilities, machine.torch, machine.error) == ((), "13.0", "the driver is too old")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_the_reason_is_named():
    reason = "is built without CUDA" if torch.version.cuda is None else "no NVIDIA driver|torch sees no GPU"
    with pytest.raises(RuntimeError, match=rf"has no CUDA kernels for this machine: .*({reason}|CPU kernels only)"):
        customops._cuda.load()


def test_import_adds_no_heavy_module():
    """The package's own files only: what they cost is measured by benchmarks/overhead.py."""
    code = "import torch, sys; before = set(sys.modules); import customops; print(*sorted(set(sys.modules) - before))"
    added = python(code).stdout.split()
    assert added
    assert all(name.split(".")[0] == "customops" for name in added), added


def test_public_names():

    assert all(hasattr(customops, name) for name in customops.__all__)
    assert all(callable(getattr(torch.ops.customops, op)) for op in ("add2", "axpy", "flatten_copy"))


def test_python_m_customops():
    run = subprocess.run([sys.executable, "-m", "customops"], capture_output=True, text=True, check=True)
    assert f"torch {torch.__version__}" in run.stdout
    assert ".so (loaded; built by " in run.stdout
    assert f"CPU capability: {torch.ops.customops._cpu_capability()}" in run.stdout
    assert "CUDA kernels: " in run.stdout
    assert "build record: " in run.stdout


def loaded(code, **env):
    """stdout of `code`, run where nothing chooses a library; fails if the code does."""
    run = python(code, **{"CUSTOMOPS_COMPILER": "", "CUSTOMOPS_LIBRARY": "", **env})
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


LIBRARY = Path(customops.__file__).with_name("_cpu.so")
prebuilt = pytest.mark.skipif(not LIBRARY.exists(), reason="there is no prebuilt library")
OPEN = "print([str(path) for path in torch.ops.loaded_libraries])"


@prebuilt
def test_an_import_opens_nothing_and_the_first_use_opens_the_prebuilt_library():
    assert loaded(f"import customops, torch; {OPEN}") == "[]"
    uses = ("customops.add2", "from customops import axpy", "import customops.nn", "torch.ops.customops.axpy",
            "from customops.axpy import axpy", "customops.load()")  # fmt: skip
    opened = loaded(in_forks("import customops, torch", [f"{use}; {OPEN}" for use in uses]))
    assert opened.splitlines() == [str([str(LIBRARY)])] * len(uses)


def test_derivatives_are_there_when_torch_ops_comes_first():
    code = "import customops, torch; x = torch.ones(3, requires_grad=True)"
    assert "Backward" in loaded(f"{code}; print(torch.ops.customops.axpy(x, x).grad_fn)")


def test_a_module_does_not_take_the_place_of_its_function():
    firsts = ("from customops.axpy import axpy", "import customops.bias_act", "import customops.nn")
    check = "import customops; print(callable(customops.axpy), callable(customops.bias_act))"
    assert loaded(in_forks("import torch", [f"{first}; {check}" for first in firsts])) == "\n".join(["True True"] * 3)


def test_every_public_name_is_in_dir():
    assert set(customops.__all__) <= set(dir(customops))
    assert {name for names in customops.OPS.values() for name in names} <= set(customops.__all__)


@prebuilt
def test_loading_the_same_library_again_does_nothing():
    again = "customops.load('setuptools'), customops.load(path=a)"
    assert loaded(f"import customops; a = customops.load(); print((a, a) == ({again}))") == "True"


@pytest.mark.parametrize(
    "other", [("setuptools", "/elsewhere.so"), ("cmake", "/elsewhere.so"), ("jit", "/elsewhere.so")]
)
def test_loading_two_is_an_error_that_says_so(other):
    here = customops.load()
    with pytest.raises(RuntimeError) as error:
        customops.load(*other)
    assert str(error.value).startswith(f"customops.load: {here}, built by {_state.opened.compiler}, is open already (")
    assert f"hold one library: call customops.load('{other[0]}') before the first op, or set " in str(error.value)
    with pytest.raises(RuntimeError, match="is open already"):
        customops.load("jit" if _state.opened.compiler != "jit" else "setuptools")


@prebuilt
def test_another_prebuilt_library(tmp_path):
    copy = shutil.copy(LIBRARY, tmp_path / "copy.so")
    code = f"import customops; print(customops.load('setuptools', {str(copy)!r}), customops._cuda.libraries())"
    assert loaded(code) == f"{copy} {{}}"


@pytest.mark.parametrize(
    ("call", "env", "message"),
    [
        (("gcc",), {}, "customops.load: compiler must be one of auto, setuptools, jit, cmake, got 'gcc'"),
        (("auto",), {"CUSTOMOPS_COMPILER": "cmacke"}, "one of auto, setuptools, jit, cmake, got 'cmacke'"),
        (("cmake",), {}, "customops.load: cmake needs the path of libcustomops.so: path=..., or CUSTOMOPS_LIBRARY"),
        (("jit", "x.so"), {}, "customops.load: jit takes no path, got 'x.so': say setuptools or cmake"),
        (("auto", "x.so"), {}, "customops.load: auto takes no path, got 'x.so': say setuptools or cmake"),
        (("auto",), {"CUSTOMOPS_COMPILER": "cmake", "CUSTOMOPS_LIBRARY": "/no/such.so"}, "/no/such.so is not there"),
        (("cmake", __file__), {}, f"customops: {__file__} cannot be opened ("),
        (("auto",), {"CUSTOMOPS_LIBRARY": "x.so"}, "CUSTOMOPS_LIBRARY=x.so is for CUSTOMOPS_COMPILER=cmake, which is not set"),
        (("auto",), {"CUSTOMOPS_LIBRARY": "x.so", "CUSTOMOPS_COMPILER": "jit"}, "=cmake, which is jit: set it to cmake, or unset"),
    ],
)  # fmt: skip
def test_wrong_choice(monkeypatch, call, env, message):
    for name in ("CUSTOMOPS_COMPILER", "CUSTOMOPS_LIBRARY"):
        monkeypatch.setenv(name, env.get(name, ""))
    monkeypatch.setattr(_state, "opened", None)
    with pytest.raises((ValueError, ImportError)) as error:
        customops.load(*call)
    assert message in str(error.value)


@prebuilt
def test_another_library_is_refused_and_the_right_one_opens_afterwards():
    code = """
import customops, glob, torch
other = glob.glob(torch.__path__[0] + "/lib/libtorch_global_deps.so")[0]
for _ in range(2):
    try:
        customops.load("cmake", other)
    except ImportError as error:
        print(error)
print(customops.load("setuptools").name, customops.add2(torch.ones(1), torch.ones(1)).item())
"""
    *refused, right = loaded(code).splitlines()
    assert right == "_cpu.so 2.0"
    assert len(refused) == 2 and len(set(refused)) == 1
    assert (
        "libtorch_global_deps.so, cmake's library (asked for), is another library, without an op of cus" in refused[0]
    )


@prebuilt
def test_a_library_of_another_version_is_refused_for_good():
    """As if this version had one op more."""
    code = """
import customops
from customops import _loader
_loader.wait_for_first_use([*customops.OPS, "newer"])
for _ in range(2):
    try:
        customops.load()
    except ImportError as error:
        print(error)
"""
    first, second = loaded(code).splitlines()
    assert first == second
    assert "is of another version of customops, without the op newer: name the library that this version's" in first


def test_a_child_forked_while_a_thread_compiles_can_load():
    """The thread that holds the loader's lock is not in the child."""
    code = """
import os, signal, threading, time, customops, torch
from customops import _loader
choosing, done, choose = threading.Event(), threading.Event(), _loader._choose
def slow(*arguments):
    choosing.set()
    done.wait(60)
    return choose(*arguments)
_loader._choose = slow
thread = threading.Thread(target=customops.load)
thread.start()
choosing.wait()
if os.fork() == 0:
    signal.alarm(30)
    _loader._choose = choose
    print(customops.add2(torch.ones(1), torch.ones(1)).item(), flush=True)
    os._exit(0)
status = os.wait()[1]
done.set()
thread.join()
print(status, customops.axpy(torch.ones(1), torch.ones(1)).item())
"""
    assert loaded(code).splitlines() == ["2.0", "0 3.0"]


def test_a_fork_waits_until_a_library_is_open():
    code = """
import os, threading, time, customops, torch
opening, load = threading.Event(), torch.ops.load_library
def slow(path):
    opening.set()
    time.sleep(0.5)
    load(path)
torch.ops.load_library = slow
thread = threading.Thread(target=customops.load)
thread.start()
opening.wait()
if os.fork() == 0:
    print(len(torch.ops.loaded_libraries), flush=True)
    os._exit(0)
os.wait()
thread.join()
"""
    assert loaded(code) == "1"


@prebuilt
def test_the_choice_is_logged_and_silent_by_default():
    logged = "import logging; logging.basicConfig(level='INFO'); import customops; customops.add2"
    run = python(logged, CUSTOMOPS_COMPILER="")
    assert f"INFO:customops:opening {LIBRARY}, built by setuptools (prebuilt)" in run.stderr
    assert python("import customops; customops.add2", CUSTOMOPS_COMPILER="").stderr == ""


def test_first_uses_in_many_threads():
    code = """
import customops, torch
from concurrent.futures import ThreadPoolExecutor
uses = [lambda: customops.axpy, lambda: torch.ops.customops.add2, lambda: __import__("customops.nn"), customops.load]
with ThreadPoolExecutor(16) as pool:
    list(pool.map(lambda use: use(), 4 * uses))
print(customops.axpy(torch.ones(1), torch.ones(1)).item())
"""
    assert loaded(code) == "3.0"


def without_library(tmp_path):
    """A copy of the package, sources and all, for which nobody has compiled anything."""
    here = Path(customops.__file__).parent
    copy = shutil.copytree(
        here, tmp_path / "site/customops", ignore=shutil.ignore_patterns("*.so", "__pycache__", "csrc")
    )
    shutil.copytree(_recipes.SOURCES, copy / "csrc", ignore=shutil.ignore_patterns("__pycache__"))
    return copy.parent


def test_without_a_prebuilt_library_it_is_compiled_just_in_time_or_says_what_is_missing(tmp_path):
    site, empty = without_library(tmp_path), tmp_path / "bin"
    empty.mkdir()
    env = {
        "PYTHONPATH": os.pathsep.join([str(site), *sys.path[1:]]),
        "PATH": str(empty),
        "CUSTOMOPS_JIT_CACHE": str(tmp_path / "cache"),
    }
    run = python("import customops; customops.add2", cwd=tmp_path, CUSTOMOPS_COMPILER="", CXX="", **env)
    assert "_cpu.so is not there, a prebuilt library for this platform: compiling just in time" in run.stderr
    assert (
        run.stderr.strip()
        .splitlines()[-1]
        .startswith("customops._build.BuildError: customops: compiling just in time ")
    )
    assert "needs a C++17 compiler, and c++ is not on the PATH: install g++, or set CXX" in run.stderr
    assert not (tmp_path / "cache").exists()


def test_no_thread_meets_an_op_before_it_is_complete():
    """One thread opens the library and is slow to give the ops their fake kernels; the others must wait for those."""
    code = """
import importlib, threading, time, types, torch, customops
from customops import _loader
def slow(name):
    time.sleep(0.05)
    return importlib.import_module(name)
_loader.importlib = types.SimpleNamespace(import_module=slow)
x, shapes = torch.empty(2, 3, device="meta"), []
def use(wait):
    time.sleep(wait)
    shapes.append(torch.ops.customops._upfirdn2d(x[None, None], None, 1, 1, 1, 1, 0, 0, 0, 0, False, 1.0).shape)
threads = [threading.Thread(target=use, args=(i / 50,)) for i in range(16)]
[t.start() for t in threads]; [t.join() for t in threads]
print(len(shapes), len(set(shapes)))
"""
    assert python(code).stdout.split() == ["16", "1"]
