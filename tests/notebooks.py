"""Small notebooks for the tests of the tools."""

from pathlib import Path

import nbformat

from tools.text import from_text


def write_notebook(root: Path, name: str, text: str, previous: nbformat.NotebookNode | None = None) -> Path:
    """Write book/NAME.ipynb under `root` from the chapter's text; unchanged cells keep the outputs of `previous`."""
    path = root / "book" / f"{name}.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(from_text(text, previous), path)
    return path
