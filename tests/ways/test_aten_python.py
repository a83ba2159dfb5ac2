"""Python's side of modules that aten_stable's headers make: arguments, results, exceptions, classes, and what is kept.

The builds against ATen are the reference; see test_aten_stable.py.
"""

import ctypes
import functools
import subprocess
import sys
import threading
import weakref
from pathlib import Path

import pytest
import torch
import torch._dynamo
import torch.fx.experimental.proxy_tensor
from aten_calls import of_classes
from same_bits import assert_same, outcome

LEAF = torch.linspace(-1, 2, 6).requires_grad_()


def test_keywords_defaults_and_errors(windows, tensor):
    x = tensor(4, 9)
    for args, kwargs in (
        ((x,), {}),
        ((), {"x": x, "window": 4}),
        ((x,), {"window": 4}),
        ((x, 0), {}),  # TORCH_CHECK
        ((x[0], 1), {}),
        ((x.int(), 2), {}),  # AT_DISPATCH
    ):
        assert_same(*(outcome(module.forward, *args, **kwargs) for module in windows))
    for args, kwargs in (
        ((), {}),
        ((x, 2.5), {}),
        ((x, 2), {"other": 1}),
        ((None,), {}),
        ((x, 1 << 40), {}),
        ((x, 1, 2), {}),
    ):
        assert [outcome(module.forward, *args, **kwargs)[0] for module in windows] == [TypeError, TypeError]
    assert [module.count(x) for module in windows] == [36, 36]
    assert [module.count(x.double()) for module in windows] == [-1, -1]


def test_results_and_arguments_are_not_kept(windows, tensor):
    for module in windows:
        x = tensor(3, 8)
        counts = x._use_count(), sys.getrefcount(x)
        for _ in range(3):
            module.forward(x, window=2)
            outcome(module.forward, x, 0)
        assert (x._use_count(), sys.getrefcount(x)) == counts
        result = weakref.ref(module.gates(x, tensor(6, 10), tensor(3, 2))[0])
        assert result() is None


@pytest.mark.parametrize("name", ["windows", "options", "functions"])
def test_torch_converts_tensors_where_the_quick_way_knows_no_place(modules, tensor, name):
    """A torch whose Python tensors say nothing of where the C++ one is."""
    module = modules[name][1]
    library = ctypes.PyDLL(str(Path(module.__file__).with_name(module.LIBRARY)))
    library.aten_stable_python.argtypes = [*[ctypes.py_object] * 5, ctypes.c_int64, ctypes.c_int64]
    convert = (
        torch._C._aoti.unsafe_alloc_void_ptr_from_tensor,
        torch._C._aoti.alloc_tensor_by_stealing_from_void_ptr,
    )
    assert module._tensor_offset() > 0
    calls = {
        "windows": lambda m: m.forward(torch.ones(2, 5), 2),
        "options": lambda m: m.total([torch.ones(2), torch.full((2,), 3.0)], [0]),
        "functions": lambda m: torch.autograd.grad(m.power(LEAF, 3).sum(), LEAF),
    }
    for offset in (0, module._tensor_offset()):
        settings = torch.Tensor, torch.nn.Parameter, torch.Generator, *convert, offset, module._steals(*convert)
        assert library.aten_stable_python(*settings) == 1
        assert_same(*map(calls[name], modules[name]))


def test_a_torch_with_other_handles_is_noticed(windows):
    new = ctypes.pythonapi.PyCapsule_New
    new.argtypes, new.restype = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p], ctypes.py_object
    other = ctypes.c_void_p(1)
    aoti = torch._C._aoti
    convert = aoti.unsafe_alloc_void_ptr_from_tensor, aoti.alloc_tensor_by_stealing_from_void_ptr
    assert windows[1]._handle_is_tensor(*convert)
    assert not windows[1]._handle_is_tensor(
        lambda tensor: new(ctypes.addressof(other), None, None), lambda capsule: None
    )


def test_without_the_quick_way_all_goes_through_torch_ops(modules, tensor):
    """In a process of its own, whose torch lacks what the quick way needs."""
    folder = Path(modules["functions"][1].__file__).parent
    code = (
        "import sys, torch; del torch._C._aoti.unsafe_alloc_void_ptr_from_tensor\n"
        f"sys.path.insert(0, {str(folder)!r}); import functions, windows\n"
        "assert type(functions.power) is type(windows.forward) is type(lambda: 0)\n"
        "x = torch.linspace(-1, 2, 6, dtype=torch.float64).view(2, 3).requires_grad_()\n"
        "assert torch.autograd.gradcheck(functions.power, x) and torch.autograd.gradgradcheck(functions.power, x)\n"
        "assert torch.equal(windows.forward(x.detach(), window=3), x.detach().sum(1, keepdim=True))\n"
        "try: functions.power(x, -1)\n"
        "except RuntimeError as error: print(str(error).splitlines()[0])\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "power: n must be at least 0, got -1\n"


def test_a_context_that_does_more_than_to_set_attributes_is_called(modules):
    """In a process of its own, whose torch counts what is saved."""
    folder = Path(modules["functions"][1].__file__).parent
    code = (
        "import sys, torch; context, counts = torch.autograd.function.FunctionCtx, []\n"
        "save = context.save_for_backward\n"
        "def save_and_count(self, *tensors): counts.append(len(tensors)); save(self, *tensors)\n"
        "context.save_for_backward = save_and_count\n"
        f"sys.path.insert(0, {str(folder)!r}); import functions\n"
        "x = torch.linspace(-1, 2, 6, dtype=torch.float64).view(2, 3).requires_grad_()\n"
        "assert torch.autograd.gradcheck(functions.power, x)\n"
        "assert counts and set(counts) == {1} and not functions._is_plain_context()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_tensor_that_comes_back_is_the_same_object(modules):
    for module in modules["functions"]:
        x = torch.ones(3)
        assert module.double_(x) is x
        y = torch.ones(3, requires_grad=True) * 1
        assert module.double_(y) is y
        assert y.grad_fn is not None


def test_what_the_quick_way_does_not_know_goes_through_torch_ops(windows, options, tensor):
    class Own(torch.Tensor):
        pass

    x = tensor(3, 8)
    for case in (x.as_subclass(Own), torch.nn.Parameter(x), x.requires_grad_()):
        assert_same(*(module.forward(case.detach(), torch.tensor(2)) for module in (windows[1], windows[1])))
        assert torch.equal(windows[1].forward(case, 2), windows[0].forward(x, 2))
    assert_same(*(module.affine(x, scale=torch.tensor(0.5).item()) for module in options))
    seen = []

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            seen[-1].append(str(function))
            return function(*args, **(kwargs or {}))

    for module in windows:
        seen.append([])
        with Watch():
            module.gates(x.detach(), tensor(6, 10), tensor(3, 2))
    assert seen[0] and seen[1] and not [name for name in seen[1] if "theirs" in name]


def test_transforms_see_what_a_function_calls(windows, functions, tensor):
    x, w, h = tensor(2, 4, 3), torch.ones(6, 5), torch.ones(4, 2)
    assert_same(*(torch.vmap(lambda y, m=module: m.gates(y, w, h)[0])(x) for module in windows))
    assert_same(*(torch.func.grad(lambda y, m=module: m.gates(y, w, h)[0].sum())(x[0]) for module in windows))
    # What reads the elements itself has no place there, and neither has a Function of C++.
    found = [outcome(torch.vmap(functools.partial(module.forward, window=2)), x)[0] for module in windows]
    assert found == [RuntimeError, RuntimeError]
    assert_same(*(outcome(torch.func.grad(lambda y, m=module: m.power(y).sum()), x) for module in functions))


def test_tracing_keeps_numbers(windows, tensor):
    x, w, h = tensor(4, 3), torch.ones(6, 5), torch.ones(4, 2)
    traced = torch.fx.experimental.proxy_tensor.make_fx(lambda y: windows[1].gates(y, w, h)[0])(x)
    assert_same(traced(x + 1), windows[0].gates(x + 1, w, h)[0])


@pytest.mark.filterwarnings("ignore:Dynamo does not know how to trace")
def test_torch_compile_leaves_out_the_function(windows, tensor):
    x = tensor(4, 9)
    for module in windows:

        def around(y, m=module):
            return m.forward(y + 1, 2) * 2

        torch._dynamo.reset()
        assert torch._dynamo.explain(around)(x).graph_count == 2
        assert_same(torch.compile(around, backend="eager")(x), around(x))


def test_face(windows):
    aten, stable = windows
    assert stable.__doc__ == aten.__doc__ == "Sums over windows."
    assert stable.forward.__name__ == "forward"
    assert "Sliding sums along the rows" in stable.forward.__doc__
    assert "int window=3" in stable.forward.__doc__


@pytest.mark.parametrize("kind", range(9))
def test_types_of_exceptions(options, kind):
    found = [outcome(module.refused, kind) for module in options]
    assert_same(*found)
    by_torch_ops = outcome(options[1].refused, torch.tensor(kind))  # no int: not the quick way
    assert_same(by_torch_ops, found[0])


def test_attributes_of_the_module(options):
    for name in ("__version__", "LEVEL", "SCALE", "DEBUG"):
        assert_same(*(getattr(module, name) for module in options))


def test_enums(options, tensor):
    x = tensor(3, 4)
    for module in options:
        kinds = module.Activation
        assert list(kinds.__members__) == ["NONE", "RELU", "TANH"]
        assert (int(kinds.TANH), kinds.RELU.name, kinds(3), str(kinds.NONE)) == (
            4,
            "RELU",
            kinds.RELU,
            "Activation.NONE",
        )
        assert module.ZERO == module.Padding.ZERO
        assert not hasattr(module, "RELU")
        assert torch.equal(module.activated(x), x.relu())
        assert torch.equal(module.activated(x, module.Activation.TANH, padding=module.ZERO), (x - 1).tanh())
        for wrong in ({"activation": 3}, {"activation": None}, {"padding": 0}, {"padding": kinds.TANH}):
            assert outcome(module.activated, x, **wrong)[0] is TypeError


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bfloat16, torch.complex64])
def test_numbers_in_signatures(draws, tensor, dtype):
    """pybind11 of torch has no way in for a Scalar: the results are those of torch's operators in Python."""
    assert "NYI" in outcome(draws[0].scale, tensor(1))[1]
    x = tensor(3, 4).mul(9).to(dtype)
    for by, shift in ((2, None), (3, True), (0.1, -2), (False, 1e300), (2 + 3j, None), (1 << 62, None)):
        wanted = outcome(lambda: x * by if shift is None else x * by + shift)  # noqa: B023, called here
        if isinstance(
            wanted, tuple
        ):  # torch 2.15 multiplies no BComplex32; here it is a RuntimeError, as the page says
            assert (dtype, type(by), wanted[0]) == (torch.bfloat16, complex, NotImplementedError)
            wanted = RuntimeError, f"NotImplementedError: {wanted[1]}"
        assert_same(outcome(draws[1].scale, x, by, shift), wanted)
        assert_same(outcome(draws[1].scale, x, shift=shift, by=by), wanted)
    assert_same(draws[1].scale(x), x * 2)
    assert_same(draws[1].scale(x, torch.tensor(1.5)), x * 1.5)
    for wrong in ("two", None, [1], 1 << 70):
        assert outcome(draws[1].scale, x, wrong)[0] is TypeError


@pytest.mark.parametrize("value", [True, -7, 1 << 60, 0.1, float("inf")])
def test_numbers_as_results(draws, value):
    x = torch.tensor([value])
    x = x.double() if isinstance(value, float) else x
    assert_same(*(module.largest(x) for module in draws))
    for args, half in (((), 0.25), ((3,), 1.5), ((0.7,), 0.35)):
        assert_same(draws[1].halves(x, *args), (x / 2, half))


def test_numbers_leave_nothing_in_memory(draws):
    """In bytes that malloc has given out; one string for each call would be 60."""

    class Malloc(ctypes.Structure):
        _fields_ = [(f"field{i}", ctypes.c_size_t) for i in range(10)]  # the eighth: bytes in use

    in_use = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if in_use is None:
        pytest.skip("the C library has no mallinfo2")
    in_use.restype = Malloc
    x, calls = torch.ones(4), 3000
    for _ in range(500):
        draws[1].scale(x, 2, True)
    before = in_use().field7
    for _ in range(calls):
        draws[1].scale(x, 2, True)
    assert in_use().field7 - before < 16 * calls


def test_numbers_through_torch_ops(draws):
    """Tensors without dimensions and subclasses do not take the quick way."""
    _, stable = draws
    x = torch.arange(3.0).as_subclass(type("Own", (torch.Tensor,), {}))
    for by, shift in ((2, None), (0.5, 1), (True, 2.5), (1j, None)):
        assert torch.equal(stable.scale(x, by, shift), x * by + (shift or 0))
    assert stable.largest(x) == 2.0
    assert stable.halves(x)[1] == 0.25


def test_generators_are_not_kept(draws):
    for module in draws:
        own = torch.Generator()
        before = sys.getrefcount(own)
        module.draw([2], own)
        module.reseed(own, 1)
        assert sys.getrefcount(own) == before


def test_dictionaries_in_signatures(draws, tensor):
    all_ = {"b": tensor(2, 3), "": tensor(1), "a\0b": tensor(0)}
    rows = {2: [0.5, -1.0], 1: [], 0: [3, 1 << 40]}
    for name, args in (("sums", (all_, tensor(2))), ("positives", (rows,)), ("turned", ({"a": "Ω", "": "x\0y"},))):
        assert_same(*(getattr(module, name)(*args) for module in draws))
        assert_same(*(getattr(module, name)(*[{} if isinstance(a, dict) else a for a in args]) for module in draws))
    for wrong in ([1], None, {1: "a"}, {"a": 1}):
        assert [outcome(module.turned, wrong)[0] for module in draws] == [TypeError, TypeError]
    for wrong in ({1 << 70: [1.0]}, {1: 1.0}, {1: ["a"]}, {1.5: [1.0]}):
        assert [outcome(module.positives, wrong)[0] for module in draws] == [TypeError, TypeError]
    leaves = [{"a": tensor(3).requires_grad_()} for _ in draws]
    for module, leaf in zip(draws, leaves, strict=True):
        module.sums(leaf, tensor(1))["a!"].backward()
    assert_same(*(leaf["a"].grad for leaf in leaves))


def test_classes(draws):
    assert_same(*(of_classes(module) for module in draws))


def test_classes_refuse_what_pybind11_refuses(draws, tensor):
    x = tensor(2)

    def wrong(module):
        settings, stage = module.Settings(), module.Scaled(1)
        yield from (lambda: module.Scaled("a"), module.Scaled, lambda: module.Settings(1), lambda: stage.run("a"))
        yield from (lambda: stage.run(), lambda: module.Stage.run(settings, x), lambda: setattr(settings, "width", "a"))
        yield from (lambda: module.apply_settings(stage, x), lambda: module.apply_settings(None, x))
        yield from (lambda: setattr(settings, "area", 1), lambda: setattr(settings, "no_member", 1))
        yield from (lambda: module.apply_settings(settings, x, settings), lambda: module.total_width([stage], settings))
        yield from (lambda: setattr(stage, "calls", 1), lambda: setattr(stage, "next", settings))

    found = [[outcome(call)[0] for call in wrong(module)] for module in draws]
    assert found[0] == found[1]
    assert set(found[1]) == {TypeError, AttributeError}


def test_objects_are_not_kept(draws):
    _, stable = draws
    before, gone = len(stable._OBJECTS), stable.Stage.gone()
    for _ in range(20):
        stage = stable.Scaled(1)
        stage.next = stable.Stage()
        assert stage.next is stage.next
        stage.settings()
        stable.settings_of([1, 2])
        del stage
    assert len(stable._OBJECTS) == before
    assert stable.Stage.gone() - gone == 40
    with pytest.raises(RuntimeError, match="there is no object of this number"):
        torch.ops.theirs__draws.total_width([1 << 40], 1)


def test_a_class_that_nobody_binds_is_named(draws):
    _, stable = draws
    with pytest.raises(ImportError, match="takes or gives a C"):
        stable._check_classes([{"name": "f", "kinds": ["object 4Lost"], "result_kinds": []}])


def test_call_guards_release_the_lock(draws):
    for module in draws:
        x = torch.zeros(1)
        writer = threading.Timer(0.05, x.fill_, [1])
        writer.start()
        assert module.wait(x)
        writer.join()


def test_an_operator_whose_function_takes_other_arguments_is_refused(modules):
    entry = {"namespace": "aten_stable_registered_too", "name": "limited", "key": "XPU", "own": "", "kinds": [""]}
    with pytest.raises(ImportError, match="limited has 4 arguments"):
        modules["registered"][1]._register([entry])


def test_functions_ask_nothing_where_somebody_watches(functions):
    seen = []

    class Watch(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            seen.append(function)
            return function(*args, **(kwargs or {}))

    x = torch.ones(3)
    for module in functions:
        with Watch():
            y = module.power(x, 2)
        assert torch.equal(y, x)
    assert seen == []
