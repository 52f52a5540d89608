"""Stored notebooks have no execution counts, but nbval compares only the cells that have one."""

import pytest


def pytest_itemcollected(item: pytest.Item) -> None:
    """Let every cell count as run, so that nbval compares its outputs, also where it stored none."""
    cell = getattr(item, "cell", None)
    if cell is not None and cell.execution_count is None:
        cell.execution_count = 0
