"""Importing the package: what it costs, what it needs, and what it says when it cannot."""

import os
import subprocess
import sys

import pytest
import torch

import customops


def python(code, cwd=None, **env):
    """Runs `code` in a new interpreter; this one's working directory is not on its path."""
    return subprocess.run(
        [sys.executable, "-c", code], cwd=cwd, env=os.environ | env, capture_output=True, text=True, check=False
    )


CHECK_ALL_DTYPES = """
import customops, torch
print(torch.ops.customops._cpu_capability())
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
"""


@pytest.mark.parametrize("capability", ["baseline", "avx2", "avx512"])
def test_every_instruction_set_is_right(capability):
    run = python(CHECK_ALL_DTYPES, CUSTOMOPS_CPU_CAPABILITY=capability)
    assert run.returncode == 0, run.stderr
    order = ["baseline", "avx2", "avx512"]
    best = python("import customops, torch; print(torch.ops.customops._cpu_capability())").stdout.strip()
    assert run.stdout.strip() == min(capability, best, key=order.index)


@pytest.mark.parametrize("n", [1, 300_000])
def test_unknown_capability_is_refused(n):
    code = f"import customops, torch; customops.add2(torch.ones({n}), torch.ones({n}))"
    run = python(code, CUSTOMOPS_CPU_CAPABILITY="sse9")
    assert "CUSTOMOPS_CPU_CAPABILITY must be baseline, avx2 or avx512, got sse9" in run.stderr


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
    old = "import torch; torch.__version__ = '2.9.1'; import customops;"
    assert python(old).returncode == 0  # the import itself does no harm
    for use in ("customops.add2", "from customops import axpy", "customops.nn"):
        assert (
            "ImportError: customops needs PyTorch 2.10 or newer, found 2.9.1: pip install -U"
            in python(old + use).stderr
        )
    run = python(old + "from customops.__main__ import main; main()")
    assert "error: customops needs PyTorch 2.10 or newer, found 2.9.1" in run.stdout


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
    assert "_cpu.so (loaded" in run.stdout
    assert f"CPU capability: {torch.ops.customops._cpu_capability()}" in run.stdout
    assert "CUDA kernels: " in run.stdout
    assert "build record: " in run.stdout
