"""Writes csrc/cuda/depthwise_conv2d/measured.h: what each kernel costs, by forests of small trees.

    python benchmarks/fit_choice.py FILE... [--check | --uncertain N --seed S]

Each FILE is one that candidates.py wrote; one whose name has benchmark-rows in it counts ROWS times. There is a forest
for each direction and layout. Every tree of it asks DEPTH questions about the FEATURES below, the same for all
problems, and adds to the cost of each kernel; the kernel with the least sum that can compute the problem is chosen.

The trees are grown one after the other (gradient boosting), for two objectives, and the sums of both are added. The
trees of the first are fitted as logits to a softmax of what choosing each kernel loses against the fastest of all and
of torch, and most of all by being slower than torch. A part of what is fitted is the mean of that loss over the
kernels, weighted by the softmax of the costs: where problems that look the same differ, a kernel that never loses much
is better than one that often wins. The trees of the second predict that loss itself, by least squares. The first alone
comes closer to the least time; the second alone is less often slower than torch. --check also fits
four fifths of the cases and tries the forests on the last fifth, five times: that is how often problems that were not
measured are slower than torch; and it compares what the C++ chooses with what was fitted, problem by problem.
--uncertain prints the N of DRAWN random problems whose choice is the least certain, without those of the FILEs, for
candidates.py --replay, and writes nothing: these are worth measuring. Needs numpy, g++ and torch's headers.

After a fit, build and run `pytest tests/test_explain.py tests/test_depthwise_conv2d*.py`, all of them and without a GPU:
they look for sizes that choose each kernel, and fail where none is left.
"""

import argparse
import itertools
import json
import math
import subprocess
import tempfile
import textwrap
import zlib
from collections import Counter
from pathlib import Path

import numpy as np
import sweep_cases
from torch.utils.cpp_extension import include_paths, library_paths

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "csrc/cuda/depthwise_conv2d/measured.h"
ROWS = 60  # times that the benchmarks' rows count, so that a fit does not lose them
PEERS = ("cuDNN", "cuDNN, benchmark", "native")
GROUPS = [f"{direction}_{layout}" for direction in sweep_cases.DIRECTIONS for layout in sweep_cases.LAYOUTS]
SLOW = 0.98  # of torch's speed: what counts as slower than torch, with some room for noise
PENALTY = 6.0  # for that, beside the logarithm of the time over the least
ROW_SLOWER = 1.02  # a kernel above this many times the least counts as slower than torch, in the benchmarks' rows
PREFERENCE = 0.03  # for our kernels, where torch's own gain less than this: calling these costs more on the host
UNKNOWN = 2.5  # times the least, for what was too slow to be timed
RARE = 5  # problems that a kernel has to be the fastest for, to be among the choices; or one of the benchmarks' rows
TREES, DEPTH, RATE = 84, 5, 0.35  # trees of each objective
THRESHOLDS = 20  # of a feature, at most
SOFTNESS = 0.35  # of the softmax: kernels that lose much less are about as good
EXPECTED = 0.8  # the part of the expected loss
MOST = 7.0  # what a kernel loses at most
DAMPING = 2.0  # of what few problems say
SCALE = 4  # costs are whole numbers: this is 1
DRAWN = 40_000  # problems, of which --uncertain prints some
COMMITTEE, SHARE = 5, 0.65  # forests that it asks, each fitted to this share of the cases

ODD = "({0} % {1} != 0) + ({0} % {2} != 0) + ({0} % {3} != 0)"

# A name for a question, and what it asks in terms of a Problem problem of choose.h: whole numbers.
FEATURES = {
    "outputs": "outputs(problem)",
    "outputs_of_channel": "outputs(problem) / problem.channels",
    "inputs": "problem.batch * problem.channels * problem.y.in * problem.x.in",
    "work": "double(outputs(problem)) * double(problem.taps())",
    "batch": "problem.batch",
    "channels": "problem.channels",
    "taps": "problem.taps()",
    "taps_y": "problem.y.taps",
    "taps_x": "problem.x.taps",
    "least_taps": "std::min(problem.y.taps, problem.x.taps)",
    "out_pixels": "problem.y.out * problem.x.out",
    "out_y": "problem.y.out",
    "out_x": "problem.x.out",
    "in_pixels": "problem.y.in * problem.x.in",
    "in_y": "problem.y.in",
    "in_x": "problem.x.in",
    "taps_of_column": "16 * problem.y.taps / problem.y.in",
    "taps_of_row": "16 * problem.x.taps / problem.x.in",
    "steps": "double(problem.y.down) * double(problem.x.down) * double(problem.y.up) * double(problem.x.up)",
    "down_y": "problem.y.down",
    "down_x": "problem.x.down",
    "up_y": "problem.y.up",
    "up_x": "problem.x.up",
    "dilation_y": "problem.y.dilation",
    "dilation_x": "problem.x.dilation",
    "element_bytes": "problem.element_bytes()",
    "half": "problem.dtype == Dtype::kFloat16",  # cuDNN is faster than for bfloat16
    "odd_row": ODD.format("(problem.x.in * problem.element_bytes())", 16, 8, 4),  # bytes
    "rest_of_four": "problem.x.out % 4",
    "odd_channels": ODD.format("problem.channels", 8, 4, 2),
}

NATIVE = ("fwd_torch", "wgrad_torch")  # what was timed as a peer stands for these where they could not yet be chosen

ONE_TAP = {"fwd_scale", "wgrad_scale"}  # chosen for it without a question

PROGRAM = """#include <iomanip>
#include <iostream>
#include "cuda/depthwise_conv2d/choose.h"
using namespace customops;
using namespace customops::cuda::depthwise;
int main() {
  std::cout << std::setprecision(17);
  std::string direction;
  int64_t bits, n, c, h, w, kh, kw, sh, sw, ph, pw, dh, dw, last;
  while (std::cin >> direction >> bits >> last >> n >> c >> h >> w >> kh >> kw >> sh >> sw >> ph >> pw >> dh >> dw) {
    const Dtype dtype = bits == 64 ? Dtype::kFloat64 : bits == 32 ? Dtype::kFloat32
                        : bits == 16 ? Dtype::kFloat16 : Dtype::kBFloat16;
    const ConvAxis y{h, (h + 2 * ph - dh * (kh - 1) - 1) / sh + 1, kh, sh, ph, dh};
    const ConvAxis x{w, (w + 2 * pw - dw * (kw - 1) - 1) / sw + 1, kw, sw, pw, dw};
    const bool dgrad = direction == "dgrad", wgrad = direction == "wgrad";
    const MetWindow met = wgrad ? MetWindow{y, x, 0, 0} : met_window(n, c, y, x, last != 0, dgrad);
    const Problem problem =
        simplified({n, c, dgrad ? dgrad_axis(met.y) : forward_axis(met.y), dgrad ? dgrad_axis(met.x)
                    : forward_axis(met.x), last != 0, dgrad, dtype, false, 16, 16});
    const Choice choice = wgrad ? choose_wgrad(problem, kH200) : choose_forward(problem, kH200);
    std::cout << (choice.copies_to_planes ? "planes:" : "") << name_of(choice.kernel) << ' ';
    for (int i = 0; i < kKernels; ++i) {
      if ((name_of(Kernel(i))[0] == 'w') != wgrad) continue;
      for (const bool planes : {false, true})
        if ((last || !planes) && may_choose({Kernel(i), planes}, problem, kH200))
          std::cout << (planes ? "planes:" : "") << name_of(Kernel(i)) << ' ';
    }
    std::cout << ';';
    for (const double value : {FEATURES}) std::cout << ' ' << value;
    std::cout << std::endl;
  }
}
"""
BITS = {"float64": 64, "float32": 32, "float16": 16, "bfloat16": 17}


def describe(cases: list[tuple[str, sweep_cases.Problem]]) -> list[tuple[list[str], list[float]]]:
    """What is chosen now and all kernels that can compute each problem, and its features: by choose.h itself."""
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder, "describe.cpp"), Path(folder, "describe")
        source.write_text(PROGRAM.replace("FEATURES", ", ".join(map("double({})".format, FEATURES.values()))))
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
    """Of one direction and layout: features, and what choosing each kernel loses: infinity where it cannot compute it."""

    def __init__(self, rows: list[dict], cases: list, described: list):
        self.features = np.array([values for _, values in described])
        takes = [set(kernels) for kernels, _ in described]
        self.torch = np.array([min((r["us"][k] for k in PEERS if k in r["us"]), default=math.inf) for r in rows])
        every = sorted(set().union(*takes))
        times = np.array([self._times(row, taken, every) for row, taken in zip(rows, takes, strict=True)])
        self.least = times.min(axis=1)
        kept = (times == self.least[:, None]).sum(axis=0) >= RARE
        self.kernels = [name for name, keep in zip(every, kept, strict=True) if keep]
        self.times = times[:, kept]
        self.before = times[np.arange(len(rows)), [every.index(kernels[0]) for kernels, _ in described]]
        slower = self.times > self.torch[:, None] / SLOW
        copies = Counter(map(id, rows))
        counted = np.array([copies[id(row)] > 1 for row in rows])  # the benchmarks' rows
        slower |= counted[:, None] & (self.times > ROW_SLOWER * self.least[:, None])
        self.loss = np.log(self.times / np.minimum(self.least, self.torch)[:, None]) + PENALTY * slower
        self.loss += PREFERENCE * np.array([name.endswith(("_torch", "_cudnn")) for name in self.kernels])
        names = [str(problem) for _, problem in cases]  # the same in all directions: one fold
        self.fold = np.array([zlib.crc32(name.encode()) % 5 for name in names])
        self.once = np.unique([id(row) for row in rows], return_index=True)[1]  # without the rows' copies

    def _times(self, row: dict, taken: set[str], every: list[str]) -> list[float]:
        us = {name: row["us"]["native"] for name in NATIVE if "native" in row["us"]} | row["us"]
        slow = UNKNOWN * min(us.values())
        return [us.get(name, slow) if name in taken else math.inf for name in every]


def softmax(logits: np.ndarray) -> np.ndarray:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def questions(features: np.ndarray) -> list[tuple[int, int]]:
    """(feature, threshold) of all questions that a tree may ask: whether the feature is at least that."""
    found = []
    for feature, column in enumerate(features.T):
        values = np.unique(column)
        if len(values) > THRESHOLDS:
            chosen = np.quantile(column, np.linspace(0, 1, THRESHOLDS + 1)[1:-1], method="nearest")
            at = np.unique(np.searchsorted(values, chosen))
        else:
            at = np.arange(len(values))
        found += [(feature, rounded(values[i - 1], values[i])) for i in at if i > 0]
    return found


class Softmax:
    """Costs as logits of a softmax: the best kernels are likely, and the mean loss is small."""

    def __init__(self, loss: np.ndarray):
        self.takes = np.isfinite(loss)
        self.wanted, self.limited = softmax(-loss / SOFTNESS), np.where(self.takes, np.minimum(loss, MOST), 0)

    def derivatives(self, costs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """By each kernel's cost: minus the first derivative, which is where the cost has to go, and the second."""
        chances = softmax(np.where(self.takes, -costs, -np.inf))
        above_mean = self.limited - (chances * self.limited).sum(axis=1, keepdims=True)
        slope = (1 - EXPECTED) * (chances - self.wanted) + EXPECTED * chances * above_mean
        return slope, chances * (1 - chances)


class LeastSquares:
    """Costs that are the loss itself, in the unit of the logits."""

    def __init__(self, loss: np.ndarray):
        self.takes = np.isfinite(loss)
        self.wanted = np.where(self.takes, np.minimum(loss, MOST), 0) / SOFTNESS

    def derivatives(self, costs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """As those of Softmax."""
        return np.where(self.takes, self.wanted - costs, 0), self.takes.astype(np.float64)


def grow(table: Table, rows: np.ndarray) -> list[tuple[list, np.ndarray]]:
    """Trees: DEPTH (feature, threshold), and the costs of the kernels for each combination of answers."""
    features, loss = table.features[rows], table.loss[rows]
    asked = questions(features)
    answers = np.array([features[:, feature] >= threshold for feature, threshold in asked], dtype=np.float64)
    trees = []
    for objective in (Softmax(loss), LeastSquares(loss)):
        costs = np.zeros(loss.shape)
        for _ in range(TREES):
            slopes = np.concatenate(objective.derivatives(costs), axis=1)
            leaf, tree = np.zeros(len(rows), dtype=int), []
            for _ in range(DEPTH):
                tree.append(best_question(slopes, leaf, answers))
                leaf = 2 * leaf + answers[tree[-1]].astype(int)
            slope, curvature = np.split(one_hot(leaf, 2**DEPTH).T @ slopes, 2, axis=1)
            step = np.rint(SCALE * RATE * slope / (curvature + DAMPING)).astype(int)
            costs += step[leaf] / SCALE
            trees.append(([asked[question] for question in tree], step - step.min(axis=1, keepdims=True)))
    return trees


def one_hot(leaf: np.ndarray, leaves: int) -> np.ndarray:
    return (leaf[:, None] == np.arange(leaves)).astype(np.float64)


def best_question(slopes: np.ndarray, leaf: np.ndarray, answers: np.ndarray) -> int:
    """Which of the answers splits all leaves with the largest gain together."""
    leaves = leaf.max() + 1
    by_leaf = (one_hot(leaf, leaves)[:, :, None] * slopes[:, None, :]).reshape(len(leaf), -1)
    yes = (answers @ by_leaf).reshape(len(answers), leaves, -1)
    no = by_leaf.sum(axis=0).reshape(leaves, -1) - yes
    gain = 0
    for side in (yes, no):
        slope, curvature = np.split(side, 2, axis=2)
        gain = gain + (slope**2 / (curvature + DAMPING)).sum(axis=(1, 2))
    return int(gain.argmax())


def rounded(low: float, high: float) -> int:
    """A number above `low` and at most `high`, of few digits."""
    middle = math.sqrt(low * high) if low > 0 else (low + high) / 2
    for digits in range(1, 12):
        scale = 10 ** max(0, math.floor(math.log10(max(middle, 1))) + 1 - digits)
        for number in (math.ceil(middle / scale) * scale, math.floor(middle / scale) * scale):
            if low < number <= high:
                return int(number)
    return int(high)


def add_costs(trees: list, features: np.ndarray, takes: np.ndarray) -> np.ndarray:
    """What each kernel costs for each problem: infinity where it cannot compute it."""
    costs = np.zeros(takes.shape)
    for tree, step in trees:
        leaf = 0
        for feature, threshold in tree:
            leaf = 2 * leaf + (features[:, feature] >= threshold)
        costs += step[leaf]
    return np.where(takes, costs, np.inf)


def predict(trees: list, table: Table) -> np.ndarray:
    """The number of the kernel that is chosen for each problem."""
    return add_costs(trees, table.features, np.isfinite(table.loss)).argmin(axis=1)


def uncertainty(table: Table, features: np.ndarray, takes: np.ndarray) -> np.ndarray:
    """Of problems: how much forests of parts of the cases differ in their choice, and most of all whether it is torch's."""
    generator, every = np.random.default_rng(0), np.arange(len(table.torch))
    parts = [every[generator.random(len(every)) < SHARE] for _ in range(COMMITTEE)]
    # The mean of both objectives.
    costs = [add_costs(grow(table, part), features, takes) / (2 * SCALE) for part in parts]
    votes = np.mean([one_hot(c.argmin(axis=1), takes.shape[1]) for c in costs], axis=0)
    chances = np.mean([softmax(-c) for c in costs], axis=0)
    torchs = chances[:, [name.endswith(("_torch", "_cudnn")) for name in table.kernels]].sum(axis=1)
    return (1 - votes.max(axis=1)) + (1 - chances.max(axis=1)) / 2 + 2 * np.minimum(torchs, 1 - torchs)


def least_certain(tables: dict[str, Table], measured: set[str], seed: int, count: int) -> list[str]:
    """The `count` of DRAWN random problems, in one direction each, whose choice is the least certain; none twice."""
    drawn = [sweep_cases.draw(seed, index, "cuda") for index in range(DRAWN)]
    named = {f"{direction} {p}": (direction, p) for p in drawn for direction in sweep_cases.DIRECTIONS}
    lines = [line for line, case in named.items() if line not in measured and group(*case)]
    cases = [named[line] for line in lines]
    groups, described = [group(*case) for case in cases], describe(cases)
    scores = np.zeros(len(cases))
    for name, table in tables.items():
        members = [i for i, g in enumerate(groups) if g == name]
        takes = np.array([np.isin(table.kernels, described[i][0][1:]) for i in members])
        scores[members] = uncertainty(table, np.array([described[i][1] for i in members]), takes)
    return [lines[i] for i in np.argsort(-scores)[:count]]


def score(table: Table, times: np.ndarray) -> tuple[int, float]:
    """How many problems are slower than 0.95 of torch's speed, and the mean time over the least."""
    torch, least, times = (column[table.once] for column in (table.torch, table.least, times))
    return int((torch / times < 0.95).sum()), math.exp(np.log(times / least).mean())


def check(tables: dict[str, Table], forests: dict) -> None:
    total = np.zeros(4, dtype=int)
    for name, table in tables.items():
        everything = np.arange(len(table.torch))
        unseen = np.empty(len(everything))
        for part in range(5):
            chosen = predict(grow(table, everything[table.fold != part]), table)
            unseen = np.where(table.fold == part, table.times[everything, chosen], unseen)
        times = (table.before, table.times[everything, predict(forests[name], table)], unseen)
        (before, now, cross), means = zip(*(score(table, t) for t in times), strict=True)
        total += (len(table.once), before, now, cross)
        print(
            f"{name}: {len(table.once)} problems; below 0.95 before {before}, now {now}, of problems not seen {cross}; "
            "mean time over the least " + ", ".join(f"{mean:.3f}" for mean in means)
        )
    print("all: {} problems; below 0.95 before {}, now {}, of problems not seen {}".format(*total))


def compare(tables: dict[str, Table], forests: dict, chosen: dict[str, list[str]]) -> None:
    """Fails where the C++ does not choose what was fitted."""
    for name, table in tables.items():
        expected = [table.kernels[k] for k in predict(forests[name], table)]
        differ = sum(a != b for a, b in zip(expected, chosen[name], strict=True))
        if differ:
            raise SystemExit(f"{name}: the C++ chooses another kernel for {differ} of {len(expected)} problems")
        print(f"{name}: the C++ chooses the same for all {len(expected)} problems")


def camel(name: str) -> str:
    return "k" + "".join(word.capitalize() for word in name.split("_"))


def wrap(text: str, first: str, rest: str) -> str:
    return textwrap.fill(text, 120, initial_indent=first, subsequent_indent=rest, break_long_words=False)


def forest_code(name: str, kernels: list[str], trees: list) -> str:
    """The forest as a table of C++."""
    names = [camel(feature) for feature in FEATURES]
    listed = [
        f"{{Kernel::{camel(kernel.removeprefix('planes:'))}, {str(kernel.startswith('planes:')).lower()}}}"
        for kernel in kernels
    ]
    kind = f"constexpr Forest<{DEPTH}, {len(kernels)}, {len(trees)}> {camel(name)}"
    lines = [wrap(f"{kind}{{{{{', '.join(listed)}}},", "", "    "), "{"]
    for tree, step in trees:
        asked = ", ".join(f"{{{names[feature]}, {threshold}}}" for feature, threshold in tree)
        digits = "".join(chr(ord("0") + cost) for leaf in step for cost in leaf)
        if "\\" in digits:
            raise SystemExit(f"{name}: a cost would be a backslash in a string of C++: lower SCALE")
        lines.append(wrap(f"{{{{{asked}}},", "  ", "     "))
        width = 112 // len(kernels) * len(kernels)  # whole leaves
        lines.append("\n".join(f'     "{digits[i : i + width]}"' for i in range(0, len(digits), width)) + "},")
    return "\n".join([*lines, "}};"])


def header(forests: dict, tables: dict[str, Table], about: str) -> str:
    names = wrap("enum Feature : uint8_t { " + ", ".join(map(camel, FEATURES)) + " };", "", "    ")
    values = "\n".join(f"      double({value})," for value in FEATURES.values())
    code = "\n\n".join(forest_code(name, tables[name].kernels, forests[name]) for name in forests)
    about = wrap(f"From {about}.", "// ", "// ")
    return HEAD.format(about=about, names=names, count=len(FEATURES), values=values, forests=code)


HEAD = """// Which kernel was fastest where: written by benchmarks/fit_choice.py, which says how; not to be edited.
{about}
#pragma once

#include <array>

#include "forest.h"

// clang-format off
namespace customops::cuda::depthwise::measured {{

{names}
constexpr int kFeatures = {count};

inline std::array<double, kFeatures> features_of(const Problem& problem) {{
  return {{
{values}
  }};
}}

{forests}

}}  // namespace customops::cuda::depthwise::measured
"""


def known(file: Path) -> tuple[list[dict], list, list]:
    """(rows, cases, what describe says) of one file: those for which all kernels were tried that can compute them today."""
    facts, *rows = map(json.loads, file.read_text().splitlines())
    cases, tried = [sweep_cases.parse(row["case"]) for row in rows], ONE_TAP | set(facts["kernels"])
    described = describe(cases)
    chosen = [i for i, (takes, _) in enumerate(described) if {name.removeprefix("planes:") for name in takes} <= tried]
    return tuple([part[i] for i in chosen] for part in (rows, cases, described))


def group(direction: str, problem: sweep_cases.Problem) -> str | None:
    """The forest that choose.h asks about a problem, if any."""
    pixels = problem.layout == "nhwc" and problem.shape[1] > 1
    if problem.kernel == (1, 1):  # fwd_scale, wgrad_scale
        return None
    return f"{direction}_{'nhwc' if pixels else 'nchw'}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--uncertain", metavar="N", type=int)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    files = [part for file in args.files for part in [known(file)] * (ROWS if "benchmark-rows" in file.name else 1)]
    rows, cases, described = (list(itertools.chain.from_iterable(parts)) for parts in zip(*files, strict=True))
    groups = [group(*case) for case in cases]
    members = {name: [i for i, group in enumerate(groups) if group == name] for name in GROUPS}
    columns = (rows, cases, described)
    tables = {name: Table(*([part[i] for i in chosen] for part in columns)) for name, chosen in members.items()}
    if args.uncertain:
        print(*least_certain(tables, {row["case"] for row in rows}, args.seed, args.uncertain), sep="\n")
        return
    forests = {name: grow(table, np.arange(len(table.torch))) for name, table in tables.items()}
    facts = [json.loads(file.read_text().splitlines()[0]) for file in args.files]
    machines = sorted({f"{fact['device']} with torch {fact['torch']}" for fact in facts})
    count = len({str(case) for case, group in zip(cases, groups, strict=True) if group})
    TARGET.write_text(header(forests, tables, f"{count} problems, each in one direction, on {', '.join(machines)}"))
    print(f"{TARGET}: {TARGET.stat().st_size} bytes")
    if args.check:
        check(tables, forests)
        now = describe(cases)
        compare(tables, forests, {name: [now[i][0][0] for i in chosen] for name, chosen in members.items()})


if __name__ == "__main__":
    main()
