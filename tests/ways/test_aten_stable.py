"""Sources written for <torch/extension.h>, each compiled twice, against ATen and against aten_stable's headers: same bits.

The sources in aten_stable/ know nothing of the stable ABI. The torch of this environment compiles both; the libraries for
the stable ABI have no symbol of torch's C++ or of CPython.
"""

import ctypes
import functools
import os
import re
import shutil
import subprocess
import sys
import threading
import weakref
from pathlib import Path

import pytest
import torch
import torch._dynamo
import torch.fx.experimental.proxy_tensor
from aten_builds import CUDA_PROJECTS, ROOT, SOURCES, TORCH, compile_cuda, toolkits
from aten_calls import of_classes
from same_bits import assert_same, load, outcome
from torch.utils import cpp_extension

from aten_stable.build import FOR_NVCC, Toolkit, flags, link, toolkit
from aten_stable.scan import header, table, uses

LEAF = torch.linspace(-1, 2, 6).requires_grad_()


@pytest.fixture
def windows(modules):
    return modules["windows"]


@pytest.fixture
def options(modules):
    return modules["options"]


@pytest.fixture
def tensor():
    generator = torch.Generator().manual_seed(0)
    return lambda *shape, dtype=torch.float32: torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_accessors(windows, tensor, dtype):
    x = tensor(5, 9, dtype=dtype)
    for case in (x, x[:, ::2], x.t(), x[:0]):
        assert_same(*(module.forward(case, 2) for module in windows))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_composite(windows, tensor, dtype):
    x, w, h = tensor(4, 3, dtype=dtype), tensor(6, 5, dtype=dtype), tensor(4, 2, dtype=dtype)
    assert_same(*(module.gates(x, w, h) for module in windows))


def test_autograd_goes_through_what_a_function_calls(windows, tensor):
    grads = []
    for module in windows:
        torch.manual_seed(0)
        x = torch.linspace(-1, 1, 12).view(4, 3).requires_grad_()
        module.gates(x, tensor(6, 5).fill_(0.25), tensor(4, 2).fill_(0.5))[0].sum().backward()
        grads.append(x.grad)
    assert_same(*grads)


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


def exported(library):
    lines = subprocess.check_output(["nm", "-D", "--defined-only", library], text=True).splitlines()
    assert lines
    return [line.split()[-1] for line in lines]


def test_a_library_exports_nothing_of_cxx(modules):
    """Else the process's own C++ library would be mixed with the one that the module was linked with."""
    for _, module in modules.values():
        library = Path(module.__file__).with_name(module.LIBRARY)
        assert all(name.startswith("aten_stable_") for name in exported(library))


def test_face(windows):
    aten, stable = windows
    assert stable.__doc__ == aten.__doc__ == "Sums over windows."
    assert stable.forward.__name__ == "forward"
    assert "Sliding sums along the rows" in stable.forward.__doc__
    assert "int window=3" in stable.forward.__doc__


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_optionals(options, tensor, dtype):
    x, weight, bias = tensor(3, 4, dtype=dtype), tensor(4, dtype=dtype), tensor(3, 1, dtype=dtype)
    for given in (
        {},
        {"weight": weight},
        {"bias": bias},
        {"weight": weight, "bias": bias, "scale": 0.3},
        {"scale": 1 / 3},
    ):
        assert_same(*(module.affine(x, **given) for module in options))
    assert_same(*(module.affine(x, None, None, 3) for module in options))
    ours, theirs = x.clone(), x.clone()
    for module, own in zip(options, (theirs, ours), strict=True):
        module.affine(own, weight, inplace=True, scale=2.0)
    assert_same(theirs, ours)
    assert not torch.equal(ours, x)


def test_lists_and_strings(options, tensor):
    many = [tensor(3, 4) for _ in range(3)]
    for args, kwargs in (
        ((many,), {}),
        ((many, [0]), {"mode": "mean"}),
        ((many,), {"first": 1, "dims": [0, 1]}),
        (([],), {}),
        ((many,), {"mode": "median"}),  # std::invalid_argument
    ):
        assert_same(*(outcome(module.total, *args, **kwargs) for module in options))


def test_tuples_and_arrays(options):
    places = torch.tensor([[0, 1], [5, 2], [1, 4], [2, 2], [3, 7]])
    for given in (
        {},
        {"kernel": (3, 2), "range": (1, 4.5)},
        {"kernel": [1, 1], "limits": [0, 0, 0], "flipped": (True, False)},
    ):
        assert_same(*(module.cells(places, **given) for module in options))
    for wrong in ({"kernel": (3,)}, {"kernel": 3}, {"limits": (1, 2, 3, 4)}, {"range": (1, "2")}, {"flipped": (True,)}):
        assert [outcome(module.cells, places, **wrong)[0] for module in options] == [TypeError, TypeError]


@pytest.mark.parametrize("shape", [(1,), (4,), (3, 1), (1, 4), (3, 4), (2, 1, 4), (2, 3, 4)])
def test_sums_to_a_shape(options, tensor, shape):
    x = tensor(2, 3, 4)
    assert_same(*(module.reduced(x, torch.empty(shape)) for module in options))


def test_checks_and_what_is_thrown(options, tensor):
    x = tensor(2, 3, 4)
    for args in ((x, x, 2), (x, x.double()), (x, x.sum()), (x[:0], x), (x.new_ones(101, 1), x[0])):
        found = [outcome(module.reduced, *args) for module in options]
        # ATen puts the time and the place before what TORCH_CHECK_EQ and its like say.
        found = [(kind, re.sub(r"^\[F[^\]]*\] ", "", words)) for kind, words in found]
        assert_same(*found)
        assert issubclass(found[0][0], Exception)


@pytest.mark.parametrize("kind", range(9))
def test_types_of_exceptions(options, kind):
    found = [outcome(module.refused, kind) for module in options]
    assert_same(*found)
    by_torch_ops = outcome(options[1].refused, torch.tensor(kind))  # no int: not the quick way
    assert_same(by_torch_ops, found[0])


def test_overloads_by_cast_and_lists_of_lists(options, tensor):
    x, y = tensor(2, 3), tensor(2, 3)
    assert_same(*((module.product(3, 5), module.products(x, y)) for module in options))
    for lists, counts in (
        ([[x, y], [y]], [[1], [4, 5]]),
        ([[x, y], [x]], [[], [0]]),
        ([[x]], [[1]]),
        ([[x, y], []], [[1]]),
    ):
        assert_same(*(outcome(module.nested, lists, counts) for module in options))
    assert_same(*(module.nested([[x, y], [y]], [[], [1]], torch.float16) for module in options))
    assert_same(*(outcome(module.nested, [[x, None]], [[1]])[0] for module in options))


@pytest.mark.parametrize("n", range(4))
def test_assertions(options, n):
    found = [str(outcome(module.asserted, n)) for module in options]
    assert_same(*(re.sub(r'at "(.*/)?(?=options.cpp)', "", words) for words in found))  # where it was compiled
    assert ("INTERNAL ASSERT FAILED" in found[0]) == (n > 0)


def test_what_sources_ask_of_tensors(options, tensor):
    leaf = tensor(2, 3).requires_grad_()
    for x, y in ((leaf, leaf), (leaf, leaf.detach()), (leaf * 2, leaf), (leaf.detach(), leaf.detach())):
        assert_same(*(module.asked(x, y) for module in options))
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.bool, torch.complex128, torch.uint8):
        assert_same(*(module.named(torch.ones(2, dtype=dtype)) for module in options))
    assert_same(*(module.like_rows(tensor(2, 3), 5) for module in options))


def test_attributes_of_the_module(options):
    for name in ("__version__", "LEVEL", "SCALE", "DEBUG"):
        assert_same(*(getattr(module, name) for module in options))


def test_a_warning_that_comes_once(options, tensor, capfd):
    for module in options:
        for _ in range(2):
            module.warned(tensor(2, 3))
        assert capfd.readouterr().err.count("warned: 2 dimensions") == 1


def test_hash_maps_and_loops(options):
    places = torch.tensor([[0, 1], [1, 5], [0, 1], [1, 2], [0, 7], [1, 1]])
    for most in (4, 2, 9):
        assert_same(*(module.voxels(places, most) for module in options))
    assert [module.counted([3, 4, 5], "name", places) for module in options] == [118, 118]


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


def test_images_of_nn(options, tensor):
    for x in (tensor(2, 3, 7), tensor(2, 3, 6, 5), tensor(1, 2, 4, 5, 3)):
        for scale in (2.0, 1.7, 0.6):
            assert_same(*(module.resized(x, [], [scale] * (x.dim() - 2)) for module in options))
        assert_same(*(module.resized(x, [4] * (x.dim() - 2), []) for module in options))
    for args in ((tensor(2, 3, 7), [], []), (tensor(2, 3, 7), [4], [2.0])):
        found = [outcome(module.resized, *args) for module in options]
        assert found[0] == found[1]
    x, grid, weight = tensor(1, 4, 8, 9), tensor(1, 5, 4, 2), tensor(6, 2, 3, 3)
    assert_same(*(module.sampled(x, grid, weight) for module in options))


def test_functions_of_nn(options, tensor):
    x = tensor(4, 5)
    assert_same(*(module.padded(x) for module in options))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_numbers(options, tensor, dtype):
    for value in (2.5, -0.1, 3):
        assert_same(*(module.filled([3, 2], value, tensor(1, dtype=dtype)) for module in options))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_numbers_as_arguments(modules, tensor, dtype):
    x, w = tensor(4, 4, dtype=dtype), tensor(4, 4, dtype=dtype)
    assert_same(*(module.scalars(x, w) for module in modules["numbers"]))
    assert_same(*(module.number(x) for module in modules["numbers"]))
    assert_same(*(outcome(module.number, x[:0]) for module in modules["numbers"]))
    assert_same(*(module.into(torch.empty_like(x), x, w) for module in modules["numbers"]))


def test_lists_of_parameters(modules, tensor):
    shapes = (3, 4), (5,)
    grads = [tensor(*shape) for shape in shapes]
    params = [tensor(*shape) for shape in shapes]
    found = [module.step([p.clone() for p in params], grads) for module in modules["numbers"]]
    assert_same(*found)
    assert not torch.equal(found[1][0], params[0])
    x = tensor(4, 3).abs() + 0.01
    assert_same(*(module.special(x) for module in modules["numbers"]))


def test_memory_of_others_goes_back_once(modules):
    for rows, turned in ((3, False), (3, True), (0, False)):
        before = [module.given_back() for module in modules["numbers"]]
        found = [module.owned(rows, turned=turned) for module in modules["numbers"]]
        assert_same(*found)
        last = [t.view(-1) if t.is_contiguous() else t[1] for t in found]
        found.clear()
        last[-1] += 1
        if rows:
            assert [module.given_back() for module in modules["numbers"]] == before
        last.clear()
        assert [module.given_back() for module in modules["numbers"]] == [count + 1 for count in before]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_vectors(modules, tensor, dtype):
    for columns in (1, 3, 8, 16, 37):
        x, w = tensor(2, columns, dtype=dtype), tensor(2, columns, dtype=dtype)
        assert_same(*(module.vectors(x, w) for module in modules["numbers"]))
        x[0, -1] = float("nan")
        assert_same(*(module.vectors(x, w) for module in modules["numbers"]))


def test_numbers_as_arguments_have_gradients(modules, tensor):
    grads = []
    for module in modules["numbers"]:
        x, w = tensor(4, 4).fill_(0.4).requires_grad_(), torch.eye(4)
        sum(y.double().sum() for y in module.scalars(x, w)).backward()
        grads.append(x.grad)
    assert_same(*grads)


def test_indexing(modules, tensor):
    x, rows = tensor(4, 5), torch.tensor([3, 1, 3])
    assert_same(*(module.indices(x, rows) for module in modules["numbers"]))


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
def test_integers(modules, dtype):
    n = torch.tensor([5, 9, -7, 1 << 20], dtype=dtype)
    assert_same(*(module.integers(n) for module in modules["numbers"]))
    assert [module.number(n) for module in modules["numbers"]] == [float(n.sum())] * 2


@pytest.mark.parametrize("threads", [1, 2])
def test_sums_of_threads(modules, tensor, threads):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        x = tensor(100, 10, dtype=torch.float64)
        for case in (x, x.t(), x[:1], x[:0]):
            for grain in (1, 16, 400, 5000):
                assert_same(*(module.summed(case, grain) for module in modules["numbers"]))
    finally:
        torch.set_num_threads(before)


def test_facts_of_tensors(modules, tensor):
    x = tensor(4, 6, 2)
    cases = [x, x.transpose(0, 2), x[:, ::2], x[:, :1], x[:0], x[:0, ::2], x.sum(), x[0, 0, 0].expand(3)]
    cases += [
        x[:, 1:2, 0],
        x.to(memory_format=torch.contiguous_format)[..., None, :],
        torch.empty_strided((2, 3), (3, 1)),
    ]
    for case in cases:
        for other in (case, case.sum().half(), torch.ones(1, dtype=torch.int32), torch.ones(5, 1, 6, 2)):
            found = [outcome(module.facts, case, other) for module in modules["numbers"]]
            assert_same(*found)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_complex_functions(modules, tensor, dtype):
    z = torch.complex(tensor(40, dtype=torch.float64), tensor(41, dtype=torch.float64)[1:]).to(dtype)
    assert_same(*(module.turned(z) for module in modules["numbers"]))


@pytest.fixture
def draws(modules):
    return modules["draws"]


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


def test_truth_values_take_part_in_sums(draws):
    x, mask = torch.linspace(-1, 1, 5), torch.linspace(-1, 1, 5) > 0
    assert_same(*(module.counted(x, mask) for module in draws))


def test_numbers_through_torch_ops(draws):
    """Tensors without dimensions and subclasses do not take the quick way."""
    _, stable = draws
    x = torch.arange(3.0).as_subclass(type("Own", (torch.Tensor,), {}))
    for by, shift in ((2, None), (0.5, 1), (True, 2.5), (1j, None)):
        assert torch.equal(stable.scale(x, by, shift), x * by + (shift or 0))
    assert stable.largest(x) == 2.0
    assert stable.halves(x)[1] == 0.25


def test_generators(draws):
    found = []
    for module in draws:
        own, runs = torch.Generator().manual_seed(3), []
        runs.append(module.draw([2, 3], own))
        runs.append(module.draw([40], generator=own))
        runs.append(module.dropped(torch.ones(2, 9), 0.25, own))
        torch.manual_seed(5)
        runs.append(module.draw([2, 3]))
        runs.append(module.of_torch(torch.ones(7)))
        runs.append(module.reseed(own, (1 << 62) + 1))
        runs.append(own.initial_seed())
        runs.append(torch.rand(3, generator=own))
        found.append((runs, own.get_state(), torch.get_rng_state()))
    assert_same(*found)
    for module in draws:
        assert outcome(module.dropped, torch.ones(2), 0.5, 3)[0] is TypeError
        assert outcome(module.dropped, torch.ones(2), 0.5, None)[0] is TypeError


def test_generators_are_not_kept(draws):
    for module in draws:
        own = torch.Generator()
        before = sys.getrefcount(own)
        module.draw([2], own)
        module.reseed(own, 1)
        assert sys.getrefcount(own) == before


def test_seeds_for_cuda_kernels(draws, monkeypatch):
    """Without a GPU: the arithmetic, on a generator of Python that has an offset as CUDA's has."""

    class Fake:
        offset = 8

        def initial_seed(self):
            return (1 << 64) - 2

        def get_offset(self):
            return self.offset

        def set_offset(self, offset):
            self.offset = offset

    generator = Fake()
    operator = getattr(torch.ops, draws[1]._NAMESPACE).philox
    assert draws[1]._philox(generator, 0, 5) == (-2, 8)
    assert operator(id(generator), 0, 4) == (-2, 16)
    assert generator.offset == 20
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    with pytest.raises(RuntimeError, match="a CUDA graph cannot capture"):
        draws[1]._philox(generator, 0, 4)
    assert generator.offset == 20


def test_dictionaries(draws, tensor):
    all_ = [tensor(1), tensor(12), tensor(7), tensor(1), tensor(3, 4)]
    assert_same(*(module.grouped(all_) for module in draws))


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


def test_flat_tensors(draws, tensor):
    assert_same(*(module.flat([x]) for module, x in zip(draws, [torch.ones(2, 0)] * 2, strict=True)))
    many = [tensor(2, 3).t(), tensor(0), tensor(4)]
    assert_same(*(module.flat(many) for module in draws))


def test_call_guards_release_the_lock(draws):
    for module in draws:
        x = torch.zeros(1)
        writer = threading.Timer(0.05, x.fill_, [1])
        writer.start()
        assert module.wait(x)
        writer.join()


def test_registered_operators(modules, tensor):
    namespaces = (modules["registered"][0], torch.ops.aten_stable_registered_too)
    x, y = tensor(3, 4), tensor(3, 4)
    for args, kwargs in (
        ((x, y), {}),
        ((x, y), {"scale": 0.3, "sum_over": [1]}),
        ((x, y[:1]), {}),  # TORCH_CHECK
    ):
        assert_same(*(outcome(ops.scaled_add, *args, **kwargs) for ops in namespaces))
    assert [ops.ranks(x[None]) for ops in namespaces] == [3, 3]
    assert_same(*(ops.floors(10 * x, 0.3) for ops in namespaces))
    assert_same(*(ops.halved(x) for ops in namespaces))
    schemas = [str(ops.scaled_add.default._schema).partition("::")[2] for ops in namespaces]
    assert schemas[0] == schemas[1]
    with pytest.raises(NotImplementedError, match="Meta"):  # it has a kernel for CPUs alone
        namespaces[1].scaled_add(x.to("meta"), y.to("meta"))


def test_registered_operators_with_numbers_generators_and_dictionaries(modules, tensor):
    namespaces = (modules["registered"][0], torch.ops.aten_stable_registered_too)
    x, generators = tensor(3, 4), [torch.Generator().manual_seed(7) for _ in range(2)]
    calls = [(), (0.25,), (-1, 1), (False, 2.5), (0, None)]
    for dtype in (torch.float32, torch.float64, torch.int64):
        for args in calls:
            assert_same(*(outcome(ops.limited, (x * 3).to(dtype), *args) for ops in namespaces))
    assert_same(*(ops.limited(x, high=1, generator=g) for ops, g in zip(namespaces, generators, strict=True)))
    assert_same(*(g.get_state() for g in generators))
    assert [ops.limited(x.to("meta")).device.type for ops in namespaces] == ["meta", "meta"]
    assert_same(*(ops.all_times({"b": x, "a": x[0]}, 1.5) for ops in namespaces))
    assert_same(*(ops.lengths({"b": [1.0, 2.0], "a": []}) for ops in namespaces))
    for args in ((x, "two"), (x, 1, [2]), ([1],)):
        kinds = [outcome(ops.limited, *args) for ops in namespaces]
        assert kinds[0][0] is kinds[1][0] is RuntimeError
    gradients = []
    for ops in namespaces:
        leaf = x.clone().requires_grad_()
        ops.times(leaf, 2.5).sum().backward()
        gradients.append(leaf.grad)
    assert_same(*gradients)
    compiled = torch.compile(lambda x: namespaces[1].limited(x, 0.5), backend="eager", fullgraph=True)
    assert_same(compiled(x), x.clamp(0.5))
    for name in ("limited", "times.number", "all_times", "lengths"):
        base, _, overload = name.partition(".")
        schemas = [getattr(getattr(ops, base), overload or "default")._schema for ops in namespaces]
        assert [str(a.type) for a in schemas[0].arguments] == [str(a.type) for a in schemas[1].arguments]
        assert [str(r.type) for r in schemas[0].returns] == [str(r.type) for r in schemas[1].returns]


def test_an_operator_whose_function_takes_other_arguments_is_refused(modules):
    entry = {"namespace": "aten_stable_registered_too", "name": "limited", "key": "XPU", "own": "", "kinds": [""]}
    with pytest.raises(ImportError, match="limited has 4 arguments"):
        modules["registered"][1]._register([entry])


@pytest.fixture
def functions(modules):
    return modules["functions"]


def test_functions_have_gradients_of_every_order(functions, tensor):
    x = tensor(3, 4, dtype=torch.float64)
    for n in range(4):
        for module in functions:
            leaf = x.clone().requires_grad_()
            scaled = functools.partial(module.power, n=n, scale=0.7)
            assert torch.autograd.gradcheck(scaled, leaf)
            assert torch.autograd.gradgradcheck(scaled, leaf)
    orders = []
    for module in functions:
        leaf, found = x.clone().requires_grad_(), []
        y = module.power(leaf, n=4)
        for _ in range(5):
            found.append(y)
            (y,) = torch.autograd.grad(y.sum(), leaf, create_graph=True)
        orders.append(found)
    assert_same(*orders)
    assert torch.equal(orders[0][4], torch.full_like(x, 24))
    assert_same(*(module.slope(x) for module in functions))


def test_functions_without_gradients(functions, tensor):
    x = tensor(3, 4)
    assert [module.power(x).requires_grad for module in functions] == [False, False]
    with torch.no_grad():
        assert not functions[1].power(x.requires_grad_()).requires_grad
    assert [module.grad_mode(x) for module in functions] == [False, False]


@pytest.mark.parametrize("what", range(6))  # see Given of functions.cpp
@pytest.mark.parametrize(("grad", "enabled"), [(False, True), (True, False), (True, True)])
def test_functions_give_what_autograd_makes_of_it(functions, what, grad, enabled):
    """Where nothing is recorded, too, an input comes back as a view, a view stays one, and a change is counted."""
    found = []
    for module in functions:
        x = torch.ones(2, 3, requires_grad=grad) * 1
        with torch.set_grad_enabled(enabled):
            y = outcome(module.given, x, what)
        if isinstance(y, torch.Tensor):
            facts = y is x, y.requires_grad, y.is_leaf, y._base is x, y._version, x._version, y.grad_fn is None
            # Of a view that a Function has made torch says what it is, and forbids to write a recorded value into it.
            change = outcome(lambda: y.add_(torch.ones(y.shape, requires_grad=True)) is y)  # noqa: B023, called here
            y = facts, y.detach(), re.sub(r"Output 0 of .*? is", "", str(change))
        found.append(y)
    assert_same(*found)


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


def test_functions_have_no_forward_mode(functions):
    with torch.autograd.forward_ad.dual_level():
        x = torch.autograd.forward_ad.make_dual(torch.ones(3), torch.ones(3))
        for module in functions:
            with pytest.raises(RuntimeError, match="jvp"):
                module.power(x, 2)


@pytest.mark.parametrize("needed", [(True, False), (False, True), (True, True)])
def test_functions_with_optional_arguments_and_several_outputs(functions, tensor, needed):
    found = []
    for module in functions:
        x, shift = tensor(3, 4).fill_(0.5).cumsum(0), torch.arange(4.0)
        x.requires_grad_(needed[0]), shift.requires_grad_(needed[1])
        values, rows = module.row_max(x, shift)
        assert values.requires_grad and not rows.requires_grad
        (values * values).sum().backward()
        found.append((values.detach(), rows, x.grad, shift.grad))
    assert_same(*found)
    x = tensor(3, 4).requires_grad_()
    assert_same(*(torch.autograd.grad(module.row_max(x)[0].sum(), x) for module in functions))


def test_functions_in_place(functions, tensor):
    found = []
    for module in functions:
        x = tensor(3).fill_(3).requires_grad_()
        own = x * 1
        y = module.double_(own)
        assert y is own
        (y * y).sum().backward()
        found.append((y.detach(), x.grad, y._version))
    assert_same(*found)
    for module in functions:  # a leaf
        assert outcome(module.double_, tensor(3).requires_grad_())[0] is RuntimeError


def test_functions_raise_what_they_throw(functions, tensor):
    x = tensor(3).requires_grad_()
    assert_same(*(outcome(module.power, x, -1) for module in functions))
    for module in functions:
        with pytest.raises(ValueError, match="2 dimensions"):
            module.wrong(x.view(1, 3)).sum().backward()
        with pytest.raises(RuntimeError, match=r"number of gradients \(expected 2, got 1\)"):
            module.wrong(x).sum().backward()
        y = module.power(x, 2).sum()
        y.backward()
        with pytest.raises(RuntimeError, match="second time"):
            y.backward()


def test_functions_keep_nothing(functions, tensor):
    _, stable = functions
    names = torch._C._dispatch_get_all_op_names()
    (alive,) = (name for name in names if re.fullmatch("aten_stable_functions_0x[0-9a-f]+::alive", name))
    alive = torch._C._jit_get_operation(alive)[0]
    before = alive()
    for _ in range(3):
        x = tensor(3).requires_grad_()
        y = stable.power(x)
        assert alive() == before + 1
        y.sum().backward()
        del y
        stable.power(x.detach())
        outcome(stable.power, x, -1)
    assert alive() == before


def test_kernels_for_autograd(functions, tensor):
    ops = (torch.ops.aten_stable_functions.smooth, torch.ops.aten_stable_functions_too.smooth)
    x, y = (tensor(3, 4, dtype=torch.float64) for _ in range(2))
    for op in ops:
        leaves = [t.clone().requires_grad_() for t in (x, y)]
        assert torch.autograd.gradcheck(op, leaves)
    assert_same(*(op(x, y, weight=0.3) for op in ops))
    found = []
    for op in ops:
        leaves = [t.clone().requires_grad_() for t in (x, y)]
        found.append(torch.autograd.grad(op(*leaves).square().sum(), leaves))
    assert_same(*found)


def test_a_torch_with_other_schemas_is_refused(windows):
    stable = windows[1]
    stable._check_schemas(["relu(Tensor self) -> Tensor"])
    with pytest.raises(ImportError, match=r"aten::relu was .*Take a newer build"):
        stable._check_schemas(["relu(Tensor self, int n) -> Tensor"])
    with pytest.raises(ImportError, match="aten::gone is gone"):
        stable._check_schemas(["gone(Tensor self) -> Tensor"])


def test_libraries_have_only_the_stable_abi(modules):
    shim = (TORCH / "include/torch/csrc/stable/c/shim.h").read_text()
    newer = set(re.findall(r"\b(torch_\w+)\(", shim.partition("TORCH_FEATURE_VERSION >= TORCH_VERSION_2_11_0")[2]))
    assert "torch_new_stable_ivalue" in newer
    for name, (_, stable) in modules.items():
        library = Path(stable.__file__).with_name(f"lib{name}.so")
        symbols = subprocess.run(["nm", "-D", "--undefined-only", library], capture_output=True, text=True, check=True)
        names = [line.split()[-1].partition("@")[0] for line in symbols.stdout.splitlines()]
        assert [n for n in names if re.match(r"_ZNK?(2at|3c10|5torch)|Py|_Py", n)] == []
        strong = {line.split()[-1] for line in symbols.stdout.splitlines() if line.split()[-2] == "U"}
        assert not strong & newer, f"{name} needs more than torch 2.10"
        assert any(n.startswith(("torch_", "aoti_torch_")) for n in names)


def test_names_hold_the_version(modules):
    """Libraries that other versions of the headers have built may be in the same process."""
    for name, (_, stable) in modules.items():
        library = Path(stable.__file__).with_name(f"lib{name}.so")
        symbols = subprocess.run(["nm", "--defined-only", library], capture_output=True, text=True, check=True).stdout
        ours = re.findall(r" (_ZZ?N?K?(?:2at|8pybind11|11aten_stable)\w*)", symbols)
        assert [symbol for symbol in ours if stable._NAMESPACE not in symbol] == []
        assert len(ours) > 10


def test_schemas_are_those_of_this_torch():
    for text in table():
        name, _, overload = text.partition("(")[0].partition(".")
        assert str(torch._C._get_schema(f"aten::{name}", overload)) == str(torch._C.parse_schema(f"aten::{text}"))
    assert len(table()) > 1000


def test_a_library_knows_the_schemas_it_relies_upon(modules):
    _, stable = modules["options"]
    library = Path(stable.__file__).with_name("liboptions.so").read_bytes()
    used = {text.decode() for text in stable._USED.findall(library)}
    assert "rsqrt(Tensor self) -> Tensor" in used
    assert used <= set(table())
    assert len(used) < 100


def mistakes():
    """(code, what the compiler says of it), from the page."""
    page = (ROOT / "docs/aten-on-stable.md").read_text()
    section = page.partition("## Ten mistakes")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `([^`]+)` \| `([^`]+)` \|$", section, re.MULTILINE)
    assert len(rows) == 10
    return rows


# Operators that torch 2.15 has no more, and more of what is not covered.
OTHERS = [
    ("at::cholesky(x)", "aten_stable: cholesky is not covered: write at::linalg_cholesky(x, upper)"),
    ("x.cholesky(true)", "aten_stable: Tensor::cholesky is not covered: write at::linalg_cholesky(x, upper)"),
    (
        "at::cholesky_out(x, x)",
        "aten_stable: cholesky_out is not covered: write at::linalg_cholesky_out(out, x, upper)",
    ),
    ("F::elu(x)", "aten_stable: torch::nn::functional::elu is not covered: write the function of at::"),
    (
        "F::InterpolateFuncOptions().antialias(true)",
        "aten_stable: antialias is not covered: call interpolate in Python",
    ),
    ("F::DropoutFuncOptions o(0.5)", "aten_stable: torch::nn::functional::DropoutFuncOptions is not covered: write"),
    ("throw py::type_error()", "aten_stable: py::type_error is not covered: throw py::value_error, py::index_error"),
    ('m.attr("x") = std::vector<int>{}', "aten_stable: this attribute of the module is not covered: give a number"),
    ("x.sin().accessor<float, 1>()", "use of deleted function"),  # as under ATen: it would outlive its tensor
    ('torch::class_<int>("theirs", "Own")', "aten_stable: torch::class_ is not covered: keep the state in tensors"),
    (
        'm.def("f", [](std::tuple<int, float>) {})',
        "aten_stable: a tuple of several types, or of bool, cannot cross the dispatcher: take its parts as",
    ),
    ("at::qr(x)", "aten_stable: qr is not covered: write at::linalg_qr(x), or"),
    (
        "torch::jit::Module net",
        "aten_stable: torch::jit::Module is not covered: run it in Python, and pass the tensors",
    ),
    ('py::class_<Own>(m, "Own").def_buffer(0)', "aten_stable: def_buffer is not covered: return a Tensor"),
    ('py::class_<Own>(m, "Own").def(py::pickle(1, 2))', "aten_stable: py::pickle is not covered: give the class"),
    ('m.def("f", [](std::map<std::string, Kind>) {})', "aten_stable: this dictionary cannot cross the dispatcher"),
    ('m.def("f", [](std::vector<Kind>) {})', "aten_stable: a list of enums is not covered: take integers"),
    ('m.def("f", [](int) { return Kind(); })', "aten_stable: an enum as a result is not covered: return an int64_t"),
    ("x.qr()", "aten_stable: Tensor::qr is not covered: write at::linalg_qr(x)"),
]


def test_mistakes_are_errors_with_words(tmp_path):
    lines = [
        "#include <torch/extension.h>",
        "namespace F = torch::nn::functional; enum class Kind { kOne }; struct Own {};",
    ]
    wanted = {}
    for i, (code, words) in enumerate([*mistakes(), *OTHERS]):
        wanted[len(lines) + 1] = words
        in_module = re.search(r"\bm\b", code)
        body = f"{code};" if in_module else f"{code}; return x;"
        head = "template <class M> void f{}(M& m) {{ {} }}" if in_module else "at::Tensor f{}(at::Tensor x) {{ {} }}"
        lines.append(code if code.startswith("#") else head.format(i, body))
        if in_module:
            lines.append(f"template void f{i}(py::module_&);")
    source = tmp_path / "mistakes.cpp"
    source.write_text("\n".join(lines) + "\n")
    command = ["c++", *flags("theirs._C", TORCH), "-fsyntax-only", "-fno-diagnostics-show-caret", source]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    for line, words in wanted.items():
        assert words in result.stderr
        assert f"{source}:{line}:" in result.stderr, words


@pytest.mark.parametrize("name", CUDA_PROJECTS)
def test_cuda_sources_become_a_library_for_each_toolkit(name, tmp_path):
    """There is no GPU: that the library loads, has its runtime within, and its checks speak."""
    found = toolkits()
    if not found:
        pytest.skip("no CUDA toolkit in CUDA12_HOME, CUDA13_HOME, CUDA_HOME or /usr/local/cuda")
    compile_cuda(name, tmp_path)
    libraries = sorted(path.name for path in (tmp_path / "theirs").glob("*.so"))
    assert libraries == sorted(f"lib{name}.cuda{one.release()[0]}.so" for one in found)
    for library in libraries:
        needed = subprocess.run(
            ["readelf", "-d", tmp_path / "theirs" / library], capture_output=True, text=True, check=True
        )
        assert not re.search(r"NEEDED.*(cuda|libc10|torch_python)", needed.stdout)
        symbols = subprocess.run(
            ["nm", "-D", "--defined-only", tmp_path / "theirs" / library], capture_output=True, text=True, check=True
        )
        assert not re.search(r"\bcuda\w+$", symbols.stdout, re.MULTILINE)
        assert b"GLIBC_2.18" not in (tmp_path / "theirs" / library).read_bytes()
    module = load(f"theirs.{name}", tmp_path / f"theirs/{name}.py")
    if module._driver() == 0:
        assert libraries[0] == module.LIBRARY
    assert module._cuda_library(Path(module.__file__)) == module.LIBRARY
    arguments = [torch.ones(2)] * (2 if name == "blend" else 1)
    with pytest.raises(RuntimeError, match="must be a CUDA tensor"):
        getattr(module, name)(*arguments)


def test_kernels_lean_on_what_torchs_own_share(tmp_path):
    """There is no GPU: that it compiles, and what at::cuda::cub is not."""
    found = toolkits()
    if not found:
        pytest.skip("no CUDA toolkit in CUDA12_HOME, CUDA13_HOME, CUDA_HOME or /usr/local/cuda")
    uncovered = tmp_path / "sorted.cu"
    uncovered.write_text("#include <ATen/cuda/cub.cuh>\nvoid f(int* x) { at::cuda::cub::radix_sort_keys(x, x, 1); }\n")
    command = [found[-1].nvcc, "-ccbin=c++", *FOR_NVCC, *flags("theirs._C", TORCH), *found[-1].gencode(), "-ptx"]
    for source, words in ((SOURCES / "blocks.cu", ""), (uncovered, "write ::cub::DeviceRadixSort::SortKeys")):
        result = subprocess.run([*command, source, "-o", tmp_path / "x"], capture_output=True, text=True, check=False)
        assert (result.returncode != 0) == bool(words), result.stderr
        assert words in result.stderr


def test_nvcc_is_told_what_torch_tells_it(tmp_path, monkeypatch):
    commands = []
    monkeypatch.setattr("aten_stable.build.run", commands.append)
    monkeypatch.setattr(Toolkit, "libraries", lambda self: tmp_path)
    option = "-U__CUDA_NO_HALF_OPERATORS__"
    link([tmp_path / "own.cu"], tmp_path / "lib.so", [option], TORCH, Toolkit(tmp_path, ("90",)))
    for flag in cpp_extension.COMMON_NVCC_FLAGS:
        assert commands[0].index(flag) < commands[0].index(option)


def test_headers_define_no_macros_of_short_names():
    """A source's variable may have such a name."""
    for path in (ROOT / "aten_stable/include/aten_stable").glob("*.h"):
        text = path.read_text()
        for name in re.findall(r"^\s*#\s*define (\w+)", text, re.MULTILINE):
            of_aten = re.match(r"(AT|TORCH|C10|CUDA|ATEN_STABLE|PYBIND11|RECORD)_|LOG$|MAX_TENSORINFO_DIMS$", name)
            assert of_aten or text.count(f"#define {name}(") == text.count(f"#undef {name}\n"), f"{path}: {name}"


@pytest.mark.parametrize("text", ["/opt/cuda13", "/opt/cuda13:", "/opt/cuda13:sm_90", "/nowhere:90"])
def test_what_a_toolkit_is(text):
    with pytest.raises(SystemExit, match=f"error: --cuda {text}: "):
        toolkit(text)


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The package as pip installs it, in a folder of its own."""
    folder = tmp_path_factory.mktemp("installed")
    source = shutil.copytree(
        ROOT / "aten_stable", folder / "source", ignore=shutil.ignore_patterns("__pycache__", "ops")
    )
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--no-build-isolation"]
    subprocess.run([*pip, f"--target={folder / 'site'}", source], check=True)
    shutil.rmtree(source)
    return folder / "site"


def test_the_package_is_whole(installed):
    def files(folder):
        found = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
        return {
            path for path in found if "__pycache__" not in path.parts and path.parts[:3] != ("include", "ATen", "ops")
        }

    assert files(ROOT / "aten_stable") - files(installed / "aten_stable") == {Path("pyproject.toml")}
    assert files(installed / "aten_stable") <= files(ROOT / "aten_stable")
    environment = os.environ | {"PYTHONPATH": str(installed)}
    for command, folder in (("include", "include"), ("cmake", "cmake")):
        run = [sys.executable, "-m", "aten_stable", command]
        said = subprocess.run(run, env=environment, cwd=installed, capture_output=True, text=True, check=True).stdout
        assert said == f"{installed / 'aten_stable' / folder}\n"


def test_cmake_builds_a_module(installed, tmp_path):
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.20)\nproject(theirs CXX)\nfind_package(aten_stable REQUIRED)\n"
        "aten_stable_module(theirs theirs.added one.cpp)\n"
    )
    (tmp_path / "one.cpp").write_text(
        "#include <torch/extension.h>\n#include <ATen/ops/relu.h>\n"
        "at::Tensor one(const at::Tensor& x) { return at::relu(x) + 1; }\n"
        'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("one", &one); }\n'
    )
    options = [f"-DPython3_EXECUTABLE={sys.executable}", f"-Daten_stable_DIR={installed / 'aten_stable/cmake'}"]
    subprocess.run(["cmake", "-S", tmp_path, "-B", tmp_path / "build", *options], check=True)
    subprocess.run(["cmake", "--build", tmp_path / "build"], check=True)
    assert all(name.startswith("aten_stable_") for name in exported(tmp_path / "build/libadded.so"))
    assert torch.equal(
        load("theirs.added", tmp_path / "build/added.py").one(torch.tensor([-1.0, 2.0])), torch.tensor([1.0, 3.0])
    )
    assert (installed / "aten_stable/include/ATen/ops/relu.h").is_file()


def test_scan_tells_the_three_apart():
    found = {(line, what): (kind, instead) for line, what, kind, instead in uses((SOURCES / "windows.cpp").read_text())}
    assert {kind for kind, _ in found.values()} == {"covered", "dispatcher"}
    text = (
        "#include <ATen/TensorIterator.h>\n// at::stft\nauto y = torch::stft(x, 3) + x.relu();\nAT_PRIVATE_THING(x);\n"
        "py::dict all; c10::str(x); throw py::key_error();\n"
        "at::native::relu(x); at::cuda::warp_size();\npy::class_<A>(m); torch::class_<A>(m);\n"
    )
    assert [(line, what, kind) for line, what, kind, _ in uses(text)] == [
        (1, "<ATen/TensorIterator.h>", "uncovered"),
        (3, "torch::stft", "uncovered"),
        (3, "relu", "dispatcher"),
        (4, "AT_PRIVATE_THING", "uncovered"),
        (5, "py::dict", "uncovered"),
        (5, "c10::str", "covered"),
        (5, "py::key_error", "uncovered"),
        (6, "at::native::relu", "dispatcher"),
        (6, "at::cuda::warp_size", "covered"),
        (7, "py::class_", "covered"),
        (7, "torch::class_", "uncovered"),
    ]
    assert header("torch/extension.h") == ("covered", "")
