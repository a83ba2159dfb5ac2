import math

import pytest
import torch
import torch.nn.functional as F
from common import COMPILE_BACKENDS, DTYPES, LAYOUTS, OPCHECK_DTYPE, SAME_SHAPE, compiled_in_one_graph, examples, make
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import gradcheck, gradgradcheck

import customops

R2 = math.sqrt(2)
# act -> (plain torch, default gain)
ACTS = {
    "linear": (lambda z, alpha: z, 1),
    "relu": (lambda z, alpha: F.relu(z), R2),
    "lrelu": (lambda z, alpha: F.leaky_relu(z, alpha), R2),
    "tanh": (lambda z, alpha: torch.tanh(z), 1),
    "sigmoid": (lambda z, alpha: torch.sigmoid(z), 1),
    "elu": (lambda z, alpha: F.elu(z), 1),
    "selu": (lambda z, alpha: F.selu(z), 1),
    "softplus": (lambda z, alpha: F.softplus(z, threshold=100), 1),
    "swish": (lambda z, alpha: F.silu(z), R2),
}
CURVED = ["tanh", "sigmoid", "elu", "selu", "softplus", "swish"]
# Names of arguments of bias_act, and of what they stand for in the backward's choice between x, y and neither.
OPTIONS = {
    "plain": {},
    "gain": {"gain": 3.0},
    "small gain": {"gain": 0.3},
    "negative gain": {"gain": -1.5},
    "no gain": {"gain": 0.0},
    "clamp": {"clamp": 0.7},
    "gain and clamp": {"gain": 2.5, "clamp": 1.1},
}
# Rows and columns of every kind, seen from the CUDA kernels: (shape, dim).
SHAPES = [
    ((1,), 0), ((3,), 0), ((2, 3, 1030), 1), ((3, 4, 512), 1), ((2, 3, 4099), 1), ((2, 1, 999), 1), ((1, 5, 9001), 1),
    ((4, 600, 1), 1), ((300, 2), 1), ((301, 3), -1), ((7, 2, 511), 1), ((5, 4100), 1), ((3, 3001), 1), ((9001, 6), 1),
    ((33, 8, 7, 7), 1), ((2, 64, 16, 16), 1), ((6, 5, 4), 0), ((6, 5, 4), 2), ((2000, 2), 0), ((1, 1, 1), 1),
    ((40000, 8), 1), ((1024, 2, 3), -2),
]  # fmt: skip


def reference(x, b=None, dim=1, act="linear", alpha=None, gain=None, clamp=None):
    """The definition, in whatever dtype x has; derivatives by torch."""
    if b is not None:
        x = x + b.view([-1 if d == dim % x.dim() else 1 for d in range(x.dim())])
    function, default_gain = ACTS[act]
    y = function(x, 0.2 if alpha is None else alpha) * (default_gain if gain is None else gain)
    if clamp is None:
        return y
    # At the edge, the derivative of torch.clamp is 1 up to 2.13 and 0 in 2.15.
    return torch.where(y.abs() <= clamp, y, y.detach().clamp(-clamp, clamp))


def near(actual, expected64, units, terms=1, size=1.0):
    """Within `units` in the last place; for a sum of many terms, up to `size`, their errors add up like a random walk."""
    eps = units * torch.finfo(actual.dtype).eps
    atol = eps * math.sqrt(terms) * max(size, 1)
    torch.testing.assert_close(actual.double(), expected64, rtol=eps, atol=atol, equal_nan=True)


def bias_for(x, dim=1):
    if x.dim() == 0:
        return None
    generator = torch.Generator().manual_seed(7)
    return torch.randn(x.shape[dim], generator=generator, dtype=torch.float64).to(x.device, x.dtype)


def check(x, b, grad, dim=1, *, any_size=False, **arguments):
    """Output and first derivatives against float64, and where they lie in memory.

    any_size: gain and gradient may be large, and the bounds of derivatives grow with them.
    """
    x = x.detach().requires_grad_()
    b = None if b is None else b.detach().requires_grad_()
    y = customops.bias_act(x, b, dim, **arguments)
    x64 = x.detach().double().requires_grad_()
    b64 = None if b is None else b.detach().double().requires_grad_()
    y64 = reference(x64, b64, dim, **arguments)
    narrow = x.dtype in (torch.float16, torch.bfloat16)
    near(y, y64, 1 if narrow else 8)
    assert y.stride() == torch.empty_like(x).stride()
    inputs = [x] if b is None else [x, b]
    got = torch.autograd.grad(y, inputs, grad)
    expected = torch.autograd.grad(y64, [x64] if b is None else [x64, b64], grad.double())
    # A slope is right to a few units in the last place of 1, and grad and gain multiply that.
    size = float(grad.abs().max()) * abs(arguments.get("gain") or 1) if any_size and x.numel() else 1
    near(got[0], expected[0], 16, size=size)
    assert got[0].stride() == torch.empty_like(x).stride()
    if b is not None:
        size = float(expected[0].abs().max()) if any_size and x.numel() else 1
        near(got[1], expected[1], 16, 1 + x.numel() // max(1, b.numel()), size)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("act", ACTS)
def test_matches_float64(act, dtype, bias, options, device):
    x, grad = make("contiguous", dtype, device, 0), make("contiguous", dtype, device, 1)
    check(x, bias_for(x) if bias else None, grad, act=act, **OPTIONS[options])


@pytest.mark.parametrize("shape", [(9001, 6), (9001, 6, 2)])
def test_long_sums_keep_their_digits(shape):
    """On the CPU, b's gradient is within half of what check() allows, whatever the numbers are."""
    for seed in range(3):
        x, grad = (torch.randn(shape, generator=torch.Generator().manual_seed(2 * seed + i)).double() for i in range(2))
        b = torch.zeros(6, dtype=torch.float64, requires_grad=True)
        x.requires_grad_()
        by_x, by_b = torch.autograd.grad(customops.bias_act(x, b, act="lrelu"), [x, b], grad)
        terms = by_x.transpose(0, 1).flatten(1)
        exact = torch.tensor([math.fsum(row) for row in terms.tolist()], dtype=torch.float64)
        bound = 8 * torch.finfo(torch.float64).eps * math.sqrt(terms.shape[1])
        torch.testing.assert_close(by_b, exact, rtol=0, atol=bound)


@pytest.mark.parametrize("act", ["lrelu", "swish"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout, dtype, act, device):
    x, grad = make(layout, dtype, device, 0), make(layout, dtype, device, 1)
    dim = min(1, x.dim() - 1)
    check(x, bias_for(x, dim), grad, dim, act=act, clamp=1.5)


@pytest.mark.parametrize("act", ["relu", "softplus"])
@pytest.mark.parametrize("layout_grad", SAME_SHAPE)
@pytest.mark.parametrize("layout_x", SAME_SHAPE)
def test_mixed_layouts(layout_x, layout_grad, act, device):
    x, grad = make(layout_x, torch.float32, device, 0), make(layout_grad, torch.float32, device, 1)
    check(x, bias_for(x), grad, act=act)


@pytest.mark.parametrize("clamp", [None, 1.0])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("shape", "dim"), SHAPES)
def test_shapes(shape, dim, dtype, clamp, device):
    x, grad = (torch.randn(shape, generator=torch.Generator().manual_seed(i)).to(device, dtype) for i in range(2))
    for act in ("lrelu", "sigmoid"):
        check(x, bias_for(x, dim), grad, dim, act=act, clamp=clamp)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("channels_last", [False, True])
def test_large(channels_last, dtype, device):
    x, grad = (
        make("contiguous", dtype, device, 0, (3, 7, 130, 129)),
        make("contiguous", dtype, device, 1, (3, 7, 130, 129)),
    )
    if channels_last:
        x, grad = (t.contiguous(memory_format=torch.channels_last) for t in (x, grad))
    for act in ("lrelu", "tanh"):
        check(x, bias_for(x), grad, act=act, clamp=1.5)


@st.composite
def calls(draw):
    """Shape, strides (dimensions in any order in memory, with gaps) and dim of x, and the other arguments."""
    shape = draw(st.lists(st.integers(1, 9), min_size=1, max_size=5))
    if draw(st.booleans()):
        shape[draw(st.integers(0, len(shape) - 1))] = draw(st.integers(400, 1200))
    order, gaps = draw(st.permutations(range(len(shape)))), draw(st.lists(st.integers(1, 2), min_size=5, max_size=5))
    arguments = {
        "dim": draw(st.integers(-len(shape), len(shape) - 1)),
        "act": draw(st.sampled_from(list(ACTS))),
        "alpha": draw(st.none() | st.sampled_from([-0.5, 0.0, 0.3, 1.5])),
        "gain": draw(st.none() | st.sampled_from([-2.0, 0.5, 3.0])),
        "clamp": draw(st.none() | st.sampled_from([0.25, 1.0])),
    }
    return shape, order, gaps, draw(st.sampled_from(DTYPES)), draw(st.booleans()), arguments


@examples(200)
@given(call=calls(), seed=st.integers(0, 9))
def test_any_call(call, seed, device):
    shape, order, gaps, dtype, bias, arguments = call
    generator = torch.Generator().manual_seed(seed)

    def tensor():
        memory = torch.randn([shape[d] * gap for d, gap in zip(order, gaps, strict=False)], generator=generator)
        return memory.to(device, dtype)[tuple(slice(None, None, gap) for gap in gaps[: len(shape)])].permute(
            [order.index(d) for d in range(len(shape))]
        )

    x = tensor()
    check(x, bias_for(x, arguments["dim"]) if bias else None, tensor(), **arguments)


@pytest.mark.parametrize("alpha", [0.0, -0.5, 1.7])
@pytest.mark.parametrize("gain", [1.0, 0.5])
def test_alpha(alpha, gain, device):
    x, grad = make("contiguous", torch.float32, device, 0), make("contiguous", torch.float32, device, 1)
    check(x, bias_for(x), grad, act="lrelu", alpha=alpha, gain=gain)


def test_numbers_are_double_for_float64(device):
    x = torch.tensor([-1.0, 1.0, 100.0], dtype=torch.float64, device=device)
    y = customops.bias_act(x, act="lrelu", alpha=0.1, gain=1 + 2**-50, clamp=1 / 0.3)
    assert y.tolist() == [-0.1 * (1 + 2**-50), 1 + 2**-50, 1 / 0.3]


def test_a_negative_clamp_is_none(device):
    x = torch.tensor([-9.0, 9.0], device=device)
    assert customops.bias_act(x, clamp=-1).tolist() == [-9, 9]
    assert customops.bias_act(x, clamp=0).tolist() == [0, 0]
    assert customops.bias_act(x, clamp=math.inf).tolist() == [-9, 9]


@pytest.mark.parametrize("options", ["plain", "gain", "small gain", "clamp"])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("act", ACTS)
def test_derivatives(act, bias, options, device):
    x = make("channels_last", torch.float64, device, 0, (2, 3, 2, 2)).requires_grad_()
    inputs = [x, bias_for(x).requires_grad_()] if bias else [x]
    f = lambda x, b=None: customops.bias_act(x, b, act=act, **OPTIONS[options])  # noqa: E731
    assert gradcheck(f, inputs, check_forward_ad=True)
    assert gradgradcheck(f, inputs, check_fwd_over_rev=True)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(2, 3, 1030), (9, 6), (5, 2100), (3, 5, 8, 4)])
@pytest.mark.parametrize("clamp", [None, 0.8])
@pytest.mark.parametrize("act", ACTS)
def test_double_backward_matches_float64(act, clamp, shape, dtype, device):
    """The path-length penalty's way: a gradient of a gradient, with respect to x, b and the incoming gradient."""
    generator = torch.Generator().manual_seed(0)
    values = [torch.randn(shape, generator=generator).to(device, dtype) for _ in range(3)]

    def second(op, convert):
        x, grad, v = (convert(t).requires_grad_() for t in values)
        b = convert(bias_for(values[0])).requires_grad_()
        dx, db = torch.autograd.grad(op(x, b, act=act, clamp=clamp), (x, b), grad, create_graph=True)
        return torch.autograd.grad((dx, db), (grad, x, b), (v, torch.ones_like(db)), allow_unused=True)

    got, expected = second(customops.bias_act, lambda t: t.clone()), second(reference, lambda t: t.double())
    for g, e, terms in zip(got, expected, (1, 1, values[0].numel() // shape[1]), strict=True):
        if g is not None:
            near(g, e, 64, terms)
        assert (g is None) <= (e is None or not e.any())


def test_third_derivatives(device):
    x = torch.tensor([0.5, -0.5], dtype=torch.float64, device=device, requires_grad=True)
    grad = torch.ones_like(x).requires_grad_()
    (dx,) = torch.autograd.grad(customops.bias_act(x, act="tanh"), x, grad, create_graph=True)
    (ddx,) = torch.autograd.grad(dx.sum(), x, create_graph=True)
    with pytest.raises(
        NotImplementedError, match="bias_act: only linear, relu and lrelu have derivatives of third order"
    ):
        ddx.sum().backward()
    (dx,) = torch.autograd.grad(customops.bias_act(x, act="lrelu", gain=1.0), x, grad, create_graph=True)
    v = torch.ones_like(x).requires_grad_()
    (dgrad,) = torch.autograd.grad(dx, grad, v, create_graph=True)
    assert torch.autograd.grad(dgrad.sum(), v)[0].tolist() == [1, 0.2]


@pytest.mark.parametrize(
    ("arguments", "saved"),
    [
        ({"act": "linear"}, 0),
        ({"act": "linear", "clamp": 1.0}, 2),
        ({"act": "lrelu"}, 1),
        ({"act": "tanh", "gain": 2.0}, 1),
        ({"act": "tanh", "gain": 0.5}, 2),
        ({"act": "lrelu", "clamp": 256.0}, 2),
        ({"act": "swish"}, 2),
    ],
)
def test_one_activation_tensor_is_saved_at_most(arguments, saved, device):
    x, b = torch.randn(2, 3, 4, device=device, requires_grad=True), torch.zeros(3, device=device, requires_grad=True)
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        customops.bias_act(x, b, **arguments)
    assert len(kept) == saved


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("act", ACTS)
def test_the_edge_of_the_clamp_belongs_to_the_inside(act, dtype, device):
    """At the very edge the gradient passes, as torch.clamp's does up to 2.13; beyond it is zero, and so for linear."""
    x = torch.tensor([-8.0, -4, -2, -1, 0, 1, 2, 4, 8], dtype=dtype, device=device)
    edge = reference(torch.tensor(2.0, dtype=torch.float64), act=act, gain=1.0).item()
    edge = torch.tensor(edge, dtype=dtype if act in ("linear", "relu", "lrelu") else torch.float64).item()
    for clamp in (edge * (1 - 2**-6), edge * (1 + 2**-6)) + ((edge,) if act in ("linear", "relu", "lrelu") else ()):
        check(x[:, None], None, torch.ones_like(x)[:, None], act=act, gain=1.0, clamp=clamp)
    leaf = x.clone().requires_grad_()
    customops.bias_act(leaf, clamp=4.0).sum().backward()
    assert leaf.grad.tolist() == [0, 1, 1, 1, 1, 1, 1, 1, 0]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("clamp", [None, 3.0])
@pytest.mark.parametrize("act", ACTS)
def test_nan_and_infinity(act, clamp, dtype, device):
    x = torch.tensor([math.nan, math.inf, -math.inf, 0.0, -0.0] * 9, dtype=dtype, device=device)
    y = customops.bias_act(x, act=act, clamp=clamp)
    near(y, reference(x.double(), act=act, clamp=clamp), 2)
    assert y[::5].isnan().all()
    b = torch.tensor([math.nan, 1.0], dtype=dtype, device=device)
    y = customops.bias_act(torch.ones(5, 2, dtype=dtype, device=device), b, act=act, clamp=clamp)
    assert y[:, 0].isnan().all()
    assert not y[:, 1].isnan().any()


@pytest.mark.parametrize("act", ACTS)
def test_gradients_of_nan(act, device):
    """A NaN gradient arrives as NaN; a NaN beyond a clamp has, like one beyond torch.clamp, the gradient zero."""
    x = torch.tensor([[1.0], [2.0]], device=device, requires_grad=True)
    b = torch.zeros(1, device=device, requires_grad=True)
    customops.bias_act(x, b, act=act).backward(torch.tensor([[math.nan], [1.0]], device=device))
    assert x.grad.isnan().tolist() == [[True], [False]]
    assert b.grad.isnan().all()
    x = torch.tensor([math.nan], device=device, requires_grad=True)
    customops.bias_act(x, act=act, clamp=1.0).sum().backward()
    assert x.grad.tolist() == [0]


def test_the_extremes_stay_finite(device):
    """Large numbers on both sides: no overflow on the way to a finite result."""
    for act in ACTS:
        x = torch.tensor([-1e4, -100.0, -20.0, 20.0, 100.0, 1e4], device=device)
        check(x[:, None], None, torch.ones_like(x)[:, None], act=act)
        check(x[:, None], None, torch.ones_like(x)[:, None], act=act, clamp=1e5)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(4, 3, 40_000), (40_000, 3), (300, 700), (2, 3000, 60)])
def test_gradient_of_the_bias_repeats_to_the_bit(shape, dtype, device):
    x, grad = torch.randn(shape, device=device).to(dtype), torch.randn(shape, device=device).to(dtype)
    b = bias_for(x).requires_grad_()
    runs = []
    threads = torch.get_num_threads()
    for n in (threads, 1, 3, threads):
        torch.set_num_threads(n)
        runs.append(torch.autograd.grad(customops.bias_act(x, b, act="swish"), b, grad)[0])
    torch.set_num_threads(threads)
    assert all(torch.equal(run, runs[0]) for run in runs)


def test_the_bias_gradient_of_many_ones_is_exact(device):
    """2^25 terms: a running float32 sum would stop at 2^24."""
    x = torch.zeros(1, device=device).expand(2**25, 1)
    b = torch.zeros(1, device=device, requires_grad=True)
    customops.bias_act(x, b).sum().backward()
    assert b.grad.item() == 2**25


def test_never_an_alias(device):
    x = torch.randn(2, 3, device=device)
    y = customops.bias_act(x)
    assert torch.equal(x, y)
    assert y.data_ptr() != x.data_ptr()
    y = customops.bias_act(x[:0])
    assert y.shape == (0, 3)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (2, 3, 0)])
def test_empty(shape, device):
    x = torch.ones(shape, device=device, requires_grad=True)
    b = torch.ones(shape[1], device=device, requires_grad=True)
    (dx, db) = torch.autograd.grad(customops.bias_act(x, b, act="swish").sum(), (x, b), create_graph=True)
    assert dx.shape == x.shape
    assert torch.equal(db, torch.zeros_like(b))
    (dx.sum() + db.sum()).backward()
    assert torch.equal(b.grad, torch.zeros_like(b))


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize(("act", "clamp"), [("lrelu", -1.0), ("swish", 0.5), ("linear", -1.0)])
def test_opcheck(act, clamp, requires_grad, device):
    ops = torch.ops.customops
    x, grad = make("channels_last", OPCHECK_DTYPE, device, 0), make("sliced", OPCHECK_DTYPE, device, 1)
    b = bias_for(x)
    settings = (1, act, 0.2, 1.5, clamp)
    leaves = (x.clone().requires_grad_(requires_grad), b.clone().requires_grad_(requires_grad))
    torch.library.opcheck(ops.bias_act.default, (*leaves, *settings))
    torch.library.opcheck(ops.bias_act.default, (leaves[0], None, *settings))
    if requires_grad:  # the others have no autograd
        return
    torch.library.opcheck(ops._bias_act.default, (x, b, *settings))
    for sources in ((x, b, None), (None, None, x)):
        for sum in (False, True):
            torch.library.opcheck(ops._bias_act_backward.default, (grad, *sources, *settings, sum))
            if act == "swish":
                torch.library.opcheck(ops._bias_act_double_backward.default, (x, grad, *sources, *settings, sum))
    if act == "linear":
        torch.library.opcheck(ops._bias_act_backward.default, (grad, None, None, None, *settings, True))


@pytest.mark.compiled
@pytest.mark.parametrize("backend", COMPILE_BACKENDS)
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(("act", "clamp"), [("lrelu", None), ("swish", 0.7), ("linear", None)])
def test_compile(act, clamp, backend, dynamic, device):
    module = customops.nn.BiasAct(4, act=act, clamp=clamp).to(device)
    compiled = compiled_in_one_graph(module, backend, dynamic)
    for n in (5, 6):
        x = torch.randn(n, 4, 3, requires_grad=True, device=device)
        module.bias.grad = None
        compiled(x).square().sum().backward()
        x64, b64 = x.detach().double().requires_grad_(), module.bias.detach().double().requires_grad_()
        reference(x64, b64, act=act, clamp=clamp).square().sum().backward()
        near(x.grad, x64.grad, 64)
        near(module.bias.grad, b64.grad, 64, terms=3 * n)
        with torch.no_grad():
            near(compiled(x), reference(x64, b64, act=act, clamp=clamp), 16)


def test_autocast_brings_the_bias_to_x(device):
    x, b = make("contiguous", torch.float16, device, 0), torch.randn(5, device=device, requires_grad=True)
    with torch.autocast(device, dtype=torch.float16):
        y = customops.bias_act(x, b, act="lrelu")
    assert y.dtype == torch.float16
    near(y, reference(x.double(), b.detach().half().double(), act="lrelu"), 1)
    y.float().sum().backward()
    assert b.grad.dtype == torch.float32
    with pytest.raises(RuntimeError, match=r"b must have the dtype of x, torch\.float16, got torch\.float32"):
        customops.bias_act(x, b)


@pytest.mark.parametrize("bias", [False, True])
def test_fused_leaky_relu(bias, device):
    x = make("channels_last", torch.float32, device, 0)
    b = bias_for(x) if bias else None
    near(customops.fused_leaky_relu(x, b), reference(x.double(), b, act="lrelu"), 4)
    expected = reference(x.double(), b, act="lrelu", alpha=0.1, gain=3.0)
    near(customops.fused_leaky_relu(x, b, 0.1, 3.0), expected, 4)
    near(customops.fused_leaky_relu(input=x, bias=b, negative_slope=0.1, scale=3.0), expected, 4)
    module = customops.nn.FusedLeakyReLU(5, bias=bias, negative_slope=0.1, scale=3.0).to(device)
    if bias:
        module.load_state_dict({"bias": b})
    near(module(x), expected, 4)


def test_modules(device):
    module = customops.nn.BiasAct(5, act="swish", clamp=0.5).to(device)
    assert {name: tuple(p.shape) for name, p in module.named_parameters()} == {"bias": (5,)}
    assert not module.bias.any()
    assert not list(customops.nn.BiasAct(5, bias=False).parameters())
    x = make("contiguous", torch.float32, device)
    near(module(x), reference(x.double(), act="swish", clamp=0.5), 8)
    assert repr(module) == "BiasAct(5, bias=True, dim=1, act='swish', clamp=0.5)"
    assert repr(customops.nn.FusedLeakyReLU(3)) == "FusedLeakyReLU(3, bias=True, negative_slope=0.2, scale=1.41421)"


@pytest.mark.parametrize("act", ["lrelu", "tanh", "swish"])
def test_forward_mode_and_functorch(act, device):
    x, t = torch.randn(2, 2, 4, 3, dtype=torch.float64, device=device)
    b = torch.randn(4, dtype=torch.float64, device=device)
    ours = lambda x, b: customops.bias_act(x, b, act=act, clamp=1.5)  # noqa: E731
    plain = lambda x, b: reference(x, b, act=act, clamp=1.5)  # noqa: E731
    near(torch.func.jvp(ours, (x, b), (t, b))[1], torch.func.jvp(plain, (x, b), (t, b))[1], 16)
    for argnums in (0, 1):
        got, expected = (torch.func.grad(lambda x, b, f=f: (f(x, b) * t).sum(), argnums)(x, b) for f in (ours, plain))
        near(got, expected, 32)
    got, expected = (torch.func.jacfwd(torch.func.jacrev(f, 1), 1)(x, b) for f in (ours, plain))
    near(got, expected, 32)
    lanes = torch.func.vmap(lambda x: customops.bias_act(x, b, dim=0, act=act))(x)
    near(lanes, reference(x, b, act=act), 16)


@pytest.mark.parametrize("name", ["alpha", "gain", "clamp"])
def test_numbers_of_float64_need_not_fit_into_float32(name, device):
    x = torch.tensor([-1.0, 2.0], dtype=torch.float64)
    expected = reference(x, act="lrelu", **{name: 1e300})
    near(customops.bias_act(x.to(device), act="lrelu", **{name: 1e300}), expected.to(device), 4)
    assert customops.bias_act(x.to("meta"), act="lrelu", **{name: 1e300}).shape == x.shape
