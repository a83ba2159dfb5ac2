"""Writes csrc/cuda/depthwise_conv2d/measured.h: which kernel was fastest where, as a decision tree a direction and layout,
and one for long rows.

    python benchmarks/fit_choice.py FILE... [--check]

Each FILE is one that candidates.py wrote. A tree asks for the FEATURES below and says which kernel to prefer to what the
rules of choose.h say, or nothing. It is grown to lose least against the fastest of all kernels and of torch, and most of
all not to be slower than torch. --check also fits four fifths of the problems and tries the trees on the last fifth, five
times: that is how often problems that were not measured are slower than torch. Needs numpy, g++ and torch's headers.
"""

import argparse
import itertools
import json
import math
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import sweep_cases
from torch.utils.cpp_extension import include_paths, library_paths

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "csrc/cuda/depthwise_conv2d/measured.h"
PEERS = ("cuDNN", "cuDNN, benchmark", "native")
RULES = "rules"
ROWS = "fwd_dense_rows"  # what it can compute has a tree of its own, for both directions
GROUPS = ("rows", *(f"{direction}_{layout}" for direction in sweep_cases.DIRECTIONS for layout in sweep_cases.LAYOUTS))
SLOW = 0.96  # of torch's speed: what counts as slower than torch, with some room for noise
PENALTY = 2.0  # for that, beside the logarithm of the time over the least
PREFERENCE = 0.02  # for the rules of choose.h, where others gain less than this
UNKNOWN = 2.5  # times the least, for what was too slow to be timed
LEAF, DEPTH, GAIN = 12, 6, 1.5  # problems of a leaf at least; questions at most; what a question has to gain

# A name for a tree, and what it is in terms of a Problem problem of choose.h.
FEATURES = {
    "outputs": "double(outputs(problem))",
    "inputs": "double(problem.batch * problem.channels * problem.y.in * problem.x.in)",
    "work": "double(outputs(problem)) * double(problem.taps())",
    "taps": "double(problem.taps())",
    "taps_y": "double(problem.y.taps)",
    "taps_x": "double(problem.x.taps)",
    "down_x": "double(problem.x.down)",
    "down_y": "double(problem.y.down)",
    "up_x": "double(problem.x.up)",
    "up_y": "double(problem.y.up)",
    "dilation_x": "double(problem.x.dilation)",
    "dilation_y": "double(problem.y.dilation)",
    "channels": "double(problem.channels)",
    "planes": "double(problem.batch * problem.channels)",
    "out_x": "double(problem.x.out)",
    "out_y": "double(problem.y.out)",
    "in_x": "double(problem.x.in)",
    "in_y": "double(problem.y.in)",
    "element_bytes": "double(problem.element_bytes())",
    "odd_row": "double(problem.x.in % 2)",
    "odd_channels": "double(problem.channels % 8 != 0) + double(problem.channels % 4 != 0) + double(problem.channels % 2 != 0)",
}
NAMES = list(FEATURES)

NATIVE = ("fwd_torch", "wgrad_torch")  # what was timed as a peer stands for these where they could not yet be chosen

ONE_TAP = {"fwd_scale", "wgrad_scale"}  # chosen for it without a question

PROGRAM = """#include <iostream>
#include "cuda/depthwise_conv2d/choose.h"
using namespace customops;
using namespace customops::cuda::depthwise;
int main() {
  std::string direction;
  int64_t bits, n, c, h, w, kh, kw, sh, sw, ph, pw, dh, dw, last;
  while (std::cin >> direction >> bits >> last >> n >> c >> h >> w >> kh >> kw >> sh >> sw >> ph >> pw >> dh >> dw) {
    const ScalarType dtype = bits == 64 ? ScalarType::Double : bits == 32 ? ScalarType::Float
                             : bits == 16 ? ScalarType::Half : ScalarType::BFloat16;
    const ConvAxis y{h, (h + 2 * ph - dh * (kh - 1) - 1) / sh + 1, kh, sh, ph, dh};
    const ConvAxis x{w, (w + 2 * pw - dw * (kw - 1) - 1) / sw + 1, kw, sw, pw, dw};
    const bool dgrad = direction == "dgrad", wgrad = direction == "wgrad";
    const Problem problem = simplified({n, c, dgrad ? dgrad_axis(y) : forward_axis(y), dgrad ? dgrad_axis(x) : forward_axis(x),
                                  last != 0, dgrad, dtype, false, 16, 16});
    const Choice rule = wgrad ? choose_wgrad_by_rule(problem, kH200) : choose_forward_by_rule(problem, kH200);
    std::cout << (rule.copies_to_planes ? "planes:" : "") << name_of(rule.kernel) << ' ';
    for (int i = 0; i < kKernels; ++i) {
      if ((name_of(Kernel(i))[0] == 'w') != wgrad) continue;
      if (takes(Kernel(i), problem, kH200)) std::cout << name_of(Kernel(i)) << ' ';
      if (last && takes(Kernel(i), as_planes(problem), kH200)) std::cout << "planes:" << name_of(Kernel(i)) << ' ';
    }
    std::cout << ';';
    for (const double value : {FEATURES}) std::cout << ' ' << value;
    std::cout << std::endl;
  }
}
"""
BITS = {"float64": 64, "float32": 32, "float16": 16, "bfloat16": 17}


def describe(cases: list[tuple[str, sweep_cases.Problem]]) -> list[tuple[list[str], list[float]]]:
    """What the rules choose and all kernels that can compute each problem, and its features: by choose.h itself."""
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder, "describe.cpp"), Path(folder, "describe")
        source.write_text(PROGRAM.replace("FEATURES", ", ".join(FEATURES.values())))
        flags = [f"-I{path}" for path in (ROOT / "csrc", *include_paths())]
        flags += [f"-L{path}" for path in library_paths()] + [f"-Wl,-rpath,{path}" for path in library_paths()]
        target = "-DTORCH_TARGET_VERSION=0x020a000000000000"
        subprocess.run(
            ["g++", "-std=c++17", "-O1", target, source, "-o", program, *flags, "-ltorch_cpu", "-lc10"], check=True
        )
        lines = [
            f"{direction} {BITS[p.dtype]} {int(p.layout == 'nhwc' and p.shape[1] > 1)} "
            + " ".join(str(n) for group in (p.shape, p.kernel, p.stride, p.padding, p.dilation) for n in group)
            for direction, p in cases
        ]
        text = subprocess.run([program], input="\n".join(lines), capture_output=True, text=True, check=True).stdout
    parts = [line.split(";") for line in text.splitlines()]
    return [(kernels.split(), [float(v) for v in values.split()]) for kernels, values in parts]


class Table:
    """Of one direction and layout: features and, for each kernel, what choosing it costs."""

    def __init__(self, rows: list[dict], described: list):
        self.features = np.array([values for _, values in described])
        names = sorted({name for kernels, _ in described for name in kernels})
        self.kernels = [RULES, *names]
        self.torch = np.array([min((r["us"][k] for k in PEERS if k in r["us"]), default=math.inf) for r in rows])
        self.times = np.array([self._times(row, takes, names) for row, (takes, _) in zip(rows, described, strict=True)])
        least = np.minimum(self.times.min(axis=1), self.torch)
        self.cost = np.log(self.times / least[:, None]) + PENALTY * (self.torch[:, None] / self.times < SLOW)
        self.cost[:, 1:] += PREFERENCE

    def _times(self, row: dict, takes: list[str], names: list[str]) -> list[float]:
        us = {name: row["us"]["native"] for name in NATIVE if "native" in row["us"]} | row["us"]
        slow = UNKNOWN * min(us.values())
        default = us.get(takes[0], slow)
        return [default, *(us.get(name, slow) if name in takes else default for name in names)]


def grow(table: Table, rows: np.ndarray, depth: int = 0):
    """(feature, threshold, below, from there on), or the name of a kernel."""
    total = table.cost[rows].sum(axis=0)
    leaf, best = int(total.argmin()), (float(total.min()) - GAIN, None)
    if depth < DEPTH and len(rows) >= 2 * LEAF:
        for feature in range(len(NAMES)):
            values = table.features[rows, feature]
            order = np.argsort(values, kind="stable")
            values, sums = values[order], table.cost[rows[order]].cumsum(axis=0)
            below, above = sums.min(axis=1)[:-1], (sums[-1] - sums).min(axis=1)[:-1]
            cost = np.where(values[1:] > values[:-1], below + above, np.inf)
            cost[: LEAF - 1] = cost[len(cost) - LEAF + 1 :] = np.inf
            at = int(cost.argmin())
            if cost[at] < best[0]:
                low, high = values[at], values[at + 1]
                best = float(cost[at]), (feature, rounded(low, high), rows[order[: at + 1]], rows[order[at + 1 :]])
    if best[1] is None:
        return table.kernels[leaf]
    feature, threshold, low, high = best[1]
    sides = grow(table, low, depth + 1), grow(table, high, depth + 1)
    return sides[0] if sides[0] == sides[1] else (feature, threshold, *sides)


def rounded(low: float, high: float) -> int:
    """A number above `low` and at most `high`, of few digits."""
    middle = math.sqrt(low * high) if low > 0 else (low + high) / 2
    for digits in range(1, 12):
        scale = 10 ** max(0, math.floor(math.log10(max(middle, 1))) + 1 - digits)
        number = math.ceil(middle / scale) * scale
        if low < number <= high:
            return int(number)
        number = math.floor(middle / scale) * scale
        if low < number <= high:
            return int(number)
    return int(high)


def predict(tree, features: np.ndarray) -> str:
    while isinstance(tree, tuple):
        feature, threshold, below, above = tree
        tree = below if features[feature] < threshold else above
    return tree


def slower(table: Table, tree, rows: np.ndarray) -> tuple[int, float]:
    """How many of these problems are slower than 0.95 of torch's speed, and the mean logarithm of time over the least."""
    chosen = [table.kernels.index(predict(tree, table.features[row])) for row in rows]
    times = table.times[rows, chosen]
    return int((table.torch[rows] / times < 0.95).sum()), float(np.log(times / table.times[rows].min(axis=1)).sum())


def check(table: Table, name: str, tree) -> None:
    everything = np.arange(len(table.torch))
    parts = np.random.default_rng(0).permutation(everything) % 5
    unseen, regret = 0, 0.0
    for part in range(5):
        found = slower(table, grow(table, everything[parts != part]), everything[parts == part])
        unseen, regret = unseen + found[0], regret + found[1]
    before, after = slower(table, RULES, everything), slower(table, tree, everything)
    print(
        f"{name}: {len(everything)} problems; below 0.95 by the rules {before[0]}, by the tree {after[0]}, of problems not "
        f"seen {unseen}; mean time over the least {math.exp(before[1] / len(everything)):.3f}, "
        f"{math.exp(after[1] / len(everything)):.3f}, {math.exp(regret / len(everything)):.3f}; {leaves(tree)} leaves"
    )


def leaves(tree) -> int:
    return leaves(tree[2]) + leaves(tree[3]) if isinstance(tree, tuple) else 1


def code(tree, indent: str = "  ") -> list[str]:
    """Statements of C++ that return what the tree says."""
    if not isinstance(tree, tuple):
        if tree == RULES:
            return [f"{indent}return std::nullopt;"]
        planes, kernel = tree.startswith("planes:"), tree.removeprefix("planes:")
        name = "k" + "".join(word.capitalize() for word in kernel.split("_"))
        return [f"{indent}return Measured{{Kernel::{name}, {str(planes).lower()}}};"]
    feature, threshold, below, above = tree
    expression = FEATURES[NAMES[feature]]
    then = code(below, indent + "  ")
    head = f"{indent}if ({expression} < {threshold})"
    first = [f"{head} {then[0].lstrip()}"] if len(then) == 1 else [f"{head} {{", *then, f"{indent}}}"]
    return [*first, *code(above, indent)]


def header(trees: dict, about: str) -> str:
    functions = []
    for name, tree in trees.items():
        body = "\n".join(code(tree))
        functions.append(f"inline std::optional<Measured> measured_{name}(const Problem& problem) {{\n{body}\n}}\n")
    return HEAD.replace("ABOUT", about) + "\n".join(functions) + "\n}  // namespace customops::cuda::depthwise\n"


HEAD = """// Which kernel was fastest where: written by benchmarks/fit_choice.py, which says how; not to be edited.
// From ABOUT.
#pragma once

#include <optional>

#include "takes.h"

namespace customops::cuda::depthwise {

struct Measured {
  Kernel kernel;
  bool copies_to_planes;
  const char* reason = "measured to be the fastest for sizes like these, on an H100 or H200";
};

"""


def known(file: Path) -> tuple[list[dict], list, list]:
    """(rows, cases, what describe says) of one file: those for which all kernels were tried that can compute them today."""
    facts, *rows = map(json.loads, file.read_text().splitlines())
    cases, tried = [sweep_cases.parse(row["case"]) for row in rows], ONE_TAP | set(facts["kernels"])
    described = describe(cases)
    chosen = [i for i, (takes, _) in enumerate(described) if {name.removeprefix("planes:") for name in takes} <= tried]
    return tuple([part[i] for i in chosen] for part in (rows, cases, described))


def group(direction: str, problem: sweep_cases.Problem, kernels: list[str]) -> str | None:
    """The tree that choose.h asks about a problem, if any."""
    pixels = problem.layout == "nhwc" and problem.shape[1] > 1
    if problem.kernel == (1, 1):  # fwd_scale, wgrad_scale
        return None
    if pixels and problem.kernel == (7, 7) and problem.stride == (2, 2):  # is_7x7_stride_2_pixels
        return None
    if ROWS in kernels:
        return "rows"
    return f"{direction}_{'nhwc' if pixels else 'nchw'}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    files = [known(file) for file in args.files]
    rows, cases, described = (list(itertools.chain.from_iterable(parts)) for parts in zip(*files, strict=True))
    groups = [group(*case, kernels) for case, (kernels, _) in zip(cases, described, strict=True)]
    trees = {}
    for name in GROUPS:
        chosen = [i for i, group in enumerate(groups) if group == name]
        table = Table([rows[i] for i in chosen], [described[i] for i in chosen])
        tree = trees[name] = grow(table, np.arange(len(chosen)))
        if args.check:
            check(table, name, tree)
    facts = [json.loads(file.read_text().splitlines()[0]) for file in args.files]
    machines = sorted({f"{fact['device']} with torch {fact['torch']}" for fact in facts})
    TARGET.write_text(header(trees, f"{len(rows)} problems, each in one direction, on {', '.join(machines)}"))
    subprocess.run(["clang-format", "-i", "--style=file", TARGET], check=True)
    print(f"{TARGET}: {sum(map(leaves, trees.values()))} leaves")


if __name__ == "__main__":
    main()
