"""Copies of the chapters for other programs: `python -m tools.colab FOLDER`, for Colab, or with `--local`.

Their texts are plain Markdown (tools/plain_markdown.py), and code that the pages fold away is folded. Colab opens a
single notebook, without the package and the data beside it. So the first cell of a copy clones the default branch of
the repository that `origin` names, goes into its folder `book/`, and installs the package; what Colab has already,
PyTorch above all, stays as it is. `.github/workflows/pages.yml` keeps the copies on the branch `colab`, to which the
launch buttons lead.

Copies for VS Code, JupyterLab and others (`--local`) have no such cell. What the chapters read of `book/` is copied
with them, and they find the data where FOLDER lies beside `book/`: `python -m tools.colab copies --local`.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from pathlib import Path

import nbformat

from tools import ROOT
from tools.plain_markdown import Page
from tools.repository import origin

FIRST = """\
#@title On Colab, run this first: it fetches the book and installs its package {{ display-mode: "form" }}
import os
import subprocess
import sys

folder = os.path.expanduser("~/annotated-book")
if not os.path.isdir(folder):
    subprocess.run(["git", "clone", "--quiet", "--depth", "1", {address!r}, folder], check=True)
os.chdir(f"{{folder}}/book")
subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--editable", ".."], check=True)
sys.path.insert(0, os.path.abspath(".."))  # an installation is seen by the next start of Python only
"""
FOLDED = {  # by the tags of a cell; Colab has a word of its own for folded code
    "hide-cell": {"jupyter": {"source_hidden": True, "outputs_hidden": True}, "cellView": "form"},
    "hide-input": {"jupyter": {"source_hidden": True}, "cellView": "form"},
    "hide-output": {"jupyter": {"outputs_hidden": True}},
}
PAGES_ONLY = ("*.ipynb", "*.md", "_ext", "__pycache__", ".ipynb_checkpoints", "*.new")  # of book/


def prepared(notebook: nbformat.NotebookNode, page: Page, address: str | None = None) -> nbformat.NotebookNode:
    """A copy of a page in plain Markdown; with the repository's address, it begins with the cell that clones it."""
    copy = nbformat.from_dict(notebook)
    for cell in copy.cells:
        if cell.cell_type == "markdown":
            cell.source = page.text(cell.source)
        for tag in cell.metadata.get("tags", []):
            cell.metadata.update(nbformat.from_dict(FOLDED.get(tag, {})))
        for output in cell.get("outputs", []):
            if "text/markdown" in output.get("data", {}):
                output.data["text/markdown"] = page.text(output.data["text/markdown"])
    if address:
        cell = nbformat.v4.new_code_cell(FIRST.format(address=address), id="colab", metadata={"tags": ["hide-cell"]})
        copy.cells = [cell, *copy.cells]
    return copy


def site_of(address: str) -> str:
    """Where GitHub publishes the pages of a repository; empty for one that lies elsewhere."""
    found = re.search(r"github\.com[:/]([\w.-]+)/([\w.-]+?)(?:\.git)?/?$", address)
    if not found:
        return ""
    host = f"{found[1].lower()}.github.io"
    return f"https://{host}/" if found[2].lower() == host else f"https://{host}/{found[2]}/"


def main(arguments: list[str], root: Path = ROOT) -> int:
    about = "Copies of the chapters in plain Markdown, for Colab or for another Jupyter."
    parser = argparse.ArgumentParser(prog="python -m tools.colab", description=about)
    parser.add_argument("folder", type=Path, help="where to write them")
    parser.add_argument("--local", action="store_true", help="without the cell that clones: FOLDER lies beside book/")
    parser.add_argument("--address", help="of the repository; without it, that of the git remote origin")
    parser.add_argument(
        "--site", help="address of the rendered book; without it, that of the repository's GitHub Pages"
    )
    options = parser.parse_args(arguments)
    address = options.address or origin(root)
    if not (address or options.local):
        print("colab: the repository has no remote called origin: give its address with --address", file=sys.stderr)
        return 1
    site = site_of(address) if options.site is None else options.site
    if options.local:
        shutil.copytree(root / "book", options.folder, ignore=shutil.ignore_patterns(*PAGES_ONLY), dirs_exist_ok=True)
    options.folder.mkdir(parents=True, exist_ok=True)
    for path in sorted((root / "book").glob("*.ipynb")):
        page = Page(path.stem, site, "#cell-id=" if options.local else "#scrollTo=", pictures=options.local, root=root)
        copy = prepared(nbformat.read(path, as_version=4), page, None if options.local else address)
        nbformat.write(copy, options.folder / path.name)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
