"""What benchmarks/check_choice.py makes of a profiler's names, and `explain` over problems drawn at random; no GPU needed."""

import sys
from pathlib import Path

import pytest

import customops

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
if not BENCHMARKS.is_dir():  # the tests of a wheel come without the rest of the checkout
    pytest.skip("no benchmarks here", allow_module_level=True)
sys.path.append(str(BENCHMARKS))
import check_choice  # noqa: E402
import sweep_cases  # noqa: E402

customops.load()
HERE = "customops::cuda::depthwise::"
PACKAGE = Path(customops.__path__[0])
CSRC = PACKAGE / "csrc" if (PACKAGE / "csrc").is_dir() else PACKAGE.parent / "csrc"


@pytest.mark.parametrize(
    ("direction", "names", "files", "copied"),
    [
        ("fwd", [f"void {HERE}(anonymous namespace)::fwd_planes<float, {HERE}TapWindow<1, 1, 3> >(X)"], {"fwd_planes"}, False),
        ("wgrad", [f"void {HERE}(anonymous namespace)::wgrad_rows<float>(X)", f"void {HERE}add_splits<float>(X)"], {"wgrad_rows"}, False),
        ("dgrad", [f"void {HERE}(anonymous namespace)::rows<float>(X)"], {"fwd_rows"}, False),
        ("fwd", [f"void {HERE}large<float, 4>(X)"], {"fwd_large"}, False),
        ("wgrad", [f"void {HERE}large<float, 4>(X)", "void customops::cuda::transposed<unsigned int, 1>(X)"], {"wgrad_large"}, True),
        ("fwd", [f"void {HERE}(anonymous namespace)::sliding_pixels<double, int>(X)", "cudaLaunchKernel"], {"fwd_sliding"}, False),
        ("wgrad", ["aten::convolution_backward", "void at::native::(anonymous namespace)::conv_depthwise2d_grad_weight_kernel<float, int>(X)"], {"wgrad_torch"}, False),
        ("dgrad", ["aten::cudnn_convolution_transpose", "void dgrad2d_grouped_direct_kernel<float>(X)"], {"fwd_cudnn"}, False),
        ("fwd", ["aten::_conv_depthwise2d"], set(), False),
        ("fwd", ["Memcpy DtoD (Device -> Device)", "void at::native::vectorized<4, X>(int)"], set(), True),
    ],
)  # fmt: skip
def test_names(direction, names, files, copied):
    assert check_choice.ran(names, direction) == (files, copied)


def test_every_kernel_of_the_sources_belongs_to_a_file():
    """A new `__global__` whose name is not its file's has to be known to check_choice."""
    import re

    folder = CSRC / "cuda/depthwise_conv2d"
    files = {path.stem for path in folder.glob("*.cu")}
    kernel = re.compile(r"__global__ void (?:__launch_bounds__\((?:[^()]|\([^()]*\))*\)\s*)?(\w+)\(")
    found = {name for path in folder.iterdir() for name in kernel.findall(path.read_text())}
    assert len(found) > 15
    for name in found - {"large"} - check_choice.HELPERS:
        assert check_choice.FILES.get(name, name) in files, name


@pytest.mark.parametrize("device", ["cpu", "cuda", "cuda:75,40,65536,65536"])
def test_random_problems_get_a_kernel_that_exists(device):
    kind = device.split(":")[0]
    files = {path.stem.removesuffix("_loops") for path in (CSRC / kind / "depthwise_conv2d").iterdir()}
    for index in range(300):
        problem = sweep_cases.draw(7, index, kind)
        for direction in sweep_cases.DIRECTIONS:
            (name,), _ = check_choice.explained(direction, problem, device)
            assert name in files | {"wgrad_tiles"} | (check_choice.TORCH if kind == "cuda" else set()), problem
            assert name.startswith("wgrad") == (direction == "wgrad"), problem
