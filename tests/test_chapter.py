"""A new chapter's skeleton passes, and what is taken away from it is named: tools/chapter.py, tools/structure.py."""

import shutil

import nbformat
import pytest

from tests.notebooks import write_notebook
from tools import chapter, execute
from tools.clean import ROOT
from tools.export import package_files
from tools.structure import Book
from tools.text import to_text

NAME = "55_gradient_clipping"


@pytest.fixture(scope="module")
def grown(tmp_path_factory):
    """The book with a new chapter between 54 and 59."""
    root = tmp_path_factory.mktemp("book")
    shutil.copytree(ROOT / "book", root / "book", ignore=shutil.ignore_patterns("_ext", "__pycache__"))
    shutil.copy(ROOT / "_toc.yml", root)
    shutil.copy(ROOT / "pyproject.toml", root)
    (root / "tests").mkdir()
    for path in (ROOT / "tests").glob("test_*.py"):
        (root / "tests" / path.name).touch()
    new, test = chapter.make_chapter(root, NAME)
    execute.store(new)
    return root, new, test


def change(path, *replacements):
    notebook = nbformat.read(path, as_version=4)
    text = to_text(notebook)
    for old, new in replacements:
        assert old in text, old
        text = text.replace(old, new, 1)
    write_notebook(path.parents[1], path.stem, text, notebook)


def test_the_skeleton_is_a_chapter_with_outputs_a_module_and_a_test(grown):
    root, new, test = grown
    assert Book(root).problems() == []
    assert "def gradient_clipping(" in package_files(root)["gradient_clipping.py"]
    outputs = [output for cell in nbformat.read(new, as_version=4).cells for output in cell.get("outputs", [])]
    assert {output.output_type for output in outputs} >= {"display_data", "execute_result", "stream"}
    compile(test.read_text(), str(test), "exec")


def test_the_skeleton_stands_between_its_neighbours(grown):
    root, new, _ = grown
    was = nbformat.read(ROOT / "book" / "54_regularization.ipynb", as_version=4).cells[-1].source
    before = nbformat.read(root / "book" / "54_regularization.ipynb", as_version=4).cells[-1].source
    after = nbformat.read(new, as_version=4).cells[-1].source
    assert f"({NAME}.ipynb)" in before
    assert after in was
    assert "(59_training.ipynb)" in after


TITLE = "# Gradient clipping\n"
LACKS = {  # what is taken away from the chapter, or added: what the test says
    "line of the table": (('{"shows"', '{"hidden"'), 'write `%% notebook MODULE {"shows": "..."}`'),
    "title": ((TITLE, TITLE[2:]), "begins with `# Title`"),
    "way on": (("(59_training.ipynb)", "(60_beam_search.ipynb)"), "#next: the last line does not lead to the next"),
    "words for a picture": (('"alt"', '"title"'), '#picture: a picture without words: add {"mystnb"'),
    "exercise": ((":::{exercise}", ":::{note}"), "2 exercises: three are asked for"),
    "solution": (("%% code solution-2", "%% code another-2"), "no solution that runs: add a code cell `solution-2`"),
    "outputs of its code": (("return x", "return 2 * x"), "run `make execute CH=55`"),
    "reference": ((TITLE, f"{TITLE}{{cite:p}}`pascanu2013`\n"), "add it to book/references.bib"),
    "cell": ((TITLE, f"{TITLE}{{cell}}`54_regularization#gone`\n"), "no cell 54_regularization#gone"),
    "claim": ((TITLE, f"{TITLE}{{claim}}`C-9-z`\n"), "no claim C-9-z in book/ledger.yml"),
    "page": ((TITLE, f"{TITLE}[there](56_gone.ipynb)\n"), "links to 56_gone.ipynb"),
    "box of the paper": (('{"shows"', '{"section": "5.3", "shows"'), "no box that says what the paper says"),
    "reason": (('"tags": ["hide-input"]', '"tags": ["nbval-ignore-output"]'), "#setup: not compared, and no reason"),
}


@pytest.mark.parametrize("lack", LACKS)
def test_what_a_chapter_lacks_is_named(grown, lack):
    root, new, _ = grown
    before = new.read_bytes()
    replacement, said = LACKS[lack]
    try:
        change(new, replacement)
        (problem, *others) = [
            one for one in Book(root).problems() if "make execute" not in one or "make execute" in said
        ]
    finally:
        new.write_bytes(before)
    assert problem.startswith(f"book/{NAME}.ipynb")
    assert said in problem
    assert not others


def test_what_other_files_lack_is_named_all_at_once(grown):
    root, _, test = grown
    previous, toc = root / "book" / "54_regularization.ipynb", root / "_toc.yml"
    kept = {path: path.read_bytes() for path in (previous, toc, test)}
    try:
        change(previous, (f"({NAME}.ipynb)", "(59_training.ipynb)"))
        toc.write_text(toc.read_text().replace('glob: "5[0-9]_*"', 'glob: "5[0-4]_*"\n      - file: 59_training'))
        test.unlink()
        problems = Book(root).problems()
    finally:
        for path, content in kept.items():
            path.write_bytes(content)
    assert problems == [
        f"book/{NAME}.ipynb: in no part of _toc.yml: add `- file: {NAME}`, or a glob that finds it",
        "book/54_regularization.ipynb#next: the last line does not lead to the next chapter: link to "
        f"[chapter 55]({NAME}.ipynb)",
        f"book/{NAME}.ipynb: exports gradient_clipping: add tests/test_gradient_clipping.py",
    ]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("clipping", "does not name a chapter"),
        ("55-clipping", "does not name a chapter"),
        ("55_Clipping", "does not name a chapter"),
        ("55_lambda", "does not name a chapter"),
        ("54_clipping", "chapter 54 is there already: 54_regularization"),
        ("56_attention", "there is a module attention already"),
        ("56_gradient_clipping", "there is a module gradient_clipping already"),
    ],
)
def test_an_unfit_name_is_refused_and_nothing_written(grown, name, said, capsys):
    root, _, _ = grown
    before = sorted(root.rglob("*"))
    with pytest.raises(SystemExit):
        chapter.main([name], root)
    assert said in capsys.readouterr().err
    assert sorted(root.rglob("*")) == before


def test_a_chapter_of_a_section_has_the_papers_box():
    text = chapter.chapter_text("55_gradient_clipping", "5.3", "Next.")
    assert text.startswith('%% notebook gradient_clipping {"section": "5.3", "shows": ')
    assert ":::{admonition} The paper, section 5.3\n:class: paper" in text
