"""Times an op beside torch's own way to compute the same, with a library built in any of the three ways.

    python examples/time_op.py --compiler jit --op axpy
    python examples/time_op.py --compiler cmake --library build/cmake/libcustomops.so --op all --device cuda

Every round times each of them once; quoted are medians of 50 rounds (--rounds), in microseconds.
"""

import argparse
import statistics
import time

import torch
import torch.nn.functional as F


def torch_upfirdn2d(x, f):
    """Filters, then takes every second sample; `f` is symmetric, so correlation will do."""
    channels = x.shape[1]
    return F.conv2d(F.pad(x, (1, 1, 1, 1)), f.expand(channels, 1, *f.shape), stride=2, groups=channels)


def ops(device):
    """{op: (ours, torch's, inputs)}. The libraries' names are looked up here, so that nothing is open before."""
    import customops

    a, b = torch.randn(2, 1 << 24, device=device)
    image, bias = torch.randn(8, 64, 128, 128, device=device), torch.randn(64, device=device)
    f = torch.outer(*[torch.tensor([1.0, 3, 3, 1], device=device) / 8] * 2)
    table = {
        "add2": (customops.add2, torch.add, (a, b)),
        "axpy": (customops.axpy, lambda x, y: torch.add(y, x, alpha=2), (a, b)),
        "flatten_copy": (customops.flatten_copy, lambda x: x.reshape(-1), (a.view(1 << 12, 1 << 12).t(),)),
        "bias_act": (
            lambda x, b: customops.bias_act(x, b, act="lrelu"),
            lambda x, b: F.leaky_relu(x + b[:, None, None], 0.2) * 2**0.5,
            (image, bias),
        ),
        "upfirdn2d": (lambda x, f: customops.upfirdn2d(x, f, down=2, padding=1), torch_upfirdn2d, (image, f)),
    }
    if "depthwise_conv2d" in customops.__all__:
        weight = torch.randn(64, 1, 3, 3, device=device)
        table["depthwise_conv2d"] = (
            lambda x, w: customops.depthwise_conv2d(x, w, padding=1),
            lambda x, w: F.conv2d(x, w, padding=1, groups=64),
            (image, weight),
        )
    return table


def measure(functions, inputs, device, rounds):
    """Median microseconds of each function."""
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    times = [[] for _ in functions]
    for round in range(rounds + 5):
        for function, mine in zip(functions, times, strict=True):
            wait()
            start = time.perf_counter()
            function(*inputs)
            wait()
            if round >= 5:
                mine.append(1e6 * (time.perf_counter() - start))
    return [statistics.median(mine) for mine in times]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--compiler", choices=("auto", "setuptools", "jit", "cmake"), default="auto")
    parser.add_argument("--library", help="libcustomops.so, for --compiler cmake")
    parser.add_argument("--op", default="all", help="one op, or all")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--rounds", type=int, default=50)
    args = parser.parse_args()

    import customops

    library = customops.load(args.compiler, args.library)
    table = ops(args.device)
    if args.op != "all" and args.op not in table:
        parser.error(f"--op must be all or one of {', '.join(table)}, got {args.op}")
    print(f"{library}, torch {torch.__version__}, {args.device}, {torch.get_num_threads()} threads")
    print(f"{'':18}{'customops':>12}{'torch':>12}{'ratio':>8}")
    for name in table if args.op == "all" else [args.op]:
        ours, theirs, inputs = table[name]
        torch.testing.assert_close(ours(*inputs), theirs(*inputs), rtol=1e-4, atol=1e-4)
        mine, reference = measure((ours, theirs), inputs, args.device, args.rounds)
        print(f"{name:18}{mine:12.0f}{reference:12.0f}{mine / reference:8.2f}")


if __name__ == "__main__":
    main()
