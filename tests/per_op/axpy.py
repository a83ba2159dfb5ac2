"""axpy for the tests that go over every op; tests/per_op/add2.py says what is what."""

import torch

from customops import axpy


def plain(x):
    return axpy(x, x)


def call(x, y):
    return axpy(x, y, 0.5)


def reference(x, y):
    return 0.5 * x + y


def results(a, b):
    yield "axpy", axpy(a, b, 0.7)


BAD_INPUTS = [
    (
        "x",
        "must be float32, float64, float16 or bfloat16, got torch.int64",
        lambda t: axpy(*2 * [t(2, dtype=torch.int64)]),
    ),
    (
        "y",
        "must have the dtype of x, torch.float32, got torch.float64",
        lambda t: axpy(t(2), t(2, dtype=torch.float64)),
    ),
    ("y", "must be on the device of x", lambda t: axpy(t(2), t(2, elsewhere=True))),
    ("y", r"must have the shape of x, \(2, 3\), got \(3, 2\)", lambda t: axpy(t(2, 3), t(3, 2))),
    (
        "alpha",
        r"must fit into float32, .* torch.float16, got 1e\+300",
        lambda t: axpy(*2 * [t(1, dtype=torch.float16)], 1e300),
    ),
    ("alpha", r"must fit into float32, .* torch.float32, got -4e\+38", lambda t: axpy(t(1), t(1), -4e38)),
]
