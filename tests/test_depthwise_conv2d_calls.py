"""depthwise_conv2d as torch's machinery calls it: derivatives, opcheck, torch.compile, functorch; and bad input."""

import pytest
import torch
from common import COMPILE_BACKENDS, OPCHECK_DTYPE, compiled_in_one_graph, make
from depthwise import (
    FORMATS,
    image,
    memory_formats,
    opened,  # noqa: F401
    randn,
)
from torch.autograd import gradcheck, gradgradcheck
from torch.nn import functional as F

from customops import depthwise_conv2d

ops = torch.ops.customops


@pytest.mark.parametrize(
    ("kernel", "arguments"),
    [
        ((3, 3), ()),
        ((3, 3), (1, 1)),
        ((2, 3), (2, (1, 2))),
        ((3, 2), ((1, 3), (2, 0), 2)),
        ((3, 1), ((3, 2), 1, (1, 2))),
        ((2, 2), (1, "same")),
    ],
)
def test_derivatives(kernel, arguments, device):
    for memory_format in FORMATS:
        x = image((2, 3, 5, 6), torch.float64, device, memory_format).requires_grad_()
        weight = randn(3, 1, *kernel, dtype=torch.float64, device=device, seed=1).requires_grad_()
        bias = randn(3, dtype=torch.float64, device=device, seed=2).requires_grad_()
        op = lambda x, weight, bias: depthwise_conv2d(x, weight, bias, *arguments)  # noqa: E731
        assert gradcheck(op, (x, weight, bias), check_forward_ad=True, fast_mode=True)
        assert gradgradcheck(op, (x, weight, bias), check_fwd_over_rev=True, fast_mode=True)
    assert gradcheck(op, (x, weight, bias), check_batched_grad=True)
    assert gradgradcheck(op, (x, weight, bias))


def test_third_derivative(device):
    x, weight = (
        randn(*shape, dtype=torch.float64, device=device).requires_grad_() for shape in ((1, 2, 6, 5), (2, 1, 3, 3))
    )

    def third(conv, x, weight):
        y = conv(x.square(), weight.square())
        for _ in range(3):
            gx, gw = torch.autograd.grad(y.square().sum(), (x, weight), create_graph=True)
            y = gx.mean() * gw
        return y.detach().cpu()

    ours = third(lambda x, weight: depthwise_conv2d(x, weight, None, 2, 1), x, weight)
    theirs = third(
        lambda x, weight: F.conv2d(x, weight, None, 2, 1, 1, 2),
        *(t.detach().cpu().requires_grad_() for t in (x, weight)),
    )
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=0)


@pytest.mark.parametrize("requires_grad", [False, True])
def test_opcheck(requires_grad, device):
    weight, bias = randn(3, 1, 3, 2, dtype=OPCHECK_DTYPE, device=device), randn(3, dtype=OPCHECK_DTYPE, device=device)
    for layout in ("contiguous", "channels_last", "sliced"):
        x = make(layout, OPCHECK_DTYPE, device, shape=(2, 3, 8, 9))
        for numbers in ((1, 1, 0, 0, 0, 0, 1, 1), (2, 1, 1, 2, 3, 0, 1, 2)):
            inputs = [t.detach().requires_grad_(requires_grad) for t in (x, weight, bias)]
            torch.library.opcheck(ops.depthwise_conv2d.default, (*inputs, *numbers))
            if requires_grad:  # the others have no autograd
                continue
            torch.library.opcheck(ops._depthwise_conv2d.default, (x, weight.float(), None, *numbers))
            grad = (
                torch.randn_like(depthwise_conv2d(x, weight))
                if numbers[0] == 1
                else ops._depthwise_conv2d(x, weight, None, *numbers)
            )
            steps = (*numbers[:2], numbers[2], numbers[4], *numbers[6:])
            torch.library.opcheck(
                ops._depthwise_conv2d_grad_input.default, (grad, weight, 8, 9, *steps, layout == "channels_last")
            )
            torch.library.opcheck(
                ops._depthwise_conv2d_gradients.default, (grad, x, weight.float(), *steps, True, True, True)
            )
            for float32 in (False, True):
                torch.library.opcheck(ops._depthwise_conv2d_grad_weight.default, (grad, x, 3, 2, *steps, float32))


@pytest.mark.compiled
@pytest.mark.parametrize("backend", COMPILE_BACKENDS)
@pytest.mark.parametrize("dynamic", [False, True])
@memory_formats
def test_compile(memory_format, backend, dynamic, device):
    """In float64: compilers add up in another order, and sums that cancel out show that in float32."""
    options = {"dtype": torch.float64, "device": device}
    weight = torch.randn(3, 1, 3, 2, **options, requires_grad=True)
    bias = torch.randn(3, **options, requires_grad=True)

    def op(x):
        x = depthwise_conv2d(x, weight, bias, 1, "same")
        return depthwise_conv2d(x, weight, None, (2, 1), (1, 2), (1, 2)) * 2

    compiled = compiled_in_one_graph(op, backend, dynamic)
    for size in ((8, 9), (11, 14)):
        x = torch.randn(2, 3, *size, **options).contiguous(memory_format=memory_format).requires_grad_()
        y = compiled(x)
        torch.testing.assert_close(y, op(x))
        assert y.stride() == op(x).stride()
        ours = torch.autograd.grad(y.square().sum(), (x, weight, bias))
        theirs = torch.autograd.grad(op(x).square().sum(), (x, weight, bias))
        for a, b in zip(ours, theirs, strict=True):
            torch.testing.assert_close(a, b)
        with torch.no_grad():
            torch.testing.assert_close(compiled(x), op(x))


@pytest.mark.compiled
def test_compile_is_not_repeated_for_every_size(device):
    weight, graphs = torch.randn(3, 1, 3, 3, device=device), []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph

    op = compiled_in_one_graph(lambda x: depthwise_conv2d(x, weight, None, 2, 1), backend, True)
    for size in (16, 20, 33):
        op(torch.randn(2, 3, size, size + 1, device=device))
    assert len(graphs) == 1


def test_forward_mode_and_functorch(device):
    x, tx = randn(2, 2, 3, 5, 6, dtype=torch.float64, device=device)
    w, tw = randn(2, 3, 1, 3, 2, dtype=torch.float64, device=device, seed=1)
    b, tb = randn(2, 3, dtype=torch.float64, device=device, seed=2)
    op = lambda x, w, b: depthwise_conv2d(x, w, b, 2, 1)  # noqa: E731
    tangent = op(tx, w, tb) + op(x, tw, None)
    torch.testing.assert_close(torch.func.jvp(op, (x, w, b), (tx, tw, tb))[1], tangent)
    torch.testing.assert_close(torch.func.jvp(lambda b: op(x, w, b), (b,), (tb,))[1], op(torch.zeros_like(x), w, tb))
    torch.testing.assert_close(torch.func.jvp(lambda w: op(x, w, b), (w,), (tw,))[1], op(x, tw, None))
    loss = lambda x, w, b: op(x, w, b).square().sum()  # noqa: E731
    leaves = [t.clone().requires_grad_() for t in (x, w, b)]
    expected = torch.autograd.grad(loss(*leaves), leaves)
    for ours, theirs in zip(torch.func.grad(loss, (0, 1, 2))(x, w, b), expected, strict=True):
        torch.testing.assert_close(ours, theirs)
    ws, xs = torch.stack([w, tw]), torch.stack([x, tx])
    torch.testing.assert_close(
        torch.func.vmap(op)(xs, ws, torch.stack([b, tb])), torch.stack([op(x, w, b), op(tx, tw, tb)])
    )
    per_sample = torch.func.vmap(torch.func.grad(loss, 1), (0, None, None))(xs, w, b)
    torch.testing.assert_close(per_sample[1], torch.func.grad(loss, 1)(tx, w, b))
    hessian = torch.func.hessian(lambda w: loss(x[:1, :1], w, None))(w[:1])
    torch.testing.assert_close(hessian, torch.func.jacrev(torch.func.grad(lambda w: loss(x[:1, :1], w, None)))(w[:1]))


def test_bad_arguments(device):
    x, weight = torch.ones(2, 3, 4, 5, device=device), torch.ones(3, 1, 3, 3, device=device)
    with pytest.raises(ValueError, match=r"stride must be a number or a pair, got \[1, 2, 3\]"):
        depthwise_conv2d(x, weight, None, [1, 2, 3])
    with pytest.raises(ValueError, match="dilation must be a number or a pair, got 'same'"):
        depthwise_conv2d(x, weight, None, dilation="same")
    with pytest.raises(ValueError, match="padding must be a number, a pair, 'same' or 'valid', got 'full'"):
        depthwise_conv2d(x, weight, padding="full")
    with pytest.raises(ValueError, match=r"padding='same' needs a stride of 1, got \(1, 2\)"):
        depthwise_conv2d(x, weight, None, (1, 2), "same")
    with pytest.raises(NotImplementedError, match=r"depthwise_conv2d: expected dense tensors .*, got torch.sparse_coo"):
        depthwise_conv2d(x.to_sparse().requires_grad_(), weight.clone().requires_grad_())
    with pytest.raises(
        RuntimeError, match=r"_depthwise_conv2d.* Expected a value of type 'int' for argument 'stride_h'"
    ):
        depthwise_conv2d(x.clone().requires_grad_(), weight.clone().requires_grad_(), None, (1.5, 1))
    # torch's modules keep a tuple of one number as it is.
    assert torch.equal(depthwise_conv2d(x, weight, None, (1,), (1,), (1,)), depthwise_conv2d(x, weight, None, 1, 1, 1))
