"""CMake: a C++ program runs an op without Python, and the pitfalls are explained."""

import shutil
import subprocess

import pytest
import torch


def configure(source, folder, *options, env=None):
    """stderr, in one line, of a configuration that has to fail."""
    run = subprocess.run(
        ["cmake", "-G", "Ninja", "-S", source, "-B", folder, *options],
        capture_output=True,
        text=True,
        check=False,
        env=env,
    )
    assert run.returncode != 0
    return " ".join(run.stderr.split())


def test_a_cpp_program_runs_an_op(cmake_build):
    run = subprocess.run([cmake_build / "axpy"], capture_output=True, text=True, check=True)
    assert run.stdout.split()[:3] == ["6", "9", "12"]
    assert "axpy: y must have the shape of x, (3,), got (5,)" in run.stdout
    needed = subprocess.run(["ldd", cmake_build / "axpy"], capture_output=True, text=True, check=True).stdout
    assert "libcustomops.so" in needed
    assert "libpython" not in needed


def test_torch_not_found(root, tmp_path):
    assert 'name torch 2.10 or newer: -DCMAKE_PREFIX_PATH="$(python -c' in configure(root / "csrc", tmp_path)


def test_a_torch_too_old(root, tmp_path):
    fake = tmp_path / "libtorch"
    for name, text in {
        "include/torch/csrc/inductor/aoti_torch/c/shim.h": "",
        "include/torch/headeronly/version.h": "#define TORCH_VERSION_MAJOR 2\n#define TORCH_VERSION_MINOR 9\n",
        "lib/libtorch_cpu.so": "",
    }.items():
        (fake / name).parent.mkdir(parents=True, exist_ok=True)
        (fake / name).write_text(text)
    assert '(found unsuitable version "2.9", minimum required is "2.10"' in configure(
        root / "csrc", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={fake}"
    ).replace("Found unsuitable", "(found unsuitable").replace("but required is at least", "minimum required is")


def test_no_nvcc_is_an_error_not_a_cpu_build(root, tmp_path):
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "CUDACXX": str(tmp_path / "nvcc")}
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("cmake", "ninja"):
        (programs / name).symlink_to(shutil.which(name))
    env["PATH"] = f"{programs}:/usr/bin:/bin"
    options = ("-DCUSTOMOPS_CUDA=ON", f"-DCMAKE_PREFIX_PATH={torch.utils.cmake_prefix_path}")
    assert "needs nvcc, which was not found: install the CUDA toolkit" in configure(
        root / "csrc", tmp_path / "b", *options, env=env
    )


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="there is no nvcc")
def test_cuda_without_architectures(root, tmp_path):
    message = configure(root / "csrc", tmp_path, "-DCUSTOMOPS_CUDA=ON")
    assert "CUSTOMOPS_CUDA=ON needs -DCMAKE_CUDA_ARCHITECTURES=..., such as 90 for an H200" in message
