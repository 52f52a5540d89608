"""The package is what the chapters say: tools/export.py on small notebooks, then on this repository."""

import ast
import subprocess
from pathlib import Path

import nbformat
import pytest

from tests.notebooks import write_notebook
from tools import export

ROOT = Path(__file__).resolve().parents[1]

STACKS = '''%% notebook stacks {"section": "3.1"}

%% md title
# Stacks of layers

%% code norm
#| export
import math

from torch import Tensor
import torch


def norm(x: Tensor) -> Tensor:
    """Zero mean.

    A second line.
    """
    return x - x.mean() + math.pi * torch.zeros(())

%% code shown
print("not exported")

%% code helpers
#| export
import math
from torch import nn


class Layer(nn.Module):
    """One line."""

    def forward(self, x):
        """A method."""
        return _twice(x)


def _twice(x):
    """Private."""
    return 2 * x


SIZE, _HIDDEN = 3, math.e

%% code masks
#| export masks
"""What may be seen."""
PAD = 0
'''
LATER = '''%% notebook attention

%% md title
# Attention

%% code attention
#| export
from annotated.stacks import norm


def attend(x):
    """Attend."""
    return norm(x)
'''
INIT = '_HOME = {"norm": "stacks", "Layer": "stacks", "attend": "attention"}\n'


TOC = """
root: index
parts:
  - caption: Main line
    chapters: [glob: "[0345]*"]
  - caption: Workshops
    chapters: [file: 20_rival, glob: "9?_*"]
"""


def chapter(module: str, exported: str = "", shown: str = "", about: str = "") -> str:
    """A chapter with a cell that it exports and one that it does not."""
    head = f"%% notebook {module} {about}\n%% md title\n# {module}\n"
    return f"{head}%% code exported\n#| export\n{exported}\nNAME = 1\n%% code shown\n{shown}\n"


@pytest.fixture
def book(tmp_path):
    """A function that writes chapters into an empty repository and returns the exporter's status."""

    def write(*arguments: str, toc: str = "", init: str = "", **chapters: str) -> int:
        for name, text in {"_toc.yml": toc, "annotated/__init__.py": init}.items():
            if text:
                (tmp_path / name).parent.mkdir(exist_ok=True)
                (tmp_path / name).write_text(text, encoding="utf-8")
        for name, text in chapters.items():
            write_notebook(tmp_path, name.removeprefix("c"), text)
        return export.main(list(arguments), tmp_path)

    write.root = tmp_path
    write.read = lambda name: (tmp_path / "annotated" / name).read_text(encoding="utf-8")
    return write


def test_module_has_header_docstring_imports_names_and_markers(book):
    assert book(init=INIT, c31_stacks=STACKS, c32_attention=LATER) == 0
    text = book.read("stacks.py")
    tree = ast.parse(text)
    assert text.startswith("# Written by `make export` from book/31_stacks.ipynb: do not edit")
    assert ast.get_docstring(tree) == "Stacks of layers (section 3.1 of the paper)."
    assert text.index("# book/31_stacks.ipynb#norm") < text.index("def norm")
    assert text.index("# book/31_stacks.ipynb#helpers") < text.index("class Layer")
    assert "not exported" not in text
    imports = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    assert [ast.unparse(node) for node in imports] == ["import math", "import torch", "from torch import Tensor, nn"]
    assert tree.body[1:4] == imports, "imports come first, after the docstring"


def test_second_module_of_a_chapter(book):
    book(c31_stacks=STACKS)
    assert "PAD = 0" in book.read("masks.py")
    assert book.read("masks.py").count('"""What may be seen."""\n') == 1
    assert ast.get_docstring(ast.parse(book.read("masks.py"))) == "What may be seen."
    assert "PAD" not in book.read("stacks.py")


def test_public_docstrings_end_where_they_were_defined(book):
    book(c31_stacks=STACKS)
    tree = ast.parse(book.read("stacks.py"))
    said = {node.name: ast.get_docstring(node) for node in ast.walk(tree) if hasattr(node, "decorator_list")}
    assert said["norm"] == "Zero mean.\n\nA second line.\n\nDefined in chapter 31: `norm`."
    assert said["Layer"] == "One line.\n\nDefined in chapter 31: `helpers`."
    assert said["forward"] == "A method."
    assert said["_twice"] == "Private."


def test_output_is_formatted(book):
    book(c31_stacks=STACKS)
    folder = book.root / "annotated"
    assert subprocess.run([export.RUFF, "format", "--check", folder], capture_output=True).returncode == 0
    assert subprocess.run([export.RUFF, "check", "--select", "E4,F,I", folder], capture_output=True).returncode == 0


def test_all_lists_every_public_name_but_of_a_file_that_people_copy(book):
    assert book(c31_stacks=STACKS, c32_plain=chapter("plain", about='{"copied": ["plain"]}')) == 0
    assert '__all__ = ["Layer", "SIZE", "norm"]' in book.read("stacks.py")
    assert "__all__" not in book.read("plain.py")


def test_only_changed_files_are_written_and_forgotten_ones_removed(book, capsys):
    book(c31_stacks=STACKS, c32_attention=LATER)
    kept = book.root / "annotated" / "masks.py"
    before = kept.stat().st_mtime_ns
    (book.root / "book" / "32_attention.ipynb").unlink()
    capsys.readouterr()
    assert book(c31_stacks=STACKS.replace("Zero mean.", "Mean of zero.")) == 0
    assert capsys.readouterr().out.splitlines() == ["annotated/attention.py removed", "annotated/stacks.py written"]
    assert kept.stat().st_mtime_ns == before
    assert not (book.root / "annotated" / "attention.py").exists()


def test_what_is_written_by_hand_is_left_alone(book, capsys):
    """The package's two files and its folders; any other file beside the chapters' is named, and stays."""
    book(c31_stacks=STACKS)
    hands = {"__init__.py": "", "__main__.py": "main = 1\n", "base/files.py": "FILES = 1\n", "mine.py": "MINE = 1\n"}
    (book.root / "annotated" / "base").mkdir()
    for name, text in hands.items():
        (book.root / "annotated" / name).write_text(text, encoding="utf-8")
    assert (book("--check"), book()) == (1, 1)
    said = "annotated/mine.py: no chapter writes it: move it into a folder of annotated/\n"
    assert capsys.readouterr().err == 2 * said
    assert {name: book.read(name) for name in hands} == hands


def test_check_names_what_differs_and_writes_nothing(book, capsys):
    book(c31_stacks=STACKS)
    assert book("--check") == 0
    (book.root / "annotated" / "stacks.py").write_text("changed = 1\n")
    (book.root / "annotated" / "masks.py").unlink()
    capsys.readouterr()
    assert book("--check") == 1
    said = capsys.readouterr().err
    assert all(f"annotated/{name}.py" in said for name in ("stacks", "masks"))
    assert book.read("stacks.py") == "changed = 1\n"


BAD = {
    "syntax error": ("x = (1,", "x = (1,"),
    "unknown directive": ("#| exports\nx = 1", "unknown directive"),
    "directive not first": ("x = 1\n#| export", "unknown directive"),
    "no space": ("#|export\nx = 1", "unknown directive"),
    "twice": ("#| export\ndef norm(x):\n    '''Again.'''", "norm is already in annotated/stacks.py"),
    "by hand": ("#| export __init__\nx = 1", "annotated/__init__.py is written by hand"),
    "folded": ("#| export\nFOLDED = 1", "is exported and folded: what is read is what runs"),
    "no docstring": ("#| export\ndef bare(x):\n    return x", "bare is public and has no docstring"),
    "unknown name": ('#| export\ndef f(x):\n    """F."""\n    return numpy.sum(x)', "numpy"),
    "later module": ("from annotated.attention import attend", "chapter 32"),
    "later module, whole": ("import annotated.attention as a", "chapter 32"),
    "folder": (
        "#| export\nfrom annotated.machine.fast import f",
        "imports annotated.machine.fast, and what is exported",
    ),
    "later name": ("def f():\n    from annotated import attend", "chapter 32"),
    "later attribute": ("import annotated\nannotated.attend(1)", "chapter 32"),
}


@pytest.mark.parametrize("fault", BAD)
def test_errors_name_notebook_and_cell(book, capsys, fault):
    source, expected = BAD[fault]
    source = f"#| export\n{source}" if fault == "syntax error" else source
    tags = ' {"tags": ["hide-input"]}' if fault == "folded" else ""
    stacks = f"{STACKS}\n%% code faulty-cell{tags}\n{source}\n"
    assert book(init=INIT, c31_stacks=stacks, c32_attention=LATER) == 1
    said = capsys.readouterr().err
    assert "book/31_stacks.ipynb#faulty-cell" in said
    assert expected in said or fault == "syntax error"
    assert not (book.root / "annotated" / "stacks.py").exists(), "nothing is written when something is wrong"


def test_bare_export_needs_a_module(book, capsys):
    assert book(c31_stacks=STACKS.replace("notebook stacks", "notebook -")) == 1
    assert "book/31_stacks.ipynb#norm" in capsys.readouterr().err


MODULES = {"plain": "00", "rival": "20", "stacks": "31", "model": "39", "training": "51", "cost": "52", "marian": "90"}
ORDER = [  # the chapter's module, the cell in it that imports another module, and whether it may
    ("stacks", "exported", "training", False),
    ("stacks", "shown", "training", False),
    ("cost", "exported", "training", True),  # an earlier chapter
    ("training", "shown", "training", True),
    ("stacks", "exported", "marian", True),  # a workshop
    ("stacks", "shown", "rival", True),
    ("rival", "exported", "training", True),  # from a workshop
    ("marian", "shown", "training", True),
    ("model", "exported", "training", False),
    ("model", "shown", "training", True),  # the chapters that show the whole
    ("plain", "exported", "training", False),
    ("plain", "shown", "training", True),
]


@pytest.mark.slow
@pytest.mark.parametrize(("module", "cell", "imported", "may"), ORDER)
def test_the_main_line_imports_what_came_before_and_workshops(book, capsys, module, cell, imported, may):
    texts = {}
    for one in MODULES:
        lines = {cell: f"from annotated.{imported} import NAME as other"} if one == module else {}
        texts[one] = chapter(one, **lines)
    assert book(toc=TOC, **{f"c{number}_{one}": texts[one] for one, number in MODULES.items()}) == (0 if may else 1)
    refused = f"#{cell}: imports annotated.{imported}, which chapter 51 writes later\n"
    said = capsys.readouterr().err
    assert said == ("" if may else f"export: book/{MODULES[module]}_{module}.ipynb{refused}")


@pytest.mark.parametrize("tags", ['{"tags": ["case"]}', '{"tags": ["hide-input"]}'])
def test_a_cell_about_the_case_imports_what_it_needs(book, capsys, tags):
    stacks = f"{STACKS}\n%% code tired-wide {tags}\nfrom annotated.attention import attend\n"
    allowed = "case" in tags
    assert book(c31_stacks=stacks, c32_attention=LATER) == (0 if allowed else 1), allowed
    assert ("#tired-wide: imports annotated.attention" in capsys.readouterr().err) != allowed


def test_a_cell_about_the_case_is_not_exported(book, capsys):
    stacks = f'{STACKS}\n%% code tired-wide {{"tags": ["case"]}}\n#| export\nTIRED = 1\n'
    assert book(c31_stacks=stacks, c32_attention=LATER) == 1
    assert "#tired-wide: a cell tagged `case`" in capsys.readouterr().err


def test_without_a_table_of_contents_every_chapter_is_on_the_main_line(book, capsys):
    stacks = chapter("stacks", "from annotated.marian import NAME as other")
    assert book(c31_stacks=stacks, c90_marian=chapter("marian")) == 1
    assert "which chapter 90 writes later" in capsys.readouterr().err


IMPORTS = {  # how a cell imports, and whether that counts
    "from annotated.{} import NAME as other": True,
    "import annotated.{}": True,
    'def f():\n    """F."""\n    from annotated.{} import NAME as other': True,
    "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from annotated.{} import NAME as other": False,
}
CIRCLES = [  # what rival, stacks and training import, and the circle, whose first module's cell closes it
    (("stacks", "rival", ""), ("stacks", "rival", "stacks")),
    (("training", "rival", "stacks"), ("training", "stacks", "rival", "training")),
    (("", "stacks", ""), ("stacks", "stacks")),
]


@pytest.mark.parametrize("line", IMPORTS)
@pytest.mark.parametrize(("imported", "circle"), CIRCLES)
def test_a_circle_of_imports_is_named_with_the_cell_that_closes_it(book, capsys, line, imported, circle):
    texts = {
        f"c{MODULES[module]}_{module}": chapter(module, line.format(name) if name else "")
        for module, name in zip(("rival", "stacks", "training"), imported)
    }
    assert book(toc=TOC, **texts) == IMPORTS[line]
    way = " -> ".join(f"annotated.{module}" for module in circle)
    place = f"book/{MODULES[circle[0]]}_{circle[0]}.ipynb#exported"
    refused = f"export: {place}: closes a circle of imports, {way}: do without one of them\n"
    assert capsys.readouterr().err == (refused if IMPORTS[line] else "")


def test_a_circle_through_the_top_level_is_found(book, capsys):
    rival = chapter("rival", "from annotated.stacks import NAME as other")
    stacks = chapter("stacks", "from annotated import NAME as other")
    assert book(toc=TOC, init='_HOME = {"NAME": "rival"}', c20_rival=rival, c31_stacks=stacks) == 1
    assert "annotated.stacks -> annotated.rival -> annotated.stacks" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("about", "said"),
    [
        ('{"copied": ["files"]}', '"copied" in its metadata names files, which no cell of it exports'),
        ('{"copied": "stacks"}', '"copied" in its metadata is no list of names'),
    ],
)
def test_faulty_metadata_is_named(book, capsys, about, said):
    assert book(c31_stacks=chapter("stacks", about=about)) == 1
    assert f"export: book/31_stacks.ipynb: {said}" in capsys.readouterr().err


def test_a_public_name_that_its_module_lacks_is_named(book, capsys):
    assert book(init=INIT.replace('"Layer"', '"Missing"'), c31_stacks=STACKS, c32_attention=LATER) == 1
    assert capsys.readouterr().err == "export: annotated/__init__.py: annotated.stacks has no Missing\n"


def test_broken_notebook_is_named(book, capsys):
    book(c31_stacks=STACKS)
    (book.root / "book" / "32_attention.ipynb").write_text("{")
    assert book() == 1
    assert "book/32_attention.ipynb" in capsys.readouterr().err


@pytest.mark.slow
def test_saving_a_chapter_in_jupyter_exports_it(book):
    """With the configuration of `make lab`, and Jupyter's own way of saving."""
    pytest.importorskip("jupyter_server")
    from jupyter_server.services.contents.filemanager import FileContentsManager
    from traitlets.config import PyFileConfigLoader

    book(c31_stacks=STACKS)
    config = PyFileConfigLoader("lab.py", str(ROOT / "tools")).load_config()
    manager = FileContentsManager(config=config, root_dir=str(book.root / "book"))
    model = manager.get("31_stacks.ipynb")
    for cell in model["content"]["cells"]:
        cell["source"] = cell["source"].replace("Zero mean.", "Mean of zero.")
    manager.save(model, "31_stacks.ipynb")
    assert "Mean of zero." in book.read("stacks.py")


# This repository


@pytest.mark.slow
def test_every_exported_cell_is_in_the_package():
    """Read without the exporter: each exported cell's marker stands in the module that it names."""
    for path in sorted((ROOT / "book").glob("[0-9]*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        for cell in notebook.cells:
            words = cell.source.split("\n")[0].split()
            if words[:2] != ["#|", "export"]:
                continue
            if all(isinstance(node, ast.Import | ast.ImportFrom) for node in ast.parse(cell.source).body):
                continue
            module = words[2] if len(words) > 2 else notebook.metadata["annotated"]["module"]
            text = (ROOT / "annotated" / f"{module}.py").read_text(encoding="utf-8")
            assert f"# book/{path.name}#{cell.id}\n" in text


def test_no_module_postpones_its_annotations():
    """jaxtyping and beartype read annotations when a function is defined."""
    for path in (ROOT / "annotated").rglob("*.py"):
        assert "from __future__ import annotations" not in path.read_text(encoding="utf-8"), path.name
