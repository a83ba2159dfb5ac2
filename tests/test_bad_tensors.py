"""Every op refuses the same unusual tensors, or computes with them what torch does; none ends the process.

One table for all ops: tests/per_op/<op>.py has `plain(x)`, the op on one (N, C, H, W) tensor. An error names the op.
"""

import importlib
import re

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import customops

PLAIN = {op: importlib.import_module(f"per_op.{op}").plain for op in customops.OPS}
ANSWER = torch.ones(2, 3, 4, 5)
INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool, torch.uint16, torch.uint32]
UNSUPPORTED = [*INTEGERS, torch.complex64, torch.complex128, torch.complex32, torch.float8_e4m3fn, torch.float8_e5m2]


def refused(op, x, kinds=(RuntimeError, NotImplementedError, TypeError)):
    """The first line of the error."""
    with pytest.raises(kinds) as error:
        PLAIN[op](x)
    said = str(error.value).splitlines()[0]
    assert re.search(rf"\b_?{op}\b", said), f"{said!r} does not name {op}"
    return said


every_op = pytest.mark.parametrize("op", customops.OPS)


@every_op
@pytest.mark.parametrize("dtype", UNSUPPORTED, ids=str)
def test_dtypes(op, dtype, device):
    x = torch.empty(2, 3, 4, 5, dtype=dtype, device=device)
    said = refused(op, x)
    assert re.search(rf"^{op}: \w+ must be float32, float64, float16 or bfloat16, got ", said)
    assert refused(op, x.to("meta")) == said


LAYOUTS = {
    "sparse COO": lambda x: x.to_sparse(),
    "sparse CSR": lambda x: x[0, 0].to_sparse_csr(),
    "sparse BSR": lambda x: x[0, 0].to_sparse_bsr((2, 5)),
    "MKL-DNN": lambda x: x.to_mkldnn(),
    "nested": lambda x: torch.nested.nested_tensor([x[0], x[1, :2]]),
}
if hasattr(torch, "quantize_per_tensor"):  # torch means to drop it
    LAYOUTS["quantized"] = lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8)


@every_op
@pytest.mark.filterwarnings("ignore")  # of torch, about layouts in beta
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(op, layout, device):
    if device != "cpu" and layout == "MKL-DNN":
        pytest.skip("for CPUs only")
    refused(op, LAYOUTS[layout](ANSWER.to(device)))


@every_op
@pytest.mark.parametrize("not_a_tensor", [None, 1.0, [1.0], "x"], ids=repr)
def test_what_is_no_tensor(op, not_a_tensor):
    said = refused(op, not_a_tensor, TypeError)
    assert said.endswith(f"must be a Tensor, got {type(not_a_tensor).__name__}")


class Named(torch.Tensor):
    """A subclass that only carries a name."""


class Wrapper(torch.Tensor):
    """A subclass that intercepts every op and runs it on what it wraps."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, device=inner.device)

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        inner = torch.utils._pytree.tree_map_only(cls, lambda t: t.inner, args)
        return torch.utils._pytree.tree_map_only(torch.Tensor, cls, function(*inner, **kwargs or {}))


@every_op
def test_subclasses(op, device):
    x = torch.randn(2, 3, 4, 5, generator=torch.Generator().manual_seed(0)).to(device)
    expected = PLAIN[op](x)
    assert torch.equal(PLAIN[op](x.as_subclass(Named)), expected)
    assert torch.equal(PLAIN[op](torch.nn.Parameter(x)), expected)
    wrapped = PLAIN[op](Wrapper(x))
    assert torch.equal(wrapped.inner, expected)


HUGE = 2**48  # bytes: more than the address space of a process, so that no kernel overcommits


@every_op
def test_out_of_memory(op):
    """On the CPU, where torch raises RuntimeError and gives the number of bytes."""
    x = torch.ones(1, 1, 1, 1).expand(2**11, 2**11, 2**12, 2**12)
    said = refused(op, x, RuntimeError)
    shape = rf"\({2**46},\)" if op == "flatten_copy" else rf"\({2**11}, {2**11}, {2**12}, {2**12}\)"
    assert re.search(rf"^{op}: no memory for a tensor of shape {shape} on cpu: ", said)
    if tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 13):  # earlier ones only print it
        assert re.search(rf"you tried to allocate {HUGE} bytes", said)
    with FakeTensorMode():
        assert PLAIN[op](torch.empty(1, 1, 1, 1).expand(2**11, 2**11, 2**12, 2**12)).numel() == 2**46


@every_op
@pytest.mark.parametrize("shape", [(2**31, 2**31, 1, 1), (1, 1, 2**31, 2**31), (2**15, 2**16, 2**15, 2**16)], ids=str)
def test_more_bytes_than_64_bits_count(op, shape, device):
    refused(op, torch.ones(1, 1, 1, 1, device=device).expand(shape), RuntimeError)


@every_op
@pytest.mark.parametrize("dim", range(4))
def test_sizes_near_2_to_31(op, dim):
    """A result of half precision that fits no int32 index along any dimension: shapes alone, so no memory is needed."""
    shape = [1, 1, 1, 1]
    for size in (2**31 - 1, 2**31, 2**31 + 1):
        shape[dim] = size
        with FakeTensorMode():
            assert PLAIN[op](torch.empty(1, 1, 1, 1, dtype=torch.float16).expand(shape)).numel() == size
