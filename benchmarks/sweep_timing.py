"""What benchmarks/sweep.py does with one problem: makes its inputs, checks values, times ours and torch's."""

import contextlib
import math
import random
import statistics
import time
from collections.abc import Callable

import torch
from sweep_cases import Problem
from torch.nn import functional as F

OURS = "customops"
PEERS = {
    "cpu": {"torch": None},
    "cuda": {
        "cuDNN": {"enabled": True, "benchmark": False},
        "cuDNN, benchmark": {"enabled": True, "benchmark": True},
        "native": {"enabled": False},
    },
}
ROTATED_BYTES = {"cpu": 64e6, "cuda": 128e6}  # inputs of one case, but at most COPIES of them
COPIES = 8
BATCH_US = {"cpu": 1000, "cuda": 400}  # what is timed at once, about; at most CALLS calls
CALLS = 40
ROUNDS, MORE_ROUNDS = 5, 25
ROUNDS_US = 3e5  # of all rounds together, about; at least 3
HOPELESS = 1.6  # times the best peer: such peers are not timed again
SLEEP_CYCLES = 600_000  # about 0.3 ms, in which a round's launches queue up
CHECKED = {"cpu": 2**18, "cuda": 2**22}  # elements of an image whose values are checked, about
CHECKED_WORK = 200_000_000  # multiply-adds of that, at most: two channels at least are checked

Call = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]  # of x, weight, grad


running = {"name": ""}  # whose call has begun, for a watchdog


def set_precision() -> None:
    """No TensorFloat-32: float32 stands for float32 on both sides."""
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False


def inputs(p: Problem, device: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """x, weight and the output's gradient."""
    dtype = getattr(torch, p.dtype)
    memory_format = torch.channels_last if p.layout == "nhwc" else torch.contiguous_format

    def image(*size):
        t = torch.randn(*p.shape[:2], *size, device=device, dtype=dtype)
        return t.contiguous(memory_format=memory_format)

    weight = torch.randn(p.shape[1], 1, *p.kernel, device=device, dtype=dtype)
    return image(*p.shape[2:]), weight, image(*p.out)


def input_sets(p: Problem, device: str) -> list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
    """Several such, always the same: calls that take turns with them find little in the caches."""
    torch.manual_seed(0)
    first = inputs(p, device)
    used = sum(t.numel() for t in (first[0], first[2])) * first[0].element_size()
    copies = min(COPIES, max(1, math.ceil(ROTATED_BYTES[device] / used)))
    return [first, *(inputs(p, device) for _ in range(copies - 1))]


def ours(direction: str, p: Problem) -> Call:
    """The op that a forward or a backward pass calls, by itself."""
    ops = torch.ops.customops
    top, left = p.padding
    if direction == "fwd":
        sides = (top, top, left, left)
        return lambda x, w, g: ops._depthwise_conv2d(x, w, None, *p.stride, *sides, *p.dilation)
    arguments = (*p.stride, *p.padding, *p.dilation)
    if direction == "dgrad":
        last = p.layout == "nhwc" and p.shape[1] > 1
        return lambda x, w, g: ops._depthwise_conv2d_grad_input(g, w, *p.shape[2:], *arguments, last)
    return lambda x, w, g: ops._depthwise_conv2d_grad_weight(g, x, *p.kernel, *arguments)


def theirs(direction: str, p: Problem, flags: dict | None) -> Call:
    """torch's own, with cuDNN as the flags say."""
    mask = [direction == "dgrad", direction == "wgrad", False]

    def call(x, w, g):
        channels = x.shape[1]
        if direction == "fwd":
            return F.conv2d(x, w, None, p.stride, p.padding, p.dilation, channels)
        arguments = (p.stride, p.padding, p.dilation, False, [0, 0], channels, mask)
        return torch.ops.aten.convolution_backward(g, x, w, None, *arguments)[mask.index(True)]

    def call_with_flags(x, w, g):
        with torch.backends.cudnn.flags(**flags, allow_tf32=False):
            return call(x, w, g)

    return call if flags is None else call_with_flags


def wrong(direction: str, p: Problem, values: tuple, result: torch.Tensor) -> str | None:
    """How the result differs from torch's in float64, over some of the channels; None if it is as close as rounding
    explains. Sums of n normally distributed terms are about sqrt(n) large, and so are their partial sums."""
    x, w, g = values
    terms = math.prod(p.out) * p.shape[0] if direction == "wgrad" else math.prod(p.kernel)
    channels, each = p.shape[1], p.elements // p.shape[1]
    few = max(2, min(CHECKED[x.device.type] // each, CHECKED_WORK * channels // p.work))
    half = torch.randperm(channels)[: few // 2].tolist()
    chosen = sorted({0, channels - 1, *half}) if few < channels else list(range(channels))
    x, w, g = x[:, chosen].double().contiguous(), w[chosen].double(), g[:, chosen].double().contiguous()
    expected = theirs(direction, p, {"enabled": False})(x, w, g)
    actual = result[chosen] if direction == "wgrad" else result[:, chosen]
    if actual.shape != expected.shape:
        return f"shape {tuple(actual.shape)} for {tuple(expected.shape)}"
    dtype = result.dtype
    arithmetic = torch.finfo(torch.float64 if dtype == torch.float64 else torch.float32).eps
    bound = torch.finfo(dtype).eps * expected.abs() + arithmetic * (16 * math.sqrt(terms) + 2 * terms)
    excess = ((actual.double() - expected).abs() / bound).nan_to_num(math.inf)
    largest = float(excess.max())
    return None if largest <= 1 else f"{largest:.3g} times the bound of {terms} terms in {dtype}"


def is_channels_last(t: torch.Tensor) -> bool:
    """The rule of csrc/depthwise_conv2d.h."""
    return t.shape[1] > 1 and t.stride(1) == 1 and t.stride(3) != 1


class CpuTimer:
    """Eager calls, by the clock."""

    def __init__(self, calls: dict[str, Call], sets: list[tuple]):
        self.calls, self.sets, self.counts = calls, sets, {}
        for name, call in calls.items():
            running["name"] = name
            call(*sets[0])
            start = time.perf_counter()
            call(*sets[-1])
            us = max((time.perf_counter() - start) * 1e6, 1)
            self.counts[name] = min(CALLS, max(1, round(BATCH_US["cpu"] / us)))

    def round(self, order: list[str]) -> dict[str, float]:
        us = {}
        for name in order:
            start = time.perf_counter()
            for i in range(self.counts[name]):
                self.calls[name](*self.sets[i % len(self.sets)])
            us[name] = (time.perf_counter() - start) * 1e6 / self.counts[name]
        return us

    def finish(self, rounds: list[dict]) -> list[dict[str, float]]:
        return rounds


class GraphTimer:
    """Calls captured in CUDA graphs, so that the host's part does not count; replays, by events.

    What a graph holds is warmed up on the stream that captures it: cuDNN's benchmark mode tries its kernels there, and
    the allocator gets its memory. Graphs of a case share a pool: no result outlives its call.
    """

    def __init__(self, calls: dict[str, Call], sets: list[tuple]):
        self.graphs, self.counts = {}, {}
        self.stream, pool = torch.cuda.Stream(), torch.cuda.graph_pool_handle()
        self.stream.wait_stream(torch.cuda.current_stream())
        estimates = {}
        for name, call in calls.items():
            running["name"] = name
            try:
                estimates[name] = self._estimate(call, sets)
            except RuntimeError:  # torch cannot do it
                if name == OURS:
                    raise
        best = min((us for name, us in estimates.items() if name != OURS), default=0)
        for name, us in estimates.items():
            if name == OURS or us <= HOPELESS * best:
                count = min(CALLS, max(1, round(BATCH_US["cuda"] / max(us, 1))))
                self._capture(name, calls[name], sets, count, pool)
        for graph in self.graphs.values():  # the first replay uploads it
            graph.replay()
        torch.cuda.synchronize()

    def _estimate(self, call: Call, sets: list[tuple]) -> float:
        """Microseconds of a call whose launch was hidden, after its warm-up."""
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        with torch.cuda.stream(self.stream):
            call(*sets[0])
            call(*sets[-1])
            self.stream.synchronize()
            torch.cuda._sleep(SLEEP_CYCLES)
            start.record()
            call(*sets[0])
            call(*sets[-1])
            end.record()
            self.stream.synchronize()
        return start.elapsed_time(end) * 1e3 / 2

    def _capture(self, name: str, call: Call, sets: list[tuple], count: int, pool) -> None:
        graph, stream = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
        try:
            with torch.cuda.graph(graph, pool=pool, stream=self.stream):
                for i in range(count):
                    call(*sets[i % len(sets)])
        except RuntimeError:
            torch.cuda.set_stream(stream)  # where a failed capture leaves the stream is not documented
            if name == OURS:
                raise
            return
        self.graphs[name], self.counts[name] = graph, count

    def round(self, order: list[str]) -> dict[str, tuple]:
        torch.cuda._sleep(SLEEP_CYCLES)
        marks = {}
        for name in order:
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            self.graphs[name].replay()
            end.record()
            marks[name] = start, end
        return marks

    def finish(self, rounds: list[dict]) -> list[dict[str, float]]:
        torch.cuda.synchronize()
        return [
            {name: start.elapsed_time(end) * 1e3 / self.counts[name] for name, (start, end) in marks.items()}
            for marks in rounds
        ]


def medians(timer: CpuTimer | GraphTimer, rounds: int) -> dict[str, float]:
    """Microseconds a call: each round times everyone once, in random order."""
    names, order = list(timer.counts), random.Random(0)
    first = timer.finish([timer.round(names)])[0]
    total = sum(us * timer.counts[name] for name, us in first.items())
    rounds = max(3, min(rounds, int(ROUNDS_US * rounds / ROUNDS / total)))
    times = timer.finish([timer.round(order.sample(names, len(names))) for _ in range(rounds)])
    return {name: round(statistics.median(us[name] for us in times), 3) for name in names}


def measure(direction: str, p: Problem, device: str, second_look: float) -> dict:
    """{"us", "ratio"}; the "first" such, if it was a loser's; "error" where values are wrong. Raises what ours does."""
    set_precision()
    sets = input_sets(p, device)
    first, call = sets[0], ours(direction, p)
    running["name"] = OURS
    result = call(*first)
    running["name"] = "float64"
    error = wrong(direction, p, first, result)
    if direction != "wgrad" and is_channels_last(result) != is_channels_last(first[0]):
        error = error or f"strides {result.stride()}"
    found = {"error": error} if error else {}
    calls = {OURS: call} | {name: theirs(direction, p, flags) for name, flags in PEERS[device].items()}
    timer = (CpuTimer if device == "cpu" else GraphTimer)(calls, sets)
    found |= rated(medians(timer, ROUNDS))
    if found["ratio"] is not None and found["ratio"] < second_look:
        found |= {"first": {"us": found["us"], "ratio": found["ratio"]}} | rated(medians(timer, MORE_ROUNDS))
    return found


def usable(device: str) -> bool:
    """Whether the device has survived an error."""
    try:
        if device == "cuda":
            torch.cuda.synchronize()
    except RuntimeError:
        return False
    return True


def rated(us: dict[str, float]) -> dict:
    best = min((t for name, t in us.items() if name != OURS), default=None)
    return {"us": us, "ratio": None if best is None else round(best / us[OURS], 4)}


def kernel(direction: str, p: Problem, device: str) -> str | None:
    """The first word of what the op that explains choices says, where there is such an op."""
    op = getattr(torch.ops.customops, "_depthwise_conv2d_explain", None)
    if op is None:
        return None
    top, left = p.padding
    sides = (top, top, left, left)
    problem = [*p.shape, *p.kernel, *p.stride, *sides, *p.dilation, p.layout == "nhwc"]
    with contextlib.suppress(RuntimeError):
        return op(direction, device, list(map(int, problem)), p.dtype).split()[0].rstrip(":")
    return None
