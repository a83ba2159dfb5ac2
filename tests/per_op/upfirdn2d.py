"""upfirdn2d for the tests that go over every op; tests/per_op/add2.py says what is what."""

import torch

from customops import setup_filter, upfirdn2d


def plain(x):
    return upfirdn2d(x, None)


def call(x, y):
    """Its kernel for any factors; those for the common ones have tests of their own."""
    return upfirdn2d(x[(None,) * (4 - x.dim())], None, gain=2).view(x.shape)


def reference(x, y):
    return 2 * x


def results(a, b):
    if a.dim() == 4 and a.numel():
        for taps in ((1, 3, 3, 1), [[1, 2], [3, 4], [5, 7]]):
            for up, down in ((1, 1), (2, 1), (1, 2), (3, 2)):
                yield f"upfirdn2d {taps} {up} {down}", upfirdn2d(a, setup_filter(taps), up, down, 4, gain=1.7)


BAD_INPUTS = [
    ("x", r"must have shape \(N, C, H, W\), got \(3, 4, 4\)", lambda t: upfirdn2d(t(3, 4, 4), None)),
    ("x", "must be float32, .* bfloat16, got torch.int32", lambda t: upfirdn2d(t(1, 1, 4, 4, dtype=torch.int32), None)),
    ("x", "must have at least one pixel along y, got none", lambda t: upfirdn2d(t(1, 1, 0, 4), None, 1, 1, 2)),
    ("f", "must have 1 or 2 dimensions, got 3", lambda t: upfirdn2d(t(1, 1, 4, 4), t(2, 2, 2))),
    ("f", "must be torch.float32, got torch.float64", lambda t: upfirdn2d(t(1, 1, 4, 4), t(2, dtype=torch.float64))),
    ("f", "must be on the device of x", lambda t: upfirdn2d(t(1, 1, 4, 4), t(3, elsewhere=True))),
    ("f", r"must have at least one tap, got shape \(0,\)", lambda t: upfirdn2d(t(1, 1, 4, 4), t(0))),
    ("up", "must be at least 1, got 0 and 1 along x", lambda t: upfirdn2d(t(1, 1, 4, 4), None, 0)),
    ("down", "must be at least 1, got 1 and -2 along y", lambda t: upfirdn2d(t(1, 1, 4, 4), None, 1, (1, -2))),
    ("down", r"must be at most 2\^31, got 1, 4294967296, 0 and 0 along x", lambda t: upfirdn2d(t(1, 1, 4, 4), None, 1, 2**32)),
    ("padding", r"must be at most 2\^31, got 1, 1, -4294967296 and 0", lambda t: upfirdn2d(t(1, 1, 4, 4), None, 1, 1, (-(2**32), 0, 0, 0))),
    ("padding", r"at least one pixel along y, got 4 \* 2 \+ padding 1 \+ -1 = 8 samples for a filter of 12",
     lambda t: upfirdn2d(t(1, 1, 4, 5), t(12), 2, 1, (1, 1, 1, -1))),
    ("gain", r"must fit into float32, .* torch.float32, got 1e\+300", lambda t: upfirdn2d(t(1, 1, 4, 4), None, gain=1e300)),
]  # fmt: skip
