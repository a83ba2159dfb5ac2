"""Gives an op its derivatives: for the dispatcher, for functorch transforms, and a fast path for eager mode."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import torch
from torch.autograd import forward_ad

# torch.autograd.Function.apply is Python around this C++ apply: it looks for functorch transforms and default arguments
# on every call. We look for the transforms ourselves and have no defaults, which takes a differentiable call on a
# 4-element tensor from 6.2 to 4.5 us. Where a torch release lacks this name, Function.apply does the work.
_functorch_active = getattr(torch._C, "_are_functorch_transforms_active", None)
_dispatch_modes = getattr(torch._C, "_len_torch_dispatch_stack", None)
_is_compiling = torch.compiler.is_compiling
_PLAIN_CLASSES = (torch.Tensor, torch.nn.Parameter)


class Context(Protocol):
    """What torch hands to setup_context, backward and jvp; an op's own class adds what it keeps there."""

    needs_input_grad: tuple[bool, ...]

    def save_for_backward(self, *tensors: torch.Tensor | None) -> None: ...
    def save_for_forward(self, *tensors: torch.Tensor | None) -> None: ...
    def set_materialize_grads(self, value: bool) -> None: ...


def forward_mode() -> bool:
    """Whether forward-mode derivatives are being computed: then no input need say that it requires a gradient."""
    return forward_ad._current_level >= 0


def only_autograd(*tensors: torch.Tensor) -> bool:
    """Whether nothing but torch's autograd engine watches a call on these tensors.

    That is: no compiler, functorch transform, forward mode, dispatch mode or subclass of Tensor.
    """
    for t in tensors:
        if type(t) not in _PLAIN_CLASSES:
            return False
    return not (
        _is_compiling()
        or _functorch_active is None
        or _functorch_active()
        or forward_ad._current_level >= 0
        or _dispatch_modes is None
        or _dispatch_modes()
    )


def nothing_recorded() -> bool:
    """Whether a backward may call plain ops: it won't be derived again, and no compiler or functorch transform looks on."""
    return not (
        torch.is_grad_enabled()
        or _is_compiling()
        or _functorch_active is None
        or _functorch_active()
        or forward_ad._current_level >= 0
    )


def differentiable(
    op: str,
    backward: Callable[..., object],
    jvp: Callable[..., object],
    setup_context: Callable[..., None] | None = None,
) -> Callable[..., Any]:
    """Attaches derivatives to ``customops::<op>`` and returns the callable that public functions use for them.

    ``torch.library.register_autograd`` serves torch.compile, torch.export and callers of ``torch.ops.customops``, but
    costs twice what an ``autograd.Function`` around the plain op does and knows no functorch transform.

    Args:
        op: name of the op; ``customops::_<op>`` is its twin without autograd. A name that starts with an underscore is an
            op for a backward, without a twin: the dispatcher then learns of no derivative, the returned callable does.
        backward: ``backward(ctx, grad) -> gradients``, made of differentiable ops, so that it can be derived again.
        jvp: ``jvp(ctx, *tangents) -> tangent``; a tangent is None where an input has none.
        setup_context: ``setup_context(ctx, inputs, output)`` stores what both need.
    """
    registered = getattr(torch.ops.customops, op).default
    plain = registered
    if not op.startswith("_"):
        plain = getattr(torch.ops.customops, "_" + op).default
        torch.library.register_autograd(f"customops::{op}", backward, setup_context=setup_context)

    def forward(ctx: Context, *inputs: object) -> object:
        output = plain(*inputs)
        if setup_context is not None:
            setup_context(ctx, inputs, output)
        return output

    rules = {"backward": staticmethod(backward), "jvp": staticmethod(jvp)}
    function = _function(op, rules | {"forward": staticmethod(forward)})
    # functorch requires forward and setup_context apart; torch then binds arguments by name on every call, so it is a class of its own.
    transformable = _function(
        op,
        rules
        | {
            "forward": staticmethod(lambda *inputs: plain(*inputs)),
            "setup_context": staticmethod(setup_context or (lambda ctx, inputs, output: None)),
            "generate_vmap_rule": True,
        },
    )
    eager: Callable[..., object] = transformable.apply
    if _functorch_active is not None:
        eager = super(torch.autograd.Function, function).apply  # type: ignore[misc]  # C++, which torch's stubs leave out

    def apply(*inputs: object) -> object:
        if _is_compiling():
            return registered(*inputs)
        if _functorch_active is not None and _functorch_active():
            return transformable.apply(*inputs)
        if not (torch.is_grad_enabled() or forward_mode()):  # nothing is recorded, as in most backwards
            return plain(*inputs)
        return eager(*inputs)

    return apply


def _function(name: str, members: Mapping[str, object]) -> type[torch.autograd.Function]:
    function = type(name, (torch.autograd.Function,), dict(members))
    assert issubclass(function, torch.autograd.Function)  # for type checkers
    return function
