"""A chapter as plain text, and back.

`python -m tools.text NOTEBOOK` prints the text, `python -m tools.text TEXT NOTEBOOK` makes the notebook.

A line `%% md ID` or `%% code ID` starts a cell; JSON after the id is the cell's metadata. The first line is
`%% notebook MODULE`: the module that a bare `#| export` writes to (`-` for none), and then what else the book knows of
the chapter, as JSON. Outputs stay in the notebook: a code cell whose id and source did not change keeps them.

`--grep PATTERN` searches the text of all pages, without outputs.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import nbformat

from tools import ROOT
from tools.clean import KERNEL, clean, code_cells, write_if_changed

OWN = ("module", "executed")  # of the notebook's metadata: said in another way, and what `make execute` notes


def to_text(notebook: nbformat.NotebookNode) -> str:
    """The notebook's cells as text, without outputs."""
    about = notebook.metadata.get("annotated", {})
    rest = {key: value for key, value in about.items() if key not in OWN}
    parts = [f"%% notebook {about.get('module', '-')}{as_json(rest)}"]
    for cell in notebook.cells:
        kind = {"markdown": "md", "code": "code"}[cell.cell_type]
        metadata = {key: value for key, value in cell.metadata.items() if value}
        parts.append(f"%% {kind} {cell.id}{as_json(metadata)}\n{cell.source}\n")
    return "\n".join(parts)


def as_json(metadata: dict) -> str:
    return " " + json.dumps(metadata, ensure_ascii=False, sort_keys=True) if metadata else ""


def from_text(text: str, previous: nbformat.NotebookNode | None = None) -> nbformat.NotebookNode:
    """A notebook of the cells in `text`; unchanged code cells take their outputs from `previous`.

    Raises ValueError, naming the line, when a cell marker is malformed or an id is used twice.
    """
    head, _, body = text.partition("\n")
    if not head.startswith("%% notebook "):
        raise ValueError("line 1: expected '%% notebook MODULE'")
    module, _, rest = head.removeprefix("%% notebook ").partition(" ")
    about = metadata_of(rest, 1)
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
        cells.append(make("", id=cell_id, metadata=metadata_of(extra[0] if extra else "", number)))
    _finish(cells, source)
    metadata = {"kernelspec": KERNEL, "language_info": {"name": "python"}}
    notebook = nbformat.v4.new_notebook(cells=cells, metadata=metadata)
    executed = previous.metadata.get("annotated", {}).get("executed") if previous else None
    about |= ({} if module == "-" else {"module": module}) | ({"executed": executed} if executed else {})
    if about:
        notebook.metadata["annotated"] = nbformat.from_dict(about)
    _keep_outputs(notebook, previous)
    return notebook


def metadata_of(text: str, line: int) -> dict:
    """The JSON behind a marker. Raises ValueError, naming the line, where it is none."""
    try:
        metadata = json.loads(text or "{}")
    except ValueError as error:
        raise ValueError(f"line {line}: the metadata is not JSON ({error})") from None
    if not isinstance(metadata, dict):
        raise ValueError(f"line {line}: the metadata is not a JSON object: {text}")
    return metadata


def _finish(cells: list, source: list[str]) -> None:
    if cells:
        cells[-1].source = "\n".join(source).strip("\n")
    source.clear()


def _keep_outputs(notebook: nbformat.NotebookNode, previous: nbformat.NotebookNode | None) -> None:
    known = {cell.id: cell for cell in code_cells(previous)} if previous else {}
    for cell in code_cells(notebook):
        old = known.get(cell.id)
        if old is not None and old.source == cell.source:
            cell.outputs = old.outputs


def found(pattern: re.Pattern, book: Path) -> Iterator[str]:
    """Lines of all pages and lists of the book that match, each with the place where it stands."""
    for path in sorted(book.iterdir()):
        if path.suffix == ".ipynb":
            cells = [(f"{path.stem}#{cell.id}", cell.source) for cell in nbformat.read(path, as_version=4).cells]
        elif path.suffix in (".md", ".yml"):
            cells = [(path.name, path.read_text(encoding="utf-8"))]
        else:
            continue
        for place, text in cells:
            yield from (f"{place}: {line.strip()}" for line in text.splitlines() if pattern.search(line))


def main(arguments: list[str], root: Path = ROOT) -> int:
    about = "A chapter as plain text, and back: one name prints the text, two make the notebook of it."
    parser = argparse.ArgumentParser(prog="python -m tools.text", description=about)
    parser.add_argument("source", type=Path, nargs="?", metavar="NOTEBOOK|TEXT", help="what to print, or to read")
    parser.add_argument("target", type=Path, nargs="?", metavar="NOTEBOOK", help="the notebook to make of the text")
    parser.add_argument("--grep", metavar="PATTERN", help="lines of all pages that match, capitals or not")
    options = parser.parse_args(arguments)
    source, target = options.source, options.target
    if (source is None) == (options.grep is None):
        parser.error("name a notebook, or give --grep")
    try:
        if options.grep is not None:
            lines = list(found(re.compile(options.grep, re.IGNORECASE), root / "book"))
            print("\n".join(lines))
            return 0 if lines else 1
        if target is None:
            print(to_text(nbformat.read(source, as_version=4)))
            return 0
        previous = nbformat.read(target, as_version=4) if target.exists() else None
        write_if_changed(clean(from_text(source.read_text(encoding="utf-8"), previous)), target)
    except (ValueError, OSError, re.error, nbformat.reader.NotJSONError) as error:
        print(f"{source or options.grep}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
