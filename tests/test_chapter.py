"""A new chapter's skeleton passes, and what is taken away from it is named: tools/chapter.py, tools/structure.py."""

import re
import shutil
from fnmatch import fnmatch
from itertools import pairwise

import nbformat
import pytest

from tests.notebooks import write_notebook
from tools import ROOT, chapter, execute
from tools.contents import workshops
from tools.export import package_files
from tools.structure import Book
from tools.text import to_text

pytestmark = pytest.mark.slow  # its fixture runs a chapter
CHAPTERS = sorted(path.stem for path in (ROOT / "book").glob("[0-9]*.ipynb"))
BEFORE, AFTER = next(pair for pair in pairwise(CHAPTERS) if pair[0] > "50" and int(pair[1][:2]) - int(pair[0][:2]) > 1)
NUMBER = int(BEFORE[:2]) + 1  # there is no such chapter, nor a module of that name
NAME = f"{NUMBER}_trial_of_a_skeleton"
MODULE = NAME[3:]


def copied(root):
    """A copy of the book, the package, its table of contents and the names of the tests."""
    shutil.copytree(ROOT / "book", root / "book", ignore=shutil.ignore_patterns("_ext", "__pycache__"))
    shutil.copytree(ROOT / "annotated", root / "annotated", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "_toc.yml", root)
    shutil.copy(ROOT / "pyproject.toml", root)
    (root / "tests").mkdir()
    for path in (ROOT / "tests").glob("test_*.py"):
        (root / "tests" / path.name).touch()
    return root


@pytest.fixture(scope="module")
def grown(tmp_path_factory):
    """The book with a new chapter between two others."""
    root = copied(tmp_path_factory.mktemp("book"))
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
    assert f"def {MODULE}(" in package_files(root)[f"{MODULE}.py"]
    outputs = [output for cell in nbformat.read(new, as_version=4).cells for output in cell.get("outputs", [])]
    assert {output.output_type for output in outputs} >= {"display_data", "execute_result", "stream"}
    compile(test.read_text(), str(test), "exec")


def test_the_skeleton_stands_between_its_neighbours(grown):
    root, new, _ = grown
    was = nbformat.read(ROOT / "book" / f"{BEFORE}.ipynb", as_version=4).cells[-1].source
    before = nbformat.read(root / "book" / f"{BEFORE}.ipynb", as_version=4).cells[-1].source
    after = nbformat.read(new, as_version=4).cells[-1].source
    assert f"({NAME}.ipynb)" in before
    assert after in was
    assert f"({AFTER}.ipynb)" in after


TITLE = "# Trial of a skeleton\n"


@pytest.mark.parametrize("number", ["99", "01"])
def test_a_chapter_can_stand_at_either_end(tmp_path, number):
    root = copied(tmp_path)
    chapter.make_chapter(root, f"{number}_{MODULE}")
    (problem,) = Book(root).problems()
    assert problem.endswith(f"run `make execute CH={number}`")


def test_a_workshop_does_not_part_the_chapters_of_the_main_line(tmp_path):
    root = copied(tmp_path)
    taken = {name[:2] for name in CHAPTERS}
    name = next(f"{number}_{MODULE}" for number in (20, 50, *range(81, 100)) if str(number) not in taken)
    chapter.make_chapter(root, name)
    shops = sorted([*workshops(CHAPTERS, ROOT), name])
    line = [one for one in CHAPTERS if one not in shops]
    for one, following in (*pairwise(line), (line[-1], shops[0]), *pairwise(shops)):
        cells = nbformat.read(root / "book" / f"{one}.ipynb", as_version=4).cells
        assert f"({following}.ipynb)" in [cell for cell in cells if cell.cell_type == "markdown"][-1].source, one
    change(root / "book" / f"{line[0]}.ipynb", (f"({line[1]}.ipynb)", f"({name}.ipynb)"))
    (said,) = [one for one in Book(root).problems() if "make execute" not in one]
    assert said.endswith(f"does not lead to the next chapter: link to [chapter {line[1][:2]}]({line[1]}.ipynb)")


STOPWATCH = """start = time.perf_counter()
spent = time.perf_counter() - start
assert spent < 1
"""
LACKS = {  # what is taken away from the chapter, or added: what the test says
    "line of the table": (('{"shows"', '{"hidden"'), 'write `%% notebook MODULE {"shows": "..."}`'),
    "title": ((TITLE, TITLE[2:]), "begins with `# Title`"),
    "way on": ((f"({AFTER}.ipynb)", "(10_introduction.ipynb)"), "#next: the last line does not lead to the next"),
    "words for a picture": (('"alt"', '"title"'), '#picture: a picture without words: add {"mystnb"'),
    "exercise": ((":::{exercise}", ":::{note}"), "2 exercises: three are asked for"),
    "solution": (("%% code solution-2", "%% code another-2"), "no solution that runs: add a code cell `solution-2`"),
    "outputs of its code": (("return x", "return 2 * x"), f"run `make execute CH={NUMBER}`"),
    "reference": ((TITLE, f"{TITLE}{{cite:p}}`pascanu2013`\n"), "add it to book/references.bib"),
    "cell": ((TITLE, f"{TITLE}{{cell}}`{BEFORE}#gone`\n"), f"no cell {BEFORE}#gone"),
    "claim": ((TITLE, f"{TITLE}{{claim}}`C-9-z`\n"), "no claim C-9-z in book/ledger.yml"),
    "page": ((TITLE, f"{TITLE}[there](99_gone.ipynb)\n"), "links to 99_gone.ipynb"),
    "box of the paper": (('{"shows"', '{"section": "5.3", "shows"'), "no box that says what the paper says"),
    "reason": (('"tags": ["hide-input"]', '"tags": ["nbval-ignore-output"]'), "#setup: not compared, and no reason"),
    "modules of live training": (
        ('{"tags": ["hide-input"]', '{"annotated": {"reason": "live training"}, "tags": ["nbval-ignore-output"]'),
        '#setup: shows live training: add "renewed_by"',
    ),
    "a module that it names": (
        ('{"tags": ["hide-input"]', '{"annotated": {"renewed_by": ["gone"]}, "tags": ["hide-input"]'),
        "#setup: renewed by gone, which annotated/ does not have",
    ),
    "short lines": (
        ("torch.tensor([1.0, 2.0])", f"torch.tensor([1.0, 2.0]  # {'x' * 70}\n)"),
        "-by-hand: an open line of ",
    ),
    "count": (("return x", f"return x\n\n\n{STOPWATCH}"), "a busy machine can break `assert spent < 1`"),
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


def files(glob):
    """The book's own chapters that a glob of the table of contents finds, one by one."""
    return "\n      ".join(f"- file: {name}" for name in CHAPTERS if fnmatch(name, glob))


def test_what_other_files_lack_is_named_all_at_once(grown):
    root, _, test = grown
    previous, toc = root / "book" / f"{BEFORE}.ipynb", root / "_toc.yml"
    kept = {path: path.read_bytes() for path in (previous, toc, test)}
    try:
        change(previous, (f"({NAME}.ipynb)", f"({AFTER}.ipynb)"))
        toc.write_text(re.sub(r'- glob: "(.*)"', lambda found: files(found[1]), toc.read_text()))
        test.unlink()
        problems = Book(root).problems()
    finally:
        for path, content in kept.items():
            path.write_bytes(content)
    assert problems == [
        f"book/{NAME}.ipynb: in no part of _toc.yml: add `- file: {NAME}`, or a glob that finds it",
        f"book/{BEFORE}.ipynb#next: the last line does not lead to the next chapter: link to "
        f"[chapter {NUMBER}]({NAME}.ipynb)",
        f"book/{NAME}.ipynb: exports {MODULE}: add tests/test_{MODULE}.py",
    ]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("clipping", "does not name a chapter"),
        (f"{NUMBER}-clipping", "does not name a chapter"),
        (f"{NUMBER}_Clipping", "does not name a chapter"),
        (f"{NUMBER}_lambda", "does not name a chapter"),
        (f"{BEFORE[:2]}_clipping", f"chapter {BEFORE[:2]} is there already: {BEFORE}"),
        ("99_stacks", "there is a module stacks already"),
        (f"99_{MODULE}", f"there is a module {MODULE} already"),
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
    text = chapter.chapter_text(NAME, "5.3", "Next.")
    assert text.startswith(f'%% notebook {MODULE} {{"section": "5.3", "shows": ')
    assert ":::{admonition} The paper, section 5.3\n:class: paper" in text
