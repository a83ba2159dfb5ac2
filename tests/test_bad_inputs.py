"""Every op refuses the same inputs with the same words in its C++ checks and in its fake kernels.

tests/per_op/<op>.py has the table BAD_INPUTS of (argument, message, call). `call(t)` calls the op with one bad argument;
t(2, 3, dtype=...) makes a tensor of that shape, t(2, elsewhere=True) one on another device.
"""

import contextlib
import importlib
import re

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import customops

ROWS = [(op, *row) for op in customops.OPS for row in importlib.import_module(f"per_op.{op}").BAD_INPUTS]


def said(call, kind, device):
    """The message with which a call fails, without the name of the device."""

    def tensor(*shape, dtype=torch.float32, elsewhere=False):
        where = device if (kind == "meta") == elsewhere else "meta"
        t = torch.ones(shape, dtype=dtype, device=where)
        return t.requires_grad_() if kind == "requires_grad" and t.is_floating_point() else t

    with FakeTensorMode() if kind == "fake" else contextlib.nullcontext(), pytest.raises(RuntimeError) as error:
        call(tensor)
    return re.sub(r"(device of \w+, |got )(cpu|cuda:\d+|meta)\b", r"\1DEVICE", str(error.value).splitlines()[0])


@pytest.mark.parametrize(
    ("op", "argument", "message", "call"),
    ROWS,
    ids=[f"{op}-{argument}-{i}" for i, (op, argument, *_) in enumerate(ROWS)],
)
def test_kernels_and_fake_kernels_refuse_it_with_the_same_words(op, argument, message, call, device):
    kernel = said(call, "plain", device)
    assert re.match(rf"_?{op}\w*: ", kernel), kernel
    assert re.search(message, kernel), kernel
    assert re.search(rf"\b{argument}\b", kernel), f"{kernel!r} does not name {argument}"
    for kind in ("requires_grad", "meta", "fake"):
        assert said(call, kind, device) == kernel
