"""The libraries that aten_stable builds, the errors of its headers, and the package: build, scan, CMake."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch._dynamo
import torch.fx.experimental.proxy_tensor
from aten_builds import CUDA_PROJECTS, ROOT, SOURCES, TORCH, toolkits
from same_bits import load
from torch.utils import cpp_extension

from aten_stable.build import FOR_NVCC, Toolkit, flags, link, toolkit
from aten_stable.scan import header, table, uses


def exported(library):
    lines = subprocess.check_output(["nm", "-D", "--defined-only", library], text=True).splitlines()
    assert lines
    return [line.split()[-1] for line in lines]


def test_a_library_exports_nothing_of_cxx(modules):
    """Else the process's own C++ library would be mixed with the one that the module was linked with."""
    for _, module in modules.values():
        library = Path(module.__file__).with_name(module.LIBRARY)
        assert all(name.startswith("aten_stable_") for name in exported(library))


def test_a_torch_with_other_schemas_is_refused(windows):
    stable = windows[1]
    stable._check_schemas(["relu(Tensor self) -> Tensor"])
    with pytest.raises(ImportError, match=r"aten::relu was .*Take a newer build"):
        stable._check_schemas(["relu(Tensor self, int n) -> Tensor"])
    with pytest.raises(ImportError, match="aten::gone is gone"):
        stable._check_schemas(["gone(Tensor self) -> Tensor"])


def test_libraries_have_only_the_stable_abi(modules):
    shim = (TORCH / "include/torch/csrc/stable/c/shim.h").read_text()
    newer = set(re.findall(r"\b(torch_\w+)\(", shim.partition("TORCH_FEATURE_VERSION >= TORCH_VERSION_2_11_0")[2]))
    assert "torch_new_stable_ivalue" in newer
    for name, (_, stable) in modules.items():
        library = Path(stable.__file__).with_name(f"lib{name}.so")
        symbols = subprocess.run(["nm", "-D", "--undefined-only", library], capture_output=True, text=True, check=True)
        names = [line.split()[-1].partition("@")[0] for line in symbols.stdout.splitlines()]
        assert [n for n in names if re.match(r"_ZNK?(2at|3c10|5torch)|Py|_Py", n)] == []
        strong = {line.split()[-1] for line in symbols.stdout.splitlines() if line.split()[-2] == "U"}
        assert not strong & newer, f"{name} needs more than torch 2.10"
        assert any(n.startswith(("torch_", "aoti_torch_")) for n in names)


def test_names_hold_the_version(modules):
    """Libraries that other versions of the headers have built may be in the same process."""
    for name, (_, stable) in modules.items():
        library = Path(stable.__file__).with_name(f"lib{name}.so")
        symbols = subprocess.run(["nm", "--defined-only", library], capture_output=True, text=True, check=True).stdout
        ours = re.findall(r" (_ZZ?N?K?(?:2at|8pybind11|11aten_stable)\w*)", symbols)
        assert [symbol for symbol in ours if stable._NAMESPACE not in symbol] == []
        assert len(ours) > 10


def test_schemas_are_those_of_this_torch():
    for text in table():
        name, _, overload = text.partition("(")[0].partition(".")
        assert str(torch._C._get_schema(f"aten::{name}", overload)) == str(torch._C.parse_schema(f"aten::{text}"))
    assert len(table()) > 1000


def test_a_library_knows_the_schemas_it_relies_upon(modules):
    _, stable = modules["options"]
    library = Path(stable.__file__).with_name("liboptions.so").read_bytes()
    used = {text.decode() for text in stable._USED.findall(library)}
    assert "rsqrt(Tensor self) -> Tensor" in used
    assert used <= set(table())
    assert len(used) < 100


def mistakes():
    """(code, what the compiler says of it), from the page."""
    page = (ROOT / "docs/aten-on-stable.md").read_text()
    section = page.partition("## Ten mistakes")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `([^`]+)` \| `([^`]+)` \|$", section, re.MULTILINE)
    assert len(rows) == 10
    return rows


# Operators that torch 2.15 has no more, and more of what is not covered.
OTHERS = [
    ("at::_int_mm(x, x)", "aten_stable: _int_mm is not covered: call torch._int_mm in Python"),
    (
        'torch::Library({}, "theirs", nullptr).def("f", [](Kind) {})',
        "aten_stable: an enum or an object of your own in an operator of TORCH_LIBRARY is not covered",
    ),
    ("at::cholesky(x)", "aten_stable: cholesky is not covered: write at::linalg_cholesky(x, upper)"),
    ("x.cholesky(true)", "aten_stable: Tensor::cholesky is not covered: write at::linalg_cholesky(x, upper)"),
    (
        "at::cholesky_out(x, x)",
        "aten_stable: cholesky_out is not covered: write at::linalg_cholesky_out(out, x, upper)",
    ),
    ("F::elu(x)", "aten_stable: torch::nn::functional::elu is not covered: write the function of at::"),
    (
        "F::InterpolateFuncOptions().antialias(true)",
        "aten_stable: antialias is not covered: call interpolate in Python",
    ),
    ("F::DropoutFuncOptions o(0.5)", "aten_stable: torch::nn::functional::DropoutFuncOptions is not covered: write"),
    ("throw py::type_error()", "aten_stable: py::type_error is not covered: throw py::value_error, py::index_error"),
    ('m.attr("x") = std::vector<int>{}', "aten_stable: this attribute of the module is not covered: give a number"),
    ("x.sin().accessor<float, 1>()", "use of deleted function"),  # as under ATen: it would outlive its tensor
    ('torch::class_<int>("theirs", "Own")', "aten_stable: torch::class_ is not covered: keep the state in tensors"),
    (
        'm.def("f", [](std::tuple<int, float>) {})',
        "aten_stable: a tuple of several types, or of bool, cannot cross the dispatcher: take its parts as",
    ),
    ("at::qr(x)", "aten_stable: qr is not covered: write at::linalg_qr(x), or"),
    (
        "torch::jit::Module net",
        "aten_stable: torch::jit::Module is not covered: run it in Python, and pass the tensors",
    ),
    ('py::class_<Own>(m, "Own").def_buffer(0)', "aten_stable: def_buffer is not covered: return a Tensor"),
    ('py::class_<Own>(m, "Own").def(py::pickle(1, 2))', "aten_stable: py::pickle is not covered: give the class"),
    ('m.def("f", [](std::map<std::string, Kind>) {})', "aten_stable: this dictionary cannot cross the dispatcher"),
    ('m.def("f", [](std::vector<Kind>) {})', "aten_stable: a list of enums is not covered: take integers"),
    ('m.def("f", [](int) { return Kind(); })', "aten_stable: an enum as a result is not covered: return an int64_t"),
    ("x.qr()", "aten_stable: Tensor::qr is not covered: write at::linalg_qr(x)"),
]


def test_mistakes_are_errors_with_words(tmp_path):
    lines = [
        "#include <torch/extension.h>",
        "namespace F = torch::nn::functional; enum class Kind { kOne }; struct Own {};",
    ]
    wanted = {}
    for i, (code, words) in enumerate([*mistakes(), *OTHERS]):
        wanted[len(lines) + 1] = words
        in_module = re.search(r"\bm\b", code)
        body = f"{code};" if in_module else f"{code}; return x;"
        head = "template <class M> void f{}(M& m) {{ {} }}" if in_module else "at::Tensor f{}(at::Tensor x) {{ {} }}"
        lines.append(code if code.startswith("#") else head.format(i, body))
        if in_module:
            lines.append(f"template void f{i}(py::module_&);")
    source = tmp_path / "mistakes.cpp"
    source.write_text("\n".join(lines) + "\n")
    command = ["c++", *flags("theirs._C", TORCH), "-fsyntax-only", "-fno-diagnostics-show-caret", source]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    for line, words in wanted.items():
        assert words in result.stderr
        assert f"{source}:{line}:" in result.stderr, words


@pytest.mark.parametrize("name", CUDA_PROJECTS)
def test_cuda_sources_become_a_library_for_each_toolkit(name, cuda_modules):
    """There is no GPU: that the library loads, has its runtime within, and its checks speak."""
    found = toolkits()
    if not found:
        pytest.skip("no CUDA toolkit in CUDA12_HOME, CUDA13_HOME, CUDA_HOME or /usr/local/cuda")
    folder = cuda_modules / name / "theirs"
    libraries = sorted(path.name for path in folder.glob("*.so"))
    assert libraries == sorted(f"lib{name}.cuda{one.release()[0]}.so" for one in found)
    for library in libraries:
        needed = subprocess.run(["readelf", "-d", folder / library], capture_output=True, text=True, check=True)
        assert not re.search(r"NEEDED.*(cuda|libc10|torch_python)", needed.stdout)
        symbols = subprocess.run(
            ["nm", "-D", "--defined-only", folder / library], capture_output=True, text=True, check=True
        )
        assert not re.search(r"\bcuda\w+$", symbols.stdout, re.MULTILINE)
        assert b"GLIBC_2.18" not in (folder / library).read_bytes()
    module = load(f"theirs.{name}", folder / f"{name}.py")
    if module._driver() == 0:
        assert libraries[0] == module.LIBRARY
    assert module._cuda_library(Path(module.__file__)) == module.LIBRARY
    arguments = [torch.ones(2)] * (2 if name == "blend" else 1)
    with pytest.raises(RuntimeError, match="must be a CUDA tensor"):
        getattr(module, name)(*arguments)


def test_kernels_lean_on_what_torchs_own_share(tmp_path):
    """There is no GPU: that it compiles, and what at::cuda::cub is not."""
    found = toolkits()
    if not found:
        pytest.skip("no CUDA toolkit in CUDA12_HOME, CUDA13_HOME, CUDA_HOME or /usr/local/cuda")
    uncovered = tmp_path / "sorted.cu"
    uncovered.write_text("#include <ATen/cuda/cub.cuh>\nvoid f(int* x) { at::cuda::cub::radix_sort_keys(x, x, 1); }\n")
    command = [found[-1].nvcc, "-ccbin=c++", *FOR_NVCC, *flags("theirs._C", TORCH), *found[-1].gencode(), "-ptx"]
    for source, words in ((SOURCES / "blocks.cu", ""), (uncovered, "write ::cub::DeviceRadixSort::SortKeys")):
        result = subprocess.run([*command, source, "-o", tmp_path / "x"], capture_output=True, text=True, check=False)
        assert (result.returncode != 0) == bool(words), result.stderr
        assert words in result.stderr


def test_nvcc_is_told_what_torch_tells_it(tmp_path, monkeypatch):
    commands = []
    monkeypatch.setattr("aten_stable.build.run", commands.append)
    monkeypatch.setattr(Toolkit, "libraries", lambda self: tmp_path)
    option = "-U__CUDA_NO_HALF_OPERATORS__"
    link([tmp_path / "own.cu"], tmp_path / "lib.so", [option], TORCH, Toolkit(tmp_path, ("90",)))
    for flag in cpp_extension.COMMON_NVCC_FLAGS:
        assert commands[0].index(flag) < commands[0].index(option)


def test_a_compiler_may_have_options_and_a_cache(tmp_path, monkeypatch):
    commands = []
    monkeypatch.setattr("aten_stable.build.run", commands.append)
    monkeypatch.setattr("aten_stable.build.cxx_library", lambda compiler: [])
    monkeypatch.setattr(Toolkit, "libraries", lambda self: tmp_path)
    monkeypatch.setenv("CXX", "ccache /usr/bin/g++ -m64")
    link([tmp_path / "own.cu"], tmp_path / "lib.so", [], TORCH, Toolkit(tmp_path, ("90",)))
    assert "-ccbin=/usr/bin/g++" in commands[0]
    assert commands[1][:3] == ["ccache", "/usr/bin/g++", "-m64"]


def test_headers_define_no_macros_of_short_names():
    """A source's variable may have such a name."""
    for path in (ROOT / "aten_stable/include/aten_stable").glob("*.h"):
        text = path.read_text()
        for name in re.findall(r"^\s*#\s*define (\w+)", text, re.MULTILINE):
            of_aten = re.match(r"(AT|TORCH|C10|CUDA|ATEN_STABLE|PYBIND11|RECORD)_|LOG$|MAX_TENSORINFO_DIMS$", name)
            assert of_aten or text.count(f"#define {name}(") == text.count(f"#undef {name}\n"), f"{path}: {name}"


@pytest.mark.parametrize("text", ["/opt/cuda13", "/opt/cuda13:", "/opt/cuda13:sm_90", "/nowhere:90"])
def test_what_a_toolkit_is(text):
    with pytest.raises(SystemExit, match=f"error: --cuda {text}: "):
        toolkit(text)


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The package as pip installs it, in a folder of its own."""
    folder = tmp_path_factory.mktemp("installed")
    source = shutil.copytree(
        ROOT / "aten_stable", folder / "source", ignore=shutil.ignore_patterns("__pycache__", "ops")
    )
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--no-build-isolation"]
    subprocess.run([*pip, f"--target={folder / 'site'}", source], check=True)
    shutil.rmtree(source)
    return folder / "site"


def test_the_package_is_whole(installed):
    def files(folder):
        found = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
        return {
            path for path in found if "__pycache__" not in path.parts and path.parts[:3] != ("include", "ATen", "ops")
        }

    assert files(ROOT / "aten_stable") - files(installed / "aten_stable") == {Path("pyproject.toml")}
    assert files(installed / "aten_stable") <= files(ROOT / "aten_stable")
    environment = os.environ | {"PYTHONPATH": str(installed)}
    for command, folder in (("include", "include"), ("cmake", "cmake")):
        run = [sys.executable, "-m", "aten_stable", command]
        said = subprocess.run(run, env=environment, cwd=installed, capture_output=True, text=True, check=True).stdout
        assert said == f"{installed / 'aten_stable' / folder}\n"


def test_cmake_builds_a_module(installed, tmp_path):
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.20)\nproject(theirs CXX)\nfind_package(aten_stable REQUIRED)\n"
        "aten_stable_module(theirs theirs.added one.cpp)\n"
    )
    (tmp_path / "one.cpp").write_text(
        "#include <torch/extension.h>\n#include <ATen/ops/relu.h>\n"
        "at::Tensor one(const at::Tensor& x) { return at::relu(x) + 1; }\n"
        'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("one", &one); }\n'
    )
    options = [f"-DPython3_EXECUTABLE={sys.executable}", f"-Daten_stable_DIR={installed / 'aten_stable/cmake'}"]
    subprocess.run(["cmake", "-S", tmp_path, "-B", tmp_path / "build", *options], check=True)
    subprocess.run(["cmake", "--build", tmp_path / "build"], check=True)
    assert all(name.startswith("aten_stable_") for name in exported(tmp_path / "build/libadded.so"))
    assert torch.equal(
        load("theirs.added", tmp_path / "build/added.py").one(torch.tensor([-1.0, 2.0])), torch.tensor([1.0, 3.0])
    )
    assert (installed / "aten_stable/include/ATen/ops/relu.h").is_file()


def test_scan_tells_the_three_apart():
    found = {(line, what): (kind, instead) for line, what, kind, instead in uses((SOURCES / "windows.cpp").read_text())}
    assert {kind for kind, _ in found.values()} == {"covered", "dispatcher"}
    text = (
        "#include <ATen/TensorIterator.h>\n// at::stft\nauto y = torch::stft(x, 3) + x.relu();\nAT_PRIVATE_THING(x);\n"
        "py::dict all; c10::str(x); throw py::key_error();\n"
        "at::native::relu(x); at::cuda::warp_size();\npy::class_<A>(m); torch::class_<A>(m);\n"
    )
    assert [(line, what, kind) for line, what, kind, _ in uses(text)] == [
        (1, "<ATen/TensorIterator.h>", "uncovered"),
        (3, "torch::stft", "uncovered"),
        (3, "relu", "dispatcher"),
        (4, "AT_PRIVATE_THING", "uncovered"),
        (5, "py::dict", "uncovered"),
        (5, "c10::str", "covered"),
        (5, "py::key_error", "uncovered"),
        (6, "at::native::relu", "dispatcher"),
        (6, "at::cuda::warp_size", "covered"),
        (7, "py::class_", "covered"),
        (7, "torch::class_", "uncovered"),
    ]
    assert header("torch/extension.h") == ("covered", "")
