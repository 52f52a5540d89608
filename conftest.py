"""For every run of pytest: cells without counts are compared, drawings are not, and no cell relies on earlier draws."""

import matplotlib.font_manager  # noqa: F401 - in a cell it would say that it makes its cache, or has no home for it
import pytest

from tools import limits
from tools.drawings import NARROW, SVG

pytest_plugins = ["tests.pages"]  # a browser, for the tests of the rendered book


def pytest_itemcollected(item: pytest.Item) -> None:
    """Let every cell of a notebook count as run, so that nbval compares its outputs, also where it stored none.

    Pictures are not compared: kernels that do not store them draw PNG. For an output that comes late nbval has no
    option, and waits five seconds. A number is drawn before each cell: what a cell draws without a seed of its own
    becomes another, and then its output differs from the stored one.
    """
    if item.get_closest_marker("slow"):
        item.user_properties.append(("slow", True))  # for the report
    cell = getattr(item, "cell", None)
    if cell is not None:
        item.output_timeout = limits.OUTPUT
        item.parent.skip_compare = tuple({*item.parent.skip_compare, SVG, NARROW})
        if cell.execution_count is None:
            cell.execution_count = 0
        cell.source = f"__import__('torch').rand(1)\n{cell.source}"
