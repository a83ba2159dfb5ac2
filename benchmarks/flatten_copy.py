"""flatten_copy against torch's copy into a new flat tensor. Two streams through memory: one read, one write."""

import elementwise
import harness
import torch

import customops

STRIDED = {
    "rows sliced": lambda x, y: (x[:, 8:],),
    "rows misaligned": lambda x, y: (x[:, 1:-7],),
    "transposed": lambda x, y: (x[:, 8:].t(),),
    "expanded": lambda x, y: (x[0, 8:].expand(len(x), -1),),
    "every other column": lambda x, y: (x[:, ::2],),
    "channels_last, 64 channels": lambda x, y: (channels_last(x, 64),),
    "channels_last, 3 channels": lambda x, y: (channels_last(x, 3),),
}


def channels_last(x, channels):
    images = x.flatten()[: x.numel() // (channels * 4096) * channels * 4096].view(-1, channels, 64, 64)
    return images.contiguous(memory_format=torch.channels_last)


def rows(device):
    peers = {
        "customops": customops.flatten_copy,
        "torch": lambda x: x.clone(memory_format=torch.contiguous_format).view(-1),
    }
    return elementwise.rows(device, 1, peers, STRIDED)


if __name__ == "__main__":
    harness.main("flatten_copy", rows)
