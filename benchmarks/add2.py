"""add2 against torch.add. Three streams through memory: two reads, one write."""

import elementwise
import harness
import torch

import customops

STRIDED = {
    "rows sliced": lambda x, y: (x[:, 8:], y[:, :-8]),
    "rows misaligned": lambda x, y: (x[:, 1:-7], y[:, 3:-5]),
    "second transposed": lambda x, y: (x[:, 8:].contiguous(), y[:, 8:].t()),
    "second expanded": lambda x, y: (x[:, 8:].contiguous(), y[0, 8:].expand(len(y), -1)),
    "every other column": lambda x, y: (x[:, ::2], y[:, ::2]),
}


def rows(device):
    return elementwise.rows(device, 2, {"customops": customops.add2, "torch": torch.add}, STRIDED)


if __name__ == "__main__":
    harness.main("add2", rows)
