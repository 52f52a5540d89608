"""Which outputs of a chapter are stored anew after it ran, and what says that stored outputs are those of its cells.

Most outputs are compared with the stored ones by the tests, so what a run writes is stored. Two kinds of outputs differ
from run to run and would fill a diff with what nobody changed:

- those of a cell that is exempt from comparison (`nbval-ignore-output`), such as timings and live training. They stay
  while the chapter's code is as it was and the new text differs in numbers and names of machines alone;
- pictures that look the same, drawn from numbers whose last digits differ between processors.
"""

from __future__ import annotations

import hashlib
import re

from nbformat import NotebookNode

from tools.clean import code_cells
from tools.drawings import NARROW, SVG, look_the_same

EXEMPT = "nbval-ignore-output"
NUMBER = re.compile(r"[-+]?\d[\d.,_]*(?:[eE][-+]?\d+)?")
MACHINE = re.compile(r"\b(?:cpu|cuda(?::\d+)?|mps): [^\n]*|\b(?:Intel|AMD|NVIDIA|Apple M|ARM|Ampere|Neoverse)[^\n,;)]*")


def sources_hash(notebook: NotebookNode) -> str:
    """A hash of a chapter's code: its outputs are those of these cells. Short, it stands in diffs."""
    parts = (part for cell in code_cells(notebook) for part in (cell.id, cell.source))
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def are_stale(notebook: NotebookNode) -> bool:
    """Whether a notebook's outputs are not those of its cells."""
    executed = notebook.metadata.get("annotated", {}).get("executed", {}).get("sources")
    return bool(code_cells(notebook)) and executed != sources_hash(notebook)


def is_exempt(cell: NotebookNode) -> bool:
    return EXEMPT in cell.metadata.get("tags", [])


def template(outputs: list[NotebookNode]) -> list[tuple[str, ...]]:
    """Outputs without what changes from run to run: numbers, names of machines, and pictures."""

    def plain(text: str) -> str:
        return " ".join(NUMBER.sub("#", MACHINE.sub("MACHINE", text)).split())

    found = []
    for output in outputs:
        texts = {"text": output.text} if output.output_type == "stream" else dict(output.get("data", {}))
        shown = {f"{kind} {plain(text)}" if kind.startswith("text") else "picture" for kind, text in texts.items()}
        found.append((output.output_type, *sorted(shown)))
    return found


def settle(before: NotebookNode, after: NotebookNode, refresh: bool = False) -> NotebookNode:
    """Put back, in place, what a run need not have changed, and note what the outputs belong to; returns `after`."""
    old = {} if refresh else {cell.id: cell.outputs for cell in code_cells(before)}
    sources = sources_hash(after)
    unchanged = not are_stale(before) and sources_hash(before) == sources
    for cell in code_cells(after):
        if not is_exempt(cell):
            keep_pictures(old.get(cell.id, []), cell.outputs)
        elif cell.id in old and unchanged and template(old[cell.id]) == template(cell.outputs):
            cell.outputs = old[cell.id]
    about = {**after.metadata.get("annotated", {}), "executed": {"sources": sources}}
    after.metadata["annotated"] = NotebookNode(about)
    return after


def keep_pictures(old: list[NotebookNode], new: list[NotebookNode]) -> None:
    """Put the old pictures back where a cell draws as many as before and they look the same."""
    for kind in (SVG, NARROW):
        drawn = [[output.data for output in outputs if kind in output.get("data", {})] for outputs in (old, new)]
        if len(drawn[0]) == len(drawn[1]):
            for before, after in zip(*drawn, strict=True):
                if look_the_same(before[kind], after[kind]):
                    after[kind] = before[kind]
