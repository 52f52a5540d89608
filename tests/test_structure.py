"""The book lacks nothing, and what a chapter lacks is named: tools/structure.py."""

import re

import nbformat
import pytest

from tests.notebooks import write_notebook
from tools.outputs import sources_hash
from tools.structure import Book

TOC = """format: jb-book
root: index
parts:
  - caption: Model
    chapters:
      - glob: "3[0-9]_*"
  - caption: Workshops
    chapters:
      - glob: "2[0-9]_*"
"""
TRIAL = """%% notebook trial {"shows": "a trial"}
%% md title
# Trial

%% code picture {"mystnb": {"image": {"alt": "A line."}}}
draw()

%% code trial
#| export
def trial(x):
    return x

%% md exercises
:::{exercise}
:label: ex-trial-1
:::

:::{exercise}
:label: ex-trial-2
:::

:::{exercise}
:label: ex-trial-3
:::

%% code solution-1
trial(1)

%% code solution-2
trial(2)

%% code solution-3
trial(3)

%% md next
Next: [chapter 32](32_trial.ipynb), then [chapter 20](20_trial.ipynb).
"""


def test_nothing_is_missing():
    problems = Book().problems()
    assert not problems, "\n" + "\n".join(problems)


@pytest.fixture
def book(tmp_path):
    """A book that lacks nothing: two chapters of the main line, and a workshop, whose number does not part them."""
    others = {
        "book/index.md": "",
        "book/references.bib": "",
        "book/ledger.yml": "claims: []",
        "tests/test_trial.py": "",
    }
    for name, text in {"_toc.yml": TOC, **others}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    for name in ("20_trial", "31_trial", "32_trial"):
        path = write_notebook(tmp_path, name, TRIAL)
        notebook = nbformat.read(path, as_version=4)
        notebook.metadata["annotated"]["executed"] = {"sources": sources_hash(notebook)}
        notebook.cells[1].outputs = [nbformat.v4.new_output("display_data", {"image/svg+xml": "<svg/>"})]
        nbformat.write(notebook, path)
    assert Book(tmp_path).problems() == []
    return tmp_path


TITLE = "# Trial\n"
TIMED = "return x\n\nspent = time.perf_counter() - start\nassert spent < 1"
EXEMPT = '"tags": ["nbval-ignore-output"]'


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('{"shows"', '{"hidden"', 'write `%% notebook MODULE {"shows": "..."}`'),
        ('{"shows"', '{"section": "5.3", "shows"', "no box that says what the paper says"),
        (TITLE, "Trial\n", "begins with `# Title`"),
        (TITLE, f"{TITLE}{{cite:p}}`gone`\n", "cites gone: add it to book/references.bib"),
        (TITLE, f"{TITLE}{{cell}}`31_trial#gone`\n", "no cell 31_trial#gone"),
        (TITLE, f"{TITLE}{{claim}}`C-9-z`\n", "no claim C-9-z in book/ledger.yml"),
        (TITLE, f"{TITLE}[there](99_gone.ipynb)\n", "links to 99_gone.ipynb"),
        ('"alt"', '"title"', '#picture: a picture without words: add {"mystnb"'),
        ('{"mystnb"', f'{{{EXEMPT}, "mystnb"', "#picture: not compared, and no reason"),
        ("return x", "return 2 * x", "run `make execute CH=31`"),
        ("return x", TIMED, "#trial: a busy machine can break `assert spent < 1`"),
        ("#| export", "#| export other", "exports other: add tests/test_other.py"),
        (":::{exercise}", ":::{note}", "2 exercises: three are asked for"),
        ("%% code solution-2", "%% code another", "no solution that runs: add a code cell `solution-2`"),
        ("(32_trial.ipynb)", "(31_trial.ipynb)", "#next: the last line does not lead to the next chapter: link to"),
    ],
)
def test_what_a_chapter_lacks_is_named(book, old, new, said):
    path = book / "book" / "31_trial.ipynb"
    assert old in TRIAL
    write_notebook(book, path.stem, TRIAL.replace(old, new, 1), nbformat.read(path, as_version=4))
    stale = "make execute"
    (problem,) = [one for one in Book(book).problems() if stale not in one or stale in said]
    assert problem.startswith("book/31_trial.ipynb")
    assert said in problem


def test_an_entry_point_is_not_run_in_a_kernel():
    """There, too, the module is called `__main__`, and the arguments are the kernel's: it would write a file `-f`."""
    for name, notebook in Book().notebooks.items():
        for cell in notebook.cells:
            if cell.cell_type == "code" and re.search(r'^if __name__ == "__main__"', cell.source, re.MULTILINE):
                assert {"skip-execution", "nbval-skip"} <= set(cell.metadata.get("tags", [])), f"{name}#{cell.id}"
