"""The figures of the book's texts, and what its pages quote: tools/prose.py."""

import shutil
from pathlib import Path

import nbformat
import pytest
import yaml

from tools import ROOT
from tools.prose import RECORD, figures, main_line, prose_of, quoted, unfounded, value_of

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


def test_what_pages_quote_was_compared_after_its_last_change():
    known, now = yaml.safe_load(RECORD.read_text(encoding="utf-8")), quoted()
    changed = sorted(name for name in {*known, *now} if known.get(name) != now.get(name))
    assert changed == [], "compare figures, claims and cells that changed; then run python -m tools.prose --read"


@pytest.mark.parametrize(
    ("page", "old", "new"),
    [
        ("32_attention.ipynb", "C-3.2.2-e", "C-3.2.2-f"),
        ("31_stacks.ipynb", "97.5 per cent", "96.5 per cent"),  # in a caption
        ("ledger.yml", "test_attention_equals_a_naive_loop", "test_other_loops"),
    ],
)
def test_another_figure_claim_or_test_is_noticed(tmp_path, page: str, old: str, new: str):
    (tmp_path / "book").mkdir()
    path = Path(shutil.copy(ROOT / "book" / page, tmp_path / "book"))
    before, source = quoted(tmp_path), path.read_text(encoding="utf-8")
    path.write_text(source.replace(old, new), encoding="utf-8")
    assert path.read_text(encoding="utf-8") != source
    assert quoted(tmp_path)[page] != before[page]


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


def test_named_values_vouch_and_formulas_code_and_references_are_no_figures():
    assert unfounded(chapter("Width 7613.", code="model = make(d_model=7613)")) == []
    assert len(unfounded(chapter("Width 7613.", code="model = make(7613)"))) == 1
    prose = (
        "In chapter 7613, $x = 7613$, `7613`, [chapter 7613](7613.html), {cite:t}`a7613`, section 3.7, 2017, Table 7."
    )
    assert figures(prose_of(text(prose))) == []
    assert [str(part) for part in value_of("0.24")] == ["0.24", "0.01"]
