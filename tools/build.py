"""Render the book into _build/html: `python -m tools.build` shows stored outputs, `--execute` runs chapters first.

Chapters are executed as copies, and only where their code, the package, data/ or the ledger changed since the copy
under .cache/book/ was made. A rendering replaces the last one only when it is complete.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from html import unescape
from pathlib import Path
from urllib.parse import unquote

import nbformat
import yaml

from tools import ROOT
from tools.clean import clean, code_cells, write_if_changed
from tools.contents import parts_of
from tools.drawings import PICTURES
from tools.execute import ChapterError, run, run_all, with_outputs
from tools.repository import origin

PAGES = (".ipynb", ".md")
SKIPPED = ("__pycache__", ".ipynb_checkpoints", ".DS_Store")


def digest(paths: Iterable[Path], root: Path, *more: str) -> str:
    """A hash of files' names and contents, folders with all that is in them."""
    total = hashlib.sha256("\0".join(more).encode())
    for path in paths:
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file() and not set(SKIPPED) & set(file.parts):
                total.update(f"\0{file.relative_to(root)}\0".encode())
                total.update(hashlib.sha256(file.read_bytes()).digest())
    return total.hexdigest()


def toc_entries(root: Path) -> list[str]:
    """The pages of the table of contents, in order. Raises ChapterError for one without a file."""
    pages = [yaml.safe_load((root / "_toc.yml").read_text(encoding="utf-8"))["root"]]
    for entry in (entry for _, entries in parts_of(root) for entry in entries):
        found = {path.stem for path in (root / "book").glob(f"{entry.get('glob')}.*") if path.suffix in PAGES}
        pages += [entry["file"]] if "file" in entry else sorted(found)
    missing = [page for page in pages if not source_of(root / "book", page)]
    if missing:
        raise ChapterError(f"_toc.yml names pages that do not exist: {', '.join(missing)}")
    return pages


def source_of(folder: Path, page: str) -> Path | None:
    """The notebook or Markdown file of a page in a folder."""
    found = [folder / f"{page}{suffix}" for suffix in PAGES]
    return next((path for path in found if path.is_file()), None)


def execute(root: Path, pages: list[str]) -> dict[Path, Path]:
    """Executed copies of the chapters, made where something changed: chapter -> copy. Raises ChapterError."""
    cache = root / ".cache" / "book"
    cache.mkdir(parents=True, exist_ok=True)
    book = root / "book"
    inputs = [root / "annotated", root / "data", root / "requirements.lock"]
    inputs += [book / name for name in ("figures", "ledger.yml", "matplotlibrc", "schematics.py")]
    shared = digest(inputs, root)
    chapters = [source_of(book, page) for page in pages]
    chapters = [path for path in chapters if path.suffix == ".ipynb"]
    keys = {}
    for path in chapters:
        cells = code_cells(nbformat.read(path, as_version=4))
        keys[path] = digest([], root, shared, *(f"{cell.id}\n{cell.metadata}\n{cell.source}" for cell in cells))
    copies = {path: cache / path.name for path in chapters}

    def is_fresh(path: Path) -> bool:
        stamp = copies[path].with_suffix(".key")
        return copies[path].exists() and stamp.exists() and stamp.read_text() == keys[path]

    def job(path: Path) -> str:
        copies[path].with_suffix(".key").unlink(missing_ok=True)
        write_if_changed(run(path, path.parent), copies[path])
        copies[path].with_suffix(".key").write_text(keys[path])
        return "executed"

    due = [path for path in chapters if not is_fresh(path)]
    print(f"{len(due)} of {len(chapters)} chapters to execute", flush=True)
    failures = run_all(due, job)
    if failures:
        raise ChapterError(f"{failures} of {len(due)} chapters failed")
    return copies


def stage(root: Path, copies: dict[Path, Path]) -> Path:
    """A copy of book/ with the outputs to show."""
    folder = root / "_build" / "source"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(root / "book", folder, ignore=shutil.ignore_patterns(*SKIPPED, "*.new", "_ext"))
    code = folder.parent / "annotated"  # pages quote ../annotated/..., as seen from book/
    code.unlink(missing_ok=True)
    code.symlink_to(root / "annotated")
    for path in sorted((root / "book").glob("*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        if path in copies:
            notebook = with_outputs(notebook, nbformat.read(copies[path], as_version=4))
        write_if_changed(clean(notebook), folder / path.name)
    return folder


def render(root: Path, source: Path, builder: str = "html") -> Path:
    """Run jupyter-book over the staged folder; returns the folder of the new pages. Raises ChapterError."""
    output = root / "_build" / f"render-{builder}"
    shutil.rmtree(output, ignore_errors=True)
    command = [sys.executable, "-c", "from jupyter_book.cli.main import main; main()", "build", str(source)]
    command += ["--config", str(root / "_config.yml"), "--toc", str(root / "_toc.yml"), "--path-output", str(output)]
    command += ["--builder", builder]
    done = subprocess.run([*command, "-W", "-n", "--keep-going"], capture_output=True, text=True, cwd=root)
    log = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr).replace(f"{source}/", "")
    (root / "_build" / "render.log").write_text(log, encoding="utf-8")
    if done.returncode:
        lines = [line for line in log.splitlines() if re.search(r"WARNING|ERROR|Error|Exception", line)]
        said = "\n".join(f"    {line}" for line in lines or log.splitlines()[-20:])
        raise ChapterError(f"jupyter-book failed (all of it in _build/render.log):\n{said}")
    return output / "_build" / builder


def check_site(site: Path, source: Path, pages: list[str]) -> None:
    """Raise ChapterError for a page, or a picture of a page, that is not there."""
    problems = []
    for page in pages:
        html = site / f"{page}.html"
        if not html.is_file():
            problems.append(f"{page}.html is missing")
            continue
        text = html.read_text("utf-8")
        images = [unquote(unescape(name)) for name in re.findall(r'<img[^>]*?\ssrc="([^"]+)"', text)]
        for name in [*images, *re.findall(r'<source[^>]*?\ssrcset="([^"]+)"', text)]:
            if not name.startswith("data:") and not (html.parent / name.split("?")[0]).resolve().is_file():
                problems.append(f"{page}.html shows {name}, which is missing")
        notebook = source_of(source, page)
        if notebook.suffix == ".ipynb":
            cells = code_cells(nbformat.read(notebook, as_version=4))
            shown = [
                cell for cell in cells if not {"remove-cell", "remove-output"} & set(cell.metadata.get("tags", []))
            ]
            stored = [PICTURES & set(output.get("data", {})) for cell in shown for output in cell.outputs]
            drawn, seen = sum(map(bool, stored)), len(images) + text.count('<div class="chart">')
            if drawn > seen:
                problems.append(f"{page}.html has {seen} pictures, its notebook {drawn}")
    if problems:
        raise ChapterError("\n".join(problems))


def build(root: Path, execute_chapters: bool) -> int:
    """Make _build/html; returns how many pages it has. Raises ChapterError."""
    pages = toc_entries(root)
    copies = execute(root, pages) if execute_chapters else {}
    source = stage(root, copies)
    site, stamp = root / "_build" / "html", root / "_build" / "html.key"
    parts = ["_config.yml", "_toc.yml", "annotated", "book/_ext", "tools/build.py", "requirements.lock", "package.json"]
    parts += ["pyproject.toml", "data/models/embedded", "data/runs/case", "data/runs/heads"]  # what pages load
    parts += ["data/embedded", "data/paper.yml", "data/runs/table-3"]  # what cells read that run in the page
    addresses = os.environ.get("ANNOTATED_URL", ""), origin(root)
    key = digest([source, *(root / part for part in parts)], root, *addresses)
    if not (site.is_dir() and stamp.exists() and stamp.read_text() == key):
        print(f"rendering {len(pages)} pages", flush=True)
        new = render(root, source)
        check_site(new, source, pages)
        stamp.unlink(missing_ok=True)
        shutil.rmtree(site, ignore_errors=True)
        shutil.move(new, site)
        stamp.write_text(key)
    else:
        check_site(site, source, pages)
    return len(pages)


def main(arguments: list[str], root: Path = ROOT) -> int:
    about = "Render the book into _build/html, with the stored outputs."
    parser = argparse.ArgumentParser(prog="python -m tools.build", description=about)
    parser.add_argument("--execute", action="store_true", help="run chapters first where something changed")
    options = parser.parse_args(arguments)
    began = time.monotonic()
    try:
        pages = build(root, options.execute)
    except ChapterError as error:
        print(f"build: {error}", file=sys.stderr)
        return 1
    print(f"{pages} pages in _build/html ({time.monotonic() - began:.0f} s): open _build/html/index.html")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
