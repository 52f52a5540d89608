"""The table of contents: its parts, and the order of the chapters.

The chapters under the caption "Workshops" are workshops, each for somebody who wants that. All others are the main
line, which is read from front to back.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path

import nbformat
import yaml

WORKSHOPS = "Workshops"


def parts_of(root: Path) -> list[tuple[str, list[dict[str, str]]]]:
    """The captions of _toc.yml with their entries, each a file or a glob; none where there is no such file."""
    path = root / "_toc.yml"
    toc = yaml.safe_load(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return [(part.get("caption", ""), part["chapters"]) for part in toc.get("parts", [])]


def workshops(names: Iterable[str], root: Path) -> set[str]:
    """Those of the chapters that are workshops; a page belongs to the first part that finds it."""
    parts = [(caption, [next(iter(entry.values())) for entry in entries]) for caption, entries in parts_of(root)]

    def part_of(name: str) -> str | None:
        return next((caption for caption, globs in parts if any(fnmatchcase(name, glob) for glob in globs)), None)

    return {name for name in names if part_of(name) == WORKSHOPS}


def in_order(names: Iterable[str], root: Path) -> list[str]:
    """Chapters in the order in which one leads to the next: the main line by number, then the workshops."""
    names = list(names)
    last = workshops(names, root)
    return sorted(names, key=lambda name: (name in last, name))


def chapter_table(root: Path) -> str:
    """The chapters as a table in Markdown, each with its section of the paper and what it shows."""
    rows = ["| Section of the paper | Chapter | What it shows |", "| --- | --- | --- |"]
    for path in sorted((root / "book").glob("[0-9]*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        about, title = notebook.metadata.get("annotated", {}), re.match("# (.+)", notebook.cells[0].source)[1]
        rows.append(
            f"| {about.get('section', '')} | [{path.name[:2]} {title}]({path.name}) | {about.get('shows', '')} |"
        )
    return "\n".join(rows)
