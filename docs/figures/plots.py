"""The plots: every measurement is a point on a logarithmic axis. `plots()` names them all, `draw()` makes one."""

from collections.abc import Callable

import style
from matplotlib import pyplot
from results import (
    FLOOR,
    OURS,
    Result,
    benchmarks,
    builders_of,
    device,
    direction,
    farm_model,
    machine,
    recorded,
    sweeps,
    torchs_best,
)

WIDTH = 7.4  # inches
DEFAULT_FLOOR = "the floor"  # results older than the field `floor`


def unique(values) -> list:
    return list(dict.fromkeys(values))


def limits(values: list[float]) -> tuple[float, float]:
    """Of an axis on which all values lie, with room for their markers; 1 is on it, too."""
    low, high = min(*values, 1), max(*values, 1)
    room = (high / low) ** 0.04 * 1.04
    return low / room, high * room


def legend(figure, title: str = "") -> None:
    """Above the panels, outside of them; ours first."""
    handles, labels = [], []
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            if label not in labels:
                handles.append(handle)
                labels.append(label)
    order = sorted(range(len(labels)), key=lambda number: (labels[number] != OURS, number))
    figure.legend(
        [handles[number] for number in order], [labels[number] for number in order], loc="outside upper left",
        ncols=5, columnspacing=1.2, handletextpad=0.2, title=title, alignment="left", title_fontsize=9,
    )  # fmt: skip


def benchmark(result: Result, theme: style.Theme):
    """Time over the floor, of ours and the peers: a panel for each dtype, memory format and direction."""
    directions = unique(row.direction for row in result.rows)
    split = len(directions) > 1  # otherwise one panel holds everything
    kinds = unique((row.dtype, row.format) for row in result.rows) if split else [("", "")]
    label = (lambda row: row.case) if split else (lambda row: f"{row.case} {row.dtype}".strip())
    of_kind = [[r for r in result.rows if not split or (r.dtype, r.format) == kind] for kind in kinds]
    cases = [unique(map(label, rows)) for rows in of_kind]  # not every case is measured in every dtype
    peers = unique(name for row in result.rows for name in row.us if name != FLOOR)
    height = sum(0.19 * len(of_line) + 0.32 for of_line in cases) + 1.1
    figure, grid = pyplot.subplots(
        len(kinds),
        len(directions),
        figsize=(WIDTH, height),
        sharex=True,
        sharey="row",
        squeeze=False,
        height_ratios=[len(of_line) for of_line in cases],
        layout="constrained",
    )
    everything = [us / row.us[FLOOR] for row in result.rows for name, us in row.us.items() if name != FLOOR]
    for line, kind in enumerate(kinds):
        for column, way in enumerate(directions):
            axes = grid[line][column]
            rows = [r for r in of_kind[line] if not split or r.direction == way]
            places = [cases[line].index(label(r)) for r in rows]
            ends = [[us / r.us[FLOOR] for name, us in r.us.items() if name != FLOOR] for r in rows]
            axes.hlines(places, [min(e) for e in ends], [max(e) for e in ends], color=theme.faint, linewidth=0.8)
            axes.axvline(1, color=theme.ink, linewidth=0.7)
            for number, peer in reversed(list(enumerate(peers))):  # ours on top
                points = [(r.us[peer] / r.us[FLOOR], y) for r, y in zip(rows, places, strict=True) if peer in r.us]
                axes.plot(
                    [x for x, _ in points], [y for _, y in points], style.MARKERS[number], color=theme.colours[number],
                    label=peer, markersize=4.5 if number else 5, markeredgewidth=0.9 if number else 0,
                    fillstyle="none" if number else "full",  # of peers: one as fast as another does not hide it
                    zorder=3 + (number == 0),
                )  # fmt: skip
            axes.set_title(" ".join(filter(None, (*kind, way))))
            axes.grid(axis="x", zorder=0)
        axes.set_yticks(range(len(cases[line])), cases[line])
        axes.set_ylim(len(cases[line]) - 0.5, -0.5)
    axes.set_xscale("log")
    axes.set_xlim(*limits(everything))
    for axes in grid[-1]:
        style.log_axis(axes.xaxis)
    figure.supxlabel(f"time / time of {result.facts.get('floor', DEFAULT_FLOOR)}  (left is faster)", fontsize=9)
    legend(figure, f"{result.op}, {machine(result.facts)}")
    return figure


def speedup(theme: style.Theme):
    """All ops in one plot: how many times faster than the fastest peer, a point for every row of every benchmark."""
    found = benchmarks()
    lanes = [(f"{result.op}, {device(result.facts)}", result) for result in found]
    figure, axes = pyplot.subplots(figsize=(WIDTH, 0.34 * len(lanes) + 1.0), layout="constrained")
    values = [row.speedup for _, result in lanes for row in result.rows]
    for place, (_, result) in enumerate(lanes):
        rows = result.rows
        offsets = [0.26 * ((number * 0.618034) % 1 - 0.5) for number in range(len(rows))]  # points beside each other
        axes.plot(
            [row.speedup for row in rows], [place + offset for offset in offsets], "o",
            color=theme.colours[0 if result.device == "cuda" else 1], label="GPU" if result.device == "cuda" else "CPU",
            markersize=4, markeredgewidth=0, alpha=0.7,
        )  # fmt: skip
    axes.axvline(1, color=theme.ink, linewidth=0.8)
    axes.set_xscale("log")
    axes.set_xlim(*limits(values))
    style.log_axis(axes.xaxis)
    axes.grid(axis="x")
    axes.set_yticks(range(len(lanes)), [name for name, _ in lanes])
    axes.set_ylim(len(lanes) - 0.5, -0.5)
    figure.supxlabel("times as fast as the fastest of torch, torch.compile and cuDNN  (right is faster)", fontsize=9)
    legend(figure)
    return figure


def sweep(kind: str, theme: style.Theme):
    """Every case of the sweeps on one kind of device: torch's best time and our speed relative to it, by direction."""
    runs = [run for run in sweeps() if ("driver" in run) == (kind == "cuda")]
    cases = [case for run in runs for case in run["cases"]]
    directions = unique(map(direction, cases))
    figure, grid = pyplot.subplots(
        1, len(directions), figsize=(WIDTH, 3.4), sharex=True, sharey=True, squeeze=False, layout="constrained"
    )
    for axes, way in zip(grid[0], directions, strict=True):
        mine = [case for case in cases if direction(case) == way]
        axes.plot(
            [torchs_best(case) for case in mine], [case["ratio"] for case in mine], "o", color=theme.colours[0],
            label="one problem", markersize=2.6, markeredgewidth=0, alpha=0.55,
        )  # fmt: skip
        axes.axhline(1, color=theme.ink, linewidth=0.8)
        axes.set_title(way)
        axes.grid()
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(*limits([torchs_best(case) for case in cases]))
    axes.set_ylim(*limits([case["ratio"] for case in cases]))
    for axes in grid[0]:
        style.log_axis(axes.xaxis, most=4)
    style.log_axis(grid[0][0].yaxis)
    grid[0][0].set_ylabel("times as fast as torch's best\n(up is faster)")
    figure.supxlabel("microseconds of torch's best", fontsize=9)
    titles = unique(machine(run) for run in runs)
    between = ";\n"  # several days are too long for a line
    legend(figure, f"depthwise_conv2d, {between.join(titles)}, {len(cases)} cases")  # the table names the seeds
    return figure


def farm(theme: style.Theme):
    """Seconds of a wheel by the number of builders: by the model, and where work that can be divided at will would be."""
    facts = recorded("farm-release")
    record, counts = farm_model.read(facts), farm_model.BUILDERS
    predicted = {count: farm_model.predict(record, count) for count in counts}
    compiling = {count: farm_model.compiling(record, count) for count in counts}
    lines = {
        "list, compile, transfer, link": [predicted[count].seconds for count in counts],
        "compilers alone, whole objects": list(compiling.values()),
        "compilers alone, divided evenly": [compiling[1] / count for count in counts],
    }
    figure, axes = pyplot.subplots(figsize=(WIDTH, 3.2), layout="constrained")
    for place, (name, seconds) in enumerate(lines.items()):
        axes.plot(
            counts, seconds, style.MARKERS[place], color=theme.colours[place], label=name, linestyle="-", linewidth=1,
            markersize=4.5,
        )  # fmt: skip
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlim(counts[0] / 1.15, counts[-1] * 1.15)
    every = [seconds for line in lines.values() for seconds in line]
    axes.set_ylim(min(every) / 1.2, max(every) * 1.2)
    axes.set_xticks(counts, map(str, counts))
    style.log_axis(axes.yaxis)
    axes.grid()
    axes.set_ylabel("seconds")
    figure.supxlabel("builders", fontsize=9)
    legend(figure, builders_of(facts))
    return figure


def plots() -> dict[str, Callable]:
    """Name of the file, without its ending -> function of a theme that makes the figure."""
    found = {"speedup": speedup, "farm": farm}
    found |= {result.name: lambda theme, result=result: benchmark(result, theme) for result in benchmarks()}
    kinds = unique("cuda" if "driver" in run else "cpu" for run in sweeps())
    found |= {f"sweep-{kind}": lambda theme, kind=kind: sweep(kind, theme) for kind in kinds}
    return found
