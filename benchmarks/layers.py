"""depthwise_conv2d in the layers of published networks, timed as in benchmarks/depthwise_conv2d.py.

    python benchmarks/layers.py [--rows=128x] [--rounds=20]

At batch 128 and 16; --rows chooses. Not among what `make bench` runs: there are many rows.
"""

import depthwise_conv2d
import harness
import torch

# channels, height = width, kernel, stride: MobileNet V1 to V3, MnasNet, EfficientNet, ShuffleNet V2 (58 channels), ConvNeXt
LAYERS = [
    (16, 112, 3, 1),
    (32, 112, 3, 1),
    (64, 112, 3, 2),
    (96, 112, 3, 2),
    (72, 56, 3, 1),
    (72, 56, 5, 2),
    (144, 56, 3, 1),
    (144, 56, 3, 2),
    (144, 56, 5, 2),
    (120, 28, 5, 1),
    (192, 28, 3, 1),
    (192, 28, 3, 2),
    (240, 28, 3, 2),
    (240, 28, 5, 1),
    (58, 56, 3, 2),
    (58, 28, 3, 1),
    (200, 14, 3, 1),
    (480, 14, 3, 1),
    (480, 14, 5, 1),
    (672, 14, 5, 1),
    (672, 14, 5, 2),
    (576, 14, 3, 2),
    (960, 7, 5, 1),
    (1152, 7, 3, 1),
    (1152, 7, 5, 1),
    (96, 56, 7, 1),
    (192, 28, 7, 1),
    (384, 14, 7, 1),
    (768, 7, 7, 1),
]


def rows(device):
    shapes = [(batch, *layer) for batch in (128, 16) for layer in LAYERS]
    return depthwise_conv2d.rows_of(shapes, (torch.float32, torch.bfloat16), device)


if __name__ == "__main__":
    harness.main("depthwise_conv2d", rows, harness.RESULTS / "layers")
