"""The figures of the main line's prose, and what a report says of its chapters: tools/prose.py."""

import re

import nbformat
import pytest

from tools import ROOT
from tools.prose import (
    figures,
    main_line,
    prose_of,
    report,
    sources_of,
    unfounded,
    value_of,
    vouches,
)

CHAPTERS = main_line()


def text(source: str) -> nbformat.NotebookNode:
    return nbformat.v4.new_markdown_cell(source)


def chapter(prose: str, printed: str = "", code: str = "", tags: tuple[str, ...] = ()) -> nbformat.NotebookNode:
    """A notebook of one text and one cell with an output."""
    cell = nbformat.v4.new_code_cell(code, metadata={"tags": list(tags)})
    cell.outputs = [nbformat.v4.new_output("stream", name="stdout", text=printed)]
    return nbformat.v4.new_notebook(cells=[text(prose), cell])


@pytest.mark.parametrize("name", CHAPTERS)
def test_every_figure_of_the_prose_is_vouched_for(name: str):
    assert unfounded(CHAPTERS[name]) == []


def test_a_report_counts_and_names():
    """What is no rule is counted for whoever writes: cells, words, exports before a picture, verdicts for numbers."""
    notebook = chapter("Common misreading: two words. It is 7613.", printed="they agree\n0.5", code="#| export\nx = 1")
    assert list(report("34_trial", notebook, ROOT)) == [
        "34_trial: 2 cells, 7 words",
        "    1 exported cells before the first picture, 1 misreadings",
        f"    no number: #{notebook.cells[1].id}: they agree",
        f"    nothing vouches for: #{notebook.cells[0].id}: 7613",
    ]


def test_a_changed_digit_is_noticed():
    """Of all figures of three digits or more, each with its last one changed, nothing vouches for nine in ten."""
    noticed = []
    for notebook in CHAPTERS.values():
        sources = sources_of(notebook, ROOT)
        for cell in (cell for cell in notebook.cells if cell.cell_type == "markdown"):
            for figure in figures(prose_of(cell)):
                if len(re.sub(r"\D", "", figure).lstrip("0")) < 3:  # two digits may be anything
                    continue
                last = max(place for place, sign in enumerate(figure) if sign.isdigit())
                changed = figure[:last] + str((int(figure[last]) + 3) % 10) + figure[last + 1 :]
                noticed.append(not any(vouches(source, changed) for source in sources))
    assert len(noticed) > 300
    assert sum(noticed) >= 0.9 * len(noticed)


@pytest.mark.parametrize(
    ("prose", "printed"),
    [
        ("It is 0.24.", "0.241"),
        ("A share of 24%.", "23.8%"),
        ("A share of 24%.", "0.24"),
        ("A share of 24%.", "precision 24"),
        ("It has 4.5 million pairs.", "4,512,000"),
        ("From 1,024 on.", "1024 tokens"),
        ("The loss is -1.5 there.", "-1.5"),
    ],
)
def test_what_vouches_for_a_figure(prose: str, printed: str):
    assert unfounded(chapter(prose, printed)) == []


@pytest.mark.parametrize(
    ("prose", "printed", "tags"),
    [
        ("It is 0.7612.", "0.7613", ()),
        ("It is 0.7612.", "0.76", ()),
        ("A share of 76%.", "0.7612", ()),
        ("There are 76.", "75.8", ()),
        ("It is 7612.", "17612", ()),  # not a whole number of the output
        ("It is 0.7612.", "0.7612", ("nbval-ignore-output",)),  # an output that nobody compares
    ],
)
def test_what_does_not_vouch(prose: str, printed: str, tags: tuple[str, ...]):
    assert len(unfounded(chapter(prose, printed, tags=tags))) == 1


def test_named_values_vouch_and_other_literals_do_not():
    assert unfounded(chapter("Width 7613.", code="model = make(d_model=7613)")) == []
    assert len(unfounded(chapter("Width 7613.", code="model = make(7613)"))) == 1


def test_formulas_code_and_references_are_no_figures():
    prose = (
        "In chapter 7613, $x = 7613$, `7613`, [chapter 7613](7613.html), {cite:t}`a7613`, section 3.7, 2017, Table 7."
    )
    assert figures(prose_of(text(prose))) == []


def test_a_figures_value_and_its_last_digit():
    assert [str(part) for part in value_of("0.24")] == ["0.24", "0.01"]
    assert float(value_of("4.5 million")[0]) == 4_500_000
    assert float(value_of("24%")[1]) == 0.01
