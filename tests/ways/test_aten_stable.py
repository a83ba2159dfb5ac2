"""Sources written for <torch/extension.h>, each compiled twice, against ATen and against aten_stable's headers: same bits.

The sources in aten_stable/ know nothing of the stable ABI. The torch of this environment compiles both; the libraries for
the stable ABI have no symbol of torch's C++ or of CPython.
"""

import functools
import re

import pytest
import torch
from same_bits import assert_same, outcome


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


def test_truth_values_take_part_in_sums(draws):
    x, mask = torch.linspace(-1, 1, 5), torch.linspace(-1, 1, 5) > 0
    assert_same(*(module.counted(x, mask) for module in draws))


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


def test_flat_tensors(draws, tensor):
    assert_same(*(module.flat([x]) for module, x in zip(draws, [torch.ones(2, 0)] * 2, strict=True)))
    many = [tensor(2, 3).t(), tensor(0), tensor(4)]
    assert_same(*(module.flat(many) for module in draws))


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
    found = [name for name in names if re.fullmatch("aten_stable_functions_0x[0-9a-f]+::alive", name)]
    assert found  # one for each library with a Function that this process has loaded
    counts = [torch._C._jit_get_operation(name)[0] for name in found]

    def alive():
        return sum(count() for count in counts)

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
