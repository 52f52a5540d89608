"""data/devices.yml, and what chapter 52 computes from it and from the paper's cost column."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from annotated.cost import training_flops
from annotated.model import TransformerConfig

ROOT = Path(__file__).resolve().parents[1]
DEVICES: list[dict[str, Any]] = yaml.safe_load((ROOT / "data/devices.yml").read_text(encoding="utf-8"))["devices"]
PAPER: dict[str, Any] = yaml.safe_load((ROOT / "data/paper.yml").read_text(encoding="utf-8"))
HARDWARE = PAPER["hardware"]
ASSUMED = HARDWARE["teraflops"]["P100"] * 1e12
STEPS = {row["id"]: row["steps"] for row in PAPER["tables"]["table_3"]["rows"]}
PRINTED = {row["id"]: row["flops_both"] for row in PAPER["tables"]["table_2"]["rows"]}
PEAKS = {row["device"]: row["teraflops"] * 1e12 for row in DEVICES}
NUMBERS = ("teraflops", "memory_gb", "bandwidth_gb_s", "link_gb_s")
CONFIGS = {"base": TransformerConfig.base(37_000), "big": TransformerConfig.big(37_000)}


def step_flops(name: str) -> int:
    """A step on 25,000 source and as many target tokens, in sentences of 25 tokens as chapter 52 assumes."""
    return training_flops(CONFIGS[name], 1000, 25, 25)


def test_a_device_is_stated_in_full_and_its_peak_is_that_of_dense_products():
    """Data sheets like to print the rate for matrices half of which are zeros, which is twice as high."""
    for row in DEVICES:
        assert set(row) == {"device", "year", "format", "sparse", "source", "read_in", *NUMBERS}
        assert all(row[name] > 0 for name in NUMBERS)
        for address in (row["source"], *row["read_in"]):
            assert address.startswith("https://")
            assert not set(address) & set(" |()[]"), "the chapter puts it into a table as a link"
        if row["sparse"] is not None:
            assert row["sparse"] == pytest.approx(2 * row["teraflops"], rel=1e-3)


def test_columns_add_up():
    """The sums are from a second reading of the sources: one wrong number changes one."""
    sums = [sum(row[name] for row in DEVICES) for name in NUMBERS]
    assert sums == pytest.approx([6541.5, 801, 28300, 3074])
    assert [row["year"] for row in DEVICES] == sorted(row["year"] for row in DEVICES)
    assert len(PEAKS) == len(DEVICES)
    assert PEAKS["P100 (PCIe)"] < ASSUMED < PEAKS["P100 (NVLink)"]


@pytest.mark.parametrize(("name", "percent"), [("base", 29), ("big", 42)])
def test_the_count_is_less_than_half_of_the_printed_cost(name: str, percent: int):
    """The paper's cost is no count of operations (C-6.1-i)."""
    counted = STEPS[name] * step_flops(name)
    assert round(100 * counted / PRINTED[name]) == percent


def seconds(time: str) -> float:
    """What a cell of the chapter's table says, such as 40 min or 3.7 days."""
    number, unit = time.split()
    return float(number.replace(",", "")) * {"min": 60, "h": 3600, "days": 86400}[unit]


def test_the_chapters_table_is_that_of_the_file():
    """Operations over 40% of the peak; the P100 gives the paper's shares of its peak back (C-5.2-b, C-5.2-c)."""
    notebook = json.loads((ROOT / "book/52_hardware_and_schedule.ipynb").read_text(encoding="utf-8"))
    cell = next(cell for cell in notebook["cells"] if cell["id"] == "devices")
    _, _, *lines = "".join(cell["outputs"][0]["data"]["text/markdown"]).splitlines()
    table = {line.strip("| ").split("](")[0].strip("["): line.strip("| ").split(" | ")[4:6] for line in lines}
    assert list(table) == list(PEAKS)
    for device, times in table.items():
        for name, time in zip(("base", "big"), times, strict=True):
            assert seconds(time) == pytest.approx(STEPS[name] * step_flops(name) / (0.4 * PEAKS[device]), rel=0.03)
    base, big = (seconds(time) / 8 for time in table["P100 (NVLink)"])
    assert 0.4 * base / (100_000 * 0.4) == pytest.approx(0.28, abs=0.01)
    assert 0.4 * big / (300_000 * 1.0) == pytest.approx(0.38, abs=0.01)
