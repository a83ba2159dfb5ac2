"""aten = "stable" in a project's table: what the build gets, and what becomes of the wheel that its backend made."""

import os
import shutil

import pytest
import stable_aten
from project import BadProject, Project
from record import pack
from test_check_wheel import library  # noqa: F401, a fixture
from test_projects import cache, factory, in_container, plain_run, the_wheel  # noqa: F401, fixtures
from wheelfile import Wheel

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is missing")
MODULE = "theirs/_C.cpython-311-x86_64-linux-gnu.so"
DESCRIBES = "const char *aten_stable_describe(void) { return 0; }"
INFO = "theirs-1.0.dist-info"
METADATA = "Metadata-Version: 2.4\nName: theirs\nVersion: 1.0\nRequires-Dist: numpy\nRequires-Dist: torch\n\nThe text\nRequires-Dist: torch\n"


@pytest.fixture
def built(tmp_path):
    """built(files, metadata) -> the wheel that a build backend left."""

    def make(files, metadata=METADATA):
        path = tmp_path / "theirs-1.0-cp311-cp311-linux_x86_64.whl"
        own = {
            f"{INFO}/METADATA": metadata.encode(),
            f"{INFO}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: cp311-cp311-linux_x86_64\n",
            "theirs/__init__.py": b"",
        }
        pack(path, own | files, 0)
        return path

    return make


@pytest.fixture
def project(tmp_path):
    def make(text, **files):
        (tmp_path / "pyproject.toml").write_text(text)
        for name, body in files.items():
            (tmp_path / name.replace("_", ".").replace("PKG.INFO", "PKG-INFO")).write_text(body)
        return Project(tmp_path)

    return make


@needs_gcc
@pytest.mark.parametrize("name", [MODULE, "theirs/_C.abi3.so", "theirs/_C.so", "_C.so"])
def test_a_module_becomes_a_library_and_the_python_in_front_of_it(built, library, name):  # noqa: F811
    wheel = stable_aten.convert(built({name: library({}, code=DESCRIBES)}), 0)
    assert wheel.name == "theirs-1.0-py3-none-linux_x86_64.whl"
    assert [path.name for path in wheel.parent.glob("*.whl")] == [wheel.name]
    read = Wheel(wheel)
    folder = "theirs/" if "/" in name else ""
    assert {f"{folder}lib_C.so", f"{folder}_C.py"} <= set(read.names)
    assert name not in read.names
    assert b'\nLIBRARY = "lib_C.so"\n' in read.read(f"{folder}_C.py")
    assert read.tags() == ["py3-none-linux_x86_64"]
    assert list(read.differs_from_record()) == []
    assert read.metadata()["requires-dist"] == ["torch>=2.10", "numpy"]
    assert read.own("METADATA").endswith(b"\n\nThe text\nRequires-Dist: torch\n")  # the description is no header


@needs_gcc
def test_a_library_that_is_no_module_stays(built, library):  # noqa: F811
    files = {MODULE: library({}, code=DESCRIBES), "theirs/libhelp.so": library({}, code="int help(void) { return 1; }")}
    assert "theirs/libhelp.so" in Wheel(stable_aten.convert(built(files), 0)).names


def test_what_the_author_says_of_torch_stays():
    text = METADATA.replace("Requires-Dist: torch\n\n", "Requires-Dist: torch>=2.12\n\n")
    assert "Requires-Dist: torch>=2.10\nRequires-Dist: numpy\nRequires-Dist: torch>=2.12\n\n" in stable_aten.require(
        text
    )


@needs_gcc
@pytest.mark.parametrize(
    ("names", "needs", "said"),
    [
        ((), {}, "holds no extension module"),
        ((MODULE, "theirs/deep/_C.abi3.so"), {}, "holds two modules called _C"),
        ((MODULE, "theirs/_C.py"), {}, "holds theirs/_C.py already"),
        ((MODULE,), {"PyList_New": ("libtorch_cpu.so", None)}, "takes 1 symbols of CPython, such as PyList_New"),
    ],
)
def test_what_cannot_become_one_wheel_is_one_line(built, library, names, needs, said):  # noqa: F811
    body = library(needs, code=DESCRIBES)
    path = built(dict.fromkeys(names, body))
    with pytest.raises(BadProject, match=said) as raised:
        stable_aten.convert(path, 0)
    assert 'aten = "stable" in [tool.customops-build]' in str(raised.value)


@needs_gcc
def test_a_library_that_is_loaded_by_a_path_is_noticed(built, library, capsys):  # noqa: F811
    files = {MODULE: library({}, code=DESCRIBES), "theirs/__init__.py": b"torch.ops.load_library(find('_C'))\n"}
    stable_aten.convert(built(files), 0)
    said = capsys.readouterr().out.splitlines()
    assert [line for line in said if line.startswith("warning: theirs/__init__.py calls load_library: ")]
    assert not [line for line in said if line.startswith("warning: theirs/_C.py")]


def test_the_flags_come_first_and_the_headers_before_torchs(root, tmp_path):
    torch = tmp_path / "torch"
    (torch / "include/ATen/ops").mkdir(parents=True)
    (torch / "include/ATen/ops/relu.h").touch()
    own = stable_aten.variables("my-ops", tmp_path / "work", torch)
    found = stable_aten.before(own, {"CXXFLAGS": "-O1", "PATH": "/bin"})
    words = found["CXXFLAGS"].split()
    assert words[0] == "-std=c++17"
    assert words[-1] == "-O1"
    assert words.index(f"-I{tmp_path}/work/include") < words.index(f"-I{torch}/include")
    assert "-DATEN_STABLE_PREFIX=my_ops__" in words
    assert found["PATH"] == "/bin"
    assert (tmp_path / "work/include/ATen/ops/relu.h").is_file()  # in the copy, not among the sources
    assert "local: *" in (tmp_path / "work/exports.map").read_text()
    with pytest.raises(BadProject, match=r"the build has no torch: name torch in \[build-system\] requires"):
        stable_aten.variables("my-ops", tmp_path / "work", tmp_path / "absent")


def test_an_image_without_the_headers_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr(stable_aten, "HERE", tmp_path / "opt/customops")
    with pytest.raises(
        BadProject, match="needs the headers of aten_stable, which this image lacks: `make image` builds"
    ):
        stable_aten.library_folder()


@pytest.mark.parametrize(
    ("text", "files", "expected"),
    [
        ("[project]\nname = 'My.Ops'\n", {}, "my-ops"),
        ("", {"setup_py": "setup(name='their_ops')"}, "their-ops"),
        ("", {"setup_cfg": "[metadata]\nname = cfg_ops\n", "setup_py": "setup()"}, "cfg-ops"),
        ("", {"PKG_INFO": "Metadata-Version: 2.1\nName: told\n", "setup_py": "setup(name=NAME)"}, "told"),
    ],
)
def test_the_name_of_the_operators(project, text, files, expected):
    assert stable_aten.name_of(project(text, **files)) == expected


def test_projects_that_say_no_name_have_different_ones(project):
    one = stable_aten.name_of(project("", setup_py="setup(name=NAME)"))
    other = stable_aten.name_of(project("", setup_py="setup(name=OTHER)"))
    assert one != other
    assert stable_aten.prefix(one).isidentifier()


def test_the_word_means_strict(project):
    found = project('[tool.customops-build]\naten = "stable"\n')
    assert (found.policy, found.table["max-megabytes"]) == ("strict", 40)
    assert project('[tool.customops-build]\naten = "torch"\n').policy == "torch-pinned"
    with pytest.raises(BadProject, match=r'aten = "stable" needs no C\+\+ symbol of torch: leave out policy'):
        project('[tool.customops-build]\naten = "stable"\npolicy = "torch-pinned"\n')


@pytest.mark.parametrize("where", [in_container])
def test_one_word_makes_one_wheel_for_every_torch(factory, root, tmp_path, where):  # noqa: F811
    """The sample, unchanged but for the word; the same bytes by plain docker run."""
    copy = shutil.copytree(root / "tests/projects/pybind11-aten", tmp_path / "given/softclip")
    with (copy / "pyproject.toml").open("a") as file:
        file.write('aten = "stable"\n')
    run = factory("make_wheel.py", copy, where)
    wheel = the_wheel(run, factory.project)
    assert wheel.path.name == "softclip-1.2.0-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl"
    assert wheel.metadata()["requires-dist"] == ["torch>=2.10"]
    assert {"softclip/_C.py", "softclip/lib_C.so"} <= set(wheel.names)
    assert "torch_symbols" not in wheel.build_record()
    assert "4 passed" in run.stdout
    if os.environ.get("CUSTOMOPS_EVERY_PROJECT"):  # the gate has no time for it
        before = wheel.path.read_bytes()
        shutil.rmtree(factory.project / "dist")
        assert the_wheel(plain_run(factory.project), factory.project).path.read_bytes() == before
