"""add2 for the tests that go over every op.

`plain` takes one (N, C, H, W) tensor (tests/test_bad_tensors.py). `call` and `reference` take two tensors of one shape
and give the same values, exactly on small whole numbers (tests/test_cuda.py). `results` yields (name, result) of forward
passes on tensors of any layout, whose bits all builds have to agree on (tests/ways/results.py). BAD_INPUTS has rows of
(argument, message, call) for tests/test_bad_inputs.py.
"""

import torch

from customops import add2


def plain(x):
    return add2(x, x)


def call(x, y):
    return add2(x, y)


def reference(x, y):
    return x + y


def results(a, b):
    yield "add2", add2(a, b)


BAD_INPUTS = [
    (
        "a",
        "must be float32, float64, float16 or bfloat16, got torch.int32",
        lambda t: add2(*2 * [t(2, dtype=torch.int32)]),
    ),
    (
        "b",
        "must have the dtype of a, torch.float32, got torch.float64",
        lambda t: add2(t(2), t(2, dtype=torch.float64)),
    ),
    ("b", "must be on the device of a", lambda t: add2(t(2), t(2, elsewhere=True))),
    ("b", r"must have the shape of a, \(2, 3\), got \(3, 2\) \(expand it first", lambda t: add2(t(2, 3), t(3, 2))),
    ("b", r"\(2,\), got \(1,\) \(expand it first: this op does not broadcast\)", lambda t: add2(t(2), t(1))),
]
