"""The tree keeps its promises: one name per op everywhere, nothing outside the stable ABI, a help that fits a screen."""

import re
import subprocess

import pytest

REGISTRATION = re.compile(r'm\.impl\(\s*"(\w+)"')


@pytest.fixture
def ops(root):
    """(schemas, public ops); `op` declares an op and its twin without autograd."""
    text = (root / "csrc/library.cpp").read_text()
    public = re.findall(r'\bop\(m,\s*"(\w+)\(', text)
    assert public
    return [*public, *(f"_{name}" for name in public), *re.findall(r'm\.def\(\s*"(\w+)\(', text)], public


def test_every_op_has_its_files(root, ops):
    for op in ops[1]:
        for path in (
            f"customops/{op}.py",
            f"csrc/cpu/{op}.cpp",
            f"csrc/cuda/{op}.cu",
            f"tests/test_{op}.py",
            f"tests/per_op/{op}.py",
            f"benchmarks/{op}.py",
        ):
            assert (root / path).exists(), f"{op} is in csrc/library.cpp, but {path} is missing"


def test_every_op_is_in_the_tests_that_go_over_all(root, ops):
    """On GPUs, in every build, with bad inputs."""
    for op in ops[1]:
        text = (root / f"tests/per_op/{op}.py").read_text()
        for name in ("def plain(", "def call(", "def reference(", "def results(", "BAD_INPUTS = ["):
            assert f"\n{name}" in text, f"tests/per_op/{op}.py lacks {name}"


def test_every_op_is_public(root, ops):
    text = (root / "customops/__init__.py").read_text()
    table = re.search(r"^OPS = \{(.*?)^\}", text, re.MULTILINE | re.DOTALL)[1]
    modules = dict(re.findall(r'^    "(\w+)": \((.*?)\),$', table, re.MULTILINE))
    assert modules.keys() == set(ops[1])
    for module, names in modules.items():
        for name in re.findall(r'"(\w+)"', names):
            assert re.search(rf"^    from customops\.{module} import .*\b{name} as {name}\b", text, re.MULTILINE)


def test_setup_py_is_short(root):
    assert len((root / "setup.py").read_text().splitlines()) <= 80


def test_every_kernel_file_has_a_schema(root, ops):
    borrowed = {("depthwise_conv2d", "_mps_convolution")}  # an operator of torch's that is empty on CPU and CUDA
    for path in [*root.glob("csrc/cpu/*.cpp"), *root.glob("csrc/cuda/*.cu")]:
        for name in REGISTRATION.findall(path.read_text()):
            if (path.stem, name) in borrowed:
                continue
            assert name in ops[0], f"{path} implements {name}, which csrc/library.cpp does not declare"
            # An op for a backward has the name of its op in front: _bias_act_backward.
            assert name.startswith("_cpu") or name.lstrip("_").startswith(path.stem)


def test_an_op_is_one_file_and_perhaps_a_folder_behind_it(root, ops):
    """csrc/<device>/<op>.{cpp,cu} registers the kernels; more files of the op are in csrc/<device>/<op>/."""
    for device, ending in (("cpu", "cpp"), ("cuda", "cu")):
        folder = root / "csrc" / device
        others = {path.stem for path in folder.glob(f"*.{ending}")} - set(ops[1]) - {"capability"}
        assert not others, f"csrc/{device}: {sorted(others)} are no ops: such files are in the folder of their op"
        assert {path.name for path in folder.iterdir() if path.is_dir()} <= set(ops[1])
        for path in folder.glob("*/*"):
            assert path.is_file(), f"{path}: folders are one level deep"
            assert not REGISTRATION.search(path.read_text()), (
                f"{path} registers a kernel: {path.parent.name}.{ending} does"
            )


NO_CODE = re.compile(
    r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*',
    re.DOTALL | re.MULTILINE,
)
TYPE = re.compile(r"\b(?:namespace|struct|class|enum|union)\b[^()]*$")


def functions(text):
    """(its declaration, its first line, its number of lines) for each function of C++ source, those of classes included.

    Lambdas count for the function that they are in. Written for clang-format's style, not for all of C++.
    """
    code = NO_CODE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    scopes, head_at = [], 0
    for match in re.finditer(r"[{};]", code):
        at = match.start()
        if match[0] == "{":
            head = code[head_at:at]
            is_type = TYPE.search(
                re.sub(r"template\s*<.*?>\s*(?=struct|class)|alignas\([^)]*\)", "", head, flags=re.DOTALL)
            )
            is_function = not is_type and ")" in head and not any(declaration for declaration, _ in scopes)
            begin = at - len(head.lstrip())
            scopes.append((" ".join(head.split()) if is_function else "", begin))
        elif match[0] == "}":
            declaration, begin = scopes.pop()
            if declaration:
                yield declaration, code.count("\n", 0, begin) + 1, code.count("\n", begin, at) + 1
        head_at = at + 1
    assert not scopes


def test_functions_and_kernels_are_short(root):
    limits = {"function": 60, "kernel": 120}
    found = dict.fromkeys(limits, 0)
    for path in [path for ending in ("h", "cpp", "cu", "cuh") for path in sorted(root.glob(f"csrc/**/*.{ending}"))]:
        for declaration, line, lines in functions(path.read_text()):
            kind = "kernel" if "__global__" in declaration else "function"
            found[kind] += 1
            assert lines <= limits[kind], (
                f"{path.relative_to(root)}:{line}: a {kind} of {lines} lines, at most {limits[kind]}: split it by idea"
            )
    assert found["function"] > 400 and found["kernel"] > 20, f"{found}: functions() no longer understands the sources"


def test_functions_are_measured():
    text = """namespace a {
// { a comment
template <class T, class = std::enable_if_t<true>>
struct S : Base<T> {
  S(int n) : n_{n} {}
  int f() const {
    const auto g = [&](int i) { return '{' + i; };
    if (g(1)) {
      return 1;
    }
    return 2;
  }
};
#define BRACE {
template <class T>
__global__ void __launch_bounds__(256)
    kernel(T* to) {
  to[0] = T{};
}
}  // namespace a
"""
    assert [(d.split("(")[0].split()[-1], line, lines) for d, line, lines in functions(text) if "n_" not in d] == [
        ("f", 6, 7),
        ("__launch_bounds__", 15, 5),
    ]


def test_only_the_stable_abi_is_included(root):
    allowed = re.compile(r"torch/(csrc/stable|headeronly|csrc/inductor/aoti_torch/c)/")
    for path in [path for ending in ("h", "cpp", "cu", "cuh") for path in root.glob(f"csrc/**/*.{ending}")]:
        for header in re.findall(r"#include [<\"]((?:torch|ATen|c10|pybind11|Python)[^>\"]*)[>\"]", path.read_text()):
            assert allowed.match(header), f"{path} includes {header}, which no torch release promises to keep"
            if re.match(r"torch/csrc/(stable/(?!c/)|inductor)", header) and path.name != "errors.h":
                assert path.name == "stable.h", (
                    f"{path} includes {header}: stable.h does, so that errors keep their text"
                )


def test_aten_stable_has_one_version(root):
    """In the package, in C++ names, and in the namespace of the operators that Python defines."""
    folder = root / "aten_stable"
    version = re.search(r'__version__ = "([\d.]+)"', (folder / "__init__.py").read_text())[1]
    name = f"aten_stable_{version.replace('.', '_')}"
    assert f"#define ATEN_STABLE_VERSION {name}\n" in (folder / "include/aten_stable/version.h").read_text()
    assert f'\n_NAMESPACE = "{name}"\n' in (folder / "_face.py").read_text()


def test_aten_stable_includes_only_the_stable_abi(root):
    """Its headers have ATen's names, so what they include must be theirs or the stable ABI's."""
    folder = root / "aten_stable/include"
    allowed = re.compile(r"torch/(csrc/stable|headeronly|csrc/inductor/aoti_torch)/|aten_stable/")
    paths = [path for path in folder.glob("**/*") if path.is_file()]
    assert len(paths) > 60
    for path in paths:
        for header in re.findall(r"#include <((?:torch|ATen|c10|pybind11|Python|aten_stable)[^>]*)>", path.read_text()):
            assert allowed.match(header), f"{path} includes {header}, which no torch release promises to keep"
            assert not header.startswith("aten_stable/") or (folder / header).is_file(), f"{path}: {header} is missing"


def test_help_fits_a_screen(root):
    text = subprocess.run(
        ["make", "--no-print-directory", "help"], cwd=root, capture_output=True, text=True, check=True
    ).stdout
    assert len(text.splitlines()) <= 40
    assert max(map(len, text.splitlines())) <= 132
    headings = [line.partition(":")[0] for line in text.splitlines()[1:] if not line.startswith(" ")]
    assert headings == ["use", "build", "check", "release", "develop", "variables"]
    for target in re.findall(r"^\.PHONY: (.*)", (root / "Makefile").read_text(), re.MULTILINE)[0].split():
        assert re.search(rf"^  {target} ", text, re.MULTILINE), f"make help does not list {target}"


def test_no_registry_is_named(root):
    hosts = re.compile(r"\b(pypi|pythonhosted|npmjs|debian|pytorch)\.(org|com)\b")
    listed = subprocess.run(["git", "ls-files"], cwd=root, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    files = listed.stdout.split()
    for name in files:
        text = (root / name).read_text(errors="ignore") if (root / name).is_file() else ""
        assert not hosts.search(text), f"{name} names a registry: that is for pip's and apt's configuration to say"
