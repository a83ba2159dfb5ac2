"""The pictures of the home page: how a wheel is made, and which library a machine opens."""

import ast

import style
from matplotlib import pyplot
from matplotlib.patches import FancyBboxPatch
from results import ROOT

WIDTH = 6.4  # inches


def canvas(height: float):
    figure = pyplot.figure(figsize=(WIDTH, height))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, WIDTH)
    axes.set_ylim(height, 0)
    axes.set_axis_off()
    return figure, axes


def box(axes, theme, x, y, width, height, title, text="", colour=None):
    """A box at its upper left corner, in inches; returns the middle of its right edge and of its left edge."""
    edge = colour or theme.faint
    axes.add_patch(
        FancyBboxPatch(
            (x, y), width, height, "round,pad=0,rounding_size=0.08", facecolor="none", edgecolor=edge, linewidth=1.4
        )
    )
    if text:
        axes.text(x + 0.12, y + 0.12, title, weight="bold", va="top", fontsize=9.5)
        axes.text(x + 0.12, y + 0.36, text, va="top", fontsize=8.5, linespacing=1.45)
    else:
        axes.text(x + width / 2, y + height / 2, title, weight="bold", va="center", ha="center", fontsize=9.5)
    return (x + width, y + height / 2), (x, y + height / 2)


def arrow(axes, theme, start, end, text=""):
    style_ = {"arrowstyle": "-|>", "color": theme.ink, "linewidth": 1.1, "shrinkA": 2, "shrinkB": 2}
    axes.annotate("", end, start, arrowprops=style_)
    if text:
        axes.text((start[0] + end[0]) / 2 + 0.1, (start[1] + end[1]) / 2, text, va="center", fontsize=8.5)


def pipeline(theme: style.Theme):
    """From locked inputs to a checked wheel, one step under the other: what has a network, and what leaves it."""
    steps = (
        (
            "1  fetch",
            "reads docker/locks/, downloads, verifies every sha256",
            "the only step with a network",
            theme.colours[1],
        ),
        (
            "2  image",
            "Debian packages, CPython, compilers of CUDA 12 and 13",
            "no registry, no network",
            theme.colours[0],
        ),
        ("3  wheel", "cibuildwheel, auditwheel, our check of tag and symbols", "no network", theme.colours[0]),
        ("4  test", "installs the wheel where no compiler and no source is", "no network", theme.colours[0]),
    )
    figure, axes = canvas(5.0)
    y = 0.1
    for number, (title, text, network, colour) in enumerate(steps):
        box(axes, theme, 0.1, y, WIDTH - 0.2, 0.68, title, text, colour)
        axes.text(WIDTH - 0.25, y + 0.12, network, va="top", ha="right", fontsize=8.5, color=colour, weight="bold")
        arrow(
            axes,
            theme,
            (1.0, y + 0.68),
            (1.0, y + 0.98),
            ("hashes match", "pinned image", "one file", "every op tested")[number],
        )
        y += 0.98
    box(axes, theme, 0.1, y, WIDTH - 0.2, 0.92, "dist/customops-...-py3-none-manylinux_2_28_x86_64.whl",
        "build record, SBOM, licences and provenance inside and beside it\nmake reproduce: a second build gives the same bytes", theme.colours[3])  # fmt: skip
    return figure


def architectures() -> dict[str, tuple[str, ...]]:
    """RELEASES of csrc/nvcc.py for x86-64; it cannot be imported without setuptools."""
    for node in ast.parse((ROOT / "csrc/nvcc.py").read_text()).body:
        if isinstance(node, ast.Assign) and node.targets[0].id == "RELEASES":
            return ast.literal_eval(node.value)["x86_64"]
    raise SystemExit("error: csrc/nvcc.py has no RELEASES any more: docs/figures/pictures.py reads it")


def sm(entries: tuple[str, ...]) -> str:
    return "sm_" + ", ".join(entry.removesuffix("+PTX") for entry in entries)


def libraries(theme: style.Theme):
    """One wheel, three libraries: which of them a machine opens, and when."""
    archs = architectures()
    machines = (
        ("No GPU, or a CPU-only torch", "_cpu.so", "x86-64, AVX2, AVX-512", "at the first use of an op"),
        ("NVIDIA driver 525 or newer", "_cuda12.so", sm(archs["cuda12"]), "when a CUDA tensor meets an op"),
        ("Blackwell GPUs, driver 580 or newer", "_cuda13.so", sm(archs["cuda13"]), "when a CUDA tensor meets an op"),
    )
    figure, axes = canvas(3.75)
    axes.text(0.1, 0.2, "your machine", weight="bold", fontsize=9.5, va="center")
    axes.text(3.45, 0.2, "what customops opens", weight="bold", fontsize=9.5, va="center")
    y = 0.42
    for number, (machine, library, code, when) in enumerate(machines):
        right, _ = box(axes, theme, 0.1, y, 2.95, 0.82, machine)
        extra = "_cpu.so" if number == 0 else f"_cpu.so  +  {library}"
        _, left = box(axes, theme, 3.45, y, WIDTH - 3.55, 0.82, extra, f"{code}\n{when}", theme.colours[1 + number])
        arrow(axes, theme, right, left)
        y += 1.0
    axes.text(
        0.1,
        y + 0.12,
        "One file for CPython from 3.10 and torch from 2.10 on: it uses torch's stable interface alone.",
        fontsize=8.5,
        va="center",
    )
    return figure


PICTURES = {"pipeline": pipeline, "libraries": libraries}
