"""data/paper.yml against what must hold between the paper's own numbers: a slip of transcription should break one."""

from __future__ import annotations

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


def test_scores_name_their_test_set() -> None:
    assert TABLES["table_2"]["test_set"] == PAPER["training"]["data"]["test"]["name"] == "newstest2014"
    assert TABLES["table_3"]["test_set"] == PAPER["training"]["data"]["development"]["name"] == "newstest2013"
