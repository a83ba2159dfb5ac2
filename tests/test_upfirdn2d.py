import pytest
import scipy.signal
import torch
from common import COMPILE_BACKENDS, DTYPES, OPCHECK_DTYPE, SAME_SHAPE, compiled_in_one_graph, examples, make
from hypothesis import assume, given
from hypothesis import strategies as st
from torch.autograd import gradcheck, gradgradcheck
from torch.nn import functional as F

import customops
from customops import compat, upfirdn2d


def reference(x, f, up=1, down=1, padding=0, flip_filter=False, gain=1):
    """The definition, step by step, in float64; the sizes have to be pairs or fours where the axes differ."""
    x = x.double()
    (up_x, up_y), (down_x, down_y) = ((v, v) if isinstance(v, int) else v for v in (up, down))
    padding = (padding,) * 4 if isinstance(padding, int) else padding
    x0, x1, y0, y1 = padding if len(padding) == 4 else (padding[0], padding[0], padding[1], padding[1])
    f = x.new_ones(1) if f is None else f.double()
    f = f if flip_filter else f.flip(list(range(f.dim())))
    n, c, h, w = x.shape
    stuffed = x.new_zeros(n, c, h * up_y, w * up_x)
    stuffed[:, :, ::up_y, ::up_x] = x
    padded = F.pad(stuffed, (x0, x1, y0, y1)).flatten(0, 1)[:, None]  # negative numbers crop
    for along in (f,) if f.dim() == 2 else (f[None], f[:, None]):
        padded = F.conv2d(padded, along[None, None])  # a correlation
    return gain * padded[:, 0].unflatten(0, (n, c))[:, :, ::down_y, ::down_x]


def taps(*shape, device, seed=7):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(device)


def assert_close(actual, expected64):
    """Rounded once to a narrow dtype; the arithmetic in float32 adds some units in the last place of float32."""
    assert actual.dtype != torch.float64 or expected64.dtype == torch.float64
    scale = max(float(expected64.detach().abs().max()), 1) if expected64.numel() else 1
    eps = torch.finfo(actual.dtype).eps
    slack = {torch.float64: 1e-14, torch.float32: 1e-5}.get(actual.dtype, 1e-6)
    torch.testing.assert_close(actual.double(), expected64, rtol=eps, atol=slack * scale)


FILTERS = {
    "none": None,
    "1": (1,),
    "2": (2,),
    "5": (5,),
    "12": (12,),
    "31": (31,),
    "1x1": (1, 1),
    "4x4": (4, 4),
    "3x2": (3, 2),
    "7x6": (7, 6),
    "12x12": (12, 12),
}


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("down", [1, 2, 3, (2, 1), (1, 3)])
@pytest.mark.parametrize("up", [1, 2, 3, (1, 2), (3, 2)])
@pytest.mark.parametrize("shape", FILTERS.values(), ids=FILTERS)
def test_matches_the_definition(shape, up, down, last, device):
    f = None if shape is None else taps(*shape, device=device)
    x = make("channels_last" if last else "contiguous", torch.float32, device, shape=(2, 3, 21, 45))
    for padding in (20, (15, 16, 17, 18)):
        assert_close(upfirdn2d(x, f, up, down, padding), reference(x, f, up, down, padding))


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("size", [(1, 1), (3, 65), (34, 64), (70, 131), (3, 600)])
@pytest.mark.parametrize(
    ("up", "down", "f"), [(1, 1, 4), (2, 1, 4), (1, 2, 4), (1, 1, 12), (2, 1, 12), (1, 2, 12), (2, 2, 4)]
)
@pytest.mark.parametrize("dtype", DTYPES)
def test_common_filters(dtype, up, down, f, size, last, device):
    """Those that have kernels of their own, over sizes with one tile, several, and parts of one."""
    x = make("channels_last" if last else "contiguous", dtype, device, shape=(2, 3 if size[1] > 100 else 8, *size))
    f = taps(f, device=device) if f > 4 else taps(f, f, device=device)
    for padding in (f.shape[0] // 2 * up, f.shape[0] // 2 * up + 1, (6, 7, 12, 9)):
        out = upfirdn2d(x, f, up, down, padding, gain=0.5)
        assert_close(out, reference(x, f, up, down, padding, gain=0.5))
        told = last and x.stride(3) != 1  # one pixel is contiguous either way, and torch leaves it as it is
        assert out.is_contiguous(memory_format=torch.channels_last if told else torch.contiguous_format)


@pytest.mark.parametrize("flip_filter", [False, True])
@pytest.mark.parametrize("gain", [1, -0.3, 4])
@pytest.mark.parametrize("shape", [(5,), (3, 4)])
def test_flip_and_gain(shape, gain, flip_filter, device):
    x, f = make("contiguous", torch.float64, device), taps(*shape, device=device)
    assert_close(upfirdn2d(x, f, 2, 3, 4, flip_filter, gain), reference(x, f, 2, 3, 4, flip_filter, gain))


@pytest.mark.parametrize("padding", [-2, (-1, 3), (-3, 0, 5, -4), (0, -30, 0, 0), (30, -30, -6, 7), (-36, 0, 0, -6)])
@pytest.mark.parametrize("up", [1, 2, 3])
def test_negative_padding_crops(up, padding, device):
    x, f = make("contiguous", torch.float64, device), taps(2, 1, device=device)
    assert_close(upfirdn2d(x, f, up, 1, padding), reference(x, f, up, 1, padding))


@pytest.mark.parametrize("shape", [(30,), (30, 41), (9, 50)])
def test_filter_larger_than_the_image(shape, device):
    x, f = make("contiguous", torch.float64, device, shape=(1, 2, 5, 7)), taps(*shape, device=device)
    for up, down, padding in ((1, 1, 25), (2, 1, 20), (1, 2, 40), (3, 2, (18, 13, 9, 11))):
        assert_close(upfirdn2d(x, f, up, down, padding), reference(x, f, up, down, padding))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", SAME_SHAPE)
def test_layouts(layout, dtype, device):
    x, f = make(layout, dtype, device), taps(4, 4, device=device)
    for up, down in ((1, 1), (2, 1), (1, 2), (3, 1)):
        out = upfirdn2d(x, f, up, down, 2)
        assert_close(out, reference(x, f, up, down, 2))
        last = layout == "channels_last"
        assert out.is_contiguous(memory_format=torch.channels_last if last else torch.contiguous_format)


@pytest.mark.parametrize("channels", [1, 2, 3, 8, 63, 65, 200])
def test_channels_last_of_any_width(channels, device):
    x = make("channels_last", torch.float32, device, shape=(2, channels, 9, 23))
    for f in (taps(4, 4, device=device), taps(12, device=device)):
        for up, down in ((1, 1), (2, 1), (1, 2)):
            assert_close(upfirdn2d(x, f, up, down, 6), reference(x, f, up, down, 6))


def test_one_pixel_keeps_its_memory_format(device):
    x = torch.randn(2, 5, 1, 1, device=device)
    assert upfirdn2d(x, None, 3).is_contiguous()
    last = torch.empty_like(x, memory_format=torch.channels_last)
    assert upfirdn2d(last, None, 3).is_contiguous(memory_format=torch.channels_last)


def test_strided_filter(device):
    x, wide = make("contiguous", torch.float64, device), taps(8, 8, device=device)
    for f in (wide[::2, 1::3], wide.t(), wide[0, ::2], wide[:1].expand(4, 8), wide[0, :1].expand(3)):
        assert_close(upfirdn2d(x, f, 2, 1, 5), reference(x, f, 2, 1, 5))


@pytest.mark.parametrize("shape", [(0, 3, 4, 5), (2, 0, 4, 5)])
def test_empty_batch(shape, device):
    x = torch.ones(shape, device=device, requires_grad=True)
    out = upfirdn2d(x, taps(4, 4, device=device), 2, 1, 2)
    assert out.shape == (*shape[:2], 9, 11)
    out.sum().backward()
    assert x.grad.shape == x.shape


def test_never_aliases(device):
    x = torch.ones(1, 1, 2, 2, device=device)
    out = upfirdn2d(x, None)
    assert torch.equal(out, x)
    assert out.data_ptr() != x.data_ptr()


@st.composite
def calls(draw):
    """x's size, layout and dtype, and the other arguments: any that leave at least one pixel of the output."""
    up, down = (draw(st.tuples(st.integers(1, 4), st.integers(1, 4))) for _ in range(2))
    separable = draw(st.lists(st.integers(1, 14), min_size=1, max_size=1))
    shape = draw(st.sampled_from([None, separable, draw(st.lists(st.integers(1, 9), min_size=2, max_size=2))]))
    if draw(st.booleans()):  # often enough what has kernels of its own
        shape = draw(st.sampled_from([(4, 4), (12,)]))
        up, down = draw(st.sampled_from([((1, 1), (1, 1)), ((2, 2), (1, 1)), ((1, 1), (2, 2))]))
    w, h = draw(st.integers(1, 80)), draw(st.integers(1, 40))
    padding = draw(st.tuples(*[st.integers(-6, 16)] * 4))
    for size, factor, taps_, before, after in (
        (w, up[0], 1 if shape is None else shape[-1], *padding[:2]),
        (h, up[1], 1 if shape is None else shape[0], *padding[2:]),
    ):
        assume(size * factor + before + after >= taps_)
        assume(size * factor + min(before, after) >= 0)  # the oracle crops what is there only
    n, c = draw(st.integers(1, 2)), draw(st.integers(1, 20))
    layout, dtype = draw(st.sampled_from(["contiguous", "channels_last", "sliced"])), draw(st.sampled_from(DTYPES))
    return (layout, dtype, (n, c, h, w)), shape, (up, down, padding, draw(st.booleans()), 1.5)


@examples(300)
@given(call=calls(), seed=st.integers(0, 9))
def test_any_call(call, seed, device):
    (layout, dtype, size), shape, arguments = call
    f = None if shape is None else taps(*shape, device=device, seed=seed)
    x = make(layout, dtype, device, seed, size)
    assert_close(upfirdn2d(x, f, *arguments), reference(x, f, *arguments))


@examples(100)
@given(
    up=st.integers(1, 4), down=st.integers(1, 4), count=st.integers(1, 13), h=st.integers(1, 30), w=st.integers(1, 30)
)
def test_matches_scipy(up, down, count, h, w, device):
    """scipy.signal.upfirdn pads by as much as the filter is long, and leaves out the zeros after the last sample."""
    x, f = make("contiguous", torch.float64, device, shape=(2, 3, h, w)), taps(count, device=device)
    ours = upfirdn2d(x, f, up, down, (count - 1, count - up) * 2)
    theirs = x.cpu().numpy()
    for axis in (2, 3):
        theirs = scipy.signal.upfirdn(f.double().cpu().numpy(), theirs, up, down, axis=axis)
    assert_close(ours.cpu(), torch.from_numpy(theirs))


@pytest.mark.parametrize("down", [1, 2, 3])
@pytest.mark.parametrize("up", [1, 2, 3])
@pytest.mark.parametrize("shape", [None, (4,), (3, 4)])
def test_derivatives(shape, up, down, device):
    f = None if shape is None else taps(*shape, device=device)
    x = make("contiguous", torch.float64, device, shape=(1, 2, 4, 5)).requires_grad_()

    def op(x):
        return upfirdn2d(x, f, up, down, (3, 1, 0, 2), gain=0.7)

    assert gradcheck(op, x, check_forward_ad=True)
    assert gradgradcheck(op, x)


@pytest.mark.parametrize("padding", [(-1, -2, 3, -1), (5, 0, -2, 6)])
def test_derivatives_with_cropping(padding, device):
    x = make("channels_last", torch.float64, device, shape=(1, 2, 6, 7)).requires_grad_()
    op = lambda x: upfirdn2d(x, taps(2, 3, device=device), 2, 3, padding, True)  # noqa: E731
    assert gradcheck(op, x)
    assert gradgradcheck(op, x)


def test_third_derivative_and_no_gradient_to_f(device):
    x = torch.randn(1, 1, 4, 4, dtype=torch.float64, device=device, requires_grad=True)
    f = taps(3, 3, device=device).requires_grad_()
    y = upfirdn2d(x**4, f, 2, 1, 1)
    for _ in range(3):
        (y,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    per_pixel = reference(torch.ones_like(x), f, 2, 1, 1)
    weight = torch.autograd.grad(reference(x, f, 2, 1, 1).sum(), x)[0]
    assert per_pixel.shape == (1, 1, 8, 8)
    assert_close(y, 24 * x * weight)
    assert upfirdn2d(x, f).requires_grad
    assert not upfirdn2d(x.detach(), f).requires_grad


def test_gradient_keeps_the_memory_format(device):
    x = make("channels_last", torch.float32, device).requires_grad_()
    upfirdn2d(x, taps(4, 4, device=device), 2, 1, 2).square().sum().backward()
    assert x.grad.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("requires_grad", [False, True])
def test_opcheck(requires_grad, device):
    f = taps(3, 4, device=device)
    for layout in ("contiguous", "channels_last", "sliced"):
        x = make(layout, OPCHECK_DTYPE, device, shape=(2, 3, 8, 9)).requires_grad_(requires_grad)
        for filter_, numbers in (
            (f, (2, 1, 1, 2, 1, 2, 3, 0)),
            (None, (1, 1, 1, 1, -1, 0, 0, 0)),
            (f[0], (1, 2, 3, 1) * 2),
        ):
            torch.library.opcheck(torch.ops.customops.upfirdn2d.default, (x, filter_, *numbers, False, 1.5))
            if not requires_grad:
                torch.library.opcheck(torch.ops.customops._upfirdn2d.default, (x, filter_, *numbers, True, 1.0))


@pytest.mark.compiled
@pytest.mark.parametrize("backend", COMPILE_BACKENDS)
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("last", [False, True])
def test_compile(last, backend, dynamic, device):
    f = taps(4, 3, device=device)
    op = lambda x: upfirdn2d(customops.upsample2d(x, f), f, 1, 3, (2, 1, 1, 3))  # noqa: E731
    compiled = compiled_in_one_graph(op, backend, dynamic)
    for size in ((6, 7), (9, 12)):
        x = torch.randn(2, 3, *size, device=device)
        x = (x.contiguous(memory_format=torch.channels_last) if last else x).requires_grad_()
        y = compiled(x)
        torch.testing.assert_close(y, op(x))
        (ours,) = torch.autograd.grad(y.square().sum(), x)
        torch.testing.assert_close(ours, torch.autograd.grad(op(x).square().sum(), x)[0])
        with torch.no_grad():
            torch.testing.assert_close(compiled(x), op(x))


@pytest.mark.compiled
def test_compile_is_not_repeated_for_every_size(device):
    f, graphs = taps(4, 4, device=device), []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph

    op = compiled_in_one_graph(lambda x: customops.downsample2d(x, f), backend, True)
    for size in (16, 20, 33):
        op(torch.randn(2, 3, size, size + 1, device=device))
    assert len(graphs) == 1


def test_autocast_follows_x(device):
    f = taps(4, 4, device=device)
    for dtype in (torch.float32, torch.float16):
        x = make("contiguous", dtype, device)
        with torch.autocast(device, dtype=torch.bfloat16):
            assert_close(upfirdn2d(x, f), reference(x, f))
            assert upfirdn2d(x, f).dtype == dtype


def test_forward_mode_and_functorch(device):
    x, t = torch.randn(2, 2, 3, 5, 6, dtype=torch.float64, device=device)
    f = taps(3, 3, device=device)
    op = lambda x: upfirdn2d(x, f, 2, 1, 1)  # noqa: E731
    torch.testing.assert_close(torch.func.jvp(op, (x,), (t,))[1], op(t))
    torch.testing.assert_close(torch.func.grad(lambda x: (op(x) * op(t)).sum())(x), torch.func.vjp(op, x)[1](op(t))[0])
    batch = torch.stack([x, t])
    torch.testing.assert_close(torch.func.vmap(op)(batch), torch.stack([op(x), op(t)]))
    assert gradcheck(op, x.clone().requires_grad_(), check_forward_ad=True, check_batched_grad=True)


def test_bad_arguments(device):
    x = torch.ones(1, 1, 4, 4, device=device)
    with pytest.raises(ValueError, match=r"up must be a number or \[x, y\], got \[1, 2, 3\]"):
        upfirdn2d(x, None, [1, 2, 3])
    with pytest.raises(ValueError, match=r"padding must be a number, \[x, y\] or .*, got \(1, 2, 3\)"):
        upfirdn2d(x, None, padding=(1, 2, 3))


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7, 8, 12])
@pytest.mark.parametrize("factor", [1, 2, (3, 2)])
def test_helpers(factor, size, device):
    x, f = make("contiguous", torch.float64, device), customops.setup_filter(torch.rand(size)).to(device)
    fx, fy = (factor, factor) if isinstance(factor, int) else factor
    out = customops.upsample2d(x, f, factor)
    pads = [(size + u - 1) // 2 if first else (size - u) // 2 for u in (fx, fy) for first in (True, False)]
    assert_close(out, reference(x, f, (fx, fy), 1, pads, gain=fx * fy))
    assert out.shape[2:] == (x.shape[2] * fy, x.shape[3] * fx)
    out = customops.downsample2d(x, f, factor, padding=(1, 0, 2, 3), flip_filter=True, gain=3)
    pads = [(size - d + 1) // 2 if first else (size - d) // 2 for d in (fx, fy) for first in (True, False)]
    pads = [a + b for a, b in zip(pads, (1, 0, 2, 3), strict=True)]
    assert_close(out, reference(x, f, 1, (fx, fy), pads, True, 3))
    out = customops.filter2d(x, f, padding=[2, 1])
    before, after = size // 2, (size - 1) // 2
    assert_close(out, reference(x, f, 1, 1, (before + 2, after + 2, before + 1, after + 1)))
    assert out.shape[2:] == (x.shape[2] + 2, x.shape[3] + 4)


def test_no_filter_in_helpers(device):
    x = make("contiguous", torch.float32, device)
    assert torch.equal(customops.downsample2d(x, None), x[:, :, ::2, ::2])
    assert torch.equal(customops.upsample2d(x, None)[:, :, 1::2, 1::2], 4 * x)
    assert torch.equal(customops.filter2d(x, None), x)


def test_setup_filter():
    binomial = torch.tensor([1.0, 3, 3, 1])
    torch.testing.assert_close(customops.setup_filter([1, 3, 3, 1]), binomial.outer(binomial) / 64)
    long = customops.setup_filter(range(1, 9), gain=4)
    torch.testing.assert_close(long, torch.arange(1.0, 9) / 36 * 2)
    assert customops.setup_filter(range(8), separable=False).shape == (8, 8)
    assert customops.setup_filter([1, 2], separable=True).tolist() == torch.tensor([1 / 3, 2 / 3]).tolist()
    assert customops.setup_filter([[1, 2], [3, 4]], normalize=False, flip_filter=True).tolist() == [[4, 3], [2, 1]]
    assert customops.setup_filter(None).tolist() == customops.setup_filter(5).tolist() == [[1]]
    assert customops.setup_filter(torch.ones(3, dtype=torch.float16)).dtype == torch.float32
    for bad in (torch.ones(1, 1, 1), [], torch.ones(0, 3)):
        with pytest.raises(ValueError, match="f must have 1 or 2 dimensions"):
            customops.setup_filter(bad)
    with pytest.raises(ValueError, match="a separable filter must have 1 dimension"):
        customops.setup_filter(torch.ones(2, 2), separable=True)


def test_separable_filter_gives_its_gain_once(device):
    x = torch.ones(1, 1, 30, 30, device=device)
    out = customops.filter2d(x, customops.setup_filter([1.0] * 9, gain=3).to(device), gain=2)
    torch.testing.assert_close(out[..., 10:20, 10:20], torch.full_like(out[..., 10:20, 10:20], 6))


def test_modules(device):
    x = make("contiguous", torch.float32, device)
    f = customops.setup_filter([1, 3, 3, 1]).to(device)
    blur, up, down = (
        m.to(device) for m in (customops.nn.Blur2d(), customops.nn.Upsample2d(), customops.nn.Downsample2d(down=[1, 2]))
    )
    assert torch.equal(blur(x), customops.filter2d(x, f))
    assert torch.equal(up(x), customops.upsample2d(x, f))
    assert torch.equal(down(x), customops.downsample2d(x, f, [1, 2]))
    assert list(up.state_dict()) == ["f"]
    assert not list(up.parameters())
    assert repr(up) == "Upsample2d(up=2, taps=4x4, padding=0, flip_filter=False, gain=1)"


def test_modules_keep_the_filter_in_float32(device):
    module = torch.nn.Sequential(customops.nn.Blur2d([1, 2, 1])).to(device).half()
    before = customops.setup_filter([1, 2, 1])
    assert torch.equal(module[0].f.cpu(), before)
    assert module(torch.ones(1, 1, 4, 4, device=device).half()).dtype == torch.float16


def test_the_older_spelling(device):
    x, kernel = make("contiguous", torch.float64, device), taps(4, 3, device=device)
    out = compat.upfirdn2d(x, kernel, up=2, down=3, pad=(2, 1))
    assert_close(out, reference(x, kernel, 2, 3, (2, 1, 2, 1)))
    assert not torch.equal(out, upfirdn2d(x, kernel, 2, 3, (2, 2, 1, 1)))
    assert torch.equal(compat.upfirdn2d(x, kernel), upfirdn2d(x, kernel))
    assert torch.equal(compat.upfirdn2d(x, kernel, pad=(1, 2, 3, 4)), upfirdn2d(x, kernel, padding=(1, 2, 3, 4)))
    for pad, kernel_ in (((1, 2, 3), kernel), ((1, 2), kernel[0])):
        with pytest.raises(ValueError, match=r"compat\.upfirdn2d: "):
            compat.upfirdn2d(x, kernel_, pad=pad)


def test_the_spelling_of_stylegan2_and_3(device):
    """Its modules are called bias_act and upfirdn2d, like the functions in them: ours is both."""
    import customops as bias_act
    import customops as upfirdn2d

    x, b = make("contiguous", torch.float32, device, shape=(2, 4, 8, 8)), torch.ones(4, device=device)
    y = bias_act.bias_act(x=x, b=b, dim=1, act="lrelu", alpha=0.1, gain=2, clamp=1)
    assert_close(y, (2 * F.leaky_relu(x.double() + 1, 0.1)).clamp(-1, 1))
    f = upfirdn2d.setup_filter(f=[1, 3, 3, 1], device=device, normalize=True, flip_filter=False, gain=1, separable=None)
    y = upfirdn2d.upfirdn2d(x=x, f=f, up=2, down=1, padding=[2, 1, 2, 1], flip_filter=False, gain=4)
    assert_close(y, reference(x, f, 2, 1, (2, 1, 2, 1), gain=4))
    assert torch.equal(upfirdn2d.upsample2d(x=x, f=f, up=2, padding=0, flip_filter=False, gain=1), y)
    y = upfirdn2d.downsample2d(x=x, f=f, down=2, padding=0, flip_filter=False, gain=1)
    assert_close(y, reference(x, f, 1, 2, 1))
    y = upfirdn2d.filter2d(x=x, f=f, padding=0, flip_filter=False, gain=1)
    assert_close(y, reference(x, f, 1, 1, (2, 1, 2, 1)))


def test_the_spelling_of_the_older_family(device):
    x, bias = make("contiguous", torch.float32, device, shape=(2, 4, 8, 8)), torch.ones(4, device=device)
    y = compat.fused_leaky_relu(x, bias, negative_slope=0.2, scale=2**0.5)
    assert_close(y, 2**0.5 * F.leaky_relu(x.double() + 1, 0.2))
    module = compat.FusedLeakyReLU(4, negative_slope=0.2, scale=2**0.5).to(device)
    assert_close(module(x), 2**0.5 * F.leaky_relu(x.double(), 0.2))
    assert list(module.state_dict()) == ["bias"]
