"""The ledger of claims as a page, and links both ways between it and the cells of the chapters.

`{ledger}` renders `ledger.yml`, with a count by standing above the table; book.js makes these the filters of the table.
The role `{claim}` links from a chapter to a row: `` {claim}`C-3.2.1-b` ``. Every cell of a notebook gets the anchor
`cell-<id>`, and links to its claims stand below each cell that the ledger names.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

import nbformat
import yaml
from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.docutils import SphinxDirective, SphinxRole
from sphinx.util.nodes import make_refnode

PAPER = "https://arxiv.org/html/1706.03762v7"
STANDINGS = ("built", "measured", "told", "out of reach here")
OUTCOMES = {"holds": "hold", "in part": "hold in part"} | {way: way for way in ("undecided", "contradicted here")}
NAMED_SECTIONS = {"0": "abstract", "V": "figures 3 to 5"}
COLUMNS = {"Claim": 9, "Section": 7, "What the paper claims": 40, "Standing": 12, "Cell and test": 22}
MYST_NB_LINES_PER_CELL = 10_000  # myst-nb numbers a notebook's lines from 10000 times the cell's place, counted from 1


@cache
def load_claims(book: Path) -> dict[str, dict[str, Any]]:
    """The ledger's claims by id."""
    ledger = yaml.safe_load((book / "ledger.yml").read_text(encoding="utf-8"))
    return {claim["id"]: claim for claim in ledger["claims"]}


def section_address(section: str) -> str:
    """Where the paper's HTML edition has a section: "3.2.1" is at #S3.SS2.SSS1."""
    if section in NAMED_SECTIONS:
        return PAPER
    return f"{PAPER}#" + ".".join("S" * level + number for level, number in enumerate(section.split("."), start=1))


def reference_to(kind: str, target: str, document: str, warn: bool, text: str = "") -> addnodes.pending_xref:
    """A link to a claim or a cell, resolved once every document has been read; its text is the target's name."""
    reference = addnodes.pending_xref(
        "", refdomain="", reftype=f"ledger-{kind}", reftarget=target, refdoc=document, refwarn=warn, refexplicit=True
    )
    if kind == "cell" and not text:
        reference += name_that_breaks(target)
    else:
        reference += nodes.inline("", text or target, classes=[] if text else ["text-nowrap"])
    return reference


def name_that_breaks(name: str) -> nodes.raw:
    """The name of a cell or a test as code that may go on in a new line, or the table would be twice as wide."""
    marked = escape(name).replace("_", "_<wbr>").replace("#", "#<wbr>").replace("::", "::<wbr>")
    return nodes.raw("", f"<code>{marked}</code>", format="html")


def guard(name: str, document: str) -> nodes.Node:
    """The name of a test, or a link to the cell that takes its place."""
    if cell := re.fullmatch(r"book/(\w+)\.ipynb#([\w-]+)", name):
        return reference_to("cell", f"{cell[1]}#{cell[2]}", document, warn=True)
    return name_that_breaks(name.removeprefix("tests/"))


def number_and_words(cell: str) -> tuple[str, str]:
    """The number of a cell's chapter, and its id as words: 32 and *one row* for 32_attention#one-row."""
    chapter, _, place = cell.partition("#")
    return chapter[:2], re.sub("-(text|reading|words)$", "", place).replace("-", " ")


def anchor(claim: str) -> str:
    """The id of a claim's row, without dots: scripts of the theme use it as a selector."""
    return "claim-" + claim.replace(".", "-")


Cells = list[list[str | list[nodes.Node] | None]]  # of each the paragraphs, in Markdown or as nodes
Row = tuple[dict[str, list[str]], Cells]


class Table(SphinxDirective):
    """A directive that shows a table."""

    def line(self, text: str) -> list[nodes.Node]:
        """A line of Markdown."""
        return self.state.inline_text(text, self.lineno)[0]

    def table(self, columns: dict[str, int], rows: Iterable[Row], *classes: str) -> nodes.table:
        """A table of titles with their widths, and of rows, each with its ids and classes."""

        def paragraph(part: str | list[nodes.Node]) -> nodes.paragraph:
            return nodes.paragraph("", "", *(self.line(part) if isinstance(part, str) else part))

        head, body = nodes.row(), nodes.tbody()
        head += [nodes.entry("", nodes.paragraph("", title)) for title in columns]
        for about, cells in rows:
            body += nodes.row("", *(nodes.entry("", *map(paragraph, filter(None, cell))) for cell in cells), **about)
        group = nodes.tgroup(cols=len(columns))
        group += [*(nodes.colspec(colwidth=width) for width in columns.values()), nodes.thead("", head), body]
        table = nodes.table("", group, classes=list(classes))
        self.set_source_info(table)
        return table


class LedgerDirective(Table):
    """`{ledger}`: how many claims have which standing, and the table of all of them."""

    def run(self) -> list[nodes.Node]:
        claims = load_claims(Path(self.env.srcdir)).values()
        self.env.ledger_page = self.env.docname
        counts = Counter(claim["standing"] for claim in claims) + Counter(claim.get("outcome") for claim in claims)
        parts = ", ".join(f"{counts[standing]} {standing}" for standing in STANDINGS if counts[standing])
        outcomes = ", ".join(f"{counts[outcome]} {words}" for outcome, words in OUTCOMES.items() if counts[outcome])
        parts += f". Of those measured: {outcomes}" if outcomes else ""
        summary = nodes.paragraph("", f"{len(claims)} claims: {parts}.", classes=["ledger-summary"])
        return [summary, self.table(COLUMNS, map(self.row, claims), "ledger")]

    def row(self, claim: dict[str, Any]) -> Row:
        section = claim["section"]
        standing = ", ".join(filter(None, [claim["standing"], claim.get("outcome")]))
        standing += f": {claim['reason']}" if claim["reason"] else ""
        places = [[reference_to("cell", claim["cell"], self.env.docname, warn=True)]] if claim["cell"] else []
        places += [[guard(claim["test"], self.env.docname)]] if claim["test"] else []
        name = nodes.inline("", claim["id"], classes=["text-nowrap"])
        source = nodes.reference("", NAMED_SECTIONS.get(section, section), refuri=section_address(section))
        found = claim.get("outcome") or claim["standing"]  # what the filters of the page choose by
        cells = [[[name]], [[source]], [claim["claim"]], [[nodes.Text(standing)]], places]
        return {"ids": [anchor(claim["id"])], "classes": ["found-" + found.replace(" ", "-")]}, cells


class ClaimRole(SphinxRole):
    """``{claim}`C-3.2.1-b` ``: a link to that row of the ledger."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        return [reference_to("claim", self.text, self.env.docname, warn=True)], []


class CellRole(SphinxRole):
    """``{cell}`32_attention#equivariance` ``: a link to that cell, which reads *chapter 32, equivariance*."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        words = "chapter {}, {}".format(*number_and_words(self.text))
        return [reference_to("cell", self.text, self.env.docname, warn=True, text=words)], []


def cell_blocks(document: nodes.document, cells: list[Any]) -> Iterator[tuple[str, nodes.Element, nodes.Element]]:
    """For every cell that is rendered: its id, its first element, and the last one on the page's top level."""
    first: dict[int, nodes.Element] = {}
    last: dict[int, nodes.Element] = {}
    for node in document.findall(nodes.Element):
        if isinstance(node, nodes.container) and node.get("nb_element") == "cell_code":
            index = node["cell_index"]
        else:
            index = (node.line or 0) // MYST_NB_LINES_PER_CELL - 1
            if not 0 <= index < len(cells) or cells[index].cell_type != "markdown":
                continue
            if isinstance(node, nodes.title):  # the section carries a heading's anchor
                node = node.parent
        first.setdefault(index, node)
        if isinstance(node, nodes.section):
            last[index] = node[0]
        elif isinstance(node.parent, nodes.section | nodes.document):
            last[index] = node
    for index, node in first.items():
        yield cells[index].id, node, last.get(index, node)


def mark_cells(app: Sphinx, document: nodes.document) -> None:
    """Give every cell its anchor, and the cells that the ledger names links to their claims."""
    env = app.env
    path = Path(env.doc2path(env.docname))
    if path.suffix != ".ipynb":
        return
    claims_of: dict[str, list[str]] = {}
    for claim in load_claims(Path(env.srcdir)).values():
        chapter, _, cell = (claim["cell"] or "").partition("#")
        if chapter == env.docname:
            claims_of.setdefault(cell, []).append(claim["id"])
    known = env.ledger_cells[env.docname] = []
    for cell, first, last in list(cell_blocks(document, nbformat.read(path, as_version=4).cells)):
        first["ids"].append(f"cell-{cell}")
        known.append(cell)
        if cell in claims_of:
            last.parent.insert(last.parent.index(last) + 1, backlinks(claims_of[cell], env.docname))


def backlinks(claims: list[str], document: str) -> nodes.paragraph:
    paragraph = nodes.paragraph("", "In the ledger: ", classes=["ledger-links"])
    for number, claim in enumerate(claims):
        paragraph += [nodes.Text(", ")] if number else []
        paragraph += reference_to("claim", claim, document, warn=False)
    return paragraph


def resolve(app: Sphinx, env: BuildEnvironment, node: addnodes.pending_xref, content: nodes.Element) -> Any:
    """Turn a link to a claim or a cell into a reference; None when its target does not exist."""
    if node["reftype"] == "ledger-claim":
        if env.ledger_page is None or node["reftarget"] not in load_claims(Path(env.srcdir)):
            return None
        return make_refnode(app.builder, node["refdoc"], env.ledger_page, anchor(node["reftarget"]), content)
    if node["reftype"] == "ledger-cell":
        chapter, _, cell = node["reftarget"].partition("#")
        if cell not in env.ledger_cells.get(chapter, []):
            return None
        return make_refnode(app.builder, node["refdoc"], chapter, f"cell-{cell}", content)
    return None


def prepare(app: Sphinx) -> None:
    app.env.ledger_cells, app.env.ledger_page = {}, None


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("ledger", LedgerDirective)
    app.add_role("claim", ClaimRole())
    app.add_role("cell", CellRole())
    app.connect("builder-inited", prepare)
    app.connect("doctree-read", mark_cells)
    app.connect("missing-reference", resolve, priority=100)
    return {"version": "1", "parallel_read_safe": False, "parallel_write_safe": True}
