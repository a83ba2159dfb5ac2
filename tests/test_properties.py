"""What holds for any tensors: sizes, dtypes and memory layouts are drawn. The same examples each time, or, with
CUSTOMOPS_HYPOTHESIS=fresh, new ones: a failure then prints the line that replays it.

bias_act and upfirdn2d have such tests in their own files, where the arguments are.
"""

import torch
from common import DTYPES, examples
from depthwise import assert_close, randn, reference
from hypothesis import given
from hypothesis import strategies as st

from customops import add2, axpy, depthwise_conv2d, flatten_copy


@st.composite
def tensors(draw, count, device):
    """`count` tensors of one shape, of up to five dimensions, each with strides of its own."""
    shape = draw(st.lists(st.integers(0, 9), max_size=5))
    dtype, seed = draw(st.sampled_from(DTYPES)), draw(st.integers(0, 2**31))
    made = []
    for number in range(count):
        order = draw(st.permutations(range(len(shape))))
        steps = [draw(st.sampled_from([1, 1, 1, 2, 3])) for _ in shape]  # of each dimension, in the storage
        stored = randn(*(shape[d] * steps[d] for d in order), dtype=dtype, device=device, seed=seed + number)
        view = stored.permute([order.index(d) for d in range(len(shape))])
        view = view[tuple(slice(None, None, step) for step in steps)]
        expand = draw(st.sampled_from([None, None, *range(len(shape))]))
        if expand is not None and shape[expand] > 0:
            view = view.narrow(expand, 0, 1).expand(shape)
        made.append(view)
    return made


def assert_rounded(actual, expected64, dtype):
    """``expected64`` rounded once; float32 arithmetic may add one unit in the last place of float32."""
    eps = torch.finfo(dtype).eps
    torch.testing.assert_close(actual, expected64.to(dtype), rtol=eps, atol=eps)


@given(st.data())
@examples(60)
def test_add2_adds(device, data):
    a, b = data.draw(tensors(2, device))
    assert_rounded(add2(a, b), a.double() + b.double(), a.dtype)
    assert torch.equal(add2(a, b), add2(b, a))


@given(st.data(), st.floats(-4, 4))
@examples(60)
def test_axpy_scales_and_adds(device, data, alpha):
    x, y = data.draw(tensors(2, device))
    result = axpy(x, y, alpha)
    expected = alpha * x.double() + y.double()
    scale = float((abs(alpha) * x.double().abs() + y.double().abs()).max()) if x.numel() else 0
    eps = torch.finfo(x.dtype).eps
    torch.testing.assert_close(result.double(), expected, rtol=eps, atol=eps * max(scale, 1))
    assert torch.equal(axpy(x, y, 0.0), y.contiguous().view_as(y) + 0 * x)


@given(st.data())
@examples(80)
def test_flatten_copy_is_a_copy_in_the_order_of_indices(device, data):
    (x,) = data.draw(tensors(1, device))
    y = flatten_copy(x)
    assert y.is_contiguous() and torch.equal(y, x.flatten())
    if x.numel():
        assert y.untyped_storage().data_ptr() != x.untyped_storage().data_ptr()


AXIS = st.tuples(st.integers(1, 24), st.integers(1, 7), st.integers(1, 4), st.integers(0, 5), st.integers(1, 3))


@given(AXIS, AXIS, st.integers(0, 3), st.integers(0, 40), st.sampled_from(DTYPES), st.booleans(), st.booleans())
@examples(80)
def test_depthwise_conv2d_and_its_gradients_are_torch_s(device, y, x, batch, channels, dtype, last, biased):
    sizes, taps, stride, padding, dilation = zip(y, x, strict=True)
    spans = [d * (k - 1) + 1 for k, d in zip(taps, dilation, strict=True)]
    # As large as the window, if the padding alone does not do.
    sizes = [max(size, span - 2 * pad) for size, span, pad in zip(sizes, spans, padding, strict=True)]
    memory_format = torch.channels_last if last else torch.contiguous_format
    image = randn(batch, channels, *sizes, dtype=dtype, device=device).contiguous(memory_format=memory_format)
    weight = randn(channels, 1, *taps, dtype=dtype, device=device, seed=1)
    bias = randn(channels, dtype=dtype, device=device, seed=2) if biased else None
    arguments = [t.detach().requires_grad_() for t in (image, weight, bias) if t is not None]
    result = depthwise_conv2d(*arguments, stride=stride, padding=padding, dilation=dilation)
    if channels == 0 or batch == 0:
        assert result.numel() == 0
        return
    doubles = [t.detach().double().cpu().requires_grad_() for t in arguments]
    expected = reference(*doubles, *([] if biased else [None]), stride, padding, dilation)
    assert_close(result, expected)
    grad = randn(*expected.shape, dtype=dtype, device=device, seed=3)
    ours = torch.autograd.grad(result, arguments, grad)
    theirs = torch.autograd.grad(expected, doubles, grad.double().cpu())
    for one, other in zip(ours, theirs, strict=True):
        assert_close(one, other)
