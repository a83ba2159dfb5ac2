"""Inputs and comparisons that the tests of every op share."""

import os
import platform
import shutil
import subprocess
import sys

import torch
from hypothesis import HealthCheck, settings

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
# What CUSTOMOPS_CPU_CAPABILITY names on this architecture, the slowest first; a machine may lack the last ones.
INSTRUCTION_SETS = (
    ["neon", "neon_bf16"] if platform.machine() == "aarch64" else ["baseline", "avx2", "avx512", "avx512_bf16"]
)

# One dtype is enough for torch.library.opcheck, which takes a second: dispatch does not depend on it, and a fake kernel
# that made up a dtype would not make up this one.
OPCHECK_DTYPE = torch.float16

# torch.compile with inductor needs a C++ compiler, which a clean environment lacks on purpose; aot_eager goes through
# the same graph capture, fake kernels and derivatives.
COMPILE_BACKENDS = ["aot_eager"] + (["inductor"] if shutil.which("g++") else [])


def _expanded(t):
    return t[:1, :, :1].expand_as(t)


def _misaligned(t):
    storage = t.new_empty(t.numel() + 1)
    return storage[1:].view_as(t).copy_(t)


def _negative_bit(t):
    """A view whose elements torch negates lazily, where the dtype has complex numbers; a plain one elsewhere."""
    return torch.complex(t, t).conj().imag if t.dtype in (torch.float32, torch.float64) else t


# Every layout takes a contiguous (N, C, H, W) tensor and returns one of some shape. Two inputs of one op may have
# different layouts as long as `SAME_SHAPE` says that their shapes agree.
SAME_SHAPE = {
    "contiguous": lambda t: t,
    "channels_last": lambda t: t.contiguous(memory_format=torch.channels_last),
    "transposed": lambda t: t.transpose(2, 3).contiguous().transpose(2, 3),
    "reversed": lambda t: t.permute(3, 2, 1, 0).contiguous().permute(3, 2, 1, 0),
    "sliced": lambda t: torch.cat([t, t], dim=3)[..., : t.shape[3]],
    "stepped": lambda t: t.repeat_interleave(2, dim=3)[..., ::2],
    "expanded": _expanded,
    "misaligned": _misaligned,
    "negative_bit": _negative_bit,
}
OTHER_SHAPE = {
    "scalar": lambda t: t[0, 0, 0, 0],
    "one_element": lambda t: t[:1, :1, :1, :1],
    "vector": lambda t: t[0, 0, 0],
    "empty": lambda t: t[:0],
    "size_one_dims": lambda t: t[:, :, :1].transpose(0, 2),
    "five_dims": lambda t: t.unflatten(3, (2, -1)).permute(4, 0, 3, 1, 2),
}
LAYOUTS = SAME_SHAPE | OTHER_SHAPE


def examples(count):
    """Hypothesis's settings for `count` examples, without its clocks: machines may be busy.

    The same ones each time; new ones with CUSTOMOPS_HYPOTHESIS=fresh, and a failure prints the line that replays it.
    """
    fresh = os.environ.get("CUSTOMOPS_HYPOTHESIS") == "fresh"
    return settings(
        max_examples=20 * count if fresh else count, derandomize=not fresh, database=None, print_blob=fresh,
        deadline=None, suppress_health_check=[HealthCheck.too_slow],
    )  # fmt: skip


def make(layout, dtype, device, seed=0, shape=(3, 5, 8, 38)):
    """A random tensor of about 5,000 elements: several blocks of the kernels and a remainder."""
    generator = torch.Generator().manual_seed(seed)
    return LAYOUTS[layout](torch.randn(shape, generator=generator, dtype=torch.float64).to(device, dtype))


def large(dtype, device, seed=0):
    """More elements than one thread takes, an odd number of them."""
    return make("vector", dtype, device, seed, shape=(1, 1, 1, 300_001))


def compiled_in_one_graph(f, backend, dynamic):
    """``torch.compile`` that refuses graph breaks, and that has not seen ``f`` under another backend before."""
    torch.compiler.reset()
    return torch.compile(f, fullgraph=True, backend=backend, dynamic=dynamic)


def assert_matches(actual, expected64, like):
    """``actual`` is ``expected64`` rounded to ``like``'s dtype, up to one unit in the last place, laid out like it."""
    eps = torch.finfo(like.dtype).eps
    torch.testing.assert_close(actual, expected64.to(like.dtype), rtol=eps, atol=eps)
    assert actual.stride() == torch.empty_like(like).stride()


def python(code, cwd=None, **env):
    """Runs `code` in a new interpreter; this one's working directory is not on its path."""
    return subprocess.run(
        [sys.executable, "-c", code], cwd=cwd, env=os.environ | env, capture_output=True, text=True, check=False
    )


def in_forks(start, uses):
    """Code that runs each of `uses` in a child of one process that ran `start`: importing torch takes seconds."""
    return f"""
import os, sys
{start}
for use in {uses!r}:
    sys.stdout.flush()
    if os.fork() == 0:
        exec(use)
        break
    os.wait()
"""
