"""GB/s of myops.swish beside torch's own: python benchmarks/swish.py [cuda]"""

import sys

import myops
import torch
from torch.utils.benchmark import Timer

device = sys.argv[1] if len(sys.argv) > 1 else "cpu"
x = torch.randn(1 << 24, device=device)
for name, f in (("myops", myops.swish), ("torch", torch.nn.functional.silu)):
    seconds = Timer("f(x)", globals={"f": f, "x": x}).blocked_autorange().median
    print(f"{name}: {2 * x.nbytes / seconds / 1e9:.1f} GB/s")
