"""On a GPU: the sources of aten_stable/, compiled against ATen and against aten_stable's headers, give the same bits.

Each library for the stable ABI runs in a process of its own, also the one for CUDA 12 on a driver for CUDA 13.
ATEN_STABLE_BUILT may name a folder of modules that were built before: `python -m aten_stable build theirs.blend ...`.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from same_bits import assert_same, load
from torch.utils import cpp_extension

ROOT = Path(__file__).parents[2]
SOURCES = Path(__file__).with_name("aten_stable")
sys.path.insert(0, str(ROOT))

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


def steps(*shape, dtype=torch.float32):
    """Eighths whose sums are exact in float32, in whatever order the threads add them."""
    generator = torch.Generator("cuda").manual_seed(0)
    return (torch.randint(-16, 17, shape, generator=generator, device="cuda") / 8).to(dtype)


def blend(module):
    found = []
    for dtype in DTYPES:
        a, b = steps(37, 65, dtype=dtype), steps(65, 37, dtype=dtype).t()
        found += [*module.blend(a, b), *module.blend(a[:, ::2], b=b[:, ::2], weight=0.25)]
    with torch.cuda.stream(torch.cuda.Stream()):
        found += module.blend(steps(300, 300), steps(300, 300), 0.75)
    return found


def noise(module):
    x, own = steps(1000), torch.Generator("cuda").manual_seed(3)
    torch.cuda.manual_seed(7)
    found = [module.noise(x), module.noise(x), module.noise(x, own), module.noise(x[:0], generator=own)]
    return [*found, torch.rand(3, device="cuda"), torch.rand(3, device="cuda", generator=own)]


def atomics(module):
    generator = torch.Generator("cuda").manual_seed(1)
    rows = torch.randint(0, 100, (1000,), generator=generator, device="cuda")
    found = [found for dtype in DTYPES for found in module.atomics(steps(1000, dtype=dtype), rows, 100)]
    for dtype in (*DTYPES, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8):
        x = (steps(9, 14).abs() * 2).floor().to(dtype)  # sums below 256, which bfloat16 has exactly
        found += [*module.extremes(x[:, ::2]), *module.extremes(x.t())]
    x[2, 3] = 200  # of a uint8
    found += module.extremes(x)
    nan = steps(40)
    nan[7] = float("nan")
    return [*found, module.extremes(nan)[0][:3], *module.turned(torch.complex(steps(20), steps(21)[1:] + 1))]


def blocks(module):
    return [module.blocks(steps(5, columns, dtype=dtype)) for dtype in DTYPES for columns in (1, 30, 64, 1000)]


def numbers(module):
    x, w, rows = steps(4, 4), steps(4, 4) + 1, torch.tensor([3, 1, 3], device="cuda")
    n = torch.tensor([5, 9, -7, 1 << 20], device="cuda")
    return [module.scalars(x, w), module.indices(x, rows), module.integers(n), module.number(x),
            module.into(torch.empty_like(x), x, w)]  # fmt: skip


def options(module):
    found = [module.filled([3, 2], 2.5, steps(1, dtype=dtype)) for dtype in DTYPES]
    return [*found, module.total([steps(3, 4)] * 3, [0], "mean", first=1)]


def functions(module):
    x = steps(5, 3, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(module.power, x)
    assert torch.autograd.gradgradcheck(module.power, x)
    values, rows = module.row_max(x, x[0] * 2)
    return [module.power(x, 4, 0.5), values, rows, *torch.autograd.grad(values.sum(), x), module.slope(x)]


CALLS = {call.__name__: call for call in (atomics, blocks, blend, noise, numbers, options, functions)}


def run(path, target):
    """In a process of its own."""
    torch.save(CALLS[path.stem](load(path.stem, path)), target)


def source(name):
    return next(path for path in SOURCES.glob(f"{name}.*") if path.suffix in (".cu", ".cpp"))


def built(name, folder):
    """The module's file, with all of its libraries beside it."""
    ready = os.environ.get("ATEN_STABLE_BUILT")
    if ready and Path(ready, "theirs", f"{name}.py").is_file():
        return shutil.copytree(Path(ready, "theirs"), folder / "theirs") / f"{name}.py"
    command = [sys.executable, "-m", "aten_stable", "build", f"theirs.{name}", source(name), "--folder", folder]
    if source(name).suffix == ".cu":
        major, minor = torch.cuda.get_device_capability()
        command += ["--cuda", f"{cpp_extension.CUDA_HOME}:{major}{minor}"]
    subprocess.run(command, cwd=ROOT, check=True)
    return folder / "theirs" / f"{name}.py"


@pytest.mark.parametrize("name", CALLS)
def test_same_bits(name, tmp_path):
    if not cpp_extension.CUDA_HOME:
        pytest.skip("the build against ATen needs nvcc: set CUDA_HOME")
    (tmp_path / "aten").mkdir()
    aten = cpp_extension.load(name, [str(source(name))], build_directory=str(tmp_path / "aten"), extra_cflags=["-w"])
    wanted = CALLS[name](aten)
    module = built(name, tmp_path / "stable")
    held = module.with_suffix(".cuda.json")
    for library in json.loads(held.read_text()) if held.exists() else [""]:  # cuda12, cuda13
        target = tmp_path / f"{name}.{library}.pt"
        command = f"from pathlib import Path; import {Path(__file__).stem} as t; t.run(Path({str(module)!r}), {str(target)!r})"
        environment = os.environ | {"ATEN_STABLE_CUDA": library}
        subprocess.run([sys.executable, "-c", command], cwd=Path(__file__).parent, env=environment, check=True)
        assert_same(torch.load(target), wanted)
