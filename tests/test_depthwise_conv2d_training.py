"""depthwise_conv2d in training: what its backward computes and calls, mixed precision, and the modules."""

import copy

import pytest
import torch
from depthwise import (
    HOOK,
    Record,
    assert_close,
    image,
    memory_formats,
    opened,  # noqa: F401
    randn,
    reference,
)
from torch.nn import functional as F

import customops
from customops import depthwise_conv2d

ops = torch.ops.customops


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("all_require", [False, True])  # True: through torch's hook
@pytest.mark.parametrize("needed", [(0,), (1,), (2,), (0, 1), (1, 2), (0, 2), (0, 1, 2)])
def test_only_what_is_needed_is_computed(needed, all_require, create_graph, device):
    inputs = [t.to(device) for t in (torch.randn(1, 2, 5, 5), torch.randn(2, 1, 3, 3), torch.randn(2))]
    for index, input_ in enumerate(inputs):
        input_.requires_grad_(all_require or index in needed)
    out = depthwise_conv2d(*inputs)
    with Record() as record:
        torch.autograd.grad(out, [inputs[i] for i in needed], torch.ones_like(out), create_graph=create_graph)
    hooked = type(out.grad_fn).__name__ == HOOK
    if all_require and not hooked:  # a node in Python is not told which gradients the engine will drop
        needed = (0, 1, 2)
    if not create_graph and (hooked or {0, 1} <= set(needed)):
        flags = record.calls["customops::_depthwise_conv2d_gradients"][-3:]
        assert flags == tuple(index in needed for index in range(3))
        return
    names = (
        "customops::_depthwise_conv2d_grad_input",
        "customops::_depthwise_conv2d_grad_weight",
        "aten::sum.dim_IntList",
    )
    for index, name in enumerate(names):
        assert (name in record.calls) == (index in needed)


@pytest.mark.parametrize("needed", [(), (0,), (1, 2)])
def test_gradients_that_are_not_needed_are_none(needed, device):
    x, weight = randn(2, 3, 5, 6, device=device), randn(3, 1, 3, 3, device=device, seed=1)
    grad, flags = randn(2, 3, 5, 6, device=device, seed=2), [index in needed for index in range(3)]
    gradients = ops._depthwise_conv2d_gradients(grad, x, weight, 1, 1, 1, 1, 1, 1, *flags)
    expected = (
        ops._depthwise_conv2d_grad_input(grad, weight, 5, 6, 1, 1, 1, 1, 1, 1, False),
        ops._depthwise_conv2d_grad_weight(grad, x, 3, 3, 1, 1, 1, 1, 1, 1),
        grad.sum((0, 2, 3)),
    )
    for index, (ours, theirs) in enumerate(zip(gradients, expected, strict=True)):
        assert torch.equal(ours, theirs) if index in needed else ours is None


@pytest.mark.parametrize("lower", [torch.float16, torch.bfloat16])
def test_autocast_casts_as_for_torchs_convolutions(lower, device):
    x, weight, bias = randn(2, 8, 9, 9, device=device), randn(8, 1, 3, 3, device=device), randn(8, device=device)
    inputs = [t.requires_grad_() for t in (x, weight, bias)]
    with torch.autocast(device, dtype=lower):
        y = depthwise_conv2d(*inputs, padding=1)
        assert y.dtype == F.conv2d(*inputs, padding=1, groups=8).dtype == lower
        assert depthwise_conv2d(x.half(), weight, bias.bfloat16()).dtype == lower
        wide = [t.double() for t in inputs]
        assert depthwise_conv2d(*wide).dtype == F.conv2d(*wide, groups=8).dtype == torch.float64
    assert torch.equal(y, depthwise_conv2d(*(t.to(lower) for t in inputs), padding=1))
    for gradient, input_ in zip(torch.autograd.grad(y.float().square().sum(), inputs), inputs, strict=True):
        assert gradient.dtype == torch.float32
        assert gradient.shape == input_.shape


def test_backward_in_inference_mode(device):
    inputs = randn(1, 3, 6, 6, device=device).requires_grad_(), randn(3, 1, 3, 3, device=device).requires_grad_()
    expected = torch.autograd.grad(depthwise_conv2d(*inputs).sum(), inputs)
    loss = depthwise_conv2d(*inputs).sum()
    with torch.inference_mode():
        for ours, theirs in zip(torch.autograd.grad(loss, inputs), expected, strict=True):
            assert torch.equal(ours, theirs)


@memory_formats
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    ("shape", "kernel", "stride", "dilation"),
    [
        ((2, 2, 9, 40), 3, 1, 1),  # fewer channels than a register has lanes
        ((2, 40, 30, 33), 3, 2, 1),
        ((2, 6, 30, 33), 3, 2, 1),
        ((2, 7, 20, 14), 3, 1, 1),
        ((2, 7, 20, 14), 3, 2, 1),
        ((2, 40, 20, 14), 5, 1, 1),
        ((2, 5, 20, 14), 5, 1, 1),
        ((2, 5, 20, 14), 5, 2, 1),
        ((2, 16, 30, 28), 7, 1, 1),
        ((9, 24, 7, 7), 7, 1, 1),
        ((2, 3, 20, 20), 5, 1, 2),
        ((1, 3, 40, 60), 31, 1, 1),
        ((1, 2, 5, 90), 69, 1, 1),  # more than tensor cores take
    ],
)
def test_float32_parameters_beside_16_bit_images(shape, kernel, stride, dilation, dtype, memory_format, device):
    """They are rounded as a cast would, and their gradients are sums that are not rounded to 16 bits."""
    padding = dilation * (kernel // 2)
    x = image(shape, dtype, device, memory_format).requires_grad_()
    weight = randn(shape[1], 1, kernel, kernel, device=device, seed=1).requires_grad_()
    bias = randn(shape[1], device=device, seed=2).requires_grad_()
    inputs, rounded = (x, weight, bias), [t.detach().to(dtype).requires_grad_() for t in (x, weight, bias)]
    y, expected = (depthwise_conv2d(*three, stride, padding, dilation) for three in (inputs, rounded))
    assert torch.equal(y, expected)
    grad = image(y.shape, dtype, device, memory_format, seed=3)
    gradients = torch.autograd.grad(y, inputs, grad, retain_graph=True)
    rounded_gradients = torch.autograd.grad(expected, rounded, grad)
    for mixed in ((x, rounded[1], bias), (x, weight, rounded[2])):
        z = depthwise_conv2d(*mixed, stride, padding, dilation)
        assert torch.equal(z, expected)
        for k, got in enumerate(torch.autograd.grad(z, mixed, grad)):
            assert torch.equal(got, (gradients if mixed[k] is inputs[k] else rounded_gradients)[k])
    assert [g.dtype for g in gradients] == [dtype, torch.float32, torch.float32]
    doubles = [t.detach().double().cpu().requires_grad_() for t in rounded]
    exact = torch.autograd.grad(reference(*doubles, stride, padding, dilation), doubles, grad.double().cpu())
    for ours, theirs in zip(gradients[1:], exact[1:], strict=True):
        assert_close(ours, theirs)
    assert torch.equal(gradients[0], rounded_gradients[0])
    sizes = [*shape, kernel, kernel, stride, stride, *4 * [padding], dilation, dilation]
    last = int(memory_format == torch.channels_last)
    # torch's kernel takes no float32 weights, and adds in another order.
    if ops._depthwise_conv2d_explain("wgrad", device, [*sizes, last], str(dtype)[6:]).startswith("wgrad_torch"):
        assert_close(rounded_gradients[1], exact[1])
    else:
        assert torch.equal(gradients[1].to(dtype), rounded_gradients[1])


@pytest.mark.parametrize("shape", [(1, 1, 26, 18), (1, 2, 26, 18), (8, 3, 26, 18)])
@pytest.mark.parametrize("kernel", [3, 5])
def test_a_channels_last_weight_gives_the_same_bits(shape, kernel, device):
    """It is contiguous, too, for it has one input channel. torch computes such gradients with TensorFloat-32."""
    x, grad = (randn(*shape, device=device, seed=seed) for seed in (0, 1))
    weight = randn(shape[1], 1, kernel, kernel, device=device, seed=2)
    last = weight.to(memory_format=torch.channels_last)
    assert last.stride() == (kernel**2, 1, kernel, 1)

    def results(weight):
        inputs = [t.clone(memory_format=torch.preserve_format).requires_grad_() for t in (x, weight)]
        out = depthwise_conv2d(*inputs, padding=kernel // 2)
        return out, *torch.autograd.grad(out, inputs, grad)

    doubles = [t.double().cpu().requires_grad_() for t in (x, weight)]
    exact = reference(*doubles, padding=kernel // 2)
    exact = exact, *torch.autograd.grad(exact, doubles, grad.double().cpu())
    for ours, theirs, expected in zip(results(last), results(weight), exact, strict=True):
        assert torch.equal(ours, theirs)
        assert_close(ours, expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_channels_last_weight_leaves_results_contiguous(dtype, device):
    """Rows as Mamba's, which cuDNN computes on GPUs: its results are channels_last if its weight is."""
    x, grad = (randn(1, 768, 1, width, dtype=dtype, device=device) for width in (128, 131))
    weight = randn(768, 1, 1, 4, dtype=dtype, device=device, seed=2)

    def results(weight):
        out = ops._depthwise_conv2d(x, weight, None, 1, 1, 0, 0, 3, 3, 1, 1)
        return out, ops._depthwise_conv2d_grad_input(grad, weight, 1, 128, 1, 1, 0, 3, 1, 1, False)

    for ours, theirs in zip(results(weight.to(memory_format=torch.channels_last)), results(weight), strict=True):
        assert ours.is_contiguous()
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_derivatives_of_float32_parameters_beside_16_bit_images(dtype, device):
    """Second derivatives and tangents are those of the same numbers in the same dtypes, up to their rounding."""
    x = randn(2, 3, 8, 9, dtype=dtype, device=device)
    weight, bias = randn(3, 1, 3, 3, device=device, seed=1), randn(3, device=device, seed=2)
    op = lambda x, w, b: depthwise_conv2d(x, w, b, 1, 1)  # noqa: E731
    inputs = [t.requires_grad_() for t in (x, weight, bias)]
    doubles = [t.detach().to(dtype).double().cpu().requires_grad_() for t in inputs]

    def second(op, inputs):
        first = torch.autograd.grad(op(*inputs).square().sum(), inputs, create_graph=True)
        return first, torch.autograd.grad(sum(g.square().mean() for g in first), inputs)

    theirs = second(lambda x, w, b: reference(x, w, b, 1, 1), doubles)
    for mine, exact in zip(second(op, inputs), theirs, strict=True):
        for a, b, input_ in zip(mine, exact, inputs, strict=True):
            assert a.dtype == input_.dtype
            error = float((a.detach().double().cpu() - b.detach()).norm() / b.detach().norm())
            assert error < 8 * torch.finfo(dtype).eps
    tangents = [torch.ones_like(t) for t in inputs]
    values = [t.detach() for t in inputs]
    y, tangent = torch.func.jvp(op, tuple(values), tuple(tangents))
    assert y.dtype == tangent.dtype == dtype
    exact = torch.func.jvp(
        lambda x, w, b: reference(x, w, b, 1, 1),
        tuple(t.detach() for t in doubles),
        tuple(map(torch.ones_like, doubles)),
    )[1]
    assert float((tangent.double().cpu() - exact).norm() / exact.norm()) < 4 * torch.finfo(dtype).eps


ARGUMENTS = [
    {"kernel_size": 3},
    {"kernel_size": (5, 3), "stride": 2, "padding": (2, 1), "bias": False},
    {"kernel_size": 4, "padding": "same", "dilation": 2},
    {"kernel_size": 3, "stride": (1, 2), "padding": "valid", "dtype": torch.float64},
]


def conv2d(channels, **arguments):
    return torch.nn.Conv2d(channels, channels, groups=channels, **arguments)


@pytest.mark.parametrize("arguments", ARGUMENTS)
@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
def test_module_is_a_drop_in(arguments, device):
    torch.manual_seed(0)
    theirs = conv2d(6, device=device, **arguments)
    torch.manual_seed(0)
    ours = customops.nn.DepthwiseConv2d(6, device=device, **arguments)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert all(torch.equal(a, b) for a, b in zip(ours.state_dict().values(), theirs.state_dict().values(), strict=True))
    x = randn(2, 6, 13, 12, dtype=ours.weight.dtype, device=device)
    assert_close(ours(x).detach(), reference(x, *(None if p is None else p.detach() for p in (ours.weight, ours.bias)), ours.stride, ours.padding, ours.dilation))  # fmt: skip
    assert torch.equal(ours(x[0]), ours(x)[0])
    for a, b in ((ours, theirs), (theirs, ours)):
        torch.nn.init.normal_(b.weight)
        a.load_state_dict(b.state_dict())
        assert torch.equal(a.weight, b.weight)
    assert repr(ours) == repr(theirs).replace("Conv2d", "DepthwiseConv2d")
    with pytest.raises(ValueError, match="same"):
        customops.nn.DepthwiseConv2d(6, 3, stride=2, padding="same")


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.depthwise = conv2d(8, kernel_size=3, padding=1)
        self.again = self.depthwise
        self.branch = torch.nn.ModuleList([conv2d(8, kernel_size=5, padding=2, bias=False), torch.nn.Conv2d(8, 8, 1)])
        self.multiplier = torch.nn.Conv2d(8, 16, 3, groups=8, padding=1)
        self.reflect = conv2d(16, kernel_size=3, padding=1, padding_mode="reflect")
        self.derived = type("Derived", (torch.nn.Conv2d,), {})(16, 16, 3, groups=16, padding=1)
        self.lazy = torch.nn.LazyConv2d(16, 3, groups=16, padding=1)

    def forward(self, x):
        x = self.again(self.depthwise(self.stem(x)))
        for module in self.branch:
            x = module(x)
        return self.lazy(self.derived(self.reflect(self.multiplier(x))))


def test_replace_depthwise(device):
    ours = customops.nn.DepthwiseConv2d
    model = Net()
    assert customops.replace_depthwise(model) is model
    assert type(model.lazy) is torch.nn.LazyConv2d  # it does not know its channels yet
    model = Net().to(device)
    x = randn(2, 3, 10, 12, device=device)
    model(x)
    untouched = copy.deepcopy(model)
    parameters, seen = list(model.parameters()), []
    model.depthwise.register_forward_hook(lambda *_: seen.append("hook"))
    model.eval()
    customops.replace_depthwise(model)
    assert [name for name, module in model.named_modules() if type(module) is ours] == ["depthwise", "branch.0", "lazy"]
    assert model.again is model.depthwise
    assert not model.depthwise.training
    assert all(a is b for a, b in zip(model.parameters(), parameters, strict=True))
    torch.testing.assert_close(model(x), untouched(x), rtol=1e-4, atol=1e-4)
    assert seen == ["hook", "hook"]
    untouched.load_state_dict(model.state_dict())
    model.load_state_dict(untouched.state_dict())
    before = [type(module) for module in model.modules()]
    customops.replace_depthwise(model)
    assert [type(module) for module in model.modules()] == before


def test_replace_depthwise_of_one_module(device):
    module = conv2d(4, kernel_size=3)
    assert type(customops.replace_depthwise(module)) is customops.nn.DepthwiseConv2d
    assert type(customops.replace_depthwise(conv2d(4, kernel_size=3, dtype=torch.complex64))) is torch.nn.Conv2d
    assert type(copy.deepcopy(module.to(device))) is customops.nn.DepthwiseConv2d


def test_training_goes_as_with_torch(device):
    torch.manual_seed(0)
    theirs = torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 3), conv2d(16, kernel_size=7, padding=3), torch.nn.GELU(), torch.nn.Conv2d(16, 4, 1)
    ).to(device)
    ours = customops.replace_depthwise(copy.deepcopy(theirs))
    x, losses = randn(4, 3, 16, 16, device=device), []
    for model in (theirs, ours):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        losses.append([])
        for _ in range(5):
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            losses[-1].append(loss.item())
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)
    assert losses[0][-1] < losses[0][0]
