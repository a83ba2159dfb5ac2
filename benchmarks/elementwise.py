"""Rows that the elementwise ops share: large contiguous inputs, and inputs of other strides."""

import torch
from harness import Row, compiled

NAMES = {torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16", torch.float64: "fp64"}


def rows(device: str, inputs: int, peers: dict, strided: dict) -> list[Row]:
    """
    Args:
        inputs: how many the op takes.
        peers: name -> callable of the inputs; all but ours are also timed compiled.
        strided: name -> function that turns a square matrix pair (x, y) into what the op gets, or None.
    """
    peers = peers | {f"{name}, compiled": compiled(peer) for name, peer in peers.items() if name != "customops"}
    large, side = (2**28, 2**14) if device == "cuda" else (2**24, 2**11)
    found = []
    for dtype, n in ((torch.float32, large), (torch.bfloat16, large), (torch.float16, large), (torch.float64, large // 2),
                     (torch.float32, large // 16)):  # fmt: skip
        make = lambda dtype=dtype, n=n: tuple(torch.randn(n, device=device).to(dtype) for _ in range(inputs))  # noqa: E731
        found.append(Row(f"{n} {NAMES[dtype]}", (inputs + 1) * n * dtype.itemsize, make, peers))
    for dtype in (torch.float32, torch.bfloat16):
        for name, change in strided.items():

            def make(dtype=dtype, change=change):
                return tuple(change(*torch.randn(2, side, side + 8, device=device).to(dtype)))

            example = make()
            distinct = sum(
                t.numel() // max(1, *[s if st == 0 else 1 for s, st in zip(t.shape, t.stride(), strict=True)])
                for t in example
            )
            size = (distinct + example[0].numel()) * dtype.itemsize
            found.append(Row(f"{name} {NAMES[dtype]}", size, make, peers))
    return found
