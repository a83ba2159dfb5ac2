"""wherelerp(x, y, mask, weight): x + weight * (y - x) where the mask is set, x elsewhere."""

import torch

from wherelerp import _C  # noqa: F401  loading it registers the op


@torch.library.register_fake("wherelerp::wherelerp")
def _fake(x, y, mask, weight):
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def _save(ctx, inputs, output):
    _, _, mask, weight = inputs
    ctx.save_for_backward(mask)
    ctx.weight = weight


def _backward(ctx, grad):
    (mask,) = ctx.saved_tensors
    to_y = grad * mask * ctx.weight
    return grad - to_y, to_y, None, None


torch.library.register_autograd("wherelerp::wherelerp", _backward, setup_context=_save)


def wherelerp(x: torch.Tensor, y: torch.Tensor, mask: torch.Tensor, weight: float) -> torch.Tensor:
    return torch.ops.wherelerp.wherelerp(x, y, mask, weight)
