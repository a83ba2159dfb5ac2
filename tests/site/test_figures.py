"""Tables and plots: as benchmarks/results/ has them, and nothing cut off or covered in a plot."""

import importlib.util
import itertools
import re

import pictures
import plots
import pytest
import style
import tables
from conftest import ROOT

spec = importlib.util.spec_from_file_location("generator", ROOT / "docs/figures/__main__.py")
generator = importlib.util.module_from_spec(spec)
spec.loader.exec_module(generator)

PROSE = ("README.md", "docs/index.md", "docs/performance.md", "docs/limits.md", "docs/depthwise-limits.md")
MEASURED = re.compile(r"\d(?:\.\d+)? ?(?:us|ms|x|times|%|MB|GB|minutes|min|seconds)\b")


@pytest.mark.parametrize("page", generator.pages(), ids=lambda page: page.name)
def test_tables_are_up_to_date(page):
    assert generator.filled(page) == page.read_text(), f"{page.name} is older than benchmarks/results: make figures"


def test_images_are_up_to_date(tmp_path):
    generator.images(tmp_path)
    assert not generator.stale(ROOT / "docs/img", tmp_path), "make figures"


def test_every_block_is_on_a_page():
    text = "".join(page.read_text() for page in generator.pages())
    assert not [name for name in tables.BLOCKS if f"<!-- figures: {name} -->" not in text]


@pytest.mark.parametrize("page", [ROOT / name for name in PROSE if (ROOT / name).exists()], ids=lambda page: page.name)
def test_no_measured_number_is_typed_by_hand(page):
    text = generator.BLOCK.sub("", page.read_text())
    text = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    assert not MEASURED.findall(text), [line for line in text.splitlines() if MEASURED.search(line)]


@pytest.fixture(scope="module", params=sorted(plots.plots()))
def figure(request):
    style.use(style.LIGHT)
    figure = plots.plots()[request.param](style.LIGHT)
    figure.set_label(request.param)
    figure.draw_without_rendering()
    yield figure
    style.pyplot.close(figure)


def test_every_value_lies_inside_its_axes(figure):
    count = 0
    for axes in figure.axes:
        (left, right), (bottom, top) = sorted(axes.get_xlim()), sorted(axes.get_ylim())
        for line in [line for line in axes.lines if line.get_marker() != "None"]:
            for x, y in line.get_xydata():
                assert left < x < right and bottom < y < top, f"{axes.get_title()}: ({x}, {y}) is cut off"
                count += 1
    assert count >= 10


def boxes_of_text(figure):
    found = []
    for text in figure.findobj(style.matplotlib.text.Text):
        if text.get_visible() and text.get_text().strip():
            found.append((text.get_text(), text.get_window_extent()))
    return found


def test_nothing_is_cut_off(figure):
    width, height = figure.get_size_inches()
    box = figure.get_tightbbox()  # of all that is drawn
    assert box.x0 >= -0.01 and box.x1 <= width + 0.01 and box.y0 >= -0.01 and box.y1 <= height + 0.01


def test_legends_are_outside_and_cover_nothing(figure):
    (legend,) = figure.legends
    box = legend.get_window_extent()
    for axes in figure.axes:
        assert axes.get_legend() is None
        assert not box.overlaps(axes.get_tightbbox()), f"the legend covers {axes.get_title()!r}"


@pytest.mark.parametrize("name", pictures.PICTURES)
def test_text_of_pictures_fits(name):
    style.use(style.LIGHT)
    figure = pictures.PICTURES[name](style.LIGHT)
    figure.draw_without_rendering()
    width, height = figure.get_size_inches() * figure.dpi
    texts = boxes_of_text(figure)
    for text, box in texts:
        assert box.x0 >= 0 and box.x1 <= width and box.y0 >= 0 and box.y1 <= height, f"{text!r} is cut off"
    for (one, a), (other, b) in itertools.combinations(texts, 2):
        assert not a.overlaps(b), f"{one!r} covers {other!r}"
    style.pyplot.close(figure)


def test_axis_names_the_floor_of_its_data(figure):
    floors = {result.name: result.facts.get("floor", plots.DEFAULT_FLOOR) for result in plots.benchmarks()}
    floors["farm"] = "builders"
    assert floors.get(figure.get_label(), "torch") in figure.get_supxlabel()
