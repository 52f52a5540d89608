"""Chapters for Colab: the first cell of a copy makes it run where neither package nor data are (tools/colab.py)."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from tools.colab import FIRST, main, prepared

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "book" / "_ext"))
import annotated_book  # noqa: E402


@pytest.mark.slow
def test_every_chapter_gets_the_cell_and_nothing_else_changes(tmp_path):
    assert main([str(tmp_path), "--address", "https://example.org/book.git"]) == 0
    chapters = sorted((ROOT / "book").glob("*.ipynb"))
    assert sorted(path.name for path in tmp_path.iterdir()) == [path.name for path in chapters]
    for path in chapters:
        copy, chapter = (nbformat.read(one, as_version=4) for one in (tmp_path / path.name, path))
        nbformat.validate(copy)
        assert copy.cells[1:] == chapter.cells
        assert "https://example.org/book.git" in copy.cells[0].source
        assert copy.cells[0].source.startswith("#@title")
        assert 'display-mode: "form"' in copy.cells[0].source.splitlines()[0]  # the code is folded


def test_without_an_address_nothing_is_invented(tmp_path, capsys):
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    assert main([str(tmp_path / "copies")], root=tmp_path) == 1
    assert "no remote called origin" in capsys.readouterr().err
    assert not (tmp_path / "copies").exists()


def test_the_cell_fetches_and_installs(tmp_path):
    """In an empty home, with a repository at hand and pip replaced: cloned once, installed, the data in reach."""
    made, pip = tmp_path / "made", tmp_path / "stub" / "pip"
    (made / "book").mkdir(parents=True)
    (made / "data").mkdir()
    (made / "data" / "paper.yml").write_text("known: true\n", encoding="utf-8")
    (made / "book" / "keep").touch()
    pip.mkdir(parents=True)
    log = tmp_path / "pip.log"
    program = f"import os, sys\nopen({str(log)!r}, 'a').write(os.getcwd() + ' ' + ' '.join(sys.argv[1:]) + chr(10))\n"
    (pip / "__main__.py").write_text(program, encoding="utf-8")
    (pip / "__init__.py").touch()
    for command in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "-m", "first"]):
        subprocess.run(["git", "-C", str(made), *command], check=True)
    cell = prepared(nbformat.v4.new_notebook(), made.as_uri()).cells[0].source
    ast.parse(cell)
    empty = tmp_path / "empty"
    empty.mkdir()
    for _ in range(2):  # a second time nothing is cloned, and nothing fails
        program = cell + "\nprint(open('../data/paper.yml').read(), end='')"
        environment = os.environ | {"PYTHONPATH": str(pip.parent), "HOME": str(empty)}
        done = subprocess.run(
            [sys.executable, "-c", program], cwd=empty, env=environment, capture_output=True, text=True
        )
        assert (done.returncode, done.stdout) == (0, "known: true\n"), done.stderr
    called = f"{empty / 'annotated-book' / 'book'} install --quiet --editable .."
    assert log.read_text(encoding="utf-8").splitlines() == [called] * 2


def test_the_button_leads_to_the_copy():
    link = "https://colab.research.google.com/github/someone/book/blob/main/book/32_attention.ipynb"
    for old, new in annotated_book.REPAIRS.items():
        link = re.sub(old, new, link)
    assert link == "https://colab.research.google.com/github/someone/book/blob/colab/32_attention.ipynb"


@pytest.mark.parametrize("wanted", ["torch", "--upgrade", "-U"])
def test_what_colab_has_stays(wanted):
    assert wanted not in FIRST
