"""What the tests of aten_stable share: a module from its file, what a call gives, and whether two results are the same bits."""

import importlib.util

import torch


def load(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def outcome(function, *args, **kwargs):
    """What a call gives: a result, or the exception's type and first line."""
    try:
        return function(*args, **kwargs)
    except Exception as error:
        return type(error), str(error).split("\n")[0]


def assert_same(one, two):
    assert type(one) is type(two)
    if isinstance(one, torch.Tensor):
        assert (one.dtype, one.shape, one.stride(), one.device) == (two.dtype, two.shape, two.stride(), two.device)
        assert torch.equal(*(t.detach().reshape(-1).view(torch.uint8) for t in (one, two)))
    elif isinstance(one, (tuple, list)):
        assert len(one) == len(two)
        for a, b in zip(one, two, strict=True):
            assert_same(a, b)
    elif isinstance(one, dict):
        assert_same(list(one.items()), list(two.items()))
    else:
        assert one == two
