"""Bad inputs of flatten_copy: see tests/test_bad_inputs.py."""

import torch

from customops import flatten_copy

ROWS = [
    (
        "x",
        "must be float32, float64, float16 or bfloat16, got torch.int32",
        lambda t: flatten_copy(t(2, dtype=torch.int32)),
    ),
    ("x", "must be float32, .* got torch.complex64", lambda t: flatten_copy(t(2, dtype=torch.complex64).detach())),
]
