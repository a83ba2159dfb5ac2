"""What only a GPU shows: streams, graphs, other devices, sizes beyond 2^31. Runs with --device=cuda."""

import importlib
import os
import subprocess
import sys
import threading

import pytest
import torch
from common import DTYPES
from test_upfirdn2d import reference
from torch.nn import functional as F

import customops

PER_OP = {op: importlib.import_module(f"per_op.{op}") for op in customops.OPS}
OPS = {op: (module.call, module.reference) for op, module in PER_OP.items()}
each_op = pytest.mark.parametrize(("op", "reference"), OPS.values(), ids=OPS)
two_gpus = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")


def integers(*shape, dtype=torch.float32, device="cuda"):
    """Small whole numbers: exact in every dtype, sums and halves of them too."""
    return torch.randint(-8, 8, shape, device=device).mul_(2).to(dtype)


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


@pytest.mark.graph
@each_op
def test_graph_is_captured_once_and_replayed_on_other_inputs(op, reference):
    x, y = integers(33, 65), integers(33, 65)
    op(x, y)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = op(x.t(), y.t())
    for _ in range(3):
        x.copy_(integers(33, 65))
        y.copy_(integers(33, 65))
        graph.replay()
        assert torch.equal(out, reference(x.t(), y.t()))


@each_op
@pytest.mark.parametrize("transpose", [False, True])
def test_runs_on_the_current_stream(op, reference, transpose):
    """The input is written late on a side stream: a kernel on another stream would read it too early."""
    x, y = torch.zeros(512, 512, device="cuda"), integers(512, 512)
    late = integers(512, 512)
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(100_000_000)
        x.copy_(late)
        out = op(x.t(), y.t()) if transpose else op(x, y)
    stream.synchronize()
    assert torch.equal(out, reference(late.t(), y.t()) if transpose else reference(late, y))


@pytest.mark.graph
@pytest.mark.parametrize("shape", [(8, 3, 5000), (5000, 6)])
def test_sums_over_blocks_are_captured_and_follow_the_stream(shape):
    """The gradient of a bias takes two kernels and a workspace between them."""
    x, grad = integers(*shape), integers(*shape)
    b = torch.zeros(shape[1], device="cuda")
    backward = lambda: torch.ops.customops._bias_act_backward(grad, x, b, None, 1, "lrelu", 0.5, 1.0, -1.0, True)  # noqa: E731
    backward()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = backward()
    late = integers(*shape)
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(100_000_000)
        grad.copy_(late)
        results = [backward()]
        graph.replay()
    stream.synchronize()
    dx = torch.where(x > 0, late, late * 0.5)
    for got in [*results, captured]:
        assert torch.equal(got[0], dx)
        assert torch.equal(got[1], dx.sum([d for d in range(x.dim()) if d != 1]))


@pytest.mark.graph
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_weight_gradients_are_captured(dtype):
    """float16: two kernels, of which the second starts early; float32: one cluster of blocks. Both on sm_90 and later."""

    def numbers(*shape):
        return torch.randint(-2, 3, shape, device="cuda").to(dtype).contiguous(memory_format=torch.channels_last)

    x, grad = numbers(3, 33, 25, 58), numbers(3, 33, 12, 28)
    backward = lambda: torch.ops.customops._depthwise_conv2d_grad_weight(grad, x, 4, 4, 2, 2, 2, 2, 2, 2)  # noqa: E731
    backward()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = backward()
    for _ in range(5):
        x.copy_(numbers(*x.shape)), grad.copy_(numbers(*grad.shape))
        graph.replay()
        exact = torch.nn.grad.conv2d_weight(x.double().cpu(), (33, 1, 4, 4), grad.double().cpu(), 2, 2, 2, 33)
        assert torch.equal(captured.cpu(), exact.to(dtype))


@each_op
@two_gpus
def test_follows_its_inputs_to_a_device_that_is_not_current(op, reference):
    for _ in range(2):
        for index in (1, 0):
            x, y = integers(300, 70, device=f"cuda:{index}"), integers(300, 70, device=f"cuda:{index}")
            for a, b in ((x, y), (x.t(), y.t())):
                out = op(a, b)
                assert out.device == x.device
                assert torch.equal(out, reference(a, b))
            assert torch.cuda.current_device() == 0


@two_gpus
def test_the_stream_is_that_of_the_inputs_device():
    x, late = torch.zeros(1 << 20, device="cuda:1"), integers(1 << 20, device="cuda:1")
    stream = torch.cuda.Stream("cuda:1")
    torch.cuda.synchronize("cuda:1")
    with torch.cuda.stream(stream):
        torch.cuda._sleep(100_000_000)
        x.copy_(late)
        with torch.cuda.device(0):
            out = customops.add2(x, x)
    stream.synchronize()
    assert torch.equal(out, late + late)


@pytest.mark.parametrize("other", ["cpu", pytest.param("cuda:1", marks=two_gpus)])
@pytest.mark.parametrize("swap", [False, True])
def test_inputs_on_two_devices_are_refused(other, swap):
    x, y = torch.ones(3, device="cuda"), torch.ones(3, device=other)
    with pytest.raises(RuntimeError, match=r"add2: b must be on the device of a, [a-z]+(:\d)?, got [a-z]+"):
        customops.add2(y, x) if swap else customops.add2(x, y)


@each_op
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("offsets", [(1, 0), (0, 1), (3, 5), (8, 8)])
@pytest.mark.parametrize("n", [1, 7, 8, 4095, 4096, 100_003])
def test_misaligned(op, reference, dtype, offsets, n):
    x, y = (integers(n + offset, dtype=dtype)[offset:] for offset in offsets)
    assert torch.equal(op(x, y), reference(x, y))


@each_op
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [1, 3, 16, 33, 64, 128, 130])
def test_rows_of_every_kind(op, reference, dtype, width):
    """Rows that are or are not a multiple of a vector, misaligned in some rows only, stepped, broadcast, transposed."""
    full = integers(67, 2 * width + 1, dtype=dtype)
    square = integers(width, 67, dtype=dtype)
    kinds = [full[:, :width], full[:, 1 : width + 1], full[:, : 2 * width : 2], square.t(), full[:1, :width].expand(67, -1),
             full[:, :1].expand(-1, width)]  # fmt: skip
    for x in kinds:
        for y in kinds:
            assert torch.equal(op(x, y), reference(x, y))


@each_op
@pytest.mark.parametrize("shape", [(5, 3, 40, 31), (2, 64, 17, 70), (1, 130, 1, 65), (3, 16, 16, 16)])
def test_tiles(op, reference, shape):
    x, y = integers(*shape), integers(*shape)
    last = x.contiguous(memory_format=torch.channels_last)
    for a, b in ((last, y), (x, last), (last, last), (x.permute(3, 1, 0, 2), y.permute(3, 1, 0, 2))):
        assert torch.equal(op(a, b), reference(a, b))
        assert torch.equal(op(a[:, 1:], b[:, 1:]), reference(a[:, 1:], b[:, 1:]))


@pytest.mark.huge
@each_op
@pytest.mark.parametrize("n", [2**31 + 5, 2**32 + 8])
def test_more_elements_than_an_int_can_count(op, reference, n):
    x = torch.randint(0, 64, (n,), device="cuda", dtype=torch.uint8).to(torch.float16)
    for a in (x, x[1:]):
        out = op(a, a)
        for piece in range(0, a.numel(), 2**30):
            part = slice(piece, piece + 2**30)
            assert torch.equal(out[part], reference(a[part], a[part]))


@pytest.mark.huge
@pytest.mark.parametrize("shape", [(2**16 + 1, 2**15 + 24), (2**15 + 3, 2**16 + 8), (3, 2**30 + 24)])
@pytest.mark.parametrize("layout", ["transposed", "stepped", "sliced"])
def test_more_strided_elements_than_an_int_can_count(shape, layout):
    x = torch.randint(0, 64, shape, device="cuda", dtype=torch.uint8).to(torch.float16)
    a = {"transposed": x.t(), "stepped": x[:, ::2], "sliced": x[:, 8:]}[layout]
    y = torch.ones(a.shape, device="cuda", dtype=a.dtype)
    rows = 2**28 // a.shape[1] + 1
    for out in (customops.flatten_copy(a).view(a.shape), customops.axpy(y, a, 0.0), customops.axpy(a, y, 1.0) - 1):
        assert all(torch.equal(out[i : i + rows], a[i : i + rows]) for i in range(0, len(a), rows))


@pytest.mark.huge
@pytest.mark.parametrize(("columns", "step"), [(3, 2**30 + 24), (3, 2**32 + 8), (24, 2**27 + 8)])
@pytest.mark.parametrize("rows", [1, 999, 2**20 + 7])
def test_columns_farther_apart_than_an_int_can_count(columns, step, rows):
    x = torch.empty((columns - 1) * step + rows, device="cuda", dtype=torch.float16)
    a = x.as_strided((rows, columns), (1, step)).copy_(integers(rows, columns))
    y = integers(rows, columns, dtype=torch.float16)
    assert torch.equal(customops.flatten_copy(a), a.reshape(-1))
    assert torch.equal(customops.flatten_copy(a.view(1, rows, columns).expand(2, -1, -1)), a.repeat(2, 1).view(-1))
    assert torch.equal(customops.add2(y, a), y + a)
    assert torch.equal(customops.axpy(a, y, 2.0), 2 * a + y)
    assert torch.equal(customops.axpy(a, a.flip(0).contiguous(), 2.0), 2 * a + a.flip(0))
    assert torch.equal(customops.bias_act(a, act="relu", gain=1.0), a.relu())


# (up, down, taps) that have kernels of their own; 12 taps are separable.
upfirdn2d_kernels = pytest.mark.parametrize(
    ("up", "down", "taps"), [(1, 1, 4), (2, 1, 4), (1, 2, 4), (1, 1, 12), (2, 1, 12), (1, 2, 12)]
)
memory_formats = pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])


def whole_taps(taps, device="cuda"):
    return torch.randint(-2, 3, (taps, taps) if taps == 4 else (taps,), device=device).float()


@pytest.mark.graph
@upfirdn2d_kernels
@memory_formats
def test_upfirdn2d_in_a_graph_on_a_side_stream(up, down, taps, memory_format):
    """The filter is an input like any other: it is read on the GPU, when the kernel runs."""
    x, f = integers(2, 8, 70, 134).contiguous(memory_format=memory_format), whole_taps(taps)
    customops.upfirdn2d(x, f, up, down, taps // 2 * up)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = customops.upfirdn2d(x, f, up, down, taps // 2 * up)
    for _ in range(3):
        x.copy_(integers(2, 8, 70, 134))
        f.copy_(whole_taps(taps))
        graph.replay()
        assert torch.equal(out.double(), reference(x, f, up, down, taps // 2 * up))


@two_gpus
@memory_formats
@pytest.mark.parametrize("taps", [3, 7, 31])
def test_depthwise_conv2d_gives_the_same_bits_on_every_device(taps, memory_format):
    x = torch.randn(32, 64, 56, 56, dtype=torch.bfloat16).contiguous(memory_format=memory_format)
    weight, found = torch.randn(64, 1, taps, taps, dtype=torch.bfloat16), []
    for current in (0, 1):
        for device in ("cuda:1", "cuda:0"):
            inputs = [t.to(device).requires_grad_() for t in (x, weight)]
            with torch.cuda.device(current):
                y = customops.depthwise_conv2d(*inputs, padding=taps // 2)
                gradients = torch.autograd.grad(y, inputs, y.detach())
                assert torch.cuda.current_device() == current
            found.append([t.cpu() for t in (y, *gradients)])
    for others in found[1:]:
        assert all(map(torch.equal, found[0], others))


@two_gpus
@upfirdn2d_kernels
@memory_formats
def test_upfirdn2d_follows_x_to_another_device(up, down, taps, memory_format):
    x = integers(2, 8, 30, 50, device="cuda:1").contiguous(memory_format=memory_format)
    f = whole_taps(taps, "cuda:1")
    out = customops.upfirdn2d(x, f, up, down, 12)
    assert torch.equal(out.double(), reference(x, f, up, down, 12))
    with pytest.raises(RuntimeError, match="f must be on the device of x, cuda:1, got cuda:0"):
        customops.upfirdn2d(x, f.to("cuda:0"), up, down, 12)


@upfirdn2d_kernels
@memory_formats
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("offset", [1, 2, 4])
def test_upfirdn2d_misaligned(up, down, taps, memory_format, dtype, offset):
    plain = integers(2 * 8 * 37 * 61 + offset, dtype=dtype)[offset:]
    x = (
        plain.view(2, 37, 61, 8).permute(0, 3, 1, 2)
        if memory_format == torch.channels_last
        else plain.view(2, 8, 37, 61)
    )
    f = whole_taps(taps).clamp(0, 1)  # sums stay below 2^11, but not below bfloat16's 2^8
    out = customops.upfirdn2d(x, f, up, down, 12, gain=2.0**-4)
    assert torch.equal(out, reference(x, f, up, down, 12, gain=2.0**-4).to(dtype))


@pytest.mark.huge
@memory_formats
@pytest.mark.parametrize(("up", "down", "taps"), [(1, 1, 4), (2, 1, 4), (1, 2, 4), (2, 1, 12), (1, 2, 12), (1, 1, 3)])
def test_upfirdn2d_of_more_elements_than_an_int_can_count(up, down, taps, memory_format):
    batch, side = 2**31 // (64 * 256**2) + 1, 256 // up
    x = torch.empty((batch * down, 64, side, side), device="cuda", dtype=torch.float16, memory_format=memory_format)
    x.copy_(torch.randint(-8, 8, (64, side, side), device="cuda"))
    x[-1] = integers(64, side, side)
    f = whole_taps(taps)
    out = customops.upfirdn2d(x, f, up, down, taps // 2 * up, gain=2.0**-6)
    for index in (0, batch // 2, -1):
        expected = reference(x[index][None], f, up, down, taps // 2 * up, gain=2.0**-6)[0]
        torch.testing.assert_close(out[index].double(), expected, rtol=1e-3, atol=1e-4)


@pytest.mark.huge
@memory_formats
@pytest.mark.parametrize(
    ("channels", "kernel", "stride"),
    [(64, 3, 1), (64, 3, 2), (64, 5, 1), (64, 7, 1), (64, 4, 3), (62, 3, 1), (63, 3, 2), (63, 5, 1)],
)
def test_depthwise_conv2d_of_more_elements_than_an_int_can_count(channels, kernel, stride, memory_format):
    """Zeros but for three images, so that sums over the batch stay small whole numbers."""
    shape = (2**31 // (channels * 256**2) + 1, channels, 256, 256)
    x = torch.empty(shape, device="cuda", dtype=torch.float16, memory_format=memory_format).zero_()
    weight = torch.randint(-2, 3, (channels, 1, kernel, kernel), device="cuda").half()
    images = (0, shape[0] // 2, shape[0] - 1)
    for index in images:
        x[index] = (torch.rand(shape[1:], device="cuda") < 1e-3).half()
    numbers = (stride, stride, kernel // 2, kernel // 2, 1, 1)
    out = customops.depthwise_conv2d(x, weight, None, stride, kernel // 2)
    some = x[list(images)].double().requires_grad_(), weight.double().requires_grad_()
    expected = F.conv2d(*some, None, stride, kernel // 2, groups=channels)  # on the CPU it takes 20 s
    assert torch.equal(out[list(images)].double(), expected.detach())
    assert not out[1].any()
    dx, dw = torch.autograd.grad(expected, some, expected.detach())
    sizes = (out, weight, *shape[2:], *numbers, memory_format == torch.channels_last)
    ours = torch.ops.customops._depthwise_conv2d_grad_input(*sizes)
    assert torch.equal(ours[list(images)].double(), dx)
    del ours
    ours = torch.ops.customops._depthwise_conv2d_grad_weight(out, x, kernel, kernel, *numbers)
    assert torch.equal(ours, dw.to(ours))


def test_nothing_asks_for_a_gpu_before_the_first_use():
    code = """
import torch, customops, os
assert not torch.cuda.is_initialized()
child = os.fork()
if child == 0:  # CUDA works in a forked child only if the parent has not started it
    assert customops.add2(*torch.ones(2, 3, device="cuda")).tolist() == [2, 2, 2]
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""
    assert run(code).returncode == 0, run(code).stderr


@pytest.mark.parametrize(
    "use",
    [
        "customops.add2(x, x.clone().requires_grad_()).sum().backward()",
        "torch.func.vmap(customops.add2)(x, x)",
        "torch.ops.customops.add2(x, x)",
        pytest.param("torch.compile(customops.add2, fullgraph=True)(x, x)", marks=pytest.mark.compiled),
    ],
)
def test_first_use_in_every_way(use):
    result = run(f"import torch, customops; x = torch.ones(4, 4, device='cuda'); {use}")
    assert result.returncode == 0, result.stderr


def test_first_use_by_several_threads_at_once():
    code = """
import threading, torch, customops
x, results = torch.ones(1000, device="cuda"), []
def use(): results.append(torch.ops.customops._add2(x, x).sum().item())
threads = [threading.Thread(target=use) for _ in range(8)]
[t.start() for t in threads]; [t.join() for t in threads]
assert results == [2000] * 8, results
"""
    result = run(code)
    assert result.returncode == 0, result.stderr
    assert "Overriding" not in result.stderr


@pytest.mark.parametrize(
    ("machine", "message"),
    [
        ("Machine(11080, ((9, 0),), '12.8')", "this one supports 11.8: update it"),
        ("Machine(13000, ((6, 1),), '12.6')", "nothing that a GPU of compute capability 6.1 runs: build from source"),
    ],
)
def test_a_machine_that_cannot_be_served_is_told_on_first_use(machine, message):
    code = f"""
import torch, customops
from customops import _cuda
from customops._cuda import Machine
_cuda.machine = lambda: {machine}
assert customops.add2(*torch.ones(2, 3)).tolist() == [2, 2, 2]  # the CPU is not concerned
customops.add2(*torch.ones(2, 3, device="cuda"))
"""
    result = run(code)
    assert "RuntimeError: customops has no CUDA kernels for this machine" in result.stderr
    assert message in result.stderr


def test_python_m_customops_names_the_library():
    report = subprocess.run([sys.executable, "-m", "customops"], capture_output=True, text=True, check=True).stdout
    torch.ops.customops._add2(*torch.ones(2, 3, device="cuda"))
    assert f"CUDA kernels: {customops._cuda.load()} (" in report
    assert f"GPU 0: {torch.cuda.get_device_name(0)}" in report


def test_threads_have_their_own_streams():
    """Eight threads, each on its stream, none waits for another's data."""
    wrong = []

    def work(seed):
        with torch.cuda.stream(torch.cuda.Stream()):
            x = torch.full((1 << 16,), float(seed), device="cuda")
            for _ in range(20):
                x = customops.axpy(x, x, -0.5) * 2
            if not torch.equal(x, torch.full_like(x, seed)):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


BENCHMARK_MODE = """
import itertools
import torch, customops
from torch.nn.functional import conv2d

torch.manual_seed(0)
PROBLEMS = [  # shape, kernel, stride, padding, dilation
    ((2, 24, 14, 14), (3, 3), 1, 1, 1), ((3, 7, 15, 9), (7, 7), 2, 3, 1), ((1, 64, 1, 200), (1, 4), 1, (0, 3), 1),
    ((8, 16, 7, 7), (5, 5), 1, 2, 1), ((2, 8, 20, 20), (4, 2), 3, 2, 2), ((4, 32, 9, 9), (1, 1), 2, 0, 1),
]

def tensors(shape, kernel, dtype, memory_format):
    x = torch.randn(shape, device="cuda", dtype=dtype).contiguous(memory_format=memory_format)
    return x.requires_grad_(), torch.randn(shape[1], 1, *kernel, device="cuda", dtype=dtype, requires_grad=True)

def step(op, x, weight, grad, *conv, **groups):
    y = op(x, weight, None, *conv, **groups)
    return y, *torch.autograd.grad(y, (x, weight), torch.ones_like(y) if grad is None else grad)

for (shape, kernel, *conv), dtype, memory_format in itertools.product(
    PROBLEMS, (torch.float32, torch.float64, torch.float16, torch.bfloat16), (torch.contiguous_format, torch.channels_last)
):
    x, weight = tensors(shape, kernel, dtype, memory_format)
    grad = torch.randn_like(customops.depthwise_conv2d(x, weight, None, *conv))
    found = step(customops.depthwise_conv2d, x, weight, grad, *conv)
    wide = [t.detach().double().requires_grad_() for t in (x, weight)]
    expected = step(conv2d, *wide, grad.double(), *conv, groups=shape[1])
    again = step(customops.depthwise_conv2d, x, weight, grad, *conv)
    for ours, theirs, second in zip(found, expected, again):
        eps = torch.finfo(dtype).eps
        torch.testing.assert_close(ours.double(), theirs, rtol=4 * eps, atol=200 * eps)
        assert torch.equal(ours, second), (shape, kernel, conv, dtype)

def captured(x, weight):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = customops.depthwise_conv2d(x, weight, padding=1)
    graph.replay()
    return out

with torch.no_grad():
    x, weight = torch.randn(4, 40, 30, 30, device="cuda"), torch.randn(40, 1, 3, 3, device="cuda")
    first = captured(x, weight)  # met while a graph is captured: nothing is timed
    torch.testing.assert_close(first, conv2d(x, weight, padding=1, groups=40), rtol=1e-5, atol=1e-5)
    eager = customops.depthwise_conv2d(x, weight, padding=1)
    assert torch.equal(captured(x, weight), eager)
print("passed")
"""


def test_benchmark_mode():
    """Whichever kernel is the fastest: the right values, the same bits in a process, and none timed inside a graph."""
    env = os.environ | {"CUSTOMOPS_BENCHMARK": "1"}
    run = subprocess.run([sys.executable, "-c", BENCHMARK_MODE], env=env, capture_output=True, text=True, check=False)
    assert run.stdout.split()[-1:] == ["passed"], run.stderr
