"""bias_act for the tests that go over every op; tests/per_op/add2.py says what is what."""

import math

import torch

from customops import bias_act


def _first(y):
    """What is added: the first value of each row, in a shape that broadcasts."""
    return y[(slice(None),) + (slice(0, 1),) * (y.dim() - 1)]


def plain(x):
    return bias_act(x)


def call(x, y):
    return bias_act(x, _first(y).flatten(), 0, "lrelu", alpha=0.5, gain=1.0)


def reference(x, y):
    return torch.where(x + _first(y) > 0, x + _first(y), (x + _first(y)) * 0.5)


def results(a, b):
    bias = torch.randn(a.shape[1], generator=torch.Generator().manual_seed(3)) if a.dim() > 1 else None
    for act in ("linear", "relu", "lrelu", "tanh", "sigmoid", "elu", "selu", "softplus", "swish"):
        yield f"bias_act {act}", bias_act(3 * a, bias, act=act, gain=1.3, clamp=2.0)


def _backward(t, act="tanh", x=None, **changes):
    """The op for the backward, on good arguments but for the changes."""
    arguments = {"dim": 0, "act": act, "alpha": 0.0, "gain": 1.0, "clamp": -1.0, "sum": False} | changes
    return torch.ops.customops._bias_act_backward(t(2, 3), x, None, None, **arguments)


def _double_backward(t, grad2, x, act="tanh"):
    arguments = (grad2, t(2, 3), x, None, None, 0, act, 0.0, 1.0, -1.0, False)
    return torch.ops.customops._bias_act_double_backward(*arguments)


BAD_INPUTS = [
    ("x", "must be float32, float64, float16 or bfloat16, got torch.int32", lambda t: bias_act(t(2, 3, dtype=torch.int32))),
    ("b", "must have the dtype of x, torch.float32, got torch.float64", lambda t: bias_act(t(2, 3), t(3, dtype=torch.float64))),
    ("b", "must be on the device of x", lambda t: bias_act(t(2, 3), t(3, elsewhere=True))),
    ("b", r"must have shape \(C,\) with C = 3, the size of x along dim 1, got \(2,\)", lambda t: bias_act(t(2, 3), t(2))),
    ("b", r"must have shape \(C,\) with C = 3, .* got \(2, 3\)", lambda t: bias_act(t(2, 3), t(2, 3))),
    ("dim", r"must be from -2 to 1 for x of shape \(2, 3\), got 2", lambda t: bias_act(t(2, 3), t(3), 2)),
    ("act", "must be linear, relu, .* softplus or swish, got gelu", lambda t: bias_act(t(2, 3), act="gelu")),
    ("clamp", "must be a number, got nan", lambda t: bias_act(t(2, 3), clamp=math.nan)),
    *[
        (name, r"must fit into float32, .* torch.float16, got 1e\+300",
         lambda t, name=name: bias_act(t(1, dtype=torch.float16), act="lrelu", **{name: 1e300}))
        for name in ("alpha", "gain", "clamp")
    ],
    ("x", "tanh needs x or y for its slope", lambda t: _backward(t)),
    ("x", r"must have the shape of grad, \(2, 3\), got \(3, 2\)", lambda t: _backward(t, x=t(3, 2))),
    ("x", "linear needs x or y for its slope", lambda t: _backward(t, "linear", clamp=1.0)),
    ("dim", r"must be from -2 to 1 for x of shape \(2, 3\), got 5", lambda t: _backward(t, x=t(2, 3), dim=5, sum=True)),
    ("gain", r"must fit into float32, .* torch.float32, got 1e\+300", lambda t: _backward(t, x=t(2, 3), gain=1e300)),
    ("grad2", r"must have the shape of grad, \(2, 3\), got \(3, 2\)", lambda t: _double_backward(t, t(3, 2), t(2, 3))),
    ("x", "tanh needs x or y for its slope", lambda t: _double_backward(t, t(2, 3), None)),
    ("relu", "relu has no curvature", lambda t: _double_backward(t, t(2, 3), t(2, 3), "relu")),
]  # fmt: skip
