"""The package is what the chapters say: tools/export.py on small notebooks, then on this repository."""

import ast
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from tests.notebooks import write_notebook
from tools import export

ROOT = Path(__file__).resolve().parents[1]
MODEL_MODULES = ["stacks", "masks", "attention", "feed_forward", "embeddings", "positional_encoding", "model"]

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
COMMAND = '''%% notebook cli

%% md title
# Command line

%% code main
#| export
def main():
    """Run."""

%% code public
#| export __init__
PUBLIC = {"stacks": ["norm", "Layer"], "attention": ["attend"]}
__version__ = "1.2.3"

%% code start
#| export __main__
from annotated.cli import main

if __name__ == "__main__":
    main()
'''


@pytest.fixture
def book(tmp_path):
    """A function that writes a chapter into an empty repository and returns the exporter's status."""

    def write(*arguments: str, **chapters: str) -> int:
        for name, text in chapters.items():
            write_notebook(tmp_path, name.removeprefix("c"), text)
        return export.main(list(arguments), tmp_path)

    write.root = tmp_path
    write.read = lambda name: (tmp_path / "annotated" / name).read_text(encoding="utf-8")
    return write


def test_module_has_header_docstring_imports_names_and_markers(book):
    assert book(c31_stacks=STACKS) == 0
    text = book.read("stacks.py")
    tree = ast.parse(text)
    assert text.startswith("# Written by `make export` from book/31_stacks.ipynb: do not edit")
    assert ast.get_docstring(tree) == "Stacks of layers: chapter 31 of the book, section 3.1 of the paper."
    assert '__all__ = ["Layer", "SIZE", "norm"]' in text
    assert text.index("# book/31_stacks.ipynb#norm") < text.index("def norm")
    assert text.index("# book/31_stacks.ipynb#helpers") < text.index("class Layer")
    assert "not exported" not in text
    imports = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    assert [ast.unparse(node) for node in imports] == ["import math", "import torch", "from torch import Tensor, nn"]
    assert tree.body[1:4] == imports, "imports come first, after the docstring"


def test_second_module_of_a_chapter(book):
    book(c31_stacks=STACKS)
    assert "PAD = 0" in book.read("masks.py")
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
    book(c31_stacks=STACKS, c91_command_line=COMMAND.replace(', "attention": ["attend"]', ""))
    folder = book.root / "annotated"
    assert subprocess.run([export.RUFF, "format", "--check", folder], capture_output=True).returncode == 0
    assert subprocess.run([export.RUFF, "check", "--select", "E4,F,I", folder], capture_output=True).returncode == 0


def test_init_without_chapter_91(book):
    book(c31_stacks=STACKS)
    tree = ast.parse(book.read("__init__.py"))
    assert ast.get_docstring(tree)
    assert ast.unparse(tree.body[1:]) == "__version__ = '0.1.0'"
    assert book.read("py.typed") == ""


@pytest.mark.slow
def test_init_loads_public_names_lazily(book):
    assert book(c31_stacks=STACKS, c32_attention=LATER, c91_command_line=COMMAND) == 0
    code = """
import sys, annotated
assert annotated.__version__ == "1.2.3" and annotated.__all__ == ["Layer", "attend", "norm"]
assert {*annotated.__all__} <= {*dir(annotated)}
assert "torch" not in sys.modules and "annotated.stacks" not in sys.modules
assert annotated.norm.__module__ == "annotated.stacks" and "torch" in sys.modules
from annotated import attend
try:
    annotated.nothing
except AttributeError as error:
    assert "nothing" in str(error)
else:
    raise SystemExit("no AttributeError")
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=book.root, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "if TYPE_CHECKING:" in book.read("__init__.py")
    assert "main()" in book.read("__main__.py")


def test_only_changed_files_are_written_and_forgotten_ones_removed(book, capsys):
    book(c31_stacks=STACKS)
    kept = book.root / "annotated" / "masks.py"
    before = kept.stat().st_mtime_ns
    (book.root / "annotated" / "forgotten.py").write_text("")
    capsys.readouterr()
    assert book(c31_stacks=STACKS.replace("Zero mean.", "Mean of zero.")) == 0
    assert sorted(capsys.readouterr().out.split("\n")) == [
        "",
        "annotated/forgotten.py removed",
        "annotated/stacks.py written",
    ]
    assert kept.stat().st_mtime_ns == before
    assert not (book.root / "annotated" / "forgotten.py").exists()


def test_check_names_what_differs_and_writes_nothing(book, capsys):
    book(c31_stacks=STACKS)
    assert book("--check") == 0
    (book.root / "annotated" / "stacks.py").write_text("changed = 1\n")
    (book.root / "annotated" / "extra.py").write_text("")
    (book.root / "annotated" / "masks.py").unlink()
    capsys.readouterr()
    assert book("--check") == 1
    said = capsys.readouterr().err
    assert all(f"annotated/{name}.py" in said for name in ("stacks", "extra", "masks"))
    assert book.read("stacks.py") == "changed = 1\n"


BAD = {
    "syntax error": ("x = (1,", "x = (1,"),
    "unknown directive": ("#| exports\nx = 1", "unknown directive"),
    "directive not first": ("x = 1\n#| export", "unknown directive"),
    "no space": ("#|export\nx = 1", "unknown directive"),
    "twice": ("#| export\ndef norm(x):\n    '''Again.'''", "norm is already in annotated/stacks.py"),
    "no docstring": ("#| export\ndef bare(x):\n    return x", "bare is public and has no docstring"),
    "unknown name": ('#| export\ndef f(x):\n    """F."""\n    return numpy.sum(x)', "numpy"),
    "later module": ("from annotated.attention import attend", "chapter 32"),
    "later module, whole": ("import annotated.attention as a", "chapter 32"),
    "later name": ("def f():\n    from annotated import attend", "chapter 32"),
    "later attribute": ("import annotated\nannotated.attend(1)", "chapter 32"),
}


@pytest.mark.parametrize("fault", BAD)
def test_errors_name_notebook_and_cell(book, capsys, fault):
    source, expected = BAD[fault]
    source = f"#| export\n{source}" if fault == "syntax error" else source
    stacks = f"{STACKS}\n%% code faulty-cell\n{source}\n"
    assert book(c31_stacks=stacks, c32_attention=LATER, c91_command_line=COMMAND) == 1
    said = capsys.readouterr().err
    assert "book/31_stacks.ipynb#faulty-cell" in said
    assert expected in said or fault == "syntax error"
    assert not (book.root / "annotated").exists(), "nothing is written when something is wrong"


def test_bare_export_needs_a_module(book, capsys):
    assert book(c31_stacks=STACKS.replace("notebook stacks", "notebook -")) == 1
    assert "book/31_stacks.ipynb#norm" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("old", "new"),
    [('"Layer"', '"Missing"'), ('["attend"]', '["attend", "norm"]'), ('"1.2.3"', "str(1)"), ("PUBLIC", "PUBLICITY")],
)
def test_faulty_public_list_is_named(book, capsys, old, new):
    assert book(c31_stacks=STACKS, c32_attention=LATER, c91_command_line=COMMAND.replace(old, new)) == 1
    assert "book/91_command_line.ipynb#public" in capsys.readouterr().err


def test_broken_notebook_is_named(book, capsys):
    book(c31_stacks=STACKS)
    (book.root / "book" / "32_attention.ipynb").write_text("{")
    assert book() == 1
    assert "book/32_attention.ipynb" in capsys.readouterr().err


# This repository


@pytest.mark.slow
def test_chapters_and_package_are_identical(capsys):
    assert export.main(["--check"]) == 0, capsys.readouterr().err


def test_every_exported_cell_is_in_the_package():
    """Read without the exporter: each exported cell's marker stands in the module that it names."""
    for path in sorted((ROOT / "book").glob("[0-9]*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        for cell in notebook.cells:
            words = cell.source.split("\n")[0].split()
            if words[:2] != ["#|", "export"] or words[2:] == ["__init__"]:
                continue
            if all(isinstance(node, ast.Import | ast.ImportFrom) for node in ast.parse(cell.source).body):
                continue
            module = words[2] if len(words) > 2 else notebook.metadata["annotated"]["module"]
            text = (ROOT / "annotated" / f"{module}.py").read_text(encoding="utf-8")
            assert f"# book/{path.name}#{cell.id}\n" in text


@pytest.mark.parametrize("module", MODEL_MODULES)
def test_model_modules_import_torch_jaxtyping_and_the_standard_library_only(module):
    tree = ast.parse((ROOT / "annotated" / f"{module}.py").read_text(encoding="utf-8"))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    allowed = {"torch", "jaxtyping", *sys.stdlib_module_names, *(f"annotated.{name}" for name in MODEL_MODULES)}
    assert {name for name in imported if name not in allowed and name.split(".")[0] not in allowed} == set()


def test_no_module_postpones_its_annotations():
    """jaxtyping and beartype read annotations when a function is defined."""
    for path in (ROOT / "annotated").glob("*.py"):
        assert "from __future__ import annotations" not in path.read_text(encoding="utf-8"), path.name
