"""The appendices: misreadings, code differences, glossary, exercises, reference; and what ties pages together."""

from __future__ import annotations

import inspect
import json
import re
import sys
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from docutils import nodes

import annotated
from tests.test_ledger import guards
from tools.repository import repository_of

ROOT = Path(__file__).resolve().parents[1]
BOOK = ROOT / "book"
sys.path.insert(0, str(BOOK / "_ext"))

from annotated_book import docstring  # noqa: E402
from appendices import (  # noqa: E402
    Appendix,
    GlossaryLinks,
    chapters_of,
    exercises_of,
    map_of,
    modules_of,
    pattern_of,
)

CHAPTERS = sorted(path.stem for path in BOOK.glob("[0-9]*.ipynb"))
MISREADINGS = yaml.safe_load((BOOK / "misreadings.yml").read_text(encoding="utf-8"))["misreadings"]
DIFFERENCES = yaml.safe_load((BOOK / "released_code.yml").read_text(encoding="utf-8"))["differences"]
ERRATA = yaml.safe_load((BOOK / "errata.yml").read_text(encoding="utf-8"))["errata"]
PLACES = yaml.safe_load((BOOK / "places.yml").read_text(encoding="utf-8"))["places"]


@cache
def cells_of(chapter: str) -> dict[str, dict[str, Any]]:
    notebook = json.loads((BOOK / f"{chapter}.ipynb").read_text(encoding="utf-8"))
    return {cell["id"]: cell for cell in notebook["cells"]}


def cell(name: str) -> dict[str, Any]:
    chapter, _, cell_id = name.partition("#")
    return cells_of(chapter)[cell_id]


def test_misreadings_and_places_have_what_refutes_or_guards_them():
    """Where their cells are, the build asks; a cell that refutes something asserts."""
    for entry in MISREADINGS:
        if "cell" in entry:
            source = "".join(cell(entry["cell"])["source"])
            assert re.search(r"^\s*assert ", source, re.MULTILINE), entry["cell"]
        else:
            assert guards(entry["test"]), entry["test"]
    assert [entry["test"] for entry in PLACES if not guards(entry["test"])] == []


def test_what_is_listed_is_in_the_order_of_the_chapters(monkeypatch: pytest.MonkeyPatch):
    rows = [{"id": "M-1", "chapter": "32"}, {"id": "M-10", "cell": "20_x#a"}, {"id": "M-2", "cell": "31_x#a"}]
    monkeypatch.setattr(Appendix, "listed", lambda self, name: rows)
    assert [entry["id"] for entry in object.__new__(Appendix).entries("any")] == ["M-10", "M-2", "M-1"]


def test_errata_are_listed_from_the_newest():
    """An entry's address counts from the end; a day in quotes would be a text."""
    days = [entry["since"] for entry in ERRATA]
    assert all(isinstance(day, date) for day in days)
    assert days == sorted(days, reverse=True)


@pytest.mark.parametrize("entry", [entry for entry in DIFFERENCES if entry["option"]], ids=lambda entry: entry["id"])
def test_an_option_exists_and_is_not_the_default(entry):
    """An option that the package does not have, or that changes nothing, would not reproduce anything."""
    model, training = annotated.TransformerConfig, annotated.TrainingConfig
    calls = []
    names = {"TransformerConfig": model, "TrainingConfig": training, "V": 1000, "model": None, "source": None}
    made = eval(entry["option"], names | {"beam_search": lambda *_, **options: calls.append(options)})
    if calls:
        known = inspect.signature(annotated.beam_search).parameters
        assert set(calls[0]) <= set(known)
        assert any(known[name].default != value for name, value in calls[0].items())
    elif isinstance(made, training):
        assert made != training(max_steps=made.max_steps)
    else:
        defaults = (model(made.vocab_size), model.base(made.vocab_size), model.big(made.vocab_size))
        assert made not in defaults


@pytest.mark.parametrize(("column", "row"), [(1, "base"), (2, "big")])
def test_the_cheat_sheet_has_the_papers_sizes(column, row):
    lines = (BOOK / "cheat_sheet.md").read_text(encoding="utf-8").split("**Sizes**")[1].split("Weights")[0].splitlines()
    cells = [[part.strip() for part in line.strip("|").split("|")] for line in lines if line.startswith("| ")][2:]
    said = [number.replace(",", "") for line in cells for number in re.findall(r"[\d.,]*\d", line[column])]
    table = yaml.safe_load((ROOT / "data" / "paper.yml").read_text(encoding="utf-8"))["tables"]["table_3"]["rows"]
    base, paper = (next(one for one in table if one["id"] == name) for name in ("base", row))
    names = ("N", "d_model", "d_ff", "h", "d_k", "dropout")
    wanted = [paper[name] if paper[name] is not None else base[name] for name in names]
    steps, weights = ((paper[name] or base[name]) for name in ("steps", "params_millions"))
    assert [float(number) for number in said] == [*wanted, 0.1, steps, weights]


def test_measured_numbers_of_an_answer_are_in_the_cells_it_names():
    """Those of the frequent questions and of the first page; a cell that is measured anew makes the answer wrong."""
    answers = dict.fromkeys((BOOK / "questions.md").read_text(encoding="utf-8").split("\n### ")[1:], r"\d+\.\d+%?|\d+%")
    cards = "".join(cell("index#findings")["source"]).split("{container} finding\n")[1:]
    answers |= {card.split("\n::::")[0]: r"\d[\d.,]*\d%?|\d" for card in cards}
    found = 0
    for answer, measured in answers.items():
        named = [cell(name) for name in re.findall(r"\{cell\}`(.+?)`", answer)]
        text = json.dumps([[one["source"], one.get("outputs")] for one in named])
        for number in re.findall(measured, re.sub(r"\{cell\}`.+?`", "", answer)):
            found += 1
            assert re.search(rf"(?<![\d.]){re.escape(number)}(?!\.?\d)", text), (answer.splitlines()[0], number)
    assert found > 10


@pytest.mark.parametrize(
    ("term", "text", "found"),
    [
        ("query", "A query asks.", "query"),
        ("head", "Eight heads see.", "heads"),
        ("head", "They are ahead of the multi-head block.", None),
        ("key", "The keyboard is key-shaped.", None),
        ("BLEU", "bleu and BLEU", "BLEU"),
    ],
)
def test_a_term_is_found_as_a_whole_word(term, text, found):
    match = pattern_of(term).search(text)
    assert (match[0] if match else None) == found


def test_a_page_links_a_term_once_and_the_longest_one():
    transform = GlossaryLinks.__new__(GlossaryLinks)
    transform.document = type("Document", (), {})()
    transform.document.settings = type("Settings", (), {"env": type("Env", (), {"docname": "x"})()})()
    left = ["multi-head attention", "attention", "head"]
    parts = list(transform.linked("Multi-head attention is attention with heads, and attention again.", left))
    linked = [(part.astext(), part["reftarget"]) for part in parts if not isinstance(part, nodes.Text)]
    expected = [("Multi-head attention", "multi-head attention"), ("attention", "attention"), ("heads", "head")]
    assert linked == expected
    assert "".join(part.astext() for part in parts).endswith("and attention again.")
    assert left == []


def test_every_exercise_has_a_solution_of_its_own():
    found = list(exercises_of(BOOK))
    assert len(found) >= 3 * len(CHAPTERS)
    for chapter, label, text, _, solution in found:
        assert text.strip(), label
        assert cells_of(chapter)[solution]["cell_type"] == "code", label
    assert len({(chapter, solution) for chapter, *_, solution in found}) == len(found)


def test_the_reference_has_every_module_once():
    paths = (path.relative_to(ROOT / "annotated") for path in (ROOT / "annotated").rglob("*.py"))
    names = {".".join(path.with_suffix("").parts) for path in paths if path.name != "__init__.py"}
    assert sorted(modules_of(BOOK)) == sorted(names - {"__main__"})


def test_the_table_and_the_map_come_from_the_chapters_metadata():
    chapters = chapters_of(BOOK)
    assert list(chapters) == CHAPTERS
    assert chapters["33_feed_forward"]["title"] == "Position-wise feed-forward networks"
    assert map_of(BOOK)["6.1"] == ["60_beam_search", "61_machine_translation"]
    assert list(map_of(BOOK))[:3] == ["abstract", "1, 2", "3"]


def test_a_docstring_leads_to_its_cell():
    lines = ["The rate of `step`, with *args and d_model_.", "", "Defined in chapter 53: `schedule`."]
    docstring(None, "", "", None, None, lines)
    assert lines[0] == r"The rate of ``step``, with \*args and d_model\_."
    assert lines[2] == "Defined in :cell:`53_optimizer#schedule`."


@pytest.mark.parametrize(
    ("remote", "address"),
    [
        ("https://github.com/someone/book.git", "https://github.com/someone/book"),
        ("https://token@github.com/someone/book", "https://github.com/someone/book"),
        ("git@github.com:someone/book.git", "https://github.com/someone/book"),
        ("/srv/git/book", None),
        ("", None),
    ],
)
def test_launch_buttons_and_copies_know_the_repository_from_its_remote(remote, address):
    assert repository_of(remote) == address
