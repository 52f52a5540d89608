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
    """The tests that a file defines, as pytest names them: `test_x` or `TestY::test_x`."""
    if not path.is_file():
        return set()
    names = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            names.update(f"{node.name}::{inner.name}" for inner in node.body if isinstance(inner, ast.FunctionDef))
    return {name for name in names if name.split("::")[-1].startswith("test_")}


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


def test_claims_quote_the_papers_numbers() -> None:
    """A number that stands in data/paper.yml stands in the ledger as the same number."""
    rows = {f"{name}.{row['id']}": row for name, table in PAPER["tables"].items() for row in table["rows"]}
    base, big, train = rows["table_3.base"], rows["table_3.big"], PAPER["training"]
    english_german, english_french = train["data"]["en_de"], train["data"]["en_fr"]
    quoted = {
        "C-0-d": [rows["table_2.big"]["bleu_en_de"]],
        "C-0-e": [rows["table_2.big"]["bleu_en_fr"], PAPER["hardware"]["big"]["days"]],
        "C-3.1-a": [base["N"]],
        "C-3.1-e": [base["d_model"]],
        "C-3.1-f": [base["N"]],
        "C-3.2.2-g": [base["h"], base["d_k"]],
        "C-3.3-e": [base["d_model"], base["d_ff"]],
        "C-5.1-a": [english_german["sentence_pairs"] / 1e6],
        "C-5.1-b": [english_german["vocabulary"]],
        "C-5.1-c": [english_french["sentence_pairs"] // 10**6, english_french["vocabulary"]],
        "C-5.1-e": [train["batch"]["source_tokens"]],
        "C-5.2-b": [base["steps"], PAPER["hardware"]["base"]["seconds_per_step"], PAPER["hardware"]["base"]["hours"]],
        "C-5.2-c": [big["steps"], PAPER["hardware"]["big"]["seconds_per_step"], PAPER["hardware"]["big"]["days"]],
        "C-5.3-a": [train["optimizer"]["beta_1"], train["optimizer"]["beta_2"]],
        "C-5.3-c": [train["schedule"]["warmup_steps"]],
        "C-5.4-d": [base["dropout"]],
        "C-5.4-e": [base["label_smoothing"]],
        "C-6.1-a": [rows["table_2.big"]["bleu_en_de"]],
        "C-6.1-b": [rows["table_2.base"]["bleu_en_de"]],
        "C-6.1-c": [PAPER["tables"]["table_2"]["elsewhere"][0]["value"]],
        "C-6.1-d": [train["dropout"]["exception"]["dropout"], big["dropout"]],
        "C-6.1-e": [train["averaging"]["base"]["checkpoints"], train["averaging"]["base"]["minutes_apart"]],
        "C-6.1-f": [train["averaging"]["big"]["checkpoints"]],
        "C-6.1-g": [train["decoding"]["beam_size"], train["decoding"]["length_penalty"]],
        "C-6.1-h": [train["decoding"]["extra_length"]],
        "C-6.1-i": [rate for device, rate in PAPER["hardware"]["teraflops"].items() if device != "section"],
        "C-6.2-g": [rows[f"table_3.D-{n}"][column] for n in (3, 4) for column in ("ppl_dev", "bleu_dev")],
        "C-6.2-h": [rows["table_3.E-1"]["bleu_dev"], base["ppl_dev"], base["bleu_dev"]],
        "C-6.2-i": [big["ppl_dev"], big["bleu_dev"]],
        "C-6.3-b": [train["parsing"]["model"]["N"], train["parsing"]["model"]["d_model"]],
        "C-6.3-c": [train["parsing"]["semi_supervised"]["sentences"] // 10**6],
        "C-6.3-d": [train["parsing"][setting]["vocabulary"] for setting in ("wsj", "semi_supervised")],
        "C-6.3-f": [train["parsing"]["decoding"][name] for name in ("extra_length", "beam_size", "length_penalty")],
        "C-6.3-g": [rows["table_4.transformer_wsj"]["f1"], rows["table_4.transformer_semi"]["f1"]],
    }
    text = {claim["id"]: claim["claim"] for claim in CLAIMS}
    for claim, numbers in quoted.items():
        assert {str(number) for number in numbers} <= set(re.findall(r"\d+(?:\.\d+)?", text[claim])), claim
