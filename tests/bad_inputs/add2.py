"""Bad inputs of add2: see tests/test_bad_inputs.py."""

import torch

from customops import add2

ROWS = [
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
