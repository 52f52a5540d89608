"""Run chapters and store their outputs: `python -m tools.execute [--refresh] CHAPTER...` or `--all`.

A chapter is named by its number, its file's name or its path. Two run at a time, with one thread each; chapter 59,
which trains and takes longest, is begun first. Outputs that are exempt from comparison, such as timings,
stay where the chapter's code did not change (tools/outputs.py); `--refresh`, or REFRESH=1, renews all.
"""

from __future__ import annotations

import argparse
import copy
import os
import re
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat import NotebookNode

from tools import ROOT, limits
from tools.clean import clean, code_cells, write_if_changed
from tools.outputs import is_exempt, settle

TRAINING = "59_training.ipynb"  # the longest chapter, begun first


class ChapterError(Exception):
    """A cell failed; the message names chapter, cell and error."""


def environment(threads: int) -> dict[str, str]:
    """The variables of a process that runs chapters or tests; its own children inherit them, and so the threads.

    Compiled modules are kept, wherever else that is switched off: hundreds of processes import the same ones.
    """
    count = str(threads)
    changes = {"OMP_NUM_THREADS": count, "MKL_NUM_THREADS": count, "PYTHONHASHSEED": "0"}
    changes |= {"PYDEVD_DISABLE_FILE_VALIDATION": "1", "GOMP_SPINCOUNT": os.environ.get("GOMP_SPINCOUNT", "1000")}
    dropped = ("MPLBACKEND", "PYTHONDONTWRITEBYTECODE")
    return {name: value for name, value in os.environ.items() if name not in dropped} | changes


def run(path: Path, folder: Path) -> NotebookNode:
    """The chapter's notebook, executed in `folder` and cleaned. Raises ChapterError."""
    notebook = nbformat.read(path, as_version=4)
    cell_id = "the kernel's start"

    def remember(cell: NotebookNode, **_: object) -> None:
        nonlocal cell_id
        cell_id = cell.id

    client = NotebookClient(
        notebook,
        timeout=limits.CELL,
        startup_timeout=limits.KERNEL,
        iopub_timeout=limits.OUTPUT,
        kernel_name="python3",
        record_timing=False,
        extra_arguments=["--IPKernelApp.log_level=40", "--IPKernelApp.extra_extensions=tools.drawings"],
        resources={"metadata": {"path": str(folder)}},
        on_cell_start=remember,
    )
    try:
        client.execute(env=environment(1) | {"PYTHONPATH": str(ROOT)})
    except CellExecutionError as error:
        trace = re.sub(r"\x1b\[[0-9;]*m", "", error.traceback).strip()
        said = f"{error.ename}: {error.evalue}"
        raise ChapterError(f"chapter {path.stem}, cell {cell_id}: {said}\n{indented(trace)}") from error
    except Exception as error:
        said = f"{type(error).__name__}: {error}".strip()
        raise ChapterError(f"chapter {path.stem}, cell {cell_id}:\n{indented(said)}") from error
    return clean(notebook)


def indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())


def longest_first(paths: Iterable[Path]) -> list[Path]:
    return sorted(paths, key=lambda path: (path.name != TRAINING, path.name))


def run_all(paths: Iterable[Path], job: Callable[[Path], str]) -> int:
    """Call `job` for each chapter, two at a time; returns how many failed."""
    began, failures = {}, 0

    def timed(path: Path) -> str:
        began[path] = time.monotonic()
        return job(path)

    with ThreadPoolExecutor(2) as pool:
        futures = {pool.submit(timed, path): path for path in longest_first(paths)}
        for done, future in enumerate(as_completed(futures), start=1):
            path = futures[future]
            seconds = time.monotonic() - began[path]
            try:
                said = future.result()
            except ChapterError as error:
                failures += 1
                said = f"FAILED\n\n{error}\n"
            print(f"[{done}/{len(futures)}] {path.stem}  {seconds:.1f} s  {said}", flush=True)
    return failures


def store(path: Path, refresh: bool = False) -> str:
    """Run a chapter of book/ and store its outputs, unless it was edited meanwhile."""
    before = nbformat.read(path, as_version=4)
    executed = run(path, path.parent)
    now = nbformat.read(path, as_version=4)
    if [(cell.id, cell.source) for cell in now.cells] != [(cell.id, cell.source) for cell in before.cells]:
        raise ChapterError(f"chapter {path.stem} was edited while it ran: outputs not stored, run it again")
    settled = settle(before, executed, refresh)
    if not write_if_changed(settled, path):
        return "unchanged"
    renewed = [new.id for old, new in zip(before.cells, settled.cells) if is_exempt(new) and old.outputs != new.outputs]
    return f"stored; exempt outputs renewed: {', '.join(renewed)}" if renewed else "stored"


def with_outputs(notebook: NotebookNode, executed: NotebookNode) -> NotebookNode:
    """A copy of the notebook whose code cells have the outputs of the executed one, by id."""
    notebook, known = copy.deepcopy(notebook), {cell.id: cell for cell in executed.cells}
    for cell in code_cells(notebook):
        cell.outputs = known[cell.id].outputs
    return notebook


def find(name: str, book: Path) -> Path:
    """The notebook that a number, a name or a path stands for. Raises ChapterError."""
    for path in (Path(name), book / name, book / f"{name}.ipynb", *sorted(book.glob(f"{name}_*.ipynb"))):
        if path.is_file():
            return path
    raise ChapterError(f"no chapter {name!r} in {book.name}/")


def main(arguments: list[str], root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.execute", description=__doc__.split("\n")[0])
    parser.add_argument("chapters", nargs="*", metavar="CHAPTER", help="59, 59_training or a path")
    parser.add_argument("--all", action="store_true", help="every chapter of book/")
    refresh = os.environ.get("REFRESH", "") not in ("", "0")
    parser.add_argument("--refresh", action="store_true", default=refresh, help="renew exempt outputs, too")
    options = parser.parse_args(arguments)
    if options.all == bool(options.chapters):
        parser.error("name chapters, or give --all")
    book = root / "book"
    try:
        paths = sorted(book.glob("*.ipynb")) if options.all else [find(name, book) for name in options.chapters]
    except ChapterError as error:
        print(error, file=sys.stderr)
        return 2
    return 1 if run_all(paths, lambda path: store(path, options.refresh)) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
