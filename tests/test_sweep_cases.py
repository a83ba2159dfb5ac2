"""The problems that benchmarks/sweep.py draws: the same for a seed, all of them valid, and of every class."""

import math
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
if not BENCHMARKS.is_dir():  # the tests of a wheel come without the rest of the checkout
    pytest.skip("no benchmarks here", allow_module_level=True)
sys.path.append(str(BENCHMARKS))
import sweep_cases  # noqa: E402

SEED, COUNT = 5, 600


@pytest.fixture(scope="module", params=("cpu", "cuda"))
def problems(request):
    return request.param, [sweep_cases.draw(SEED, index, request.param) for index in range(COUNT)]


def test_the_same_for_a_seed_in_any_order(problems):
    device, drawn = problems
    for index in (COUNT - 1, 17, 0):
        assert sweep_cases.draw(SEED, index, device) == drawn[index]
    assert sweep_cases.draw(SEED + 1, 0, device) != drawn[0]


def test_valid_and_within_the_limits(problems):
    device, drawn = problems
    limits = sweep_cases.LIMITS[device]
    for p in drawn:
        assert p.valid() and min(p.out) >= 1, p
        assert limits.fewest <= p.elements <= limits.most, p
        assert p.work <= (limits.work64 if p.dtype == "float64" else limits.work), p


CLASSES = {
    "one pixel high": lambda p: p.shape[2] == 1,
    "one pixel wide": lambda p: p.shape[3] == 1,
    "odd channels": lambda p: p.shape[1] % 2 == 1,
    "row": lambda p: p.kernel[0] == 1 < p.kernel[1],
    "column": lambda p: p.kernel[1] == 1 < p.kernel[0],
    "rectangle": lambda p: 1 < min(p.kernel) < max(p.kernel),
    "even": lambda p: p.kernel[0] % 2 == 0,
    "larger than 20": lambda p: max(p.kernel) > 20,
    "unequal strides": lambda p: p.stride[0] != p.stride[1],
    "stride of 3 or 4": lambda p: max(p.stride) > 2,
    "unequal dilations": lambda p: p.dilation[0] != p.dilation[1],
    "no padding": lambda p: p.padding == (0, 0) and max(p.kernel) > 1,
    "padding beyond 'same'": lambda p: p.padding[1] > (p.span[1] - 1) / 2,
}


def test_every_class_is_drawn(problems):
    drawn = problems[1]
    for name, belongs in CLASSES.items():
        assert sum(map(belongs, drawn)) >= COUNT // 50, name
    for field, values in (
        ("name", sweep_cases.PUBLISHED),
        ("dtype", sweep_cases.DTYPES),
        ("layout", sweep_cases.LAYOUTS),
    ):
        for value in values:
            assert sum(getattr(p, field) == value for p in drawn) >= COUNT // 100, value
    assert 0.45 < sum(p.name != "random" for p in drawn) / COUNT < 0.75
    sizes = [math.log2(p.elements) for p in drawn]
    assert max(sizes) - min(sizes) > 6


def test_lines_replay(problems):
    for p in problems[1][:100]:
        for direction in sweep_cases.DIRECTIONS:
            assert sweep_cases.parse(f"{direction} {p}") == (direction, p._replace(name="replayed"))


@pytest.mark.parametrize(
    "line",
    [
        "",
        "fwd float32 nchw 1x1x4x4",
        "fwd float8 nchw 1x1x4x4 k3x3 s1x1 p1x1 d1x1",
        "fwd float32 nchw 1x1x2x2 k3x3 s1x1 p0x0 d1x1",
        "fwd float32 nchw 1x1x4x4 k3x3 s0x1 p1x1 d1x1",
    ],
)
def test_other_lines_are_refused(line):
    with pytest.raises(ValueError):
        sweep_cases.parse(line)
