"""The package is what the chapters say: tools/export.py on small notebooks, then on this repository."""

import ast
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


def test_a_module_is_what_its_cells_say(book):
    """Header, docstring, imports, names, and markers; public docstrings end where they were defined."""
    plain = chapter("plain", about='{"copied": ["plain"]}')
    assert book(init=INIT, c31_stacks=STACKS, c32_attention=LATER, c33_plain=plain) == 0
    text = book.read("stacks.py")
    tree = ast.parse(text)
    assert text.startswith("# Written by `make export` from book/31_stacks.ipynb: edit")
    assert ast.get_docstring(tree) == "Stacks of layers (section 3.1 of the paper)."
    assert text.index("# book/31_stacks.ipynb#norm") < text.index("def norm")
    assert text.index("# book/31_stacks.ipynb#helpers") < text.index("class Layer")
    assert "not exported" not in text
    assert [ast.unparse(node) for node in tree.body[1:4]] == [
        "import math",
        "import torch",
        "from torch import Tensor, nn",
    ]
    assert '__all__ = ["Layer", "SIZE", "norm"]' in text
    said = {node.name: ast.get_docstring(node) for node in ast.walk(tree) if hasattr(node, "decorator_list")}
    assert said == {
        "norm": "Zero mean.\n\nA second line.\n\nDefined in chapter 31: `norm`.",
        "Layer": "One line.\n\nDefined in chapter 31: `helpers`.",
        "forward": "A method.",
        "_twice": "Private.",
    }
    assert ast.get_docstring(ast.parse(book.read("masks.py"))) == "What may be seen."
    assert "PAD = 0" in book.read("masks.py")
    assert "PAD" not in text
    assert "__all__" not in book.read("plain.py")


def test_only_what_changed_is_written_and_what_is_written_by_hand_stays(book, capsys):
    """The package's two files and its folders; any other file beside the chapters' is named, and stays."""
    book(c31_stacks=STACKS, c32_attention=LATER)
    before = (book.root / "annotated" / "masks.py").stat().st_mtime_ns
    (book.root / "book" / "32_attention.ipynb").unlink()
    capsys.readouterr()
    assert book("--check", c31_stacks=STACKS.replace("Zero mean.", "Mean of zero.")) == 1
    said = capsys.readouterr().err
    assert [name for name in ("attention", "masks", "stacks") if f"annotated/{name}.py" in said] == [
        "attention",
        "stacks",
    ]
    assert "Zero mean." in book.read("stacks.py")
    assert book() == book("--check") == 0
    assert "Mean of zero." in book.read("stacks.py")
    assert (book.root / "annotated" / "masks.py").stat().st_mtime_ns == before
    assert not (book.root / "annotated" / "attention.py").exists()
    hands = {"__init__.py": "", "__main__.py": "main = 1\n", "base/files.py": "FILES = 1\n", "mine.py": "MINE = 1\n"}
    (book.root / "annotated" / "base").mkdir()
    for name, text in hands.items():
        (book.root / "annotated" / name).write_text(text, encoding="utf-8")
    assert (book("--check"), book()) == (1, 1)
    assert capsys.readouterr().err.count("annotated/mine.py: ") == 2
    assert {name: book.read(name) for name in hands} == hands


BAD = {
    "syntax error": "#| export\nx = (1,",
    "unknown directive": "#| exports\nx = 1",
    "directive not first": "x = 1\n#| export",
    "no space": "#|export\nx = 1",
    "by hand": "#| export __init__\nx = 1",
    "folded": "#| export\nFOLDED = 1",
    "one line with an import": "#| export\nimport math; x = 1",
    "another kind of quotes": "#| export\ndef f():\n    'F.'",
    "folder": "#| export\nfrom annotated.machine.fast import f",
    "later module": "from annotated.attention import attend",
    "later module, whole": "import annotated.attention as a",
    "later name": "def f():\n    from annotated import attend",
    "later attribute": "import annotated\nannotated.attend(1)",
}


@pytest.mark.parametrize("fault", BAD)
def test_errors_name_notebook_and_cell(book, capsys, fault):
    tags = ' {"tags": ["hide-input"]}' if fault == "folded" else ""
    stacks = f"{STACKS}\n%% code faulty-cell{tags}\n{BAD[fault]}\n"
    assert book(init=INIT, c31_stacks=stacks, c32_attention=LATER) == 1
    assert "book/31_stacks.ipynb#faulty-cell" in capsys.readouterr().err
    assert not (book.root / "annotated" / "stacks.py").exists(), "nothing is written when something is wrong"


def test_a_notebook_that_cannot_be_read_and_one_without_a_module_are_named(book, capsys):
    assert book(c31_stacks=STACKS.replace("notebook stacks", "notebook -")) == 1
    assert "book/31_stacks.ipynb#norm" in capsys.readouterr().err
    (book.root / "book" / "31_stacks.ipynb").write_text("{")
    assert book() == 1
    assert "book/31_stacks.ipynb" in capsys.readouterr().err


MODULES = {"plain": "00", "rival": "20", "stacks": "31", "training": "51", "cost": "52", "marian": "90"}
ORDER = [  # the chapter's module, the cell in it that imports another module, and whether it may
    ("stacks", "exported", "training", False),
    ("stacks", "shown", "training", False),
    ("cost", "exported", "training", True),  # an earlier chapter
    ("stacks", "exported", "marian", True),  # a workshop
    ("rival", "exported", "training", True),  # from a workshop
    ("plain", "exported", "training", False),
    ("plain", "shown", "training", True),  # a chapter that shows the whole
]


@pytest.mark.slow
@pytest.mark.parametrize(("module", "cell", "imported", "may"), ORDER)
def test_the_main_line_imports_what_came_before_and_workshops(book, capsys, module, cell, imported, may):
    texts = {}
    for one in MODULES:
        lines = {cell: f"from annotated.{imported} import NAME as other"} if one == module else {}
        texts[one] = chapter(one, **lines)
    assert book(toc=TOC, **{f"c{number}_{one}": texts[one] for one, number in MODULES.items()}) == (0 if may else 1)
    assert (f"{module}.ipynb#{cell}: imports annotated.{imported}" in capsys.readouterr().err) != may


def test_a_cell_about_the_case_imports_what_it_needs(book):
    stacks = f'{STACKS}\n%% code tired {{"tags": ["case"]}}\nfrom annotated.attention import attend\n'
    assert book(c31_stacks=stacks, c32_attention=LATER) == 0


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
