"""data/paper.yml against what must hold between the paper's own numbers: a slip of transcription should break one."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
PAPER: dict[str, Any] = yaml.safe_load((ROOT / "data/paper.yml").read_text(encoding="utf-8"))
TABLES = PAPER["tables"]
ROWS: dict[str, dict[str, dict[str, Any]]] = {
    name: {row["id"]: row for row in table["rows"]} for name, table in TABLES.items()
}
CELLS = {
    "table_1": ("complexity", "sequential", "path"),
    "table_2": ("bleu_en_de", "bleu_en_fr", "flops_en_de", "flops_en_fr", "flops_both"),
    "table_3": (
        *("N", "d_model", "d_ff", "h", "d_k", "d_v", "dropout", "label_smoothing", "steps"),
        *("ppl_dev", "bleu_dev", "params_millions"),
    ),
    "table_4": ("f1",),
}
# The columns of CELLS added up, from a second reading of the paper's tables: one wrong cell changes its sum.
SUMS = {
    "table_2": (207.90, 362.89, 3.096e20, 3.61e21, 2.63e19),
    "table_3": (26, 2816, 11264, 77, 960, 912, 0.6, 0.3, 400_000, 101.87, 507.7, 901),
    "table_4": (1097.9,),
}
SETTINGS = (*CELLS["table_3"][:9], "positions")


def full(row: dict[str, Any]) -> dict[str, Any]:
    """A row of Table 3 with its blanks filled from the base row."""
    base = ROWS["table_3"]["base"]
    return {key: base[key] if value is None else value for key, value in row.items()}


def growth(expression: str, **sizes: float) -> float:
    return eval(expression, {"__builtins__": {}, "log": math.log}, sizes)


@pytest.mark.parametrize(("table", "rows", "cells"), [(1, 4, 12), (2, 10, 31), (3, 20, 95), (4, 12, 12)])
def test_rows_and_filled_cells(table: int, rows: int, cells: int) -> None:
    """150 values in all; no row has lost or gained a column."""
    name = f"table_{table}"
    assert len(ROWS[name]) == len(TABLES[name]["rows"]) == rows
    assert len({frozenset(row) for row in TABLES[name]["rows"]}) == 1
    assert sum(row[column] is not None for row in TABLES[name]["rows"] for column in CELLS[name]) == cells


@pytest.mark.parametrize("table", list(SUMS))
def test_columns_add_up(table: str) -> None:
    for column, total in zip(CELLS[table], SUMS[table], strict=True):
        values = [row[column] for row in TABLES[table]["rows"] if row[column] is not None]
        assert sum(values) == pytest.approx(total, rel=1e-9), column


def test_table_1_agrees_with_itself() -> None:
    """C-4-d to C-4-g: a window r = n makes full attention, and a kernel k = 1 costs what a recurrent layer does."""
    n, d, k, r = 64.0, 512.0, 4.0, 8.0
    full_attention, recurrent, convolution, restricted = TABLES["table_1"]["rows"]
    for column in ("complexity", "sequential", "path"):
        assert growth(restricted[column], n=n, d=d, r=n) == growth(full_attention[column], n=n, d=d)
    assert growth(full_attention["complexity"], n=n, d=d) * d == growth(recurrent["complexity"], n=n, d=d) * n
    assert growth(convolution["complexity"], n=n, d=d, k=k) == k * growth(recurrent["complexity"], n=n, d=d)
    assert growth(restricted["complexity"], n=n, d=d, r=r) * n == growth(full_attention["complexity"], n=n, d=d) * r
    assert growth(full_attention["complexity"], n=n, d=d) == n**2 * d
    assert k ** growth(convolution["path"], n=n, k=k) == pytest.approx(n)
    assert growth(restricted["path"], n=n, r=r) == n / r
    assert growth(recurrent["path"], n=n) == growth(recurrent["sequential"], n=n) == n
    assert [row["sequential"] for row in (full_attention, convolution, restricted)] == ["1"] * 3
    assert full_attention["path"] == "1"


@pytest.mark.parametrize(("model", "seconds"), [("base", ("hours", 3600)), ("big", ("days", 86400))])
def test_training_cost_is_time_times_devices_times_rate(model: str, seconds: tuple[str, int]) -> None:
    """C-6.1-i, and C-5.2-b and C-5.2-c: the steps take about the stated time."""
    hardware, (unit, length) = PAPER["hardware"], seconds
    time = hardware[model][unit] * length
    rate = hardware["teraflops"][hardware["machine"]["gpu"]] * 1e12
    flops = hardware["machine"]["gpus"] * rate * time
    assert float(f"{flops:.1e}") == ROWS["table_2"][model]["flops_both"]
    steps = ROWS["table_3"][model]["steps"] * hardware[model]["seconds_per_step"]
    assert steps == pytest.approx(time, rel=0.1)


@pytest.mark.parametrize("model", ["deep_att", "gnmt", "convs2s"])
def test_an_ensemble_costs_eight_models_and_scores_more(model: str) -> None:
    single, ensemble = ROWS["table_2"][model], ROWS["table_2"][f"{model}_ensemble"]
    assert (single["ensemble"], ensemble["ensemble"]) == (False, True)
    assert single["reference"] == ensemble["reference"]
    for pair in ("en_de", "en_fr"):
        if single[f"flops_{pair}"] is not None:
            assert 7.5 < ensemble[f"flops_{pair}"] / single[f"flops_{pair}"] < 8.5
        if single[f"bleu_{pair}"] is not None:
            assert single[f"bleu_{pair}"] < ensemble[f"bleu_{pair}"] < single[f"bleu_{pair}"] + 2


def test_table_2_bears_out_what_the_text_says_of_it() -> None:
    """C-0-d, C-6.1-a, C-6.1-b and C-6.1-c, and that base's French score is the lowest listed."""
    rows = ROWS["table_2"]
    rivals = [row for row in rows.values() if row["reference"] is not None]
    german = [row["bleu_en_de"] for row in rivals if row["bleu_en_de"] is not None]
    french = [row["bleu_en_fr"] for row in rivals if row["bleu_en_fr"] is not None]
    assert rows["big"]["bleu_en_de"] > max(german) + 2
    assert rows["base"]["bleu_en_de"] > max(german)
    assert rows["base"]["bleu_en_fr"] < min(french)
    assert rows["big"]["bleu_en_fr"] > max(french)
    assert rows["big"]["flops_both"] < rows["moe"]["flops_en_fr"] / 4
    costs = [row[column] for row in rivals for column in ("flops_en_de", "flops_en_fr") if row[column] is not None]
    assert rows["base"]["flops_both"] < min(costs)
    for column in CELLS["table_2"][:2]:
        best = max((row for row in rows.values() if row[column] is not None), key=lambda row: row[column])
        assert best["id"] == "big"
        assert column in best["best"]
    assert rows["base"]["best"] == ["flops_both"]


def test_each_group_of_table_3_varies_its_own_settings() -> None:
    varied = {
        "A": [{"h", "d_k", "d_v"}] * 4,
        "B": [{"d_k"}] * 2,
        "C": [{"N"}] * 3 + [{"d_model", "d_k", "d_v"}] * 2 + [{"d_ff"}] * 2,
        "D": [{"dropout"}] * 2 + [{"label_smoothing"}] * 2,
        "E": [{"positions"}],
        "big": [{"N", "d_model", "d_ff", "h", "dropout", "steps"}],
    }
    for group, expected in varied.items():
        rows = [row for row in TABLES["table_3"]["rows"] if row["group"] == group]
        assert [{name for name in SETTINGS if row[name] is not None} for row in rows] == expected
    assert all(ROWS["table_3"]["base"][name] is not None for name in ROWS["table_3"]["base"])


def test_widths_of_heads() -> None:
    """C-3.2.2-g; (A) keeps h times d_k at 512; other widths divide among the heads, except where (B) narrows d_k."""
    for row in map(full, TABLES["table_3"]["rows"]):
        assert row["h"] * row["d_v"] == row["d_model"], row["id"]
        assert row["group"] == "B" or row["d_k"] == row["d_v"], row["id"]
        if row["group"] in ("base", "A", "D", "E"):
            assert row["h"] * row["d_k"] == 512, row["id"]
        if row["group"] not in ("C",):
            assert row["d_ff"] == 4 * row["d_model"], row["id"]
    assert [ROWS["table_3"][row]["d_k"] for row in ("B-1", "B-2")] == [16, 32]


def test_differences_of_the_parameters_column() -> None:
    """What a layer, a wider key or a wider feed-forward layer adds, to within the rounding of two cells."""
    base, rows = ROWS["table_3"]["base"], ROWS["table_3"]
    d, d_ff = base["d_model"], base["d_ff"]
    layer_pair = 3 * 4 * d * d + 2 * (2 * d * d_ff + d_ff + d) + 5 * 2 * d
    for row in ("C-1", "C-2", "C-3"):
        added = (rows[row]["N"] - base["N"]) * layer_pair / 1e6
        assert abs(rows[row]["params_millions"] - base["params_millions"] - added) < 1, row
    for row in ("B-1", "B-2"):
        removed = 3 * base["N"] * 2 * d * base["h"] * (base["d_k"] - rows[row]["d_k"]) / 1e6
        assert abs(base["params_millions"] - rows[row]["params_millions"] - removed) < 1, row
    for row in ("C-6", "C-7"):
        added = 2 * base["N"] * 2 * d * (rows[row]["d_ff"] - d_ff) / 1e6
        assert abs(rows[row]["params_millions"] - base["params_millions"] - added) < 1, row


@pytest.mark.parametrize("rows", [("C-1", "C-2", "base", "C-3"), ("C-4", "base", "C-5"), ("C-6", "base", "C-7")])
def test_larger_is_better_in_perplexity(rows: tuple[str, ...]) -> None:
    """C-6.2-e; of the scores only the one with eight layers breaks the order."""
    table = [full(ROWS["table_3"][row]) for row in rows]
    sizes = [(row["N"], row["d_model"], row["d_ff"]) for row in table]
    assert sizes == sorted(sizes)
    perplexities = [row["ppl_dev"] for row in table]
    assert perplexities == sorted(perplexities, reverse=True)
    scores = [row["bleu_dev"] for row in table if row["id"] != "C-3"]
    assert scores == sorted(scores)


def test_table_3_bears_out_what_the_text_says_of_it() -> None:
    """C-6.2-c, C-6.2-d, C-6.2-f, C-6.2-g, C-6.2-h and C-6.2-i."""
    rows = ROWS["table_3"]
    score = {name: row["bleu_dev"] for name, row in rows.items()}
    perplexity = {name: row["ppl_dev"] for name, row in rows.items()}
    assert max(score["base"], score["A-3"]) - score["A-1"] == pytest.approx(0.9)
    assert score["A-1"] < score["A-4"] < score["A-2"] < score["A-3"] == score["base"]
    assert score["B-1"] < score["B-2"] < score["base"]
    assert perplexity["B-1"] > perplexity["B-2"] > perplexity["base"]
    assert score["D-1"] < score["D-2"] < score["base"]
    assert perplexity["D-3"] < perplexity["base"] < perplexity["D-4"]
    assert score["D-3"] < score["D-4"] < score["base"]
    assert perplexity["E-1"] == perplexity["base"]
    assert score["base"] - score["E-1"] == pytest.approx(0.1)
    assert min(perplexity, key=perplexity.__getitem__) == max(score, key=score.__getitem__) == "big"
    assert rows["big"]["params_millions"] == max(row["params_millions"] or 0 for row in rows.values())


def test_table_4_is_in_order() -> None:
    """C-6.3-g and C-6.3-h; each kind of training is listed from weak to strong, the Transformer last."""
    table = TABLES["table_4"]["rows"]
    kinds = ["WSJ only, discriminative", "semi-supervised", "multi-task", "generative"]
    assert sorted({row["training"] for row in table}) == sorted(kinds)
    assert [row["training"] for row in table] == sorted((row["training"] for row in table), key=kinds.index)
    for kind in kinds:
        others = [row["f1"] for row in table if row["training"] == kind and row["reference"] is not None]
        assert others == sorted(others)
    rows = ROWS["table_4"]
    for parser in ("vinyals", "zhu", "transformer"):
        assert rows[f"{parser}_semi"]["f1"] > rows[f"{parser}_wsj"]["f1"]
    assert rows["petrov_wsj"]["f1"] < rows["transformer_wsj"]["f1"] < rows["dyer_wsj"]["f1"]
    better = [row["id"] for row in table if row["f1"] > rows["transformer_semi"]["f1"]]
    assert better == ["luong_multi", "dyer_generative"]


def test_references_are_in_the_bibliography() -> None:
    """A parser's name is the surname of the first author of the entry with its number."""
    text = (ROOT / "book/references.bib").read_text(encoding="utf-8")
    authors = {}
    for entry in text.split("\n@")[1:]:
        number = re.search(r"\bpaper = \{(\d+)\}", entry)
        author = re.search(r"\bauthor = \{(.*)\}", entry)
        assert author, entry
        if number:
            authors[int(number[1])] = author[1].split(",")[0]
    assert sorted(authors) == list(range(1, 41))
    for row in TABLES["table_4"]["rows"]:
        if row["reference"] is not None:
            assert row["parser"].startswith(authors[row["reference"]]), row["id"]
    first = {"bytenet": "Kalchbrenner", "deep_att": "Zhou", "gnmt": "Wu", "convs2s": "Gehring", "moe": "Shazeer"}
    assert {model: authors[ROWS["table_2"][model]["reference"]] for model in first} == first


def test_scores_name_their_test_set() -> None:
    assert TABLES["table_2"]["test_set"] == PAPER["training"]["data"]["test"]["name"] == "newstest2014"
    assert TABLES["table_3"]["test_set"] == PAPER["training"]["data"]["development"]["name"] == "newstest2013"
