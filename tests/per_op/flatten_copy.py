"""flatten_copy for the tests that go over every op; tests/per_op/add2.py says what is what."""

import torch

from customops import flatten_copy


def plain(x):
    return flatten_copy(x)


def call(x, y):
    return flatten_copy(x)


def reference(x, y):
    return x.reshape(-1)


def results(a, b):
    yield "flatten_copy", flatten_copy(a)


BAD_INPUTS = [
    (
        "x",
        "must be float32, float64, float16 or bfloat16, got torch.int32",
        lambda t: flatten_copy(t(2, dtype=torch.int32)),
    ),
    ("x", "must be float32, .* got torch.complex64", lambda t: flatten_copy(t(2, dtype=torch.complex64).detach())),
]
