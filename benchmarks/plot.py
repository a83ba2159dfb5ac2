"""Draws benchmarks/results/*.json as *.svg: time over the floor of every row, ours and the peers'; and those in
sweep/: speed, as a multiple of torch's best, of every case of a sweep.

python benchmarks/plot.py [--output=FOLDER]        needs matplotlib
"""

import argparse
import json
import sys
from pathlib import Path

from harness import FLOOR, RESULTS

COLOURS = ["#1b6ca8", "#c9772b", "#8a8a8a", "#6b9e4b", "#9b59b6"]


DIRECTION_COLOURS = {"fwd": COLOURS[0], "dgrad": COLOURS[1], "wgrad": COLOURS[3]}


def draw(path: Path, pyplot) -> Path:
    result = json.loads(path.read_text())
    rows, peers = result["rows"], [name for name in result["rows"][0]["us"] if name != FLOOR]
    height = 0.8 / len(peers)
    many = len(rows) > 60
    figure, axes = pyplot.subplots(figsize=(8, 0.9 + (0.16 if many else 0.42) * len(rows)))
    for number, (peer, colour) in enumerate(zip(peers, COLOURS, strict=False)):
        ratios = [row["us"].get(peer, float("nan")) / row["us"][FLOOR] for row in rows]
        places = [index + (number - (len(peers) - 1) / 2) * height for index in range(len(rows))]
        axes.barh(places, ratios, height, color=colour, label=peer)
    axes.axvline(1, color="black", linewidth=0.8)
    if axes.get_xlim()[1] > 20:
        axes.set_xscale("log")
        axes.set_xlim(left=0.7)
        axes.xaxis.set_major_formatter("{x:g}")
    axes.set_yticks(range(len(rows)), [row["name"] for row in rows], fontsize=6 if many else None)
    axes.margins(y=0.01)
    axes.invert_yaxis()
    axes.set_xlabel("time / time of copying as many bytes (less is better)")
    axes.set_title(f"{result['op']} on {result['device']}, torch {result['torch']}, {result['date']}", fontsize=10)
    axes.legend(fontsize=8)
    return save(figure, path, pyplot)


def draw_sweep(path: Path, pyplot) -> Path:
    result = json.loads(path.read_text())
    figure, axes = pyplot.subplots(figsize=(8, 5))
    for direction, colour in DIRECTION_COLOURS.items():
        cases = [c for c in result["cases"] if c["case"].split()[0] == direction and c.get("ratio") is not None]
        times = [min(us for name, us in case["us"].items() if name != "customops") for case in cases]
        axes.scatter(times, [case["ratio"] for case in cases], 7, colour, label=direction, alpha=0.6, linewidths=0)
    axes.axhline(1, color="black", linewidth=0.8)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_xlabel("microseconds of torch's best")
    axes.set_ylabel("torch's best / ours (more is better)")
    numbers = f"{len({case['index'] for case in result['cases']})} problems of seed {result['seed']}"
    axes.set_title(f"{result['op']} on {result['device']}, torch {result['torch']}, {numbers}", fontsize=10)
    axes.legend(fontsize=8)
    return save(figure, path, pyplot)


def save(figure, path: Path, pyplot) -> Path:
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    target = path.with_suffix(".svg")
    figure.savefig(target, metadata={"Date": None})
    pyplot.close(figure)
    return target


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=RESULTS)
    folder = parser.parse_args().output
    try:
        import matplotlib
    except ModuleNotFoundError:
        sys.exit("no plots: matplotlib is not installed (pip install matplotlib, then python benchmarks/plot.py)")
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "customops"  # the same results give the same file
    from matplotlib import pyplot

    for path in sorted(folder.glob("*.json")):
        print(draw(path, pyplot))
    for path in sorted(folder.glob("sweep/*.json")):
        print(draw_sweep(path, pyplot))


if __name__ == "__main__":
    main()
