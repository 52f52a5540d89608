"""The one test that names everything a chapter lacks, and how wide an open cell may be: tools/structure.py."""

import re

import pytest

from tests.notebooks import write_notebook
from tools.structure import OPEN_LINE, Book

TOC = """format: jb-book
root: index
parts:
  - caption: Model
    chapters:
      - glob: "3[0-9]_*"
  - caption: Workshops
    chapters:
      - glob: "9[0-9]_*"
"""


def test_nothing_is_missing():
    problems = Book().problems()
    assert not problems, "\n" + "\n".join(problems)


def line_of(length):
    return "x = 1  # " + "y" * (length - 9)


@pytest.mark.parametrize(
    ("name", "cell", "length", "seen"),
    [
        ("31_main", "", OPEN_LINE, False),
        ("31_main", "", OPEN_LINE + 1, True),
        ("31_main", ' {"tags": ["stepper"]}', OPEN_LINE + 1, True),
        ("31_main", ' {"tags": ["hide-input"]}', OPEN_LINE + 1, False),
        ("31_main", ' {"tags": ["hide-cell"]}', OPEN_LINE + 1, False),
        ("31_main", ' {"tags": ["remove-cell"]}', OPEN_LINE + 1, False),
        ("31_main", "\n#| export", OPEN_LINE + 1, True),
        ("91_workshop", "", OPEN_LINE + 1, False),
    ],
)
def test_an_open_cell_of_the_main_line_keeps_within_the_page(tmp_path, name, cell, length, seen):
    (tmp_path / "_toc.yml").write_text(TOC)
    write_notebook(
        tmp_path, name, f"%% notebook trial {{}}\n\n%% md title\n# T\n\n%% code wide{cell}\n{line_of(length)}\n"
    )
    found = [said for said in Book(tmp_path).problems() if "open line" in said]
    said = f"book/{name}.ipynb#wide: an open line of {length} characters: wrap it, {OPEN_LINE} at most are seen"
    assert found == ([said] if seen else [])


def test_an_entry_point_is_not_run_in_a_kernel():
    """There, too, the module is called `__main__`, and the arguments are the kernel's: it would write a file `-f`."""
    for name, notebook in Book().notebooks.items():
        for cell in notebook.cells:
            if cell.cell_type == "code" and re.search(r'^if __name__ == "__main__"', cell.source, re.MULTILINE):
                assert {"skip-execution", "nbval-skip"} <= set(cell.metadata.get("tags", [])), f"{name}#{cell.id}"
