"""data/devices.yml, from which chapter 52 computes."""

from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
DEVICES: list[dict[str, Any]] = yaml.safe_load((ROOT / "data/devices.yml").read_text(encoding="utf-8"))["devices"]
PAPER: dict[str, Any] = yaml.safe_load((ROOT / "data/paper.yml").read_text(encoding="utf-8"))
NUMBERS = ("teraflops", "memory_gb", "bandwidth_gb_s", "link_gb_s")


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
