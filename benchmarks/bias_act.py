"""bias_act and its backward passes against the formula in plain torch, as it stands and compiled.

Floors: forward reads x and writes y; backward reads the gradient and x (or y) and writes dx; the double backward of swish
reads three tensors and writes two, that of lrelu is a backward once more. Biases are too small to count.
"""

import harness
import torch
import torch.nn.functional as F
from elementwise import NAMES
from harness import Row, compiled

import customops

ACTS = {"lrelu": lambda z: F.leaky_relu(z, 0.2), "swish": F.silu}


def formula(act, clamp):
    def f(x, b):
        y = ACTS[act](x + b.view(-1, *[1] * (x.dim() - 2))) * 2**0.5
        return y if clamp is None else y.clamp(-clamp, clamp)

    return f


def backward(f):
    """Gradients of f(x, b): what autograd does once the graph is there."""
    return lambda y, x, b, grad: torch.autograd.grad(y[f], (x, b), grad, retain_graph=True)


def double(f):
    """Gradients of grad and of x, given those of dx."""

    def run(first, x, grad, v):
        return torch.autograd.grad(first[f], (grad, x), v, retain_graph=True, allow_unused=True)

    return run


def rows(device):
    small = device == "cpu"
    found = []
    for shape, act, clamp, dtypes in (
        ((4, 32, 1024, 1024), "lrelu", 256.0, (torch.float16, torch.float32)),
        ((16, 512, 64, 64), "lrelu", None, (torch.float32,)),
        ((16, 512, 64, 64), "swish", None, (torch.float32,)),
    ):
        if small:
            shape = (shape[0] // 4, *shape[1:])
        for dtype in dtypes:
            plain = formula(act, clamp)
            fast = compiled(plain)
            ours = lambda x, b, act=act, clamp=clamp: customops.bias_act(x, b, act=act, clamp=clamp)  # noqa: E731
            peers = {"customops": ours, "torch": plain, "torch, compiled": fast}

            def tensors(count, shape=shape, dtype=dtype):
                return [torch.randn(shape, device=device).to(dtype) for _ in range(count)], torch.randn(
                    shape[1], device=device
                ).to(dtype)

            def forward_inputs(tensors=tensors):
                (x,), b = tensors(1)
                return x, b

            def backward_inputs(tensors=tensors, peers=peers):
                (x, grad), b = tensors(2)
                x, b = x.requires_grad_(), b.requires_grad_()
                return {name: f(x, b) for name, f in peers.items()}, x, b, grad

            def double_inputs(tensors=tensors, peers=peers):
                (x, grad, v), b = tensors(3)
                x, b, grad = x.requires_grad_(), b.requires_grad_(), grad.requires_grad_()
                first = {}
                for name, f in peers.items():
                    if "compiled" not in name:  # torch.compile has no double backward
                        (first[name],) = torch.autograd.grad(f(x, b), x, grad, create_graph=True)
                return first, x, grad, v

            size = dtype.itemsize * torch.Size(shape).numel()
            title = f"{'x'.join(map(str, shape))} {act}{'' if clamp is None else ' clamp'} {NAMES[dtype]}"
            found += [
                Row(f"{title} forward", 2 * size, forward_inputs, peers),
                Row(f"{title} backward", 3 * size, backward_inputs, {name: backward(name) for name in peers}),
                Row(
                    f"{title} double backward",
                    (5 if act == "swish" else 3) * size,
                    double_inputs,
                    {name: double(name) for name in peers if "compiled" not in name},
                ),
            ]
    return found


if __name__ == "__main__":
    harness.main("bias_act", rows)
