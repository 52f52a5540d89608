"""Chapters for Colab and others: the first cell of a copy makes it run where neither package nor data are
(tools/colab.py), and its texts are plain Markdown that says what the chapter says (tools/plain_markdown.py)."""

import os
import re
import subprocess
import sys
import unicodedata
from collections import Counter
from pathlib import Path

import nbformat
import pytest
from markdown_it import MarkdownIt

from tools.colab import FIRST, main, origin, prepared, site_of
from tools.plain_markdown import Page

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "book" / "_ext"))
import annotated_book  # noqa: E402

CHAPTERS = sorted((ROOT / "book").glob("*.ipynb"))
RAW = {  # what only the site understands
    "a directive": r"^[ >]*(?::::|```\{)",
    "a role": r"\{[\w:-]+\}`",
    "a target": r"^\([\w-]+\)=",
    "a comment": r"^%",
    "a label": r"\$\$ *\([\w-]+\)$",
    "a macro": r"\\R\b",
    "a page that is not there": r"\]\((?!http)[^)]*\.md\b|href=\"(?!http)",
}


@pytest.mark.slow
def test_every_chapter_gets_the_cell_and_nothing_else_changes(tmp_path):
    assert main([str(tmp_path), "--address", "https://example.org/book.git"]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == [path.name for path in CHAPTERS]
    for path in CHAPTERS:
        copy, chapter = (nbformat.read(one, as_version=4) for one in (tmp_path / path.name, path))
        nbformat.validate(copy)
        assert [cell.id for cell in copy.cells[1:]] == [cell.id for cell in chapter.cells]
        for new, old in zip(copy.cells[1:], chapter.cells):
            assert new.cell_type == "markdown" or new.source == old.source
            assert {**new.metadata, **old.metadata} == new.metadata  # what folds a cell elsewhere comes on top
        assert "https://example.org/book.git" in copy.cells[0].source
        assert copy.cells[0].source.startswith("#@title")
        assert 'display-mode: "form"' in copy.cells[0].source.splitlines()[0]  # the code is folded


def test_without_an_address_nothing_is_invented(tmp_path, capsys):
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    assert main([str(tmp_path / "copies")], root=tmp_path) == 1
    assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "copies").exists()


def test_a_remote_gives_an_address_that_everybody_can_clone(tmp_path):
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    remote = ["git", "-C", str(tmp_path), "remote", "add", "origin", "https://me:secret@github.com/me/book.git"]
    subprocess.run(remote, check=True)
    assert origin(tmp_path) == "https://github.com/me/book"
    assert site_of(origin(tmp_path)) == "https://me.github.io/book/"
    assert site_of("https://github.com/Me/me.github.io") == "https://me.github.io/"
    assert site_of("git@github.com:someone/book.git") == "https://someone.github.io/book/"
    assert site_of("/home/someone/book") == ""


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
    cell = prepared(nbformat.v4.new_notebook(), Page("empty"), made.as_uri()).cells[0].source
    assert "torch" not in FIRST, "what Colab has stays"
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


def without_code(text: str) -> str:
    """The text without code, in blocks and in lines: what stands there is meant as it is."""
    lines = text.split("\n")
    for token in MarkdownIt().parse(text):
        if token.type == "fence" and not token.info.startswith("{"):
            lines[slice(*token.map)] = [""] * (token.map[1] - token.map[0])
    return re.sub(r"(?<![`}])(`+)(?!`)[^`].*?(?<!`)\1(?!`)", "", "\n".join(lines))


def raw(text: str) -> list[str]:
    """What is left in a text that only the site understands."""
    return [name for name, pattern in RAW.items() if re.search(pattern, without_code(text), re.MULTILINE)]


def words(text: str) -> Counter:
    """The words of a text, without addresses; of a role those that a reader sees."""

    def seen(role: re.Match) -> str:
        if role[1] == "cell":
            return f"chapter {role[2][:2]} " + re.sub("^.*#|-(text|reading|words)$", "", role[2])
        if role[1].startswith("cite"):  # the first author's name and the year begin the key
            return " ".join(" ".join(re.match(r"([a-z]+)(\d+)", key.strip()).groups()) for key in role[2].split(","))
        return role[2]

    text = re.sub(r"\{([\w:-]+)\}`([^`]*)`", seen, text)
    text = re.sub(
        r"^[`:]{3,}(\{(widget|container|figure|chapters|evening|literalinclude)\}.*|\{\w+\})?"
        r"|^:(?:class|label|pyobject|dedent):.*|^:(?:alt|caption):|^\([\w-]+\)=",
        "",
        text,
        flags=re.MULTILINE,
    )
    text = re.sub(r"\]\([^)]*\)|</?[a-z][^<>\n]*>|\\R\b|\\mathbb\{R\}", " ", text)
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return Counter(re.findall(r"[a-z]+|\d+", plain.lower()))


@pytest.mark.slow
def test_the_texts_are_plain_and_complete():
    for path in CHAPTERS:
        page = Page(path.stem, f"{SITE}/", "#scrollTo=", pictures=False)
        for cell in nbformat.read(path, as_version=4).cells:
            if cell.cell_type == "markdown":
                text, place = page.text(cell.source), f"{path.stem}#{cell.id}"
                assert raw(text) == [], place
                assert words(cell.source) - words(text) == Counter(), place


SITE = "https://someone.github.io/book"
BECOMES = {
    "exercise": (":::{exercise}\n:label: ex-a-1\nWhy?\n:::", "**Exercise 1**\n\nWhy?"),
    "dropdown": (
        "So.\n:::{dropdown} A & B\nSee *here*.\n:::\nOn.",
        "So.\n\n<details>\n<summary>A &amp; B</summary>\n\nSee *here*.\n\n</details>\n\nOn.",
    ),
    "admonition": (
        ":::{admonition} The $x$\n:class: paper\nOne:\n\n$$a\n= b$$\n:::",
        "> **The $x$**\n>\n> One:\n>\n> $$a = b$$",
    ),
    "nested": (
        "::::{container} finding\n:::{dropdown} T\n{claim}`C-1-a`\n:::\n::::",
        f"<details>\n<summary>T</summary>\n\n[C-1-a]({SITE}/ledger.html#claim-C-1-a)\n\n</details>",
    ),
    "widget": (
        ":::{widget} clocks\n:alt: two clocks\nTurn one.\n:::",
        f"![two clocks]({SITE}/_static/stills/clocks.webp)\n\n"
        f"*On [the book's page]({SITE}/35_x.html#widget-clocks) this picture can be touched.* Turn one.",
    ),
    "figure": (
        ":::{figure} figures/a.svg\n:alt: a line\nIt rises.\n:::",
        f"![a line]({SITE}/_images/a.svg)\n\nIt rises.",
    ),
    "picture": (
        "![a](figures/a.svg) ![b](https://x.org/b.png)",
        f"![a]({SITE}/_images/a.svg) ![b](https://x.org/b.png)",
    ),
    "buttons": (":::{container} buttons\n[a](b.ipynb)\n[c](d.md)\n:::", f"[a](b.ipynb) ·\n[c]({SITE}/d.html)"),
    "cell": ("{cell}`32_attention#one-row-words`", "[chapter 32, one row](32_attention.ipynb#scrollTo=one-row-words)"),
    "claim": ("| {claim}`C-3.2-a` |\n| --- |", f"| [C-3.2-a]({SITE}/ledger.html#claim-C-3-2-a) |\n| --- |"),
    "citation": (
        "{cite:p}`ba2016layer,press2017using`",
        "[[Ba et al., 2016](https://arxiv.org/abs/1607.06450); "
        "[Press and Wolf, 2017](https://arxiv.org/abs/1608.05859)]",
    ),
    "citation in the text": (
        "{cite:t}`hochreiter1997long` say",
        f"[Hochreiter and Schmidhuber (1997)]({SITE}/bibliography.html) say",
    ),
    "role": ("a {term}`query` and {ref}`the heads <heads>`", "a query and the heads"),
    "link": ("[a *b* [c]](ledger.md#d) [e](31_x.ipynb#f)", f"[a *b* [c]]({SITE}/ledger.html#d) [e](31_x.ipynb#f)"),
    "html": ('<a href="81_x.html#y_3D">go</a>', f'<a href="{SITE}/81_x.html#y_3D">go</a>'),
    "label": ("$$\nx\n$$ (first)", "$$ x \\tag{first}$$"),
    "macro": (r"in $\R^2$, not $\Re$", r"in $\mathbb{R}^2$, not $\Re$"),
    "target and comment": ("(here)=\n## Here\n% not yet\nSo.", "## Here\nSo."),
    "code": ("```python\n:::{tip}\n```", "```python\n:::{tip}\n```"),
}
NOWHERE = {
    "claim": ("{claim}`C-1-a`", "C-1-a"),
    "link": ("[the ledger](ledger.md) and [32](32_attention.ipynb)", "the ledger and [32](32_attention.ipynb)"),
    "html": ('<a href="81_x.html">go</a>', "<a>go</a>"),
    "widget": (
        ":::{widget} clocks\n:alt: two clocks\nTurn one.\n:::",
        "*The picture shows: two clocks*\n\n*On the book's page this picture can be touched.* Turn one.",
    ),
}


@pytest.mark.parametrize("kind", BECOMES)
def test_a_block_becomes_plain(kind):
    text, plain = BECOMES[kind]
    page = Page("35_x", f"{SITE}/", "#scrollTo=", pictures=False)
    assert page.text(text) == plain
    if kind == "exercise":
        assert page.text(text) == plain.replace("1", "2"), "counted through a page"


@pytest.mark.parametrize("kind", NOWHERE)
def test_without_a_site_the_words_stay(kind):
    text, plain = NOWHERE[kind]
    assert Page("35_x", pictures=False).text(text) == plain


def test_a_quoted_function_becomes_code(tmp_path):
    """With its decorators, by name or as a method, and nothing of what stands around it."""
    (tmp_path / "book").mkdir()
    (tmp_path / "annotated").mkdir()
    lines = ["import os", "", "@once", "def f(x):", '    """Says x."""', "    return x", "", "class C:",
             "    n = 1", "", "    def g(self):", "        return f(1)", "", "Y = 2"]  # fmt: skip
    (tmp_path / "annotated" / "a.py").write_text("\n".join(lines), encoding="utf-8")
    page = Page("35_x")
    page.root = tmp_path

    def plain(name: str) -> str:
        return page.text(
            f"So:\n\n```{{literalinclude}} ../annotated/a.py\n:pyobject: {name}\n:caption: annotated/a.py\n```\n\nOn."
        )

    for name, code in {"f": lines[2:6], "C": lines[7:12], "C.g": ["def g(self):", "    return f(1)"]}.items():
        assert plain(name) == "\n".join(["So:", "", "`annotated/a.py`", "", "```python", *code, "```", "", "On."])
    for unknown in ("g", "Y", "C.f"):
        with pytest.raises(ValueError, match=unknown):
            plain(unknown)


@pytest.mark.parametrize("unknown", [":::{tabs} one\nx\n:::", "- :::{dropdown} T\n  x\n  :::"])
def test_what_is_not_known_is_refused(unknown):
    with pytest.raises(ValueError, match=r"^35_x: .*(tabs|dropdown)"):
        Page("35_x").text(unknown)


@pytest.mark.slow
def test_copies_for_other_programs_have_what_they_read_beside_them(tmp_path):
    """They have no first cell, and pictures and modules of the book are in reach."""
    assert main([str(tmp_path / "copies"), "--local", "--site", SITE]) == 0
    for path in CHAPTERS:
        copy = nbformat.read(tmp_path / "copies" / path.name, as_version=4)
        assert len(copy.cells) == len(nbformat.read(path, as_version=4).cells)
        for picture in re.findall(r"!\[[^\]]*\]\((?!http)([^)]*)\)", "".join(cell.source for cell in copy.cells)):
            assert (tmp_path / "copies" / picture).is_file()
    assert {"schematics.py", "matplotlibrc", "ledger.yml"} <= {path.name for path in (tmp_path / "copies").iterdir()}


def test_folded_cells_are_folded_elsewhere_and_outputs_are_plain():
    output = nbformat.v4.new_output("display_data", data={"text/markdown": "{claim}`C-1-a`"})
    cell = nbformat.v4.new_code_cell("1", metadata={"tags": ["hide-input"]}, outputs=[output])
    copy = prepared(nbformat.v4.new_notebook(cells=[cell]), Page("35_x", SITE))
    nbformat.validate(copy)
    assert copy.cells[0].metadata == {"tags": ["hide-input"], "jupyter": {"source_hidden": True}, "cellView": "form"}
    assert copy.cells[0].outputs[0].data["text/markdown"] == f"[C-1-a]({SITE}/ledger.html#claim-C-1-a)"
