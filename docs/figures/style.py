"""How every figure looks, light and dark, and how it is written: the same input gives the same bytes."""

from pathlib import Path
from typing import NamedTuple

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot


class Theme(NamedTuple):
    suffix: str  # of the file's name
    ink: str
    faint: str
    colours: tuple[str, ...]  # ours first; told apart by readers who don't see red and green, too


LIGHT = Theme("", "#24292f", "#c9ced6", ("#0b66c3", "#c2590a", "#6f42a8", "#4d7a1f", "#8a6d00"))
DARK = Theme("-dark", "#dfe3ea", "#4b5360", ("#5fb2ff", "#ff9f4a", "#c39bff", "#9bd05a", "#e5c558"))
THEMES = (LIGHT, DARK)
MARKERS = ("o", "s", "D", "^", "v")


def use(theme: Theme) -> None:
    matplotlib.rcdefaults()
    matplotlib.rcParams.update({
        "svg.hashsalt": "customops",  # ids don't depend on the time
        "svg.fonttype": "none",  # text stays text: small files that can be searched
        "font.family": "sans-serif",
        "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial", "sans-serif"],
        "font.size": 9,
        "axes.titlesize": 9,
        "text.color": theme.ink,
        "axes.labelcolor": theme.ink,
        "axes.edgecolor": theme.faint,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.facecolor": "none",
        "figure.facecolor": "none",
        "grid.color": theme.faint,
        "grid.linewidth": 0.5,
        "legend.frameon": False,
        "savefig.facecolor": "none",
        "xtick.color": theme.ink,
        "ytick.color": theme.ink,
    })  # fmt: skip


def log_axis(axis, most: int = 20) -> None:
    """Ticks at 1, 2 and 5, or at powers of ten, as numbers that people read; no more than fit."""
    span = axis.get_view_interval()
    decades = span[1] / span[0]
    axis.set_major_locator(matplotlib.ticker.LogLocator(subs=(1, 2, 5) if decades < 50 else (1,), numticks=most))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter("")


def save(figure, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target, format="svg", metadata={"Date": None, "Creator": None})
    pyplot.close(figure)
