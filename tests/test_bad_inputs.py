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


G = 2**31
OPS = torch.ops.customops
TOO_LARGE = {
    "padded by 2^31": lambda x: OPS._depthwise_conv2d(x, x, None, 1, 1, G, G, G, G, 1, 1),
    "gradient of a high image": lambda x: OPS._depthwise_conv2d_grad_input(x, x, 2**63 - 1, 1, 1, 1, G, 0, 1, 1, False),
    "gradient of a high kernel": lambda x: OPS._depthwise_conv2d_grad_weight(x, x, 2**62, 1, 1, 1, G, 0, G, 1),
    "gradient of a large kernel": lambda x: OPS._depthwise_conv2d_grad_weight(x, x, G, G, 1, 1, G - 1, G - 1, 1, 1),
    "a high image, zero-stuffed": lambda x: OPS._upfirdn2d(
        x.expand(1, 1, 2**33, 1), None, 1, G, 1, 1, 0, 0, 0, 0, False, 1.0
    ),
    "an image padded by 2^31": lambda x: OPS._upfirdn2d(x, None, 1, 1, 1, 1, G, G, G, G, False, 1.0),
}


@pytest.mark.parametrize("name", TOO_LARGE)
def test_sizes_that_leave_64_bits_are_refused(name, device):
    """make_conv_axis and its like add and multiply sizes: signed integers must not overflow."""

    def call(t):
        return TOO_LARGE[name](t(1, 1, 1, 1))

    kernel = said(call, "plain", device)
    assert re.match(r"_?(depthwise_conv2d|upfirdn2d)\w*: .*(at most 2\^60|than memory can hold)", kernel)
    for kind in ("meta", "fake"):
        assert said(call, kind, device) == kernel


def test_memory_of_upfirdn2d_does_not_grow_with_up():
    """Its plan had an entry for each of 2^31 phases, of which 3 have an output."""
    x = torch.ones(1, 1, 3, 3)
    y = OPS._upfirdn2d(x, None, G, G, G - 1, G - 1, 0, 0, 0, 0, False, 1.0)
    assert y.shape == (1, 1, 4, 4) and y.sum() == 1
