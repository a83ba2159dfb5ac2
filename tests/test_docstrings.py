"""The examples in the docstrings of everything public run, and print what they say."""

import doctest
import inspect

import pytest

import customops

PUBLIC = [(f"customops.{name}", getattr(customops, name)) for name in customops.__all__]
PUBLIC += [("customops.compat.upfirdn2d", customops.compat.upfirdn2d)]
OPS = {name for names in customops.OPS.values() for name in names} - {"install_tensor_methods"}  # which changes torch


def examples(thing) -> list[doctest.Example]:
    return doctest.DocTestParser().get_examples(inspect.getdoc(thing) or "")


@pytest.mark.parametrize(
    "name, thing",
    [pair for pair in PUBLIC if callable(pair[1])],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_examples_run(name, thing):
    found = examples(thing)
    if not found:
        assert name.removeprefix("customops.") not in OPS, f"{name} has no example"
        pytest.skip("no example")
    test = doctest.DocTest(found, {}, name, None, None, inspect.getdoc(thing))
    printed = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE, verbose=False)
    runner.run(test, out=printed.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(printed)
