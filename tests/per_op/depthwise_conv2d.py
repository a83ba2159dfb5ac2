"""depthwise_conv2d for the tests that go over every op; tests/per_op/add2.py says what is what."""

import torch

from customops import depthwise_conv2d


def plain(x):
    if not isinstance(x, torch.Tensor):
        return depthwise_conv2d(x, torch.ones(1, 1, 1, 1))
    channels = x.shape[1] if x.layout == torch.strided and not x.is_nested else 1
    weight = torch.ones(1, 1, 1, 1, dtype=x.dtype if x.is_floating_point() else torch.float32, device=x.device)
    return depthwise_conv2d(x, weight.expand(channels, 1, 1, 1))


def call(x, y):
    """Twice x, by a depthwise kernel that is zero but for its middle."""
    x4 = x[(None,) * (4 - x.dim())]
    weight = torch.nn.functional.pad(x.new_full((x4.shape[1], 1, 1, 1), 2), (1, 1, 1, 1))
    return depthwise_conv2d(x4, weight, padding=1).view(x.shape)


def reference(x, y):
    return 2 * x


def results(a, b):
    if a.dim() == 4 and a.numel():
        weight = torch.randn(a.shape[1], 1, 3, 3, generator=torch.Generator().manual_seed(4))
        bias = torch.randn(a.shape[1], generator=torch.Generator().manual_seed(3))
        for stride in (1, 2):
            yield f"depthwise_conv2d {stride}", depthwise_conv2d(a, weight, bias, stride=stride, padding=1)
        wide = a.repeat(1, 20, 1, 1).bfloat16()
        kernels = torch.randn(wide.shape[1], 1, 5, 5, generator=torch.Generator().manual_seed(5)).bfloat16()
        yield "depthwise_conv2d bfloat16", depthwise_conv2d(wide, kernels, padding=2).float()


def _bad(
    argument, message, x=(2, 3, 4, 5), weight=(3, 1, 3, 3), bias=None, *arguments, dtypes=3 * (torch.float32,), **where
):
    """A row: a call with these shapes and dtypes."""

    def call(t):
        made = [
            None if shape is None else t(*shape, dtype=dtype, **where if name == argument else {})
            for name, shape, dtype in zip(("x", "weight", "bias"), (x, weight, bias), dtypes, strict=True)
        ]
        return depthwise_conv2d(*made, *arguments)

    return argument, message, call


def _bad_gradient(argument, message, op, x=(2, 3, 4, 5), other=(3, 1, 3, 3), *arguments, dtype=torch.float32):
    run = getattr(torch.ops.customops, f"_depthwise_conv2d_{op}")
    return argument, message, lambda t: run(t(*x), t(*other, dtype=dtype), *arguments)


F16, F32, F64, INT = torch.float16, torch.float32, torch.float64, torch.int32
_SHAPE = r"must have shape \(C, 1, kH, kW\) with C = 3, got "
_STEPS, _X, _W = (1, 1, 1, 1, 1, 1), (2, 3, 4, 5), (3, 1, 3, 3)
BAD_INPUTS = [
    _bad("x", r"must have shape \(N, C, H, W\), got \(4, 5\)", (4, 5)),
    _bad("x", "must be float32, float64, float16 or bfloat16, got torch.int32", dtypes=(INT, INT, INT)),
    _bad("x", r"must have at least one pixel, got shape \(2, 3, 0, 5\)", (2, 3, 0, 5)),
    _bad("weight", "must have the dtype of x, torch.float32, got torch.float64", dtypes=(F32, F64, F32)),
    _bad("weight", "must have the dtype of x, torch.float32, got torch.float16", dtypes=(F32, F16, F32)),
    _bad(
        "weight", "dtype of x, torch.float16, or torch.float32, got torch.bfloat16", dtypes=(F16, torch.bfloat16, F16)
    ),
    _bad("weight", "must be on the device of x", elsewhere=True),
    _bad("weight", _SHAPE + r"\(2, 1, 3, 3\)", _X, (2, 1, 3, 3)),
    _bad("weight", _SHAPE + r"\(3, 3, 3\)", _X, (3, 3, 3)),
    _bad("weight", _SHAPE + r"\(3, 3, 3\)", _X, (3, 3, 3), None, 1, "same"),
    _bad("weight", _SHAPE + r"\(3, 3, 3, 3\)", _X, (3, 3, 3, 3)),
    _bad("weight", _SHAPE + r"\(3, 1, 3, 0\)", _X, (3, 1, 3, 0)),
    _bad("bias", r"must have shape \(C,\) with C = 3, got \(2,\)", _X, _W, (2,)),
    _bad("bias", r"must have shape \(C,\) with C = 3, got \(3, 1\)", _X, _W, (3, 1)),
    _bad("bias", "must have the dtype of x, torch.float32, got torch.float16", _X, _W, (3,), dtypes=(F32, F32, F16)),
    _bad(
        "bias", "dtype of x, torch.float16, or torch.float32, got torch.float64", _X, _W, (3,), dtypes=(F16, F32, F64)
    ),
    _bad("bias", "must be on the device of x", _X, _W, (3,), elsewhere=True),
    _bad("stride", "must be at least 1, got 0 along y", _X, _W, None, 0),
    _bad("stride", "must be at least 1, got -1 along x", _X, _W, None, (1, -1)),
    _bad("dilation", "must be at least 1, got 0 along x", _X, _W, None, 1, 0, (1, 0)),
    _bad("padding", "must not be negative, got -1 along x", _X, _W, None, 1, (1, -1)),
    _bad("padding", r"must be at most 2\^31, got 1, 1, 4294967296 and 4294967296 along y", _X, _W, None, 1, 2**32),
    _bad("dilation", r"must be at most 2\^31, got 1, 4611686018427387904, 0 and 0", _X, _W, None, 1, 0, (2**62, 1)),
    _bad("kernel", r"along y, got 4 \+ padding 0 \+ 0 = 4 pixels for a kernel that spans 5", _X, _W, None, 1, 0, 2),
    _bad(
        "kernel",
        r"along x, got 5 \+ padding 0 \+ 0 = 5 pixels for a kernel that spans 7",
        _X,
        _W,
        None,
        1,
        (1, 0),
        (1, 3),
    ),
    _bad_gradient(
        "grad", "must have at least 3 pixels along y, .* got 2", "grad_input", (2, 3, 2, 5), _W, 4, 5, *_STEPS, False
    ),
    _bad_gradient("weight", "must have the dtype of grad", "grad_input", _X, _W, 4, 5, *_STEPS, False, dtype=F64),
    _bad_gradient("stride", "must be at most 2", "grad_input", _X, _W, 4, 5, 2**32, *_STEPS[1:], False),
    _bad_gradient(
        "grad", r"shape \(N, C, oH, oW\) with N = 2 and C = 3, got", "grad_weight", (1, 3, 4, 5), _X, 3, 3, *_STEPS
    ),
    _bad_gradient("kernel", "must have at least one pixel along x, got 5 and 0", "grad_weight", _X, _X, 3, 0, *_STEPS),
    (
        "x",
        r"must have shape \(N, C, H, W\), got \(3, 4, 5\)",
        lambda t: torch.ops.customops._depthwise_conv2d_gradients(
            t(*_X), t(3, 4, 5), t(*_W), *_STEPS, True, True, True
        ),
    ),
    (
        "weight",
        r"must have shape \(C, 1, kH, kW\) with C = 3, got \(3, 3, 3\)",
        lambda t: torch.ops.customops._depthwise_conv2d_gradients(
            t(*_X), t(*_X), t(3, 3, 3), *_STEPS, True, True, True
        ),
    ),
]
