"""For every run of pytest: cells without counts are compared, drawings are not, and slow tests can be left out."""

import matplotlib.font_manager  # noqa: F401 - in a cell it would say that it makes its cache, or has no home for it
import pytest

from tools import limits
from tools.drawings import NARROW, SVG

pytest_plugins = ["tests.pages"]  # a browser, for the tests of the rendered book


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--slow-in`, which `make check` uses."""
    parser.addoption("--slow-in", help="leave out tests marked slow, but not in these files, with commas between them")


def pytest_itemcollected(item: pytest.Item) -> None:
    """Let every cell of a notebook count as run, so that nbval compares its outputs, also where it stored none.

    Pictures are not compared: kernels that do not store them draw PNG. For an output that comes late nbval has no
    option, and waits five seconds.
    """
    if item.get_closest_marker("slow"):
        item.user_properties.append(("slow", True))  # for the report
    cell = getattr(item, "cell", None)
    if cell is not None:
        item.output_timeout = limits.OUTPUT
        item.add_marker(pytest.mark.random_order(disabled=True))  # a notebook's cells keep theirs
        item.parent.skip_compare = tuple({*item.parent.skip_compare, SVG, NARROW})
        if cell.execution_count is None:
            cell.execution_count = 0


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out slow tests where that was asked for."""
    files = config.getoption("--slow-in")
    if files is not None:
        named = {config.rootpath / file for file in files.split(",")}
        left = [item for item in items if item.get_closest_marker("slow") and item.path not in named]
        items[:] = [item for item in items if item not in left]
        config.hook.pytest_deselected(items=left)
