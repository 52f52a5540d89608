"""Chapters for Colab: `python -m tools.colab FOLDER` writes copies whose first, folded cell fetches the book.

Colab opens a single notebook, without the package and the data beside it. The first cell of a copy clones the default
branch of the repository that `origin` names, goes into its folder `book/`, and installs the package; what Colab has
already, PyTorch above all, stays as it is. `.github/workflows/pages.yml` keeps the copies on the branch `colab`, to
which the launch buttons lead.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import nbformat

from tools import ROOT

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


def prepared(notebook: nbformat.NotebookNode, address: str) -> nbformat.NotebookNode:
    """A copy of a chapter with the first cell."""
    copy = nbformat.from_dict(notebook)
    cell = nbformat.v4.new_code_cell(FIRST.format(address=address), id="colab", metadata={"tags": ["hide-cell"]})
    copy.cells = [cell, *copy.cells]
    return copy


def origin(root: Path) -> str:
    """The address of the repository. Raises ValueError when there is none."""
    done = subprocess.run(["git", "-C", str(root), "remote", "get-url", "origin"], capture_output=True, text=True)
    if done.returncode or not done.stdout.strip():
        raise ValueError("the repository has no remote called origin: give its address with --address")
    return done.stdout.strip()


def main(arguments: list[str], root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.colab", description="Copies of the chapters for Colab.")
    parser.add_argument("folder", type=Path, help="where to write them")
    parser.add_argument("--address", help="of the repository; without it, that of the git remote origin")
    options = parser.parse_args(arguments)
    try:
        address = options.address or origin(root)
    except ValueError as error:
        print(f"colab: {error}", file=sys.stderr)
        return 1
    options.folder.mkdir(parents=True, exist_ok=True)
    for path in sorted((root / "book").glob("*.ipynb")):
        nbformat.write(prepared(nbformat.read(path, as_version=4), address), options.folder / path.name)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
