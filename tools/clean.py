"""Notebooks without what changes from run to run: `python -m tools.clean [--check] [NOTEBOOK...]`.

Without names it takes all of book/. Kept: sources, cell ids, outputs, and the metadata that the book reads. Execution
counts go.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from tools import ROOT

KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
CELL_METADATA = ("annotated", "mystnb", "tags")


def code_cells(notebook: NotebookNode) -> list[NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def clean(notebook: NotebookNode) -> NotebookNode:
    """Strip counts and volatile metadata in place, join neighbouring pieces of one stream; returns the notebook."""
    own = notebook.metadata.get("annotated")
    notebook.metadata = NotebookNode(kernelspec=KERNEL, language_info={"name": "python"})
    if own:
        notebook.metadata["annotated"] = own
    for cell in notebook.cells:
        cell.metadata = NotebookNode({key: cell.metadata[key] for key in CELL_METADATA if cell.metadata.get(key)})
    for cell in code_cells(notebook):
        cell.execution_count = None
        cell.outputs = join_streams(cell.outputs)
        for output in cell.outputs:
            if "execution_count" in output:
                output.execution_count = None
    notebook.nbformat_minor = 5
    return notebook


def join_streams(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """Outputs with consecutive pieces of stdout, or of stderr, as one."""
    joined: list[NotebookNode] = []
    for output in outputs:
        before = joined[-1] if joined else {}
        if output.output_type == "stream" and before.get("name") == output.name:
            before["text"] += output.text
        else:
            joined.append(output)
    return joined


def write_if_changed(notebook: NotebookNode, path: Path) -> bool:
    """Write the notebook in one step, and only when the file would change; says whether it did."""
    text = nbformat.writes(notebook, version=4) + "\n"
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return False
    temporary = path.with_suffix(".new")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, path)
    return True


def main(arguments: list[str], root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.clean", description=__doc__.split(":")[0] + ".")
    parser.add_argument("notebooks", nargs="*", type=Path, metavar="NOTEBOOK", help="default: all of book/")
    parser.add_argument("--check", action="store_true", help="change nothing, and name those that are not clean")
    options = parser.parse_args(arguments)
    found = 0
    for path in options.notebooks or sorted((root / "book").glob("*.ipynb")):
        try:
            notebook = clean(nbformat.read(path, as_version=4))
        except Exception as error:
            print(f"{path}: not a notebook ({error})", file=sys.stderr)
            return 2
        if options.check:
            changed = nbformat.writes(notebook, version=4) + "\n" != path.read_text(encoding="utf-8")
        else:
            changed = write_if_changed(notebook, path)
        found += changed
        if changed:
            print(f"{path.name} {'holds volatile metadata: run `make format`' if options.check else 'cleaned'}")
    return 1 if options.check and found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
