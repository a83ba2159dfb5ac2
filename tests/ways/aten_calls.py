"""Calls of the sources of aten_stable/ on a CPU, with gradcheck where they have gradients.

    python aten_calls.py SITE RESULTS    in any Python with torch: those of the modules in SITE/theirs, saved into RESULTS

A source's call takes the module and the namespaces of operators, as torch.ops has them. The result says nothing of the torch or the
Python that it came from, so that it can be compared with another's.
"""

import concurrent.futures
import functools
import importlib
import platform
import sys
import threading
from pathlib import Path

import torch
from same_bits import assert_same, outcome

DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


def eighths(*shape, dtype=torch.float32):
    """Many values, of which sums and products are exact."""
    count = torch.Size(shape).numel()
    return ((torch.arange(count) * 37 % 33 - 16) / 8).to(dtype).view(shape)


def said(function, *args, **kwargs):
    """An exception as its name and first line."""
    found = outcome(function, *args, **kwargs)
    return (found[0].__name__, found[1]) if isinstance(found, tuple) and isinstance(found[0], type) else found


def of_windows(module, ops):
    x, gates = eighths(5, 9), (eighths(4, 3), eighths(6, 5), eighths(4, 2))
    found = [module.forward(case, 2) for case in (x, x.double(), x[:, ::2], x.t(), x[:0])]
    found += [module.forward(x=x, window=4), module.forward(x), module.count(x), module.count(x.double())]
    found += [said(module.forward, x, 0), said(module.forward, x[0], 1), said(module.forward, x.int(), 2)]
    leaf = gates[0].double().requires_grad_()
    assert torch.autograd.gradcheck(lambda y: module.gates(y, *(t.double() for t in gates[1:])), leaf)
    return [*found, [t.shape for t in module.gates(*gates)]]


def of_options(module, ops):
    found = []
    for dtype in DTYPES:
        x, weight, bias = eighths(3, 4, dtype=dtype), eighths(4, dtype=dtype), eighths(3, 1, dtype=dtype)
        found += [*module.affine(x), *module.affine(x, weight, scale=0.3), *module.affine(x, bias=bias, inplace=True)]
        found += [x, module.filled([3, 2], 2.5, x)]
    many = [eighths(3, 4), eighths(3, 4) + 1]
    found += [module.total(many), module.total(many, [0], mode="mean"), module.total(many, first=1, dims=[0, 1])]
    found += [module.reduced(eighths(2, 3, 4), many[0][:, :1]), module.named(many[0]), module.like_rows(many[0], 2)]
    found += [said(module.reduced, many[0], many[0].sum()), module.asked(many[0], many[1]), module.LEVEL]
    found += [module.nested([many, many[::-1]], [[1], [2]]), module.product(3, 4), module.products(*many)]
    found += [module.activated(many[0]), module.activated(many[0], module.Activation.NONE, padding=module.ZERO)]
    found += [said(module.refused, kind) for kind in (0, 1, 2, 3, 5, 6, 7)]
    found += [module.resized(eighths(1, 2, 4, 4), [], [2.0, 0.5])[0], said(module.resized, many[0][None], [], [])]
    return [*found, said(module.total, []), said(module.total, many, mode="median")]


def of_registered(module, ops):
    x, y = eighths(3, 4), eighths(3, 4) + 1
    found = [ops.registered.scaled_add(x, y), ops.registered.scaled_add(x, y, scale=0.25, sum_over=[1])]
    found += [
        ops.registered.halved(x),
        ops.registered.doubled(x),
        ops.registered.ranks(x[None]),
        ops.registered.floors(x, 0.5),
    ]
    limited, leaf = ops.registered.limited, eighths(5, dtype=torch.float64).requires_grad_()
    found += [
        limited(x),
        limited(x, 1, 1.5),
        limited(x, high=True),
        limited(x, generator=torch.Generator().manual_seed(1)),
    ]
    assert torch.autograd.gradcheck(lambda z: ops.registered.times(z, 2.5), leaf)
    found += [*ops.registered.all_times({"x": x, "": y}, 3), ops.registered.lengths({"one": [1.5], "none": []})]
    return [*found, str(ops.registered.scaled_add.default._schema).partition("::")[2]]


def of_numbers(module, ops):
    x, rows, n = eighths(4, 4), torch.tensor([3, 1, 3]), torch.tensor([5, 9, -7, 1 << 20])
    exact = [module.indices(x, rows), module.integers(n), module.integers(n.int()), module.number(x)]
    exact += [module.number(n), module.into(torch.empty_like(x), x, x + 1), said(module.number, x[:0])]
    leaves = [(x.double() / 3 + 0.01).requires_grad_(), eighths(4, 4, dtype=torch.float64).requires_grad_()]
    assert torch.autograd.gradcheck(lambda *both: module.scalars(*both)[7], leaves)
    exact += [module.summed(x.double()), *module.facts(x, rows[:1].half()), module.turned(torch.complex(x + 3, x))]
    before = module.given_back()
    exact += [module.owned(3, turned=True).clone(), module.given_back() > before]  # others may have given back, too
    exact += [module.step([x.clone(), x[0].clone()], [x + 1, x[1]]), module.vectors(x.double(), x.double() + 1)]
    return [*exact, [(t.dtype, t.shape) for t in [*module.scalars(x, x), *module.special(x)]]]


def of_functions(module, ops):
    x, y = eighths(3, 4, dtype=torch.float64).requires_grad_(), eighths(3, 4, dtype=torch.float64).requires_grad_()
    for n in range(4):
        power = functools.partial(module.power, n=n, scale=0.75)
        assert torch.autograd.gradcheck(power, x) and torch.autograd.gradgradcheck(power, x)
    assert torch.autograd.gradcheck(ops.functions.smooth, (x, y))
    values, rows = module.row_max(x, x[0] * 2)
    own = x * 1
    assert module.double_(own) is own
    found = [module.power(x, 4, 0.5), values, rows, *torch.autograd.grad(values.sum(), x), module.slope(x)]
    found += [own, *torch.autograd.grad((own * own).sum(), x), ops.functions.smooth(x, y, weight=0.25)]
    found += [said(module.power, x, -1), said(lambda: module.wrong(x).sum().backward()), module.grad_mode(x)]
    return [t.detach() if isinstance(t, torch.Tensor) else t for t in found]


def of_draws(module, ops):
    own = torch.Generator().manual_seed(3)
    torch.manual_seed(5)
    x, found = torch.ones(2, 9), []
    for _ in range(2):
        found += [module.draw([2, 3]), module.draw([40], own), module.dropped(x, 0.25, own), module.of_torch(x)]
    found += [module.reseed(own, 1 << 62), own.initial_seed(), torch.rand(3), torch.rand(3, generator=own)]
    found += [module.counted(eighths(5), eighths(5) > 0), module.grouped([eighths(1), eighths(12), eighths(3, 4)])]
    awaited = torch.zeros(1)
    writer = threading.Timer(0.05, awaited.fill_, [1])
    writer.start()
    found.append(module.wait(awaited))
    writer.join()
    found += [module.sums({"a": eighths(4), "b\0": eighths(2, 2)}, eighths(3)), module.turned({"a": "Ω", "b": ""})]
    found += [
        *module.positives({2: [1.5, -1.0, 2], 0: [], 1: [-1.0]}),
        module.flat([eighths(2, 3), eighths(0), eighths(5)]),
    ]
    return [*found, module.largest(eighths(7)), *of_classes(module)]


def of_classes(module):
    """What the classes of stages.h give."""
    settings, x = module.Settings(), eighths(3)
    found = [repr(settings), settings.width, settings.scale, settings.weight, settings.sizes, settings.area]
    settings.width, settings.sizes, settings.name, settings.weight = 5, (1, 2), "own", x
    found += [repr(settings), settings.width, settings.sizes, settings.weight, settings.area]
    stage, other = module.Scaled(2), module.Scaled(x)
    found += [stage.run(x), stage.twice(x), stage(x), stage.calls, len(stage), other.shift]
    stage.settings().width = 11
    found += [stage.settings().width, stage.settings() is stage.settings(), stage.copied() is stage.copied()]
    stage.copied().width = 4
    found += [stage.settings().width, stage.next, isinstance(stage, module.Stage)]
    stage.next = other
    found += [stage.next is other, type(stage.next).__name__, stage.run(x)]
    stage.next = module.Stage()
    found += [type(stage.next).__name__, stage.run(x), other.calls]
    stage.shift = 7
    found += [stage.shift, said(setattr, stage, "shift", -1), stage.shift]
    part = stage.settings()
    del stage
    found += [part.width, module.apply_settings(settings, x), module.apply_settings(settings, x, stage=other)]
    found += [
        [one.width for one in module.settings_of([3, 1])],
        module.total_width(module.settings_of([3, 1]), settings),
    ]

    class Own(module.Scaled):
        def more(self):
            return self.shift + 1

    own = Own(3, scale=2.0)
    own.note = "kept"
    other.next = own
    found += [
        own.more(),
        own.run(x),
        other.next is own,
        other.next.note,
        module.Settings.__doc__,
        "Runs it twice" in module.Scaled.twice.__doc__,
    ]
    before = module.Scaled.gone()
    del own
    other.next = None
    return [*found, module.Scaled.gone() - before]


def of_blend(module, ops):
    return [said(module.blend, torch.ones(2), torch.ones(2))]


def of_noise(module, ops):
    return [said(module.noise, torch.ones(2))]


CALLS = {
    name.removeprefix("of_"): call
    for name, call in list(globals().items())
    if name.startswith("of_") and name != "of_classes"
}


class Operators:
    """torch.ops of sources that may have been compiled into other namespaces than the one in the text."""

    def __init__(self, suffix):
        self.registered, self.functions = (
            getattr(torch.ops, f"aten_stable_{name}{suffix}") for name in ("registered", "functions")
        )


def has_lock():
    """Of a free-threaded Python, whether a module has brought the lock back."""
    return getattr(sys, "_is_gil_enabled", lambda: True)()


def in_threads(call):
    """The result of one of several calls at once, which all give the same."""
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        first, *others = [job.result() for job in [pool.submit(call) for _ in range(8)]]
    for other in others:
        assert_same(other, first)
    return first


def main(site, results):
    sys.path.insert(0, str(site))
    had_lock, found = has_lock(), {}
    for name in sorted(path.stem for path in (site / "theirs").glob("*.py")):
        call = functools.partial(CALLS[name], importlib.import_module(f"theirs.{name}"), Operators("_too"))
        found[name] = call() if name == "draws" else in_threads(call)  # of draws, the order counts
    assert has_lock() == had_lock
    lock = "" if had_lock else " without a lock"
    print(f"CPython {platform.python_version()}{lock}, torch {torch.__version__}: {', '.join(found)}")
    torch.save(found, results)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
