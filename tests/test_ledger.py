"""The ledger lists all 152 claims of the paper, and what it says about the book is true."""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from functools import cache
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
CLAIMS: list[dict[str, Any]] = yaml.safe_load((ROOT / "book/ledger.yml").read_text(encoding="utf-8"))["claims"]
PAPER: dict[str, Any] = yaml.safe_load((ROOT / "data/paper.yml").read_text(encoding="utf-8"))

KEYS = {"id", "section", "tags", "chapter", "standing", "cell", "test", "reason", "claim"}
STANDINGS = {"built", "measured", "told", "out of reach here"}
OUTCOMES = {"holds", "in part", "undecided", "contradicted here"}
SIZES = """0:6 1:9 2:9 3:4 3.1:9 3.2:3 3.2.1:11 3.2.2:8 3.2.3:7 3.3:5 3.4:4 3.5:9 4:13
5.1:5 5.2:3 5.3:4 5.4:6 6.1:9 6.2:9 6.3:8 7:6 V:5"""
CLAIMS_IN_SECTION = {section: int(size) for section, size in (pair.split(":") for pair in SIZES.split())}


def chapter_exists(chapter: str) -> bool:
    return any((ROOT / "book" / f"{chapter}{suffix}").is_file() for suffix in (".ipynb", ".md"))


@cache
def cells_of(chapter: str) -> dict[str, dict[str, Any]]:
    path = ROOT / "book" / f"{chapter}.ipynb"
    if not path.is_file():
        return {}
    return {cell["id"]: cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]}


@cache
def defined_tests(path: Path) -> set[str]:
    """The tests that a file defines, as pytest names them."""
    if not path.is_file():
        return set()
    body = ast.parse(path.read_text(encoding="utf-8")).body
    return {node.name for node in body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


def guards(guard: str) -> bool:
    """Whether there is such a test, or such a cell, which asserts or prints what is compared."""
    if cell := re.fullmatch(r"book/(\w+)\.ipynb#([\w-]+)", guard):
        found = cells_of(cell[1]).get(cell[2], {"cell_type": "markdown"})
        exempt = {"nbval-ignore-output", "nbval-skip", "skip-execution"} & {*found.get("metadata", {}).get("tags", [])}
        asserts = re.search(r"(?m)^\s*assert ", "".join(found.get("source", "")))
        return found["cell_type"] == "code" and bool(asserts or (found["outputs"] and not exempt))
    file, _, name = guard.partition("::")
    return name in defined_tests(ROOT / file)


def problems(claim: dict[str, Any]) -> list[str]:
    """What the ledger says of a claim and the repository does not bear out."""
    found = []
    standing, chapter, cell, test = claim["standing"], claim["chapter"], claim["cell"], claim["test"]
    if not chapter_exists(chapter):
        found.append(f"is {standing}, but book/{chapter} does not exist")
    if (ROOT / "book" / f"{chapter}.ipynb").is_file():
        if cell is None:
            found.append("names no cell")
        if standing in ("built", "measured") and test is None:
            found.append("names no test")
    if cell is not None:
        place, _, name = cell.partition("#")
        if place != chapter:
            found.append(f"is treated in {chapter}, but its cell is {cell}")
        if name not in cells_of(place):
            found.append(f"names the cell {cell}, which does not exist")
    if test is not None and not guards(test):
        found.append(f"names the test {test}, which is no test, and no cell that asserts or is compared")
    if not claim["reason"]:
        if standing == "out of reach here":
            found.append("is out of reach without a reason")
        if standing == "told" and "R" not in claim["tags"]:
            found.append("could be built, measured or drawn, and is told without a reason")
    return [f"{claim['id']} {problem}" for problem in found]


def test_every_claim_of_every_section_is_there_once() -> None:
    assert len(CLAIMS) == 152
    assert Counter(claim["section"] for claim in CLAIMS) == CLAIMS_IN_SECTION
    expected = [f"C-{section}-{ascii_lowercase[i]}" for section, n in CLAIMS_IN_SECTION.items() for i in range(n)]
    assert [claim["id"] for claim in CLAIMS] == expected
    assert [claim["id"].split("-")[1] for claim in CLAIMS] == [claim["section"] for claim in CLAIMS]


def test_every_claim_is_well_formed() -> None:
    for claim in CLAIMS:
        measured = claim["standing"] == "measured"
        assert set(claim) == KEYS | ({"outcome"} if measured else set()), claim["id"]
        assert claim["standing"] in STANDINGS, claim["id"]
        if measured:
            assert claim["outcome"] in OUTCOMES, claim["id"]
            assert claim["reason"] or claim["outcome"] == "holds", claim["id"]
        assert claim["tags"], claim["id"]
        assert set(claim["tags"]) <= set("IMVR"), claim["id"]
        assert claim["claim"].endswith("."), claim["id"]
        assert "\n" not in claim["claim"], claim["id"]
        assert claim["claim"].count("$") % 2 == 0, claim["id"]
    assert len({claim["claim"] for claim in CLAIMS}) == len(CLAIMS)


def test_a_claim_is_treated_in_its_sections_chapter() -> None:
    """A chapter's number begins with the number of the paper's section."""
    elsewhere = {"0": "index", "2": "1", "V": "8"}
    for claim in CLAIMS:
        start = elsewhere.get(claim["section"], claim["section"][0])
        start = {"C-6.1-i": "5"}.get(claim["id"], start)  # the estimate of cost is done again beside the hardware
        assert claim["chapter"].startswith(start), claim["id"]


def test_what_the_ledger_says_is_so() -> None:
    """Chapters, cells and guards exist, and what is not built or measured says why."""
    found = [problem for claim in CLAIMS for problem in problems(claim)]
    assert not found, "\n".join(found)
