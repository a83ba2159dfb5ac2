"""The three builds compute the same bits, and the programs and C++ that use them agree."""

import functools
import os
import re
import subprocess
import sys

import pytest

import customops


@pytest.mark.parametrize("capability", ["baseline", "avx2", "avx512", "avx512_bf16"])
def test_forward_passes_are_bitwise_equal(root, environments, capability):
    """For each instruction set that the machine has; -march=native must not change what baseline code rounds to."""
    if capability != "baseline" and "-DCUSTOMOPS_ONLY_BASELINE" in os.environ.get("CXX", ""):
        pytest.skip("`make test-ways` compiles the other instruction sets, too")
    lines = {}
    for way, env in environments.items():
        command = [sys.executable, root / "tests/ways/results.py"]
        run = subprocess.run(
            command, env=env | {"CUSTOMOPS_CPU_CAPABILITY": capability}, capture_output=True, text=True, check=True
        )
        lines[way] = run.stdout.splitlines()
    assert len(lines["jit"]) > 200
    assert {line.split()[1] for line in lines["jit"][1:]} >= set(torch_ops(root))
    for way in ("jit", "cmake"):
        differing = [pair for pair in zip(lines["setuptools"], lines[way], strict=True) if pair[0] != pair[1]]
        assert differing == [], f"{way} against setuptools"


def torch_ops(root):
    """The public ops, by their schemas."""
    schemas = re.findall(r'm\.def\(\s*"(\w+)\(', (root / "csrc/library.cpp").read_text())
    return [name for name in schemas if not name.startswith("_")]


@pytest.mark.parametrize("way", ["setuptools", "jit", "cmake"])
def test_the_report_says_which_build_is_open(environments, way):
    run = subprocess.run(
        [sys.executable, "-m", "customops"], env=environments[way], capture_output=True, text=True, check=True
    )
    assert f"(loaded; built by {way}: CUSTOMOPS_COMPILER={way})" in run.stdout


def test_a_second_jit_load_is_quick(environments):
    """Not a benchmark: it only catches a load that compiles, or asks a compiler for its version."""
    code = "import torch, time; t = time.time(); import customops; customops.jit.load(); print(time.time() - t)"
    run = functools.partial(subprocess.check_output, [sys.executable, "-c", code], env=environments["jit"], text=True)
    assert min(float(run()) for _ in range(3)) < 2


def test_a_cuda_tensor_and_a_cmake_library_without_cuda_kernels(monkeypatch, cmake_library):
    monkeypatch.setattr(customops._state, "opened", customops._state.Opened("cmake", cmake_library, "asked for"))
    monkeypatch.setattr(customops._cuda, "why_no_gpu", lambda machine: None)
    customops._cuda.load.cache_clear()
    with pytest.raises(RuntimeError, match=r"libcustomops\.so was built without them: cmake -DCUSTOMOPS_CUDA=ON"):
        customops._cuda.load()
