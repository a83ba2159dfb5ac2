"""Written by aten_stable: the functions of the library beside this file, as operators of torch."""

import builtins
import contextlib
import ctypes
import enum
import json
import re
import struct
import sys
import threading
import warnings
import weakref
from pathlib import Path

import torch

LIBRARY = "library.so"
# The namespace of the operators that are defined here. Libraries that other versions of aten_stable have built use others.
_NAMESPACE = "aten_stable_0_1_0"

# Each operator of ATen that the library calls: the headers leave its schema in the library.
_USED = re.compile(rb"aten_stable:op:([^\0]+)\0")


def _double(bits):
    return struct.unpack("d", struct.pack("q", bits))[0]


def _bits(number):
    return struct.unpack("q", struct.pack("d", number))[0]


def _number(words):
    """A number, as c10::Scalar of the headers gives it: floating, integer, truth value or complex, and bits."""
    if words is None:
        return None
    kind, one, two = words
    if kind == 3:
        return complex(_double(one), _double(two))
    return _double(one) if kind == 0 else bool(one) if kind == 2 else one


def _words(value):
    """The reverse. A tensor without dimensions and a number of NumPy's are numbers, too."""
    if value is None:
        return None
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, bool):
        return [2, int(value), 0]
    if isinstance(value, int) and -(1 << 63) <= value < 1 << 63:
        return [1, value, 0]
    if isinstance(value, float):
        return [0, _bits(value), 0]
    if isinstance(value, complex):
        return [3, _bits(value.real), _bits(value.imag)]
    raise RuntimeError(f"incompatible function arguments: {value!r} is no number")


def _numbers(words):
    return [_number(words[i : i + 3]) for i in range(0, len(words), 3)]


def _words_of_all(values):
    return [word for value in values for word in _words(value)]


def _generator(address):
    """The generator whose address C++ has, and holds."""
    return ctypes.cast(address, ctypes.py_object).value if address else None


def _address(generator):
    if generator is not None and not isinstance(generator, torch.Generator):
        raise RuntimeError(f"incompatible function arguments: {generator!r} is no torch.Generator")
    return generator if generator is None else id(generator)


def _dtype(number):
    """torch.ops takes a dtype by its number, and gives that back."""
    return number if number is None else torch.ops.aten.empty.memory_format([0], dtype=number, device="meta").dtype


class _Enum(int, enum.Enum):
    """The base of py::enum_'s classes: as under pybind11, str() names the member."""


def _member(value):
    if value is not None and not isinstance(value, _Enum):
        raise RuntimeError(f"incompatible function arguments: {value!r} is no member of an enum of this module")
    return None if value is None else int(value)


_CLASSES = {}  # py::class_'s, by the name that C++ has for the type
_OBJECTS = weakref.WeakValueDictionary()  # what C++ has by number
_BY_NUMBER = {}  # the library's functions for these: release, class_of


class _Object:
    """The base of py::class_'s classes: holds the number of an object of C++'s, and takes it back with itself."""

    __slots__ = ("__weakref__", "_number")

    def __init__(self, *args, **kwargs):
        raise TypeError(f"{type(self).__name__}: No constructor defined!")

    def __del__(self):
        number = getattr(self, "_number", 0)
        if number and _BY_NUMBER:  # else the interpreter is at its end
            _BY_NUMBER["release"](number)


def _object(number):
    """C++ counts the numbers that it gives: each object of Python's stands for one of them."""
    if number == 0:
        return None
    known = _OBJECTS.get(number)
    if known is not None:
        _BY_NUMBER["release"](number)
        return known
    made = _Object.__new__(_CLASSES[_BY_NUMBER["class_of"](number).decode()])
    made._number = number
    _OBJECTS[number] = made
    return made


def _number_of(kind, type_name, value):
    if value is None and kind == "shared":
        return 0
    if not isinstance(value, _CLASSES[type_name]) or not getattr(value, "_number", 0):
        raise RuntimeError(f"incompatible function arguments: {value!r} is no {_CLASSES[type_name].__name__}")
    return value._number


def _parts(kind, values):
    """A list of values of one kind, as the tensors in which dictionaries.h passes it."""
    if kind == "Tensor":
        wanted = torch.Tensor
    elif kind.endswith("[]"):
        lists = [list(value) for value in values]
        return [*_parts("int", map(len, lists)), *_parts(kind[:-2], [value for one in lists for value in one])]
    else:
        wanted = {"str": str, "bool": bool, "int": int, "float": (float, int)}[kind]
    values = list(values)
    for value in values:
        if not isinstance(value, wanted):
            raise TypeError(f"{value!r} is no {kind}")
    if kind == "Tensor":
        return values
    if kind == "str":
        return _parts("int[]", [value.encode() for value in values])
    return [torch.tensor(values, dtype=torch.float64 if kind == "float" else torch.int64, device="cpu")]


def _values(kind, parts):
    """The reverse; takes what it reads from `parts`."""
    if kind == "Tensor":
        found, parts[:] = parts[:], []
        return found
    if kind == "str":
        return [bytes(value).decode() for value in _values("int[]", parts)]
    found = parts.pop(0).tolist()
    if not kind.endswith("[]"):
        return [bool(value) for value in found] if kind == "bool" else found
    values = iter(_values(kind[:-2], parts))
    return [[next(values) for _ in range(count)] for count in found]


def _to_cpp(kind, value):
    kind, *types = kind.split() or [""]
    if not types:
        return _TO_CPP[kind](value)
    if kind == "objects":
        return None if value is None else [_number_of("object", *types, one) for one in value]
    if kind in ("object", "shared"):
        return _number_of(kind, *types, value)
    if value is None:
        return None
    key, item = types
    try:
        return [*_parts(key, dict.keys(value)), *_parts(item, dict.values(value))]
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise RuntimeError(f"incompatible function arguments: {error}") from None


def _from_cpp(kind, value):
    kind, *types = kind.split() or [""]
    if not types:
        return _FROM_CPP[kind](value)
    if value is None:
        return None
    if kind == "objects":
        return [_object(one) for one in value]
    if kind in ("object", "shared"):
        return _object(value)
    key, item = types
    parts = list(value)
    return dict(zip(_values(key, parts), _values(item, parts), strict=True))


def _results(kinds, found):
    """What C++ gives, as Python has it; kinds has one for each result."""
    if len(kinds) == 1:
        return _from_cpp(kinds[0], found)
    return tuple(map(_from_cpp, kinds, found)) if kinds else found


_TO_CPP = {
    "": lambda value: value,
    "number": _words,
    "numbers": _words_of_all,
    "generator": _address,
    "enum": _member,
}
_FROM_CPP = {"": lambda value: value, "number": _number, "numbers": _numbers, "generator": _generator, "dtype": _dtype}


def _signed(number):
    """64 bits as C++ passes them."""
    return number - (1 << 64) if number >> 63 else number


def _seed(address, method, seed):
    generator = _generator(address) or torch.default_generator
    found = getattr(generator, method)(*[seed % (1 << 64)] if method == "manual_seed" else [])
    return 0 if method == "manual_seed" else _signed(found)


def _philox(generator, device, increment):
    """(seed, offset) for a kernel whose threads draw up to `increment` numbers each, and the generator is ahead by these."""
    if torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing():
        raise RuntimeError(
            "aten_stable: a CUDA graph cannot capture philox_cuda_state: it would replay the same numbers"
        )
    generator = generator or torch.cuda.default_generators[device]
    offset = generator.get_offset()
    generator.set_offset(offset + (increment + 3) // 4 * 4)  # curand takes four at a time
    return _signed(generator.initial_seed()), offset


def _backward(self, gradient, retain_graph, create_graph):
    self.backward(gradient, retain_graph=retain_graph, create_graph=create_graph)
    return self


class _Held:
    """What C++ keeps of one call of a Function, until the context goes that needs it."""

    def __init__(self, ops, node):
        self.ops, self.node = ops, node

    def __del__(self):
        with contextlib.suppress(AttributeError, TypeError):  # at the interpreter's end
            self.ops.release(self.node)


class _Function(torch.autograd.Function):
    """torch::autograd::Function: forward and backward are C++, everything else is torch's."""

    @staticmethod
    def forward(ctx, ops, node, grad_enabled, *tensors):
        ctx.held = _Held(ops, node)
        ctx.needs = [grad_enabled and t is not None and t.requires_grad for t in tensors]
        done, outputs, saved, dirty, constant, materialize = ops.forward(node, ctx.needs)
        if not done:
            return ()  # C++ has the exception and throws it again
        ctx.save_for_backward(*saved)
        ctx.mark_dirty(*dirty)
        ctx.mark_non_differentiable(*constant)
        ctx.set_materialize_grads(materialize)
        return tuple(outputs)

    @staticmethod
    def backward(ctx, *gradients):
        held = ctx.held
        result = held.ops.backward(held.node, gradients, ctx.saved_tensors, ctx.needs)
        return None, None, None, *(g if needed else None for g, needed in zip(result, ctx.needs, strict=True))


def _call_function(library, node, tensors, grad_enabled):
    return list(_Function.apply(getattr(torch.ops, library), node, grad_enabled, *tensors))


def _gradients(outputs, inputs, grad_outputs, retain_graph, create_graph, allow_unused):
    return list(
        torch.autograd.grad(
            outputs, inputs, grad_outputs or None, retain_graph, create_graph, allow_unused=allow_unused
        )
    )


def _deterministic(caller):
    """Is determinism asked for? Raises or warns on behalf of `caller`, if it is named."""
    enabled = torch.are_deterministic_algorithms_enabled()
    if caller and enabled:
        text = f"{caller} does not have a deterministic implementation, but you set 'torch.use_deterministic_algorithms(True)'"
        if not torch.is_deterministic_algorithms_warn_only_enabled():
            raise RuntimeError(text)
        warnings.warn(text, stacklevel=2)
    return enabled


def _record_stream(tensor, stream, device):
    """The stream by its address; 0 is the default one, which an ExternalStream cannot be."""
    found = torch.cuda.ExternalStream(stream, device) if stream else torch.cuda.default_stream(device)
    tensor.record_stream(found)


class _Release:
    """Calls C++ when it goes."""

    def __init__(self, function, *arguments):
        self.function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(function)
        self.arguments = arguments

    def __del__(self):
        self.function(*self.arguments)


def _blob(address, size, function, deleter):
    """`size` bytes of C++'s, which `function` takes back with the last tensor that shares them."""
    release = _Release(function, deleter, address)
    if size == 0:
        return torch.empty(0, dtype=torch.uint8)
    memory = (ctypes.c_ubyte * size).from_address(address)
    memory.release = release
    return torch.frombuffer(memory, dtype=torch.uint8)


_GUARDS = threading.local()


def _enter(kind, key):
    arguments = [torch._C.DispatchKeySet(torch._C._parse_dispatch_key(key))] if key else []
    guard = getattr(torch._C, kind)(*arguments)
    guard.__enter__()
    vars(_GUARDS).setdefault("stack", []).append(guard)


_OWN = {
    "requires_grad(Tensor self) -> bool": lambda self: self.requires_grad,
    "is_leaf(Tensor self) -> bool": lambda self: self.is_leaf,
    "grad(Tensor self) -> Tensor": lambda self: self.grad,
    "backward(Tensor self, Tensor? gradient, bool retain_graph, bool create_graph) -> Tensor": _backward,
    "function(str library, int node, Tensor?[] tensors, bool grad_enabled) -> Tensor?[]": _call_function,
    "gradients(Tensor[] outputs, Tensor[] inputs, Tensor?[] grad_outputs, bool retain_graph, bool create_graph, "
    "bool allow_unused) -> Tensor?[]": _gradients,
    "enter(str kind, str key) -> ()": _enter,
    "deterministic(str caller) -> bool": _deterministic,
    "seed(int generator, str method, int seed) -> int": _seed,
    "philox(int generator, int device, int increment) -> (int, int)": lambda address, device, increment: _philox(
        _generator(address), device, increment
    ),
    "gpus() -> int": lambda: torch.cuda.device_count(),
    "blob(int address, int size, int function, int deleter) -> Tensor": _blob,
    "record_stream(Tensor self, int stream, int device) -> ()": _record_stream,
    "leave(int guards) -> ()": lambda guards: _GUARDS.stack.pop().__exit__(None, None, None),
}


_KINDS = {
    "number": "number",
    "Optional[number]": "number",
    "List[number]": "numbers",
    "Optional[Generator]": "generator",
}


def _takes_numbers(op, arguments):
    """The stable ABI passes no Scalar and no Generator: an operator like `op` that takes both as integers."""
    kinds = [_KINDS.get(a, "") for a in arguments]
    names = {a.name: kind for a, kind in zip(op._schema.arguments, kinds, strict=True)}

    def call(*args, **kwargs):
        args = [_FROM_CPP[kinds[i]](a) for i, a in enumerate(args)]
        return op(*args, **{name: _FROM_CPP[names[name]](a) for name, a in kwargs.items()})

    return call


def _bridge(used):
    """Defines the operators that ATen's are called through, once in a process."""
    # Kept by torch, not by this module: other libraries find the operators there, and use them.
    libraries = vars(torch.library).setdefault(f"_{_NAMESPACE}", [])
    if not libraries:
        libraries.append(torch.library.Library(_NAMESPACE, "FRAGMENT"))
    for schema, function in _OWN.items():
        name = schema.partition("(")[0]
        if not hasattr(getattr(torch.ops, _NAMESPACE), name):
            libraries[0].define(schema)
            libraries[0].impl(name, function, "CompositeImplicitAutograd")
    for text in used:
        if not re.search(r"\b(Scalar|Generator)\b", text):
            continue
        head, _, rest = text.partition("(")
        name, _, overload = head.partition(".")
        arguments, _, results = rest.rpartition(") -> ")
        try:
            torch._C._get_schema(f"{_NAMESPACE}::{name}", overload)
            continue
        except RuntimeError:
            pass
        op = getattr(getattr(torch.ops.aten, name), overload or "default")
        arguments = re.sub(r"=('[^']*'|\[[^\]]*\]|[^,)]+)", "", _plain_types(arguments))
        libraries[0].define(f"{head}({arguments}) -> {results}")
        libraries[0].impl(head, _takes_numbers(op, _types(op._schema)[0]), "CompositeImplicitAutograd")


def _plain_types(arguments):
    return re.sub(r"\bGenerator\b", "int", re.sub(r"\bScalar\b(\[\])?", "int[]", arguments))


def _types(schema):
    """(argument types, result types) of an operator, without names and defaults."""
    return [str(a.type) for a in schema.arguments], [str(r.type) for r in schema.returns]


def _check_schemas(table):
    """The library calls ATen's operators by name; a torch in which one of them has changed is refused."""
    changed = []
    for text in table:
        name, _, overload = text.partition("(")[0].partition(".")
        wanted = torch._C.parse_schema("aten::" + text)
        try:
            found = torch._C._get_schema("aten::" + name, overload)
        except RuntimeError:
            changed.append(f"aten::{name} is gone")
            continue
        if _types(wanted) != _types(found):
            changed.append(f"aten::{name} was {text} and is {found}")
    if changed:
        raise ImportError(
            f"{LIBRARY} does not fit torch {torch.__version__}: {'; '.join(changed)}. Take a newer build of it"
        )


def _converting(packet, entries):
    """`packet`, with numbers and generators as Python has them."""
    if not any(any(entry["kinds"]) or any(entry["result_kinds"]) for entry in entries):
        return packet
    if len(entries) == 1:
        return _converting_one(packet.default, **entries[0])
    overloads = [packet.default, *(getattr(packet, f"overload{i}") for i in range(1, len(entries)))]
    calls = [_converting_one(op, **entry) for op, entry in zip(overloads, entries, strict=True)]

    def call(*args, **kwargs):
        for attempt in calls[:-1]:
            try:
                return attempt(*args, **kwargs)
            except RuntimeError as error:
                if not _says_arguments_are_wrong(error, str(packet).replace(".", "::")):
                    raise
        return calls[-1](*args, **kwargs)

    return call


def _converting_one(op, kinds, result_kinds, **_):
    names = {a.name: kind for a, kind in zip(op._schema.arguments, kinds, strict=True)}

    def call(*args, **kwargs):
        # Too many, or of another name: torch says so.
        args = [_to_cpp(kinds[i] if i < len(kinds) else "", a) for i, a in enumerate(args)]
        found = op(*args, **{name: _to_cpp(names.get(name, ""), a) for name, a in kwargs.items()})
        return _results(result_kinds, found)

    return call


def _says_arguments_are_wrong(error, declaration):
    text = str(error)
    own = text.startswith("incompatible function arguments")
    return own or f"Declaration: {declaration}" in text or f"operator '{declaration}'" in text


def _kernel(schema, own, entry):
    """A kernel for an operator of TORCH_LIBRARY with this schema: converts, and calls the library's."""
    names = [argument.name for argument in schema.arguments]
    defaults = {a.name: a.default_value for a in schema.arguments if a.has_default_value()}

    def kernel(*args, **kwargs):
        given = defaults | dict(zip(names, args, strict=False)) | kwargs
        return _results(
            entry["result_kinds"],
            own(*[_to_cpp(kind, given[name]) for kind, name in zip(entry["kinds"], names, strict=True)]),
        )

    return kernel


def _register(entries):
    """Gives torch the kernels of operators with numbers, generators or dictionaries, once in a process."""
    done = vars(torch.library).setdefault(f"_{_NAMESPACE}_kernels", {})
    for entry in entries:
        space, name, key = entry["namespace"], entry["name"], entry["key"]
        if (space, name, key) in done:
            continue
        schema = torch._C._get_schema(f"{space}::{name.partition('.')[0]}", name.partition(".")[2])
        if len(schema.arguments) != len(entry["kinds"]):
            raise ImportError(
                f"{LIBRARY}: {space}::{name} has {len(schema.arguments)} arguments, and its C++ function {len(entry['kinds'])}"
            )
        library = done[space, name, key] = torch.library.Library(space, "FRAGMENT")
        library.impl(name, _kernel(schema, getattr(getattr(torch.ops, space), entry["own"]).default, entry), key)


def _function(namespace, name, doc, entries):
    """A function of the module, by way of torch.ops."""
    packet = _converting(getattr(getattr(torch.ops, namespace), name), entries)
    schemas = [entry["schema"] for entry in entries]
    declaration = f"{namespace}::{name}"

    def function(*args, **kwargs):
        try:
            return packet(*args, **kwargs)
        except RuntimeError as error:
            text = str(error)
            wrong = _says_arguments_are_wrong(error, declaration)
            if wrong and not text.startswith("incompatible function arguments"):
                text = f"{function.__qualname__}(): incompatible function arguments. It takes: {'; '.join(schemas)}. torch says: {text}"
                raise TypeError(text) from None
            if thrown := re.match(r"aten_stable:((?:Index|Value|Type|NotImplemented)Error):", text):
                raise getattr(builtins, thrown[1])(text[thrown.end() :]) from None
            if wrong:
                raise TypeError(f"{function.__qualname__}(): {text}") from None
            if re.match(r"\"[^\"]*\" not implemented for '\w+'", text):
                raise NotImplementedError(text) from None
            raise

    function.__name__ = function.__qualname__ = name
    function.__module__ = __name__
    function.__doc__ = doc
    function._torchdynamo_disable = True  # under pybind11, too, torch.compile leaves out what it cannot trace
    return function


def _constructor(function):
    def __init__(self, *args, **kwargs):
        made = function(*args, **kwargs)
        self._number, made._number = made._number, 0
        _OBJECTS[self._number] = self

    return __init__


def _method(function):
    def method(self, *args, **kwargs):
        return function(self, *args, **kwargs)

    method.__doc__ = function.__doc__
    return method


def _make_classes(library, classes):
    """py::class_'s classes; a base comes before what derives from it."""
    if classes:
        release, class_of = library.aten_stable_release, library.aten_stable_class_of
        release.argtypes, release.restype = [ctypes.c_int64], None
        class_of.argtypes, class_of.restype = [ctypes.c_int64], ctypes.c_char_p
        _BY_NUMBER.update(release=release, class_of=class_of)
    for one in classes:
        bases = tuple(_CLASSES[base] for base in one["bases"]) or (_Object,)
        _CLASSES[one["type"]] = type(
            one["name"], bases, {"__slots__": (), "__doc__": one["doc"], "__module__": __name__}
        )
        globals()[one["name"]] = _CLASSES[one["type"]]


def _add_members(members):
    """Functions of classes, each with its entry."""
    setters = {}
    for entry, function in members:
        cls, name, role = _CLASSES[entry["type"]], entry["member"], entry["role"]
        if role == "set":
            setters[cls, name] = function
        function.__name__ = name
        function.__qualname__ = f"{cls.__name__}.{name}"
    wrappers = {"init": _constructor, "method": _method, "static": staticmethod}
    for entry, function in members:
        cls, name, role = _CLASSES[entry["type"]], entry["member"], entry["role"]
        if role == "get":
            setattr(cls, name, property(function, setters.get((cls, name)), doc=entry["doc"]))
        elif role in wrappers:
            wrapped = wrappers[role](function)
            if role != "static":
                wrapped.__name__, wrapped.__qualname__ = function.__name__, function.__qualname__
            setattr(cls, name, wrapped)


def _check_classes(entries):
    for entry in entries:
        for kind in [*entry["kinds"], *entry["result_kinds"]]:
            kind, *types = kind.split() or [""]
            if kind in ("object", "shared", "objects") and types[0] not in _CLASSES:
                raise ImportError(
                    f"{LIBRARY}: {entry['name']} takes or gives a C++ class ({types[0]}) that no py::class_ binds: bind "
                    "it, or take and return tensors, numbers, strings and lists of these"
                )


def _quick(library, namespace, entry, name, doc, function):
    """A builtin in front of `function`, which calls the library directly where that can be; see quick.h."""
    arguments = getattr(getattr(torch.ops, namespace), name).default._schema.arguments
    names = tuple(sys.intern(argument.name) for argument in arguments)
    defaults = tuple(
        _from_cpp(kind, argument.default_value) if argument.has_default_value() else ...
        for argument, kind in zip(arguments, entry["kinds"], strict=True)
    )
    positional = sum(not argument.kwarg_only for argument in arguments)
    return library.aten_stable_quick(
        entry["quick"], name.encode(), doc.encode(), __name__, names, defaults, ..., positional, function
    )


def _tensor_offset():
    """Where in a Python tensor the pointer lies that `_cdata` tells, in bytes; 0 if that is not the same for all."""
    tensors = [torch.empty(0), torch.empty(2).requires_grad_(), torch.nn.Parameter(torch.empty(1)), torch.empty(3)[1:]]
    word = ctypes.sizeof(ctypes.c_void_p)

    def offsets(tensor):
        places = range(2 * word, torch.Tensor.__basicsize__ - word + 1, word)
        return {at for at in places if ctypes.c_void_p.from_address(id(tensor) + at).value == tensor._cdata}

    found = set.intersection(*map(offsets, tensors))
    return found.pop() if len(found) == 1 else 0


def _handle_is_tensor(unwrap, wrap):
    """Whether torch's handle of a tensor is what lies in a Python tensor, too: a pointer to what `_cdata` tells."""
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.argtypes, get.restype = [ctypes.py_object, ctypes.c_char_p], ctypes.c_void_p
    tensor = torch.empty(0)
    capsule = unwrap(tensor)
    found = ctypes.c_void_p.from_address(get(capsule, None)).value
    wrap(capsule)  # it takes the handle
    return found == tensor._cdata


def _steals(unwrap, wrap):
    """Whether `wrap` takes the handle that it is given, as its name says: torch 2.13's makes another."""
    tensor = torch.empty(0)
    before = tensor._use_count()
    wrap(unwrap(tensor))
    return tensor._use_count() == before


def _open(path):
    """The library for calls with Python's lock held, and whether it has found in this process what quick calls need."""
    library = ctypes.PyDLL(str(path))
    thing = ctypes.py_object
    library.aten_stable_python.argtypes = [*[thing] * 5, ctypes.c_int64, ctypes.c_int64]
    library.aten_stable_quick.argtypes = [ctypes.c_int64, ctypes.c_char_p, ctypes.c_char_p, *[thing] * 4]
    library.aten_stable_quick.argtypes += [ctypes.c_int64, thing]
    library.aten_stable_quick.restype = thing
    try:
        unwrap = torch._C._aoti.unsafe_alloc_void_ptr_from_tensor
        wrap = torch._C._aoti.alloc_tensor_by_stealing_from_void_ptr
        offset = _tensor_offset() if _handle_is_tensor(unwrap, wrap) else 0
        settings = unwrap, wrap, offset, _steals(unwrap, wrap)
    except AttributeError:
        return library, False
    is_quick = bool(library.aten_stable_python(torch.Tensor, torch.nn.Parameter, torch.Generator, *settings))
    if is_quick and hasattr(library, "aten_stable_function"):
        _quick_function(library)
    if is_quick and hasattr(library, "aten_stable_philox"):
        library.aten_stable_philox.argtypes = [thing]
        library.aten_stable_philox(_philox)
    return library, is_quick


def _quick_function(library):
    """Gives the library a torch.autograd.Function whose forward and backward are its own builtins; see autograd.h."""
    library.aten_stable_function.restype = ctypes.py_object
    library.aten_stable_apply.argtypes = [*[ctypes.py_object] * 4, ctypes.c_int64]
    forward, backward = library.aten_stable_function()
    members = {"forward": forward, "backward": backward, "__module__": __name__}
    function = type("Function", (torch.autograd.Function,), members)
    apply = super(torch.autograd.Function, function).apply
    asked = torch._C._are_functorch_transforms_active, torch._C._len_torch_function_stack, torch.autograd.forward_ad
    library.aten_stable_apply(apply, *asked, _is_plain_context())


def _is_plain_context():
    """Whether what a Function's context is told sets one attribute each, and no more."""
    context = torch.autograd.function.FunctionCtx
    attributes = {
        "save_for_backward": "to_save",
        "mark_dirty": "dirty_tensors",
        "mark_non_differentiable": "non_differentiable",
    }
    codes = {method: getattr(getattr(context, method, None), "__code__", None) for method in attributes}
    return all(code is not None and code.co_names == (attributes[method],) for method, code in codes.items())


def _json(function):
    function.restype = ctypes.c_char_p
    return json.loads(function())


def _load():
    path = Path(__file__).with_name(LIBRARY)
    torch.ops.load_library(path)
    library, is_quick = _open(path)
    used = sorted({match.decode() for match in _USED.findall(path.read_bytes())})
    _check_schemas(used)
    _bridge(used)
    if hasattr(library, "aten_stable_converted"):
        _register(_json(library.aten_stable_converted))
    if not hasattr(library, "aten_stable_describe"):  # no PYBIND11_MODULE: its operators are in torch.ops
        return __doc__
    module = _json(library.aten_stable_describe)
    _make_classes(library, module["classes"])
    _check_classes(module["functions"])
    functions, members = {}, []
    for entry in module["functions"]:
        functions.setdefault(entry["name"], []).append(entry)
    for name, entries in functions.items():
        doc = "\n".join(filter(None, (entry["doc"] for entry in entries)))
        schemas = [entry["schema"] for entry in entries]
        doc = "\n\n".join(filter(None, ["\n".join(schemas), doc]))
        function = _function(module["namespace"], name, doc, entries)
        if is_quick and len(entries) == 1 and entries[0]["quick"] is not None and not entries[0]["role"]:
            function = _quick(library, module["namespace"], entries[0], name, doc, function)
        if entries[0]["role"]:
            members.append((entries[0], function))
        else:
            globals()[name] = function
    _add_members(members)
    globals().update(module["attributes"])
    for one in module["enums"]:
        made = _Enum(one["name"], one["members"], module=__name__)
        globals().update({one["name"]: made} | (dict(made.__members__) if one["exported"] else {}))
    globals()["__all__"] = [
        *(name for name, entries in functions.items() if not entries[0]["role"]),
        *(one["name"] for one in module["classes"]),
    ]
    return module["doc"] or __doc__


__doc__ = _load()
