"""Written by aten_stable: the functions of the library beside this file, as operators of torch."""

import ctypes
import json
import re
from pathlib import Path

import torch

LIBRARY = "library.so"


def _types(schema):
    """(argument types, result types) of an operator, without names and defaults."""
    return [str(a.type) for a in schema.arguments], [str(r.type) for r in schema.returns]


def _check_schemas(table):
    """The library calls ATen's operators by name; a torch in which one of them has changed is refused."""
    changed = []
    for name, overload, text in table:
        wanted = torch._C.parse_schema("aten::" + text)
        try:
            found = torch._C._get_schema(name, overload)
        except RuntimeError:
            changed.append(f"{name} is gone")
            continue
        if _types(wanted) != _types(found):
            changed.append(f"{name} was {text} and is {found}")
    if changed:
        raise ImportError(
            f"{LIBRARY} does not fit torch {torch.__version__}: {'; '.join(changed)}. Take a newer build of it"
        )


def _function(namespace, name, doc, schemas):
    packet = getattr(getattr(torch.ops, namespace), name)
    declaration = f"{namespace}::{name}"

    def function(*args, **kwargs):
        try:
            return packet(*args, **kwargs)
        except RuntimeError as error:
            text = str(error)
            if f"Declaration: {declaration}" in text or f"operator '{declaration}'" in text:
                text = f"{name}(): incompatible function arguments. It takes: {'; '.join(schemas)}. torch says: {text}"
                raise TypeError(text) from None
            if text.startswith("incompatible function arguments"):
                raise TypeError(f"{name}(): {text}") from None
            if re.match(r"\"[^\"]*\" not implemented for '\w+'", text):
                raise NotImplementedError(text) from None
            raise

    function.__name__ = function.__qualname__ = name
    function.__module__ = __name__
    function.__doc__ = "\n\n".join(filter(None, ["\n".join(schemas), doc]))
    return function


def _json(function):
    function.restype = ctypes.c_char_p
    return json.loads(function())


def _load():
    path = Path(__file__).with_name(LIBRARY)
    torch.ops.load_library(path)
    library = ctypes.CDLL(str(path))
    _check_schemas(_json(library.aten_stable_schemas))
    if not hasattr(library, "aten_stable_describe"):  # no PYBIND11_MODULE: its operators are in torch.ops
        return __doc__
    module = _json(library.aten_stable_describe)
    functions = {}
    for entry in module["functions"]:
        functions.setdefault(entry["name"], []).append(entry)
    for name, entries in functions.items():
        doc = "\n".join(filter(None, (entry["doc"] for entry in entries)))
        globals()[name] = _function(module["namespace"], name, doc, [entry["schema"] for entry in entries])
    globals()["__all__"] = [*functions]
    return module["doc"] or __doc__


__doc__ = _load()
