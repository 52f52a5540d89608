"""The evening: the chapters that tell the story on their own (`evening` in _config.yml), and how long each takes."""

from __future__ import annotations

import re
from functools import cache
from itertools import takewhile
from pathlib import Path

import nbformat
import yaml

from tools import ROOT
from tools.prose import prose_of

AFTER = re.compile(r"^## (More|Exercises)$", re.MULTILINE)  # where a story has ended


def chapters(root: Path = ROOT) -> list[str]:
    """The chapters of the evening, in the order in which they are read."""
    return yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))["sphinx"]["config"]["evening"]


@cache
def minutes(chapter: str, root: Path = ROOT) -> int:
    """How long a chapter takes to read, without what follows its story."""
    cells = nbformat.read(root / "book" / f"{chapter}.ipynb", as_version=4).cells
    story = list(takewhile(lambda cell: not AFTER.search(cell.source), cells))
    words = sum(len(re.findall(r"\w[\w'-]*", prose_of(cell))) for cell in story if cell.cell_type == "markdown")
    shown = [set(cell.metadata.get("tags", [])) for cell in story if cell.cell_type == "code"]
    looks = sum(not {"hide-cell", "remove-cell"} & tags for tags in shown)
    return round(words / 200 + looks / 3)  # 200 words a minute, 20 seconds for a picture, an output or an open cell


def listed(root: Path = ROOT) -> str:
    """The evening as a list in Markdown: its chapters with their minutes, and how long all of them take."""
    lines = []
    for name in chapters(root):
        title = re.match("# (.+)", nbformat.read(root / "book" / f"{name}.ipynb", as_version=4).cells[0].source)[1]
        lines.append(f"1. [{name[:2]} {title}]({name}.ipynb) ({minutes(name, root)} minutes)")
    hours, rest = divmod(round(sum(minutes(name, root) for name in chapters(root)), -1), 60)
    return "\n".join(
        [*lines, "", f"Together they take about {hours} hours" + (f" and {rest} minutes." if rest else ".")]
    )
