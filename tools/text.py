"""A chapter as plain text, and back.

`python -m tools.text NOTEBOOK` prints the text, `python -m tools.text TEXT NOTEBOOK` makes the notebook.

A line `%% md ID` or `%% code ID` starts a cell; JSON after the id is the cell's metadata. The first line is
`%% notebook MODULE`: the module that a bare `#| export` writes to (`-` for none). Outputs stay in the notebook: a code
cell whose id and source did not change keeps them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import nbformat

KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


def to_text(notebook: nbformat.NotebookNode) -> str:
    """The notebook's cells as text, without outputs."""
    parts = [f"%% notebook {notebook.metadata.get('annotated', {}).get('module', '-')}"]
    for cell in notebook.cells:
        kind = {"markdown": "md", "code": "code"}[cell.cell_type]
        metadata = {key: value for key, value in cell.metadata.items() if value}
        extra = " " + json.dumps(metadata, ensure_ascii=False, sort_keys=True) if metadata else ""
        parts.append(f"%% {kind} {cell.id}{extra}\n{cell.source}\n")
    return "\n".join(parts)


def from_text(text: str, previous: nbformat.NotebookNode | None = None) -> nbformat.NotebookNode:
    """A notebook of the cells in `text`; unchanged code cells take their outputs from `previous`.

    Raises ValueError, naming the line, when a cell marker is malformed or an id is used twice.
    """
    head, _, body = text.partition("\n")
    if not head.startswith("%% notebook "):
        raise ValueError("line 1: expected '%% notebook MODULE'")
    module = head.split()[2]
    cells, source = [], []
    for number, line in enumerate(body.splitlines(), start=2):
        if not line.startswith("%% "):
            source.append(line)
            continue
        _finish(cells, source)
        kind, cell_id, *extra = line[3:].split(" ", 2)
        if kind not in ("md", "code") or any(cell.id == cell_id for cell in cells):
            raise ValueError(f"line {number}: unknown cell kind or repeated id: {line!r}")
        make = nbformat.v4.new_markdown_cell if kind == "md" else nbformat.v4.new_code_cell
        cells.append(make("", id=cell_id, metadata=json.loads(extra[0]) if extra else {}))
    _finish(cells, source)
    metadata = {"kernelspec": KERNEL, "language_info": {"name": "python"}}
    notebook = nbformat.v4.new_notebook(cells=cells, metadata=metadata)
    if module != "-":
        notebook.metadata["annotated"] = {"module": module}
    _keep_outputs(notebook, previous)
    return notebook


def _finish(cells: list, source: list[str]) -> None:
    if cells:
        cells[-1].source = "\n".join(source).strip("\n")
    source.clear()


def _keep_outputs(notebook: nbformat.NotebookNode, previous: nbformat.NotebookNode | None) -> None:
    known = {cell.id: cell for cell in previous.cells if cell.cell_type == "code"} if previous else {}
    for cell in notebook.cells:
        old = known.get(cell.id)
        if cell.cell_type == "code" and old is not None and old.source == cell.source:
            cell.outputs, cell.execution_count = old.outputs, old.execution_count


def main(arguments: list[str]) -> int:
    if len(arguments) == 1:
        print(to_text(nbformat.read(arguments[0], as_version=4)))
        return 0
    if len(arguments) != 2:
        print(__doc__)
        return 2
    source, target = Path(arguments[0]), Path(arguments[1])
    previous = nbformat.read(target, as_version=4) if target.exists() else None
    try:
        notebook = from_text(source.read_text(encoding="utf-8"), previous)
    except ValueError as error:
        print(f"{source}: {error}", file=sys.stderr)
        return 1
    nbformat.write(notebook, target)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
