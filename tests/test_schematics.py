"""Drawings of boxes, arrows, matrices, arcs and trees (book/schematics.py), in both forms."""

import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib import pyplot as plt

from annotated.parsing import read_tree
from tools.drawings import narrowed

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "book"))
from schematics import KEY, QUERY, as_tuples, draw_tree, drawing, frame, matrix


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def units(axes) -> list[float]:
    """Inches of a unit, across and down."""
    box, (width, height) = axes.get_position(), axes.figure.get_size_inches()
    return [box.width * width / np.ptp(axes.get_xlim()), box.height * height / np.ptp(axes.get_ylim())]


def test_a_unit_is_equally_long_in_all_panels_and_forms():
    panels = drawing((5, 3), (8, 2), titles=("one", "two"))
    wide = [axes.get_position().x0 for axes in panels]
    assert wide[0] < wide[1]
    assert np.allclose([units(axes) for axes in panels], 0.45)
    figure = narrowed(panels[0].figure)
    assert figure is panels[0].figure
    places = [axes.get_position() for axes in panels]
    assert places[0].x0 == places[1].x0 == 0
    assert places[0].y0 > places[1].y1  # the first panel comes first
    assert np.allclose([units(axes) for axes in panels], 0.45)


def test_rows_of_a_matrix_come_from_above():
    (axes,) = drawing((4, 4))
    matrix(axes, 0.5, 0.5, [[1, 2], [3, 4]], form="{:.0f}", outlined=[1])
    places = {text.get_text(): text.get_position() for text in axes.texts}
    assert places == {"1": (1, 2), "2": (2, 2), "3": (1, 1), "4": (2, 1)}
    frame = axes.patches[-1]
    assert (frame.get_xy(), frame.get_width(), frame.get_height()) == ((0.5, 0.5), 2, 1)


@pytest.mark.parametrize(("value", "colour"), [(1.0, "white"), (0.0, "black")])
def test_numbers_can_be_read_on_their_cells(value, colour):
    (axes,) = drawing((2, 2))
    matrix(axes, 0, 0, [[value]], ramp="Blues", span=(0, 1), form="{}")
    assert axes.texts[0].get_color() == colour
    assert axes.images[0].get_extent() == [0, 1, 0, 1]
    assert axes.get_xlim() == (0, 2)  # a picture does not change what the panel shows


def test_a_tree_stands_over_its_words_and_marks_one_bracket_of_two():
    """`(NP (NP it))` has two brackets with one label and span: a count of one marks the inner one, drawn first."""
    (axes,) = drawing((3, 4))
    draw_tree(axes, ("S", ("NP", ("NP", ("PRP", "it"))), ("", "works")), [("NP", 0, 1)])
    texts = [(text.get_text(), text.get_position(), text.get_color()) for text in axes.texts]
    assert texts == [
        ("it", (0, 0), "black"),
        ("PRP", (0, 0.7), "0.45"),
        ("NP", (0, 2), QUERY),
        ("NP", (0, 3), "k"),
        ("works", (1, 0), "black"),  # without a tag
        ("S", (0.5, 4), "k"),
    ]
    assert axes.lines[-1].get_xydata()[-1].tolist() == [1, 0.35]  # down to the word itself
    assert (axes.get_xlim(), axes.get_ylim()) == ((-0.6, 1.6), (-0.5, 4.6))


def test_a_tree_of_the_package_can_be_drawn():
    assert as_tuples(read_tree("(S (NP (PRP It)) (VBZ works))")) == ("S", ("NP", ("PRP", "It")), ("VBZ", "works"))


def test_the_frame_of_the_case_colours_pronouns_and_explains_them():
    """A pronoun keeps its colour; a word that begins like one has none; only those that occur are explained."""
    text = frame({"<untouched>": ("Das Tier schlief, weil es müde war.", "Die Esel, weil essen sie.")}).data
    es = f'<b style="color: var(--role-key, {KEY})">es</b>'
    assert f"weil {es} müde" in text
    assert "weil essen sie." in text
    assert "&lt;untouched&gt;" in text
    assert text.endswith(f"<p>{es}: a neuter noun, as das Tier</p>")
    assert QUERY not in text
