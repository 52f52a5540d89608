"""Charts as SVG: what is stored of a figure, its form for a phone, and how both get into a page."""

import re
import shutil
import sys
from pathlib import Path
from xml.etree import ElementTree

import nbformat
import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib import rc_params_from_file
from matplotlib.patches import ConnectionPatch

from tools import drawings, execute
from tools.drawings import NARROW, SVG, drawn, look_the_same, narrowed
from tools.text import from_text

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "book" / "_ext"))
import charts  # noqa: E402


@pytest.fixture(autouse=True)
def style():
    """The book's style, and no figure left over."""
    with plt.rc_context(dict(rc_params_from_file(ROOT / "book" / "matplotlibrc", use_default_template=False))):
        yield
    plt.close("all")


def line(**options):
    figure, axes = plt.subplots(figsize=(7, 3), layout="constrained")
    axes.plot([0, 1, 2], [0, 1, 0], "o-", **options)
    axes.set(xlabel="steps", ylabel="loss", title=r"share of $n$-grams, $x_k$")
    return figure


@pytest.mark.slow
def test_what_is_stored_is_short_and_the_same_each_time():
    first, second = drawn(line()), drawn(line())
    assert first == second
    assert not re.search(r"metadata|DOCTYPE|<style|DejaVu|matplotlib|rotate\(-0|\d\.\d{5}", first)
    ids = set(re.findall(r' id="(\w+)"', first))
    assert ids == set(re.findall(r'(?:href="#|url\(#)(\w+)', first))
    assert len(first) < 7000


@pytest.mark.parametrize(("size", "tag"), [((3, 5), "rect"), ((60, 80), "image")])
def test_a_small_matrix_is_drawn_as_rectangles(size, tag):
    figure, axes = plt.subplots()
    image = axes.imshow(np.arange(size[0] * size[1]).reshape(size))
    root = ElementTree.fromstring(drawn(figure))
    (ramp,) = (node for node in root.iter() if node.get("class") == "ramp")
    if tag == "image":
        assert ramp.tag.endswith("}image")
        return
    colours = [
        f"fill: #{''.join(f'{part:02x}' for part in colour[:3])}"
        for colour in image.to_rgba(image.get_array(), bytes=True).reshape(-1, 4)
    ]
    assert sorted(node.get("style") for node in ramp) == sorted(colours)


@pytest.mark.slow
def test_panels_are_stacked_for_a_phone():
    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3), sharey=True, layout="constrained")
    left.set(ylabel="loss", title="one")
    right.set(title="a title with so many words that no phone has room for all of it in a line")
    figure.legend(left.plot([1, 2], [3, 4], label="curve"), ["curve"], loc="outside right upper")
    assert narrowed(figure) is figure
    figure.draw_without_rendering()
    width, height = figure.get_size_inches()
    assert width == drawings.NARROW_INCHES < height
    assert left.get_position().y0 > right.get_position().y1  # above it
    assert right.get_ylabel() == "loss"
    assert "\n" in right.get_title()
    assert any(label.get_visible() and label.get_text() for label in right.get_yticklabels())
    for axes in (left, right):
        box = axes.get_tightbbox()
        assert box.x0 >= 0
        assert box.x1 <= width * figure.dpi


@pytest.mark.slow
@pytest.mark.parametrize("columns", [2, 3])
def test_on_a_phone_every_panel_keeps_the_names_of_its_row_and_its_column(columns):
    """Four stand in one column; of six, each row of the figure becomes a column."""
    figure, grid = plt.subplots(2, columns, figsize=(8, 5), sharex=True, sharey=True, layout="constrained")
    for column, axes in enumerate(grid[0]):
        axes.set_title(f"column {column}")
    for row, axes in enumerate(grid[:, 0]):
        axes.set_ylabel(f"row {row}")
    assert narrowed(figure)
    for row, panels in enumerate(grid):
        for column, axes in enumerate(panels):
            assert (axes.get_title(), axes.get_ylabel()) == (f"column {column}", f"row {row}")
    lefts = {axes.get_subplotspec().colspan.start for axes in grid.flat}
    assert len(lefts) == (1 if columns == 2 else 2)


@pytest.mark.slow
def test_letters_of_narrow_forms_can_be_read_on_a_phone():
    """11 pixels at least, where a page of 390 shows it; indices of formulas may be smaller."""
    small = {}
    for path in sorted((ROOT / "book").glob("*.ipynb")):
        for cell in nbformat.read(path, as_version=4).cells:
            for output in cell.get("outputs", []):
                if svg := output.get("data", {}).get(NARROW):
                    sizes = map(float, re.findall(r'<text[^>]*font(?:-size)?: [^;"]*?([\d.]+)px', svg))
                    shown = min(4 / 3, drawings.PHONE / float(re.search(r'viewBox="\S+ \S+ (\S+)', svg)[1]))
                    if (least := min(sizes, default=99) * shown) < 10.9:
                        small[f"{path.stem}#{cell.id}"] = least
    assert small == {}


def crowded():
    figure, axes = plt.subplots(figsize=(9, 3))
    for place in range(12):
        axes.text(place / 12, 0.5, "words")
    return figure


def connected():
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 3))
    figure.add_artist(ConnectionPatch((0, 0), (1, 1), "data", "data", axesA=left, axesB=right))
    right.set_title("words that have no room beside others", loc="left")
    left.set_title("and would lie on top of them", loc="right")
    return figure


def boxed():
    figure, axes = plt.subplots(figsize=(8, 2))
    axes.axis("off")
    axes.add_patch(plt.Rectangle((0.42, 0.2), 0.16, 0.6))
    axes.text(0.5, 0.5, "wide words", ha="center", va="center")
    return figure


@pytest.mark.parametrize("make", [crowded, connected, boxed])
def test_where_words_have_no_room_there_is_no_narrow_form(make):
    assert narrowed(make()) is None


@pytest.mark.parametrize(
    ("second", "same"),
    [("M 1.25 2 L 3 4", True), ("M 1.5 2 L 3 4", True), ("M 1.8 2 L 3 4", False), ("M 1.2 2 L 3", False)],
)
def test_drawings_that_look_the_same(second, same):
    assert look_the_same("M 1.2 2 L 3 4", second) is same


CHAPTER = """%% notebook -

%% code drawn
from matplotlib import pyplot as plt
figure, axes = plt.subplots(figsize=(7, 3), layout="constrained")
_ = axes.plot([1, 2], [3, 4])
plt.show()
"""


@pytest.mark.slow
def test_executing_a_chapter_stores_both_forms(tmp_path):
    (tmp_path / "book").mkdir()
    path = tmp_path / "book" / "31_first.ipynb"
    shutil.copy(ROOT / "book" / "matplotlibrc", path.parent)
    nbformat.write(from_text(CHAPTER), path)
    assert execute.store(path) == "stored"
    (output,) = nbformat.read(path, as_version=4).cells[0].outputs
    assert {SVG, NARROW} < output.data.keys()
    assert "image/png" not in output.data
    assert execute.store(path) == "unchanged"


def test_every_chart_of_the_book_is_drawn_and_not_photographed():
    for path in sorted((ROOT / "book").glob("*.ipynb")):
        for cell in nbformat.read(path, as_version=4).cells:
            for output in cell.get("outputs", []):
                assert "image/png" not in output.get("data", {}), (
                    f"{path.stem}#{cell.id}: make execute CH={path.name[:2]}"
                )


# In the page


def test_colours_are_those_of_the_page():
    roles = charts.roles()
    assert roles["b84d06"] == "--role-query"
    assert charts.themed("b84d06", roles) == "var(--role-query)"
    assert charts.themed("000000", roles) == charts.TEXT
    assert charts.themed("ffffff", roles) == charts.PAGE
    assert charts.themed("ebebeb", roles) == f"color-mix(in srgb, {charts.TEXT} 8%, {charts.PAGE})"
    assert charts.themed("e4e6ea", roles) == f"color-mix(in srgb, {charts.TEXT} 10%, {charts.PAGE})"  # nearly a grey
    assert charts.themed("d9e6f7", roles) == "var(--hue-d9e6f7)"
    style = charts.definitions("fill: var(--hue-d9e6f7)")
    assert style.startswith("<style>html {--hue-d9e6f7: #d9e6f7;}")
    dark = re.search(r"dark\] \{--hue-d9e6f7: #(\w{6})", style)[1]
    assert max(charts.parts_of(dark)) < 60  # light blue becomes dark blue
    assert charts.parts_of(dark)[2] == max(charts.parts_of(dark))
    assert charts.definitions("no other colour") == ""


@pytest.mark.slow
def test_a_drawing_in_a_page():
    svg = drawn(line(color="#0262E0"))
    html = charts.inlined(svg, "c1", "wide", 'losses of "base"', charts.roles())
    assert html.startswith('<svg class="wide" role="img" aria-label="losses of &quot;base&quot;" style="max-width: ')
    assert "var(--role-key)" in html
    assert "#0262e0" not in html.lower()
    assert "xmlns" not in html
    names = set(re.findall(r' id="([\w-]+)"', html))
    assert names
    assert all(name.startswith("c1-") for name in names)
    assert names == set(re.findall(r'(?:href="#|url\(#)([\w-]+)', html))


def test_the_colours_of_weights_stay():
    figure, axes = plt.subplots()
    axes.imshow([[0.0, 1.0]], vmin=0, vmax=2)
    html = charts.inlined(drawn(figure), "c1", "wide", "", charts.roles())
    ramp = re.search(r'<g class="ramp".*?</g>', html)[0]
    assert len(re.findall(r"fill: #\w{6}", ramp)) == 2
    assert "#" not in re.sub(r'(?:href=")?(?:url\()?#c1-\w+', "", html.replace(ramp, ""))
