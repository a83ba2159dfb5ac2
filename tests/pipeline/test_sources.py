"""The builds of csrc/ take the same files and flags: setuptools and nvcc, the JIT build, CMake."""

import re
import shutil
import subprocess

import pytest

PROBE = """cmake_minimum_required(VERSION 3.18)
include("{root}/csrc/cmake/Sources.cmake")
foreach(name sources cuda_sources flags cuda_flags link_flags)
  message("${{customops_${{name}}}}")
endforeach()
"""


@pytest.fixture
def tree(root, tmp_path):
    """The flags, and sources of the same name in several folders."""
    csrc = tmp_path / "csrc"
    (csrc / "cmake").mkdir(parents=True)
    for name in ("flags.txt", "flags_gcc_x86_64.txt", "link_flags.txt", "exports.map", "cmake/Sources.cmake"):
        shutil.copy(root / "csrc" / name, csrc / name)
    for folder, endings in ((".", ("cpp", "h")), ("cpu", ("cpp", "h")), ("cuda", ("cu", "cuh", "h"))):
        for below in (folder, f"{folder}/conv", f"{folder}/other") if folder != "." else (folder,):
            (csrc / below).mkdir(exist_ok=True)
            for ending in endings:
                (csrc / below / f"conv.{ending}").write_text("\n" * len(below))
    return csrc


def test_folders_below_the_device_are_compiled(tree, sources):
    def names(paths):
        return sorted(path.relative_to(tree).as_posix() for path in paths)

    assert names(sources.sources(tree, "cpu")) == [
        "conv.cpp",
        "cpu/conv.cpp",
        "cpu/conv/conv.cpp",
        "cpu/other/conv.cpp",
    ]
    assert names(sources.sources(tree, "cuda")) == ["cuda/conv.cu", "cuda/conv/conv.cu", "cuda/other/conv.cu"]
    assert {"conv.h", "cuda/conv/conv.cuh", "cuda/other/conv.h"} < set(names(sources.headers(tree, "cuda")))
    assert "cpu/conv/conv.h" in names(sources.headers(tree, "cpu"))
    assert {"cpu/conv/conv.cpp", "cuda/other/conv.cuh", "link_flags.txt"} < set(names(sources.packaged(tree)))


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_no_two_objects_have_one_name(tree, sources, device):
    compiled = sources.sources(tree, device)
    assert len({sources.object_name(tree, source) for source in compiled}) == len(compiled)
    assert sources.object_name(tree, tree / "cuda/conv/conv.cu") == "cuda/conv/conv.o"


def test_the_ninja_file_of_nvcc_has_relative_sources_every_header_and_an_object_each(
    tree, sources, tmp_path, monkeypatch
):
    import types

    import nvcc

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(nvcc, "home", lambda name: tmp_path / name)
    monkeypatch.setattr(nvcc, "version", lambda name: "12.4.131")
    monkeypatch.setattr(nvcc.shutil, "which", lambda name: name)
    compiled = [path.relative_to(tmp_path).as_posix() for path in sources.sources(tree, "cuda")]
    extension = types.SimpleNamespace(
        sources=compiled, extra_compile_args=sources.flags(tree), include_dirs=[], library_dirs=[], libraries=["torch_cpu"],
        extra_link_args=sources.link_flags(nvcc.CSRC),
    )  # fmt: skip
    text = nvcc.ninja_file(extension, "cuda12", ("90",), tmp_path / "k.so", tmp_path / "objects")
    built = dict(re.findall(r"^build (\S+): nvcc_cuda12 (\S+)$", text, re.MULTILINE))
    assert built == {
        f"{tmp_path}/objects/cuda12/cuda/{name}.o": f"csrc/cuda/{name}.cu"
        for name in ("conv", "conv/conv", "other/conv")
    }
    assert {"csrc/conv.h", "csrc/cuda/conv.cuh", "csrc/cuda/conv/conv.cuh", "csrc/cuda/other/conv.h"} < set(
        re.search(r"CCACHE_EXTRAFILES=(\S+)", text)[1].split(":")
    )
    assert "-Wl,--version-script=csrc/exports.map" in text
    assert "-L/other/lib" not in text
    # A cross build names the torch of the other machine in the compiler's own variables: it is found first.
    monkeypatch.setenv("CXXFLAGS", "-I/other/include -ffile-prefix-map=/a=.")
    monkeypatch.setenv("LDFLAGS", "-L/other/lib")
    extension.include_dirs, extension.library_dirs = ["/own/include"], ["/own/lib"]
    text = nvcc.ninja_file(extension, "cuda12", ("90",), tmp_path / "k.so", tmp_path / "objects")
    assert 0 < text.index("-I/other/include") < text.index("-I/own/include")
    assert 0 < text.index("-L/other/lib") < text.index("-L/own/lib")


def cmake_lists(tree, folder):
    """What Sources.cmake sets, from cmake itself."""
    (folder / "probe.cmake").write_text(PROBE.format(root=tree.parent))
    run = subprocess.run(["cmake", "-P", folder / "probe.cmake"], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return [line.split(";") for line in run.stderr.splitlines()]


@pytest.mark.skipif(shutil.which("cmake") is None, reason="there is no cmake")
@pytest.mark.parametrize("which", ["a tree with folders", "this one"])
def test_cmake_takes_the_same_files_and_flags(root, tree, sources, tmp_path, which):
    tree = tree if which == "a tree with folders" else root / "csrc"
    cpu, cuda, flags, cuda_flags, link_flags = cmake_lists(tree, tmp_path)
    assert set(cpu) == set(map(str, sources.sources(tree, "cpu")))
    assert set(cuda) == set(map(str, sources.sources(tree, "cuda")))
    assert flags == sources.flags(tree)
    assert sorted(cuda_flags) == sorted(sources.for_nvcc(flags))
    assert link_flags == sources.link_flags(tree)


def test_cmake_by_its_text(root, tree, sources):
    """The same for its files where there is no cmake."""
    text = (root / "csrc/cmake/Sources.cmake").read_text()
    found = {"cpu": set(), "cuda": set()}
    for recurse, name, pattern in re.findall(
        r'^file\(GLOB(_RECURSE)? (\w+) .*"\$\{csrc\}/(\S+)"\)', text, re.MULTILINE
    ):
        folder, _, last = pattern.rpartition("/")
        paths = (tree / folder).rglob(last) if recurse else (tree / folder).glob(last)
        found["cuda" if "cuda" in name else "cpu"].update(paths)
    assert found == {device: set(sources.sources(tree, device)) for device in found}


@pytest.mark.parametrize(
    ("macros", "more"),
    [("__x86_64__ __GNUC__", True), ("__x86_64__ __GNUC__ __clang__", False), ("__aarch64__ __GNUC__", False)],
)
def test_gcc_for_x86_64_gets_more_flags(tree, sources, tmp_path, macros, more):
    compiler = tmp_path / "c++"
    compiler.write_text(f"#!/bin/sh\necho {macros}\n")
    compiler.chmod(0o755)
    assert bool(sources.flags_of_gcc(tree, [str(compiler)])) is more
    assert sources.flags_of_gcc(tree, [str(tmp_path / "none")]) == []


@pytest.mark.parametrize("path", ["setup.py", "csrc/nvcc.py", "customops/_recipes.py", "csrc/CMakeLists.txt"])
def test_a_build_states_no_list_of_its_own(root, path):
    text = (root / path).read_text()
    own = re.findall(
        r"(?i)csrc[^\n]*glob|file\(GLOB|-Wl,--(?!no-as-needed)\S+|-std=\S+|-f(?:visibility|function)\S+|-static-\S+",
        text,
    )
    allowed = {"csrc/CMakeLists.txt": {"-static-libstdc++)"}}
    assert set(own) <= allowed.get(path, set()), f"{path} states what csrc/sources.py and the flag files are for"
    assert "sources" in text
