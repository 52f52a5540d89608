"""The evening: the chapters that tell the story on their own (`evening` in _config.yml), and how long each takes."""

from __future__ import annotations

import re
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


def minutes(chapter: str, root: Path = ROOT) -> int:
    """A minute for 200 words of the story, and 20 seconds for each picture, table of output, and open cell of code."""
    cells = nbformat.read(root / "book" / f"{chapter}.ipynb", as_version=4).cells
    story = list(takewhile(lambda cell: not AFTER.search(cell.source), cells))
    words = sum(len(re.findall(r"\w[\w'’-]*", prose_of(cell))) for cell in story if cell.cell_type == "markdown")
    shown = [set(cell.metadata.get("tags", [])) for cell in story if cell.cell_type == "code"]
    looks = sum(not {"hide-cell", "remove-cell"} & tags for tags in shown)
    return round(words / 200 + looks / 3)
